"""`dpubench f2-image`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, progress


def f2_image(
    program: Annotated[Path, typer.Argument(help="A .dpu file of a whole pipeline.")],
    card: Annotated[str, typer.Option(help="A slot, or stand-in.")] = "0",
    image: Annotated[str, typer.Option(help="The agfi id to load; default: what is loaded.")] = "",
    prompt: Annotated[str, typer.Option(help="What the image shows.")] = "a red fox in the snow",
    seed: Annotated[int, typer.Option(help="Of the starting noise.")] = 7,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps.")] = 20,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the record as JSON.")] = None,
) -> None:
    """Does an F2 card make the simulator's image, and what do its counters and its clock say? Exit code 1 if not.

    \b
    Examples:
      dpubench f2-image out/tiny.dpu --card 0 -o results/f2/image_tiny.json
      dpubench f2-image out/tiny.dpu --card stand-in --steps 1
    """
    from ...runtime.pipeline import Request
    from ..f2_image import measure

    check_output(output)
    with progress("denoising") as bar:
        request = Request(prompt, seed=seed, steps=steps)
        found = measure(program, request, card, image, lambda step: bar(step.index + 1, steps))
    if output is not None:
        found.save(output)
    typer.echo(found.text())
    raise typer.Exit(0 if found.same else 1)
