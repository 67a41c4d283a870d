"""Attention spelled out as two matrix products around a softmax."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import DenseArrayBase, Float32Type, FloatAttr, ModuleOp, UnitAttr, f32, i64
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker

from ..ir.graph import shape_of
from ..ir.locations import LocatedPattern
from ..ir.tensor import ELEMENTWISE, AttentionOp, CausalMaskOp, MatmulOp, SoftmaxOp, TransposeOp, WhereOp
from .match import AddOp, DivOp, MulOp, op_and, scalar, tensor

IsNan = ELEMENTWISE["is_nan"]


class NanGuard(LocatedPattern):
    """`where(is_nan(p), 0, p)` of a softmax -> `p`: no row of a causal mask is empty, so none is NaN."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, WhereOp) or not isinstance(op.b.owner, SoftmaxOp) or scalar(op.a) != 0:
            return
        guard = op.condition.owner
        if isinstance(guard, IsNan) and guard.x is op.b:
            self.replace(rewriter, op, [], [op.b], absorbed=[guard])


class Attention(LocatedPattern):
    """`matmul(softmax(matmul(q s, k^T s) + mask), v)` -> `attention(q, k, v) scale s*s`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MatmulOp) or not isinstance(op.a.owner, SoftmaxOp) or len(shape_of(op.y)) != 4:
            return
        softmax = op.a.owner
        absorbed: list[Operation] = [softmax]
        scores, causal, scale = softmax.x, False, 1.0
        if softmax.axis.value.data != 3:
            return
        if isinstance(scores.owner, AddOp):
            masked = op_and(scores.owner, CausalMaskOp)
            if not masked:
                return
            absorbed.insert(0, scores.owner)
            scores, causal = masked[0][1], True
        scores, scale = _unscaled(scores, scale, absorbed)
        product = scores.owner
        if not isinstance(product, MatmulOp):
            return
        absorbed.insert(0, product)
        q, scale = _unscaled(product.a, scale, absorbed)
        k, scale = _unscaled(product.b, scale, absorbed)
        if shape_of(k)[:3:2] != (shape_of(op.b)[0], shape_of(q)[3]):
            return
        order = DenseArrayBase.from_list(i64, [0, 1, 3, 2])
        b, h, d, s = shape_of(k)
        turned = TransposeOp(operands=[k], properties={"perm": order}, result_types=[tensor((b, h, s, d), k)])
        new = AttentionOp(
            operands=[q, turned, op.b],
            properties={"scale": attention_scale(scale, d), "causal": UnitAttr() if causal else None},
            result_types=[op.y.type],
        )
        self.replace(rewriter, op, [turned, new], absorbed=absorbed)


class Scale(LocatedPattern):
    """An imported attention's scale, rounded to half precision by the exporter -> `1 / sqrt(head dimension)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, AttentionOp):
            exact = attention_scale(op.scale.value.data, shape_of(op.q)[3])
            if exact != op.scale:
                op.properties["scale"] = exact
                rewriter.notify_op_modified(op)


def attention_scale(scale: float, d: int) -> FloatAttr[Float32Type]:
    """`scale` as float32; `1 / sqrt(d)` when it is that up to the rounding of two half-precision factors."""
    usual = 1 / math.sqrt(d)
    return FloatAttr(usual if abs(scale / usual - 1) < 2.0**-9 else scale, f32)


def _unscaled(value: SSAValue, scale: float, absorbed: list[Operation]) -> tuple[SSAValue, float]:
    """A value without its constant factors, and `scale` times those."""
    while isinstance(value.owner, (MulOp, DivOp)):
        op = value.owner
        a, b = op.operands
        factor = scalar(b)
        if factor is None and isinstance(op, MulOp):
            a, factor = b, scalar(a)
        if factor is None or (isinstance(op, DivOp) and factor == 0):
            break
        scale = scale / factor if isinstance(op, DivOp) else scale * factor
        absorbed.insert(0, op)
        value = a
    return value, scale


@dataclass(frozen=True)
class RecogniseAttention(ModulePass):
    """Recognise attention in matrix products around a softmax, with its scale and causal mask."""

    name = "recognise-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(GreedyRewritePatternApplier([NanGuard(), Attention(), Scale()])).rewrite_module(op)
