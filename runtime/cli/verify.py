"""`dpuc verify`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def verify(program: Annotated[Path, typer.Argument(help="A .dpu file.")]) -> None:
    """Does every word stay in its tensor, find its tokens, and read the very value it means, in any timing?

    The file is not run. Numbers are not checked: `dpuc compile --check` does that.

    \b
    Examples:
      dpuc verify out/tiny.dpu
      dpuc verify out/tiny.dpu && echo sound
    """
    from ..programs import verify_file

    typer.echo(verify_file(program))
