"""`dpubench estimate-error`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


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
    from ...codegen.estimate import PARTS
    from ..estimate_error import EstimateErrors, measure

    check_output(output)
    wanted = [tuple(p.strip().split(":", 1)) for p in parts.split(",") if p.strip()]
    for w in wanted:
        if len(w) != 2 or w[1] not in PARTS:
            what = f"'{':'.join(w)}' is no ARCH:PART; parts: {', '.join(PARTS)}"
            raise typer.BadParameter(what, param_hint="--parts")
    found = measure(programs or [], [(w[0], w[1]) for w in wanted], lambda line: typer.echo(line, err=True))
    command = " ".join(["dpubench estimate-error", *map(str, programs or []), *(["--parts", parts] if parts else [])])
    table = EstimateErrors(command=command + (f" -o {output}" if output else ""), entries=tuple(found))
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)
        table.save(output)
    typer.echo(table.text())
