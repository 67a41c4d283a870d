"""`dpuc inspect`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def inspect(
    program: Annotated[Path, typer.Argument(help="A .dpu file.")],
    json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """What is in this program: arch, entry points, memory, host work, files?

    \b
    Examples:
      dpuc inspect out/tiny.dpu
      dpuc inspect out/tiny.dpu --json
    """
    from ...codegen import inspect as inspector
    from ...codegen.dpufile import load

    typer.echo(inspector.inspect(load(program), json))
