"""`dpubench`: the command of measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import check_output, new_app, run_app

app = new_app("Measure against a peer or a bound, in one run, and print the ratio.")


@app.command()
def products() -> None:
    """How close does the simulator's matrix word come to the bare int8 product of torch?

    \b
    Examples:
      dpubench products
      OMP_NUM_THREADS=1 dpubench products
    """
    from ..products import measure, text

    typer.echo(text(measure()))


@app.command()
def blocks(
    arch: Annotated[str, typer.Option(help="Archs, with commas between them.")] = "dpu_f2,dpu_32tops",
) -> None:
    """How far is --estimate from the timing simulation on blocks of full-size SDXL?

    \b
    Examples:
      dpubench blocks
      dpubench blocks --arch dpu_f2
    """
    from ..blocks import measure, text

    typer.echo(text(measure([a.strip() for a in arch.split(",")])))


@app.command()
def exporters(
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Also write the table as JSON.")] = None,
) -> None:
    """Does every exporter's file become the same canonical graph? Exports the tiny model several times: minutes.

    \b
    Examples:
      dpubench exporters
      dpubench exporters -o results/exporters.json
    """
    from ..exporters import measure

    check_output(output)
    found = measure(lambda exporter: typer.echo(f"{exporter} ...", err=True))
    if output is not None:
        found.save(output)
    typer.echo(found.text())


@app.command()
def golden(
    accept: Annotated[str, typer.Option(help="Take the new values; the reason is kept with them.")] = "",
) -> None:
    """Have cycles, bytes or instruction counts of the reference programs moved?

    \b
    Examples:
      dpubench golden
      dpubench golden --accept "panels are twice as wide: fewer words"
    """
    import tempfile
    from pathlib import Path

    from .. import golden as goldens

    with tempfile.TemporaryDirectory() as work:
        if accept:
            typer.echo("\n".join(goldens.accept(accept, Path(work))))
            return
        moved = []
        for name, program in goldens.reference_programs(Path(work)):
            moved += [f"{name}: {d}" for d in goldens.differences(goldens.load(name), goldens.measure(name, program))]
    typer.echo("\n".join(moved) or "nothing moved by more than 0.5 %")
    raise typer.Exit(1 if moved else 0)


def main() -> None:
    """The entry point of the package."""
    run_app(app, "dpubench")
