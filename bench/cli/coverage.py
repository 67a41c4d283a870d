"""`dpubench coverage`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say
from . import lists


def coverage(
    programs: Annotated[int, typer.Option(min=0, help="Random programs of each shape.")] = 280,
    shapes: Annotated[str, typer.Option(help="Shapes, with commas between them.")] = "",
    data: Annotated[Path | None, typer.Option(help="A folder that pytest --rtl-coverage wrote.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Write the table as JSON and Markdown.")] = None,
) -> None:
    """Which lines of the RTL ran, which bits toggled, and why not the rest? Exit code 1 below the criterion. Minutes.

    \b
    Examples:
      dpubench coverage --programs 40 --shapes pair
      pytest tests/rtl -m "not slow" --rtl-coverage out/coverage
      dpubench coverage --data out/coverage -o results/rtl/coverage.json
    """
    from .. import rtl_coverage as found

    check_output(output)
    names = lists.names(shapes) or tuple(found.SHAPES)
    command = f"dpubench coverage --programs {programs}" + (" --data FOLDER" if data else "")
    command += f" -o {output}" if output else ""
    files = sorted(data.glob("*.dat")) if data else []
    table = found.measure(programs, names, files, command, say)
    if output is not None:
        table.save(output)
    typer.echo(table.text())
    raise typer.Exit(0 if table.enough else 1)
