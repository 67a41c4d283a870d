"""`dpubench memory`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


def memory(
    layers: Annotated[int, typer.Option(help="Linears of the model.")] = 19,
    width: Annotated[int, typer.Option(help="Rows and columns of each.")] = 8192,
    arch: Annotated[str, typer.Option(help="The arch to compile for.")] = "dpu_f2",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """How much memory beyond the page cache does compiling a large model take? Minutes; 1.3 GB of disk.

    \b
    Examples:
      dpubench memory -o results/memory/model-2.5GB.json
      dpubench memory --layers 6 --width 4096
    """
    from ..memory import measure

    check_output(output)
    found = measure(layers, width, arch)
    if output is not None:
        found.save(output)
    typer.echo(found.text())
