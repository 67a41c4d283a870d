"""`dpubench products`."""

from __future__ import annotations

import typer


def products() -> None:
    """How close does the simulator's matrix word come to the bare int8 product of torch?

    \b
    Examples:
      dpubench products
      OMP_NUM_THREADS=1 dpubench products
    """
    from ..products import measure, text

    typer.echo(text(measure()))
