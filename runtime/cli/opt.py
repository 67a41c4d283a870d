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

    \b
    Examples:
      dpuc opt --passes canonicalise tests/passes/linear.mlir
      dpuc opt --passes canonicalise,fuse-silu in.mlir -o out.mlir
    """
    from ..texts import optimise
    from .common import check_output

    check_output(out)
    optimise(module, [name.strip() for name in passes.split(",") if name.strip()], out)
