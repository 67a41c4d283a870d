"""`dpubench timing`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output
from . import lists


def timing(
    program: Annotated[Path, typer.Argument(help="A .dpu file.")],
    entry: Annotated[str, typer.Option(help="Entries of the file, with commas between them; default: all.")] = "",
    dram: Annotated[str, typer.Option(help="DRAM timing instead of the arch's.")] = "",
    runs: Annotated[int, typer.Option(min=1, help="Of each entry; the shortest counts.")] = 1,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the result as JSON.")] = None,
) -> None:
    """How many cycles a CPU second does the timing simulation make, beside ONNXim? Runs no data through the program.

    \b
    Examples:
      dpubench timing out/tiny.dpu
      dpubench timing out/unet_f2.dpu -o results/sim/timing_speed.json
    """
    from ..timing_speed import measure

    check_output(output)
    names = lists.names(entry)
    command = f"dpubench timing {program}" + (f" -o {output}" if output else "")
    found = measure(program, names, dram, runs, command)
    if output is not None:
        found.save(output)
    typer.echo(found.text())
