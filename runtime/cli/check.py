"""`dpuc check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def check(program: Annotated[Path, typer.Argument(help="A .dpu file.")]) -> None:
    """Is this file whole, and does every word stay in its buffer and find its tokens?

    Races and the provenance of values are not decided here.

    \b
    Examples:
      dpuc check out/tiny.dpu
      dpuc check out/tiny.dpu && echo sound
    """
    from ..programs import check_file

    typer.echo(check_file(program))
