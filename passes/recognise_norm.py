"""GroupNorm as exporters spell it before opset 21."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import I64, IntegerAttr, ModuleOp, i64
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker

from ..ir.graph import shape_of
from ..ir.locations import LocatedPattern
from ..ir.tensor import GroupNormOp, InstanceNormOp, ReshapeOp
from .match import AddOp, MulOp, op_and, scalar, vector


class GroupNorm(LocatedPattern):
    """`reshape(instance_norm(reshape(x), 1, 0)) * gamma + beta` -> `group_norm(x, gamma, beta)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AddOp):
            return
        for scaled, beta in op_and(op, MulOp):
            for back, gamma in op_and(scaled.owner, ReshapeOp):
                norm = back.owner.operands[0].owner
                if not isinstance(norm, InstanceNormOp) or not isinstance(norm.x.owner, ReshapeOp):
                    continue
                x = norm.x.owner.x
                shape, groups = shape_of(x), shape_of(norm.x)[1]
                plain = scalar(norm.gamma) == 1 and scalar(norm.beta) == 0
                if not plain or shape != shape_of(back) or shape_of(norm.x)[0] != shape[0] or shape[1] % groups:
                    continue
                g, b = vector(gamma, 1, len(shape)), vector(beta, 1, len(shape))
                if g is None or b is None or shape_of(g.value) != (shape[1],) or shape_of(b.value) != (shape[1],):
                    continue
                groups_attr: IntegerAttr[I64] = IntegerAttr(groups, i64)
                new = GroupNormOp(
                    operands=[x, g, b],
                    properties={"groups": groups_attr, "eps": norm.eps},
                    result_types=[op.results[0].type],
                )
                absorbed = [norm.x.owner, norm, back.owner, scaled.owner]
                self.replace(rewriter, op, [g, b, new], absorbed=absorbed)
                return


@dataclass(frozen=True)
class RecogniseNorm(ModulePass):
    """Recognise GroupNorm in reshape, InstanceNormalization, scale and bias."""

    name = "recognise-norm"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(GroupNorm()).rewrite_module(op)
