"""`dpubench caption`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def caption(
    images: Annotated[list[Path], typer.Argument(help="PNG files of 128x128 pixels.")],
    prompt: Annotated[str | None, typer.Option(help="The caption that all of them should show.")] = None,
    model: Annotated[Path, typer.Option(help="The folder with the judge, classifier/.")] = Path("models/tiny"),
) -> None:
    """What does the classifier trained beside models/tiny see in these pictures, and is it the caption?

    \b
    Examples:
      dpubench caption out/out.png
      dpubench caption out/reference.png out/out.png --prompt "three hearts on the left on a green background"
    """
    from ..caption import judge_images

    typer.echo(judge_images(images, prompt, model).text())
