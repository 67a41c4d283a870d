"""`dpubench mutate`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, progress


def mutate(
    program: Annotated[Path | None, typer.Argument(help="A .dpu file; default: built-in nets, 1 and 3 tiles.")] = None,
    count: Annotated[int, typer.Option(min=1, help="Mutants.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the mutations and the orders of execution.")] = 0,
    entry: Annotated[str, typer.Option(help="Entry of the file; default: its first.")] = "",
    orders: Annotated[int, typer.Option(min=1, help="Random legal orders for each accepted mutant.")] = 8,
    latent: Annotated[int, typer.Option(min=0, help="Random legal orders for each rejected mutant.")] = 2,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Does the verifier let a program through that computes something else? Exit code 1 if one escapes.

    \b
    Examples:
      dpubench mutate --count 150
      dpubench mutate --count 2000 --seed 0 -o results/mutations/nets.json
      dpubench mutate out/tiny.dpu --entry unet --count 100 --orders 4 --latent 0
    """
    from ..mutation_run import builtin, command_line, file, measure

    check_output(output)
    subjects = builtin() if program is None else [file(program, entry)]
    command = command_line(program, count, seed, entry, orders, latent, output)
    with progress("mutants") as update:
        found = measure(subjects, count, seed, orders, latent, command, update)
    if output is not None:
        found.save(output)
    typer.echo(found.text())
    raise typer.Exit(1 if found.escapes else 0)
