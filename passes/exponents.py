"""Static power-of-two exponents for float16 tensors that would overflow: one for each chain of residual adds.

SDXL's VAE has activations far beyond 65,504. A tensor with exponent e is stored as `y * 2^-e`; its producer folds the
factor into scales and bias and its readers into theirs, so nothing is computed differently. Both tensors of an add must
share their exponent, so values joined by residuals, or normalised or quantised together, form one group.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue

from ..ir import graph as g

HEADROOM = 2.0**14  # a calibrated maximum above this gets an exponent: a factor of four to the largest float16


class _Groups:
    """Disjoint sets of values."""

    def __init__(self) -> None:
        self.parent: dict[SSAValue, SSAValue] = {}

    def find(self, v: SSAValue) -> SSAValue:
        while (up := self.parent.get(v, v)) is not v:
            v = up
        return v

    def join(self, a: SSAValue, b: SSAValue) -> None:
        self.parent[self.find(a)] = self.find(b)


def exponents(f: FuncOp, absmax: Callable[[Operation], float]) -> dict[SSAValue, int]:
    """The exponent of each value that needs one. `absmax` gives the calibrated maximum of an operation's result."""
    groups = _Groups()
    fixed: set[SSAValue] = set(f.body.block.args)
    peaks: dict[SSAValue, float] = {}
    for op in f.body.block.ops:
        if isinstance(op, g.ConvOp | g.LinearOp):
            if op.residual is not None:
                groups.join(op.y, op.residual)
            peaks[op.y] = absmax(op)
        if isinstance(op, g.GroupNormOp | g.LinearOp) and op.x2 is not None:
            groups.join(op.x, op.x2)
        fixed |= _unscaled(op)
    rigid = {groups.find(v) for v in fixed}
    peak: dict[SSAValue, float] = {}
    for v, found in peaks.items():
        root = groups.find(v)
        peak[root] = max(peak.get(root, 0.0), found)
    chosen = {
        root: math.ceil(math.log2(p / HEADROOM)) for root, p in peak.items() if p > HEADROOM and root not in rigid
    }
    return {v: chosen[groups.find(v)] for v in peaks if groups.find(v) in chosen}


def _unscaled(op: Operation) -> set[SSAValue]:
    """Operands and results of an operation that must keep their own scale."""
    match op:
        case g.ConvOp():
            return {op.y, op.temb} if op.temb is not None else set()
        case g.LinearOp():
            return {op.y} if op.act is not None or op.geglu is not None else set()
        case g.GroupNormOp() | g.LayerNormOp():
            return {op.y}
        case g.ParamOp():
            return set()
        case _:
            return {*op.operands, *op.results}  # attention, activations, the function's results
