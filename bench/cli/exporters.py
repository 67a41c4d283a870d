"""`dpubench exporters`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


def exporters(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Does every exporter's file become the same canonical graph? Exports the tiny model several times: minutes.

    \b
    Examples:
      dpubench exporters
      dpubench exporters -o results/exporters.json
    """
    from ..exporters import measure

    check_output(output)
    found = measure(lambda exporter: typer.echo(f"{exporter} ...", err=True))
    if output is not None:
        found.save(output)
    typer.echo(found.text())
