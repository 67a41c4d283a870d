"""`dpubench dram`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


def dram(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the tables as JSON.")] = None,
) -> None:
    """What bandwidth does each access pattern reach, and how far is the closed form from single commands?

    \b
    Examples:
      dpubench dram
      dpubench dram -o results/dram/patterns.json
    """
    from ..dram import measure

    check_output(output)
    found = measure()
    if output is not None:
        found.save(output)
    typer.echo(found.text())
