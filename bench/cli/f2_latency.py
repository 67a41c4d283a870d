"""`dpubench f2-latency`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


def f2_latency(
    tables: Annotated[Path, typer.Option(help="Cycles of the entries.")] = Path("results/sim/tables.json"),
    sizes: Annotated[Path, typer.Option(help="Regions of the programs.")] = Path("results/sim/sizes.json"),
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write it as JSON.")] = None,
) -> None:
    """How long does an SDXL image take on an F2 card, host and PCIe included, and what bounds it? Simulated.

    \b
    Examples:
      dpubench f2-latency
      dpubench f2-latency -o results/f2/latency.json
    """
    from ..f2_latency import estimate, save

    check_output(output)
    found = estimate(tables, sizes)
    if output is not None:
        save(found, output)
    typer.echo(found.text())
