"""`dpubench estimate-error`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say
from .arch_parts import arch_parts


def estimate_error(
    programs: Annotated[list[Path] | None, typer.Argument(help="Programs of the full-size UNet.")] = None,
    parts: Annotated[str, typer.Option(help="ARCH:PART to compile here, with commas between them.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """How far is --estimate from the timing simulation of full-size SDXL, by entry and layer? Minutes.

    \b
    Examples:
      dpubench estimate-error --parts dpu_f2:text_encoder,dpu_f2:vae_decoder
      dpubench estimate-error out/unet_f2.dpu -o results/sim/estimate.json
    """
    from ..estimate_error import EstimateErrors, measure

    check_output(output)
    wanted = arch_parts(parts)
    found = measure(programs or [], wanted, say)
    command = " ".join(["dpubench estimate-error", *map(str, programs or []), *(["--parts", parts] if parts else [])])
    table = EstimateErrors(command=command + (f" -o {output}" if output else ""), entries=tuple(found))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        table.save(output)
    typer.echo(table.text())
