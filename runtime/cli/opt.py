"""`dpuc opt`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def opt(
    module: Annotated[Path, typer.Argument(help="Text of a module, as --dump-passes writes it.")],
    passes: Annotated[str, typer.Option(help="Names, separated by commas, in order.")],
    out: Annotated[Path | None, typer.Option("-o", "--out", help="Where to write; default: standard output.")] = None,
) -> None:
    """What do these passes make of this module?

    `dpuc import` and --dump-passes write modules, `dpuc passes` names the passes. ONNX nodes are printed if MODULE has
    them.

    \b
    Examples:
      dpuc opt --passes merge-duplicates tests/filecheck/passes/merge_duplicates.mlir
      dpuc opt --passes recognise-activation,recognise-norm out/unet.mlir -o out/norms.mlir
    """
    from ..texts import optimise
    from .common import check_output

    check_output(out)
    optimise(module, [name.strip() for name in passes.split(",") if name.strip()], out)
