"""`dpubench functional`."""

from __future__ import annotations

from typing import Annotated

import typer

from . import lists


def functional(
    arch: Annotated[str, typer.Option(help="The arch to compile for.")] = "dpu_f2",
    blocks: Annotated[str, typer.Option(help="Blocks, with commas between them; all of them if left out.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Runs of each side; the shortest counts.")] = 3,
) -> None:
    """How long is the functional simulator's time beside ONNX Runtime's for the same 8-bit products? Minutes.

    \b
    Examples:
      dpubench functional
      OMP_NUM_THREADS=1 dpubench functional --blocks "transformer 1280 @ 32x32" --runs 2
    """
    from ..blocks import BLOCKS
    from ..functional import measure

    names = lists.names(blocks)
    unknown = [b for b in names if b not in BLOCKS]
    if unknown:
        raise typer.BadParameter(f"no block '{unknown[0]}'; there are: {', '.join(BLOCKS)}", param_hint="--blocks")
    typer.echo(measure(arch, names, runs).text())
