"""`dpubench golden`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


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
