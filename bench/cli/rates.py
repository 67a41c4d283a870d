"""`dpubench rates`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


def rates(
    program: Annotated[Path, typer.Argument(help="A .dpu file of a whole pipeline.")],
    runs: Annotated[int, typer.Option(min=1, help="Runs of simulator and timing model; the shortest counts.")] = 3,
    before: Annotated[
        Path | None, typer.Option(help="Folder rtl of another checkout: its RTL runs too, and the ratio is printed.")
    ] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """How many cycles a CPU second do RTL, simulator and timing model run for one UNet forward? Minutes.

    \b
    Examples:
      dpubench rates out/tiny.dpu -o results/rtl/rates.json
      dpubench rates out/tiny.dpu --before ../main/rtl
    """
    from ..rates import measure

    check_output(output)
    found = measure(program, runs, before)
    if output is not None:
        found.save(output)
    typer.echo(found.text())
