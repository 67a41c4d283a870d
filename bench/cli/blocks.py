"""`dpubench blocks`."""

from __future__ import annotations

from typing import Annotated

import typer


def blocks(
    arch: Annotated[str, typer.Option(help="Archs, with commas between them.")] = "dpu_f2,dpu_32tops",
    dram: Annotated[str, typer.Option(help="DRAM timing instead of the arch's: ideal, simple, or a file.")] = "",
) -> None:
    """How far is --estimate from the timing simulation on blocks of full-size SDXL?

    \b
    Examples:
      dpubench blocks
      dpubench blocks --arch dpu_f2 --dram simple
    """
    from ..blocks import measure, text

    typer.echo(text(measure([a.strip() for a in arch.split(",")], dram)))
