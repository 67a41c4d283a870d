"""`dpubench campaign`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, say
from . import lists


def campaign(
    programs: Annotated[int, typer.Option(min=1, help="Programs in all.")] = 20_000,
    shapes: Annotated[str, typer.Option(help="Shapes, with commas between them; all of them if left out.")] = "",
    jobs: Annotated[int, typer.Option(min=1, help="Blocks of programs that run side by side.")] = 1,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep the state here, go on from it.")] = None,
) -> None:
    """Does the RTL leave the simulator's bytes for random programs, on every shape? Exit code 1 if not. Hours.

    \b
    Examples:
      dpubench campaign --programs 120
      dpubench campaign --programs 20000 --jobs 8 -o results/rtl/campaign.json
    """
    from .. import campaign as found

    check_output(output)
    command = f"dpubench campaign --programs {programs}" + (f" -o {output}" if output else "")
    names = lists.names(shapes) or found.SHAPES
    done = found.run(programs, names, output, command, say, jobs)
    typer.echo(done.text())
    raise typer.Exit(1 if done.mismatches else 0)
