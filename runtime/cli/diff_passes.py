"""`dpuc diff-passes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def diff_passes(
    folder: Annotated[Path, typer.Argument(help="What --dump-passes wrote, or one of its parts.")],
) -> None:
    """What did each pass change?

    Writes index.html into the folder and into each part's: time, operations, and the difference to the text before.

    \b
    Examples:
      dpuc diff-passes out/dumps
      dpuc diff-passes out/dumps/unet
    """
    from ...passes.dump_html import write_pages

    for page in write_pages(folder):
        typer.echo(f"wrote {page}")
