"""`dpubench rtl-mutants`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say


def rtl_mutants(
    seed: Annotated[int, typer.Option(min=0, help="Of the draw of faults.")] = 1,
    each: Annotated[int, typer.Option(min=1, help="Faults of each module.")] = 2,
    benches: Annotated[bool, typer.Option(help="Also the benches of tests/, for faults that live.")] = True,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep the state here, go on from it.")] = None,
) -> None:
    """Is every seeded fault of the RTL caught, by which test, after how long? Exit code 1 if one lives. Hours.

    \b
    Examples:
      dpubench rtl-mutants --each 1 --no-benches
      dpubench rtl-mutants -o results/rtl/mutants.json
    """
    from ..rtl_mutants import measure

    check_output(output)
    command = f"dpubench rtl-mutants --seed {seed} --each {each}" + (f" -o {output}" if output else "")
    found = measure(seed, each, output, command, say, benches)
    typer.echo(found.text())
    raise typer.Exit(1 if found.survivors else 0)
