"""`dpuc import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def import_model(
    model: Annotated[Path, typer.Argument(help="An ONNX file.")],
    shape: Annotated[list[str] | None, typer.Option(help="NAME=AxBxC of an input with open sizes; repeatable.")] = None,
    part: Annotated[str, typer.Option(help="Name of the function.")] = "unet",
    passes: Annotated[bool, typer.Option("--passes", help="Run the float passes: the canonical graph.")] = False,
    locations: Annotated[bool, typer.Option("--locations", help="Print the ONNX node of each operation.")] = False,
    dump_passes: Annotated[Path | None, typer.Option(help="Folder for the text after each pass.")] = None,
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Where to write; default: standard output.")] = None,
) -> None:
    """What graph does this ONNX file hold?

    \b
    Examples:
      dpuc import out/tiny/unet/model.onnx --shape sample=2x4x8x8 --locations -o out/unet.mlir
      dpuc import out/tiny/unet/model.onnx --shape sample=2x4x8x8 --passes | head
    """
    from ..texts import import_text
    from .common import check_output

    check_output(out)
    check_output(dump_passes, folder=True)
    import_text(model, shape or [], passes, part, out, dump_passes, locations)
