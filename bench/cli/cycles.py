"""`dpubench cycles`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say
from . import lists


def cycles(
    program: Annotated[Path | None, typer.Argument(help="A .dpu file; default: the tiny pipeline on 4 archs.")] = None,
    entry: Annotated[str, typer.Option(help="Entries of the file, with commas between them; default: all.")] = "",
    dram: Annotated[str, typer.Option(help="DRAM timing for the file instead of the arch's.")] = "",
    words: Annotated[int, typer.Option(min=0, help="Also show the first words of the file that differ.")] = 0,
    archs: Annotated[str, typer.Option(help="Of the table, only these archs; the output keeps rows of others.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Rows side by side.")] = 1,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help="Also write the table as JSON. Rows in it of the same sources are kept."),
    ] = None,
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
    from ..cycles_run import measure
    from ..resumed import read_record

    check_output(output)
    command = "dpubench cycles" + (f" -o {output}" if output else "")
    rows: list[found.Row] = []
    lines = []
    if program is None:
        old = (
            read_record(output, found.Cycles, "rows that are in it are kept").rows if output and output.exists() else ()
        )
        names = lists.names(archs)
        for row in measure(names, old, jobs, say):
            rows = found.replaced(rows or old, row)
            if output is not None:
                found.table(command, rows).save(output)
        if not names:
            rows = [r for r in rows if r.case in found.CASES]
    else:
        loaded = load(program)
        arch = with_dram(loaded.arch, dram) if dram else loaded.arch
        names = tuple(e.strip() for e in entry.split(",")) if entry else tuple(e.name for e in loaded.entries)
        for one, rtl, model in found.run(loaded, arch, names):
            rows.append(found.compare(rtl, model, dram or arch.dram.model, one))
            lines += found.differences(rtl, model, words)
    table = found.table(command, rows)
    if output is not None:
        table.save(output)
    typer.echo("\n".join([table.text(), *lines]))
    raise typer.Exit(0 if table.agrees else 1)
