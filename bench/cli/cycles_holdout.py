"""`dpubench cycles-holdout`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say
from . import lists


def cycles_holdout(
    archs: Annotated[str, typer.Option(help="Only these of the holdout's archs, with commas between them.")] = "",
    whole: Annotated[bool, typer.Option(help="Also forwards of the tiny pipeline, on the arch held out.")] = True,
    picture: Annotated[Path | None, typer.Option("--plot", help="Write the correlation of all layers as PNG.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Does the timing model take the RTL's cycles on an arch and programs that no rule of it was found on? Minutes.

    \b
    Examples:
      dpubench cycles-holdout --no-whole
      dpubench cycles-holdout -o results/rtl/holdout.json --plot results/rtl/correlation.png
    """
    from .. import holdout as found

    check_output(output)
    check_output(picture)
    names = lists.names(archs) or tuple(found.archs())
    rows, points = found.measure(names, whole, say)
    command = "dpubench cycles-holdout" + (f" --archs {archs}" if archs else "") + (f" -o {output}" if output else "")
    shapes = tuple(a for n, a in found.archs().items() if n in names)
    table = found.Holdout(command=command, seeds={n: found.FIRST_SEED[n] for n in names}, archs=shapes, rows=rows)
    if output is not None:
        table.save(output)
    if picture is not None:
        found.plot(points, picture)
    typer.echo(table.text())
    raise typer.Exit(0 if table.agrees else 1)
