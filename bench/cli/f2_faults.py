"""`dpubench f2-faults`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, progress


def f2_faults(
    count: Annotated[int, typer.Option(min=1, help="Faults to sow, the kinds in turn.")] = 240,
    program: Annotated[Path | None, typer.Option(help="A .dpu file of a pipeline; default: a micro pipeline.")] = None,
    seed: Annotated[int, typer.Option(help="Of places and numbers.")] = 1,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="Also write JSON, and a page beside it.")
    ] = None,
) -> None:
    """Does every fault of an F2 card end in the right bytes or in an error with a remedy? Exit code 1 if not.

    \b
    Examples:
      dpubench f2-faults -o results/f2/faults.json
      dpubench f2-faults --program out/tiny.dpu --count 10
    """
    from ..f2_faults import measure, save

    check_output(output)
    with progress("faults") as bar:
        found = measure(count, program, seed, bar, output)
    if output is not None:
        save(found, output)
    typer.echo(found.text())
    raise typer.Exit(1 if found.findings else 0)
