"""`dpuc report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    program: Annotated[Path | None, typer.Argument(help="A .dpu file.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Folder to write into.")] = None,
    entry: Annotated[list[str] | None, typer.Option(help="Only this entry point; repeatable.")] = None,
    node: Annotated[int, typer.Option(help="Process node of the energy constants, nm: 45 or 7.")] = 45,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(help="Two reports (folder or report.json) or .dpu files: what differs from A to B?"),
    ] = None,
) -> None:
    """Where do the time, the bytes and the energy of this program go?

    Times the program without running it. Writes report.html, report.json and roofline.png; of --compare, compare.html.

    \b
    Examples:
      dpuc report out/tiny.dpu -o out/report
      dpuc report --compare out/report out/tiny.dpu -o out/difference
    """
    from ..reports import report_command
    from .common import check_output, progress

    check_output(out, folder=True)
    with progress("timing entry points") as bar:
        said = report_command(program, out, entry or [], node, compare, bar)
    typer.echo(said)
