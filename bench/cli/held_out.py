"""`dpubench held-out`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, progress


def held_out(
    program: Annotated[Path, typer.Argument(help="A .dpu of models/tiny, or of another run of bench/train.")],
    reference: Annotated[Path, typer.Argument(help="The exported folder that it was compiled from.")],
    prompts: Annotated[int, typer.Option(min=1, max=40, help="How many of the evaluation's prompts.")] = 8,
    seed: Annotated[int, typer.Option(min=0, help="Of the starting noise of every picture.")] = 0,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps.")] = 20,
    model: Annotated[Path, typer.Option(help="The folder with the judge, classifier/.")] = Path("models/tiny"),
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="A PNG: a column for a prompt, float32 above the device.")
    ] = None,
) -> None:
    """Does the simulated device draw captions that no network was trained on, beside float32?

    \b
    Examples:
      dpubench held-out out/tiny.dpu out/tiny -o out/grid.png
      dpubench held-out out/tiny.dpu out/tiny --prompts 40 --seed 3
    """
    check_output(output)
    from ..held_out import draw

    with progress("drawing") as update:
        found = draw(program, reference, prompts, seed, steps, model, update)
    if output is not None:
        found.save(output)
    typer.echo(found.text())
