"""Lower the quantised graph to tile programs: DRAM tensors, on-chip buffers, DMA, matrix and vector work.

The templates are in `lower/`, one file a kind of operation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.passes import ModulePass

from ..errors import DpuError
from ..ir.arch import load_arch
from ..ir.tile_text import to_text
from .lower.program import lower_module


@dataclass(frozen=True)
class LowerToTile(ModulePass):
    """Turn each quantised function into a straight-line program of the tiles."""

    name = "lower-to-tile"

    arch: str = "dpu_tiny"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        lowered = lower_module(op, load_arch(self.arch), _no_weights)
        for f in [f for f in op.ops if isinstance(f, FuncOp)]:
            f.detach()
        op.body.block.add_ops([to_text(e.program, e.locations) for e, _ in lowered])


def _no_weights(source: str, transform: tuple[str, ...]) -> npt.NDArray[Any]:
    raise DpuError(source, "asked for, but a pass on text has no weights", code="E113")
