"""`dpuc reduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def reduce(
    model: Annotated[Path, typer.Argument(help="Text of a module (.mlir), an ONNX file, or an exported folder.")],
    when: Annotated[str, typer.Option(help="The failure: compile-error[=CODE], check, or 'sqnr<DB'.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The text to write.")] = Path("reduced.mlir"),
    arch: Annotated[str, typer.Option(help="A shipped arch or the path of a JSON file.")] = "dpu_tiny",
    part: Annotated[str, typer.Option(help="Which model of a folder.")] = "unet",
    shape: Annotated[list[str] | None, typer.Option(help="NAME=AxBxC of an input with open sizes.")] = None,
    size: Annotated[str | None, typer.Option(help="WIDTHxHEIGHT in pixels, of a folder.")] = None,
) -> None:
    """Which few operations of this model are enough to see the failure?

    A text has seeded weights, a model its own. Results of removed operations become arguments.

    \b
    Examples:
      dpuc reduce out/dumps/unet/13-split-entries.mlir --when compile-error=E222 -o out/small.mlir
      dpuc reduce out/tiny --size 64x64 --when 'sqnr<20' -o out/small.mlir
    """
    from ..reduce import reduce_text
    from .common import check_output, parse_size, progress

    check_output(out)
    with progress("operations removed") as bar:
        text = reduce_text(model, when, arch, out, part, shape or [], parse_size(size), bar)
    typer.echo(text)
