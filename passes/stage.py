"""A step of the compiler that needs more than text (weights, calibration), in the form of a pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass


class Stage(ModulePass):
    """A named function on a module, so that it is dumped, timed and verified like every pass."""

    name = "stage"

    def __init__(self, name: str, run: Callable[[ModuleOp], Any]) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "_run", run)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self._run(op)

    _run: Callable[[ModuleOp], Any]
