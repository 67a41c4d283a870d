"""`dpubench sizes`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say


def sizes(
    graphs: Annotated[Path, typer.Argument(help="A folder of `dpuc export sdxl --open-sizes --graph-only`.")],
    arch: Annotated[str, typer.Option(help="Archs, with commas between them.")] = "dpu_f2,dpu_32tops",
    part: Annotated[
        str, typer.Option(help="Parts, with commas between them.")
    ] = "unet,vae_decoder,text_encoder,text_encoder_2",
    only: Annotated[str, typer.Option(help="Only programs whose names hold this, such as 1024x1024-b2.")] = "",
    timed: Annotated[bool, typer.Option("--timed", help="Also simulate the cycles of each program.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Folder for the words, to time them later.")] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Programs at a time; each takes 3 to 6 GB.")] = 1,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep and continue here.")] = None,
) -> None:
    """What does full-size SDXL take at every image size and batch? Two to three CPU minutes a program.

    \b
    Examples:
      dpubench sizes out/sdxl_graphs --only 512x512
      dpubench sizes out/sdxl_graphs --keep out/sizes -o results/sim/sizes.json
    """
    from ..sizes import cases, measure

    check_output(output)
    check_output(keep, folder=True)
    archs, parts = ([x.strip() for x in names.split(",")] for names in (arch, part))
    wanted = [c for c in cases(archs, parts) if only in c.name]
    if not wanted:
        names = ", ".join(c.name for c in cases(archs, parts))
        raise typer.BadParameter(f"no program's name holds '{only}'; there are: {names}", param_hint="--only")
    command = "dpubench sizes" + (" --timed" if timed else "")
    found = measure(graphs, wanted, output, timed, keep, command, say, jobs)
    typer.echo(found.text())
