"""The sinusoidal embedding of timesteps and sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import I64, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker

from ..ir.graph import shape_of
from ..ir.locations import LocatedPattern
from ..ir.tensor import ELEMENTWISE, ConcatOp, ConstantOp, SinusoidOp, SliceOp
from .match import MulOp, op_and

Sin, Cos = ELEMENTWISE["sin"], ELEMENTWISE["cos"]


class Sinusoid(LocatedPattern):
    """`concat(cos(x f), sin(x f))`, directly or by exchanging the halves of `concat(sin, cos)` -> `sinusoid(x)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ConcatOp) or len(op.xs) != 2:
            return
        absorbed: list[Operation] = []
        cos, sin = (_half(v, absorbed) for v in op.xs)
        if cos is None or sin is None or not isinstance(cos.owner, Cos) or not isinstance(sin.owner, Sin):
            return
        angle = cos.owner.operands[0]
        if sin.owner.operands[0] is not angle or not isinstance(angle.owner, MulOp):
            return
        for constant, x in op_and(angle.owner, ConstantOp):
            table = constant.owner
            assert isinstance(table, ConstantOp)
            half = shape_of(angle)[-1]
            if not _is_geometric(table.floats(), half) or shape_of(x)[-1] != 1:
                continue
            size: IntegerAttr[I64] = IntegerAttr(half, i64)
            new = SinusoidOp(operands=[x], properties={"half": size}, result_types=[op.y.type])
            chain = [angle.owner, sin.owner, cos.owner, *dict.fromkeys(absorbed)]
            self.replace(rewriter, op, new, absorbed=[o for o in chain if isinstance(o, Operation)])
            return


def _half(value: SSAValue, absorbed: list[Operation]) -> SSAValue | None:
    """The value that this half of a concatenation is, looking through a slice of another concatenation."""
    op = value.owner
    if not isinstance(op, SliceOp) or not isinstance(op.x.owner, ConcatOp):
        return value
    whole, at = op.x.owner, 0
    for part in whole.xs:
        n = shape_of(part)[-1]
        if (op.start.value.data, op.end.value.data) == (at, at + n) and op.axis.value.data == len(shape_of(part)) - 1:
            absorbed[:0] = [whole]
            absorbed.append(op)
            return part
        at += n
    return None


def _is_geometric(values: list[float], half: int) -> bool:
    """Whether the frequencies are `exp(-ln(10000) i / half)`, up to float32 or float16 rounding of the table."""
    return len(values) == half and all(
        abs(v - math.exp(-math.log(10000) * i / half)) < 1e-3 * math.exp(-math.log(10000) * i / half)
        for i, v in enumerate(values)
    )


@dataclass(frozen=True)
class RecogniseTimeEmbedding(ModulePass):
    """Recognise the sinusoidal embedding of the timestep and of the size conditions."""

    name = "recognise-time-embedding"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(Sinusoid()).rewrite_module(op)
