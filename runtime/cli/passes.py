"""`dpuc passes`."""

from __future__ import annotations

import typer


def passes() -> None:
    """Which passes are there, and what does each do?

    \b
    Examples:
      dpuc passes
      dpuc passes | grep fuse
    """
    from ...passes.pipeline import PASSES, describe

    for name in PASSES:
        typer.echo(f"{name:26} {describe(name)}")
