"""`dpubench tables`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say
from .arch_parts import arch_parts


def tables(
    programs: Annotated[list[Path] | None, typer.Argument(help="Programs of full-size SDXL, several an arch.")] = None,
    parts: Annotated[str, typer.Option(help="ARCH:PART to compile here, with commas between them.")] = "",
    graphs: Annotated[Path | None, typer.Option(help="For --parts: `dpuc export sdxl --open-sizes`.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Replace these archs here.")] = None,
) -> None:
    """Where do cycles, bytes and seconds of an image go, by entry and class of layers? Writes README.md beside it.

    Without programs and parts: only write README.md again.

    \b
    Examples:
      dpubench tables out/sdxl_f2.dpu -o results/sim/tables.json
      dpubench tables out/unet_32tops.dpu --graphs out/sdxl_graphs --parts dpu_32tops:vae_decoder
      dpubench tables -o results/sim/tables.json
    """
    from ...runtime.gpu.identity import commit
    from ..image_tables import measure, read
    from ..image_tables_page import page, write_page

    check_output(output)
    wanted = arch_parts(parts)
    if programs or wanted:
        options = [f"--graphs {graphs}"] if graphs else []
        options += [f"--parts {parts}"] if parts else []
        command = " ".join(["dpubench tables", *map(str, programs or []), *options])
        if output is not None:
            output.parent.mkdir(parents=True, exist_ok=True)
        found = measure(programs or [], wanted, graphs, output, command, commit(), say)
    elif output is not None:
        found = read(output)
    else:
        raise typer.BadParameter("give programs, parts, or a file to render again", param_hint="PROGRAMS")
    if output is not None:
        write_page(output)
    typer.echo(page(found))
