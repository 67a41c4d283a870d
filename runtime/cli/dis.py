"""`dpuc dis`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def dis(
    program: Annotated[Path, typer.Argument(help="A .dpu file.")],
    entry: Annotated[str | None, typer.Option(help="Only this entry point.")] = None,
    tile: Annotated[int | None, typer.Option(help="Only this tile.")] = None,
    op: Annotated[str | None, typer.Option(help="Only operations or ONNX nodes that match this expression.")] = None,
    tag: Annotated[int | None, typer.Option(help="Only words with this tag.")] = None,
    engine: Annotated[str | None, typer.Option(help="Only load, mxu, vpu, store or ctrl.")] = None,
) -> None:
    """Which instructions does this program consist of?

    \b
    Examples:
      dpuc dis out/tiny.dpu --entry context
      dpuc dis out/tiny.dpu --op conv_in --engine mxu
    """
    from ..programs import disassembly

    for line in disassembly(program, entry, tile, op, tag, engine):
        typer.echo(line)
