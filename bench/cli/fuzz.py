"""`dpubench fuzz`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...runtime.cli.common import say


def fuzz(
    cases: Annotated[int, typer.Option(min=1, help="Cases of each format; case n is seed n.")] = 1000,
    format: Annotated[str, typer.Option(help="onnx, dpu, json or text; all of them if left out.")] = "",
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Keep and continue here (one format).")] = None,
) -> None:
    """Does damaged input of any format end in a traceback, a hang or a crash? About 10 minutes for 10,000 cases.

    \b
    Examples:
      dpubench fuzz --cases 200
      dpubench fuzz --cases 10000 --format onnx -o results/fuzz/onnx.json
    """
    from ..fuzz import chosen, fuzz

    failed = False
    for name in chosen(format, output):
        found = fuzz(name, cases, output, say)
        typer.echo(found.text())
        failed |= bool(found.findings)
    raise typer.Exit(1 if failed else 0)
