"""`dpubench profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


def profile(
    resolution: Annotated[int, typer.Option(help="Side of the image in pixels.")] = 1024,
    steps: Annotated[int, typer.Option(help="Denoising steps.")] = 20,
    guidance: Annotated[float, typer.Option(help="Guidance scale; 1 or less turns guidance off.")] = 8.0,
    layers: Annotated[bool, typer.Option("--layers", help="Also every product in the JSON.")] = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the counts as JSON.")] = None,
) -> None:
    """What does one image ask for, in operations, multiply-accumulates and bytes, by part and class?

    \b
    Examples:
      dpubench profile --resolution 1024 --steps 20 --output results/sdxl.json
      dpubench profile --steps 50 --guidance 1
    """
    from ..profile import profile as count

    check_output(output)
    found = count(resolution, steps, guidance, layers)
    if output is not None:
        found.save(output)
    typer.echo(found.text())
