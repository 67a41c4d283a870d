"""`dpubench rtl-image`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, progress


def rtl_image(
    program: Annotated[Path, typer.Argument(help="A .dpu file of a whole pipeline.")],
    prompt: Annotated[str, typer.Option(help="What the image shows.")] = "a red fox in the snow",
    seed: Annotated[int, typer.Option(help="Of the starting noise.")] = 7,
    steps: Annotated[int, typer.Option(min=1, help="Denoising steps.")] = 20,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """Does the RTL make the simulator's image, byte for byte? 20 steps take 10 minutes; exit code 1 if not.

    \b
    Examples:
      dpubench rtl-image out/tiny.dpu --steps 1
      dpubench rtl-image out/tiny.dpu -o results/rtl/image-20-steps.json
    """
    from ..rtl_image import measure

    check_output(output)
    with progress("denoising") as bar:
        found = measure(program, prompt, seed, steps, lambda _, done: bar(done, steps))
    if output is not None:
        found.save(output)
    typer.echo(found.text())
    raise typer.Exit(0 if found.same else 1)
