"""`dpubench attention`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ...errors import DpuError
from ...runtime.cli.common import check_output, say


def attention(
    model: Annotated[Path | None, typer.Option(help="A diffusers folder: its attentions too, in some minutes.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of operands and noise.")] = 0,
    costs: Annotated[bool, typer.Option("--costs/--no-costs", help="Also estimate full-size SDXL at both.")] = True,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="JSON; the tables beside it, .md.")] = None,
) -> None:
    """What do 8-bit probabilities cost in SQNR with up to 4,096 keys, and 15-bit ones in cycles?

    \b
    Examples:
      dpubench attention --no-costs
      dpubench attention --model models/tiny -o results/quality/attention.json
    """
    from ..attention.page import save, text
    from ..attention.study import measure

    check_output(output)
    if output is not None and output.suffix == ".md":
        what = f"'{output}' is the name of the page"
        raise DpuError("--output", what, why="it is kept beside the JSON", hint="end it in .json", code="E501")
    command = "dpubench attention" + (f" --model {model}" if model else "") + (f" --seed {seed}" if seed else "")
    found = measure(model, command, seed, costs, say)
    if output is not None:
        save(found, output)
    typer.echo(text(found))
