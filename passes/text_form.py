"""Run a function of a plain tile program on its text form, for passes that are asked for by name."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.rewriter import Rewriter

from ..ir.tile import ProgramOp
from ..ir.tile_program import TileProgram
from ..ir.tile_text import from_text, locations_of, to_text


def rewrite(op: ProgramOp, change: Callable[[TileProgram], None]) -> None:
    """Replace a `tile.program` by what `change` makes of it."""
    program = from_text(op)
    change(program)
    new = to_text(program, locations_of(op))
    Rewriter.replace_op(op, new, [])
