"""`dpubench cycles`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output


def cycles(
    program: Annotated[Path | None, typer.Argument(help="A .dpu file; default: the tiny pipeline on 3 archs.")] = None,
    entry: Annotated[str, typer.Option(help="Entries of the file, with commas between them; default: all.")] = "",
    dram: Annotated[str, typer.Option(help="DRAM timing for the file instead of the arch's.")] = "",
    words: Annotated[int, typer.Option(min=0, help="Also show the first words of the file that differ.")] = 0,
    archs: Annotated[str, typer.Option(help="Of the table, only these archs.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Do timing model and RTL take the same cycles? Exit code 1 if a program or a layer is beyond the bounds.

    \b
    Examples:
      dpubench cycles out/tiny.dpu --entry text_encoder --words 12
      dpubench cycles -o results/rtl/cycles.json
    """
    from ...codegen.dpufile import load
    from ...simulator.memory import with_dram
    from .. import cycles as found

    check_output(output)
    rows, lines = [], []
    if program is None:
        for row in found.measure([a.strip() for a in archs.split(",") if a.strip()]):
            typer.echo(f"{row.arch} {row.dram} {row.entry}: {100 * row.error:+.3f} %", err=True)
            rows.append(row)
    else:
        loaded = load(program)
        arch = with_dram(loaded.arch, dram) if dram else loaded.arch
        names = [e.strip() for e in entry.split(",")] if entry else [e.name for e in loaded.entries]
        for one, rtl, model in found.run(loaded, arch, names):
            rows.append(found.compare(rtl, model, dram or arch.dram.model, one))
            lines += found.differences(rtl, model, words)
    command = "dpubench cycles" + (f" -o {output}" if output else "")
    table = found.Cycles(command=command, seen=("dpu_tiny",), rows=tuple(rows))
    if output is not None:
        table.save(output)
    typer.echo("\n".join([table.text(), *lines]))
    raise typer.Exit(0 if table.agrees else 1)
