"""Linear layers, however the exporter wrote them."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker

from ..ir.graph import ParamOp, shape_of
from ..ir.locations import LocatedPattern
from ..ir.tensor import GemmOp, LinearOp, MatmulOp, ReshapeOp, static_input
from .match import AddOp, op_and, transposed, vector


class Matmul(LocatedPattern):
    """`matmul(x, param)` -> `linear(x, param)`, for a two-dimensional parameter."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if isinstance(op, MatmulOp) and isinstance(op.b.owner, ParamOp) and len(shape_of(op.b)) == 2:
            new = LinearOp(operands=[op.a, op.b, None], properties=static_input(op), result_types=[op.y.type])
            self.replace(rewriter, op, new)


class Gemm(LocatedPattern):
    """`gemm(x, param, bias)` -> `linear(x, param', bias)`, when its factors are 1."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, GemmOp) or op.trans_a or op.alpha or op.beta or not isinstance(op.b.owner, ParamOp):
            return
        w = transposed(op.b.owner) if op.trans_b else op.b.owner
        bias = vector(op.c, 1, 2) if op.c else None
        if op.c and (bias is None or shape_of(bias.value)[0] != shape_of(op.y)[1]):
            return
        new = LinearOp(operands=[op.a, w, bias], properties=static_input(op), result_types=[op.y.type])
        made = [o for o in (w if op.trans_b else None, bias) if o is not None]
        self.replace(rewriter, op, [*made, new])


class Bias(LocatedPattern):
    """`linear(x, w) + vector` -> `linear(x, w, vector)`, when nobody else reads the linear's result."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AddOp):
            return
        for y, other in op_and(op, LinearOp):
            linear = y.owner
            assert isinstance(linear, LinearOp)
            rank = len(shape_of(y))
            bias = vector(other, rank - 1, rank)
            if linear.bias or linear.geglu or not y.has_one_use() or bias is None:
                continue
            if shape_of(bias.value)[0] != shape_of(y)[-1]:
                continue
            new = LinearOp(
                operands=[linear.x, linear.w, bias],
                properties=static_input(linear),
                result_types=[op.results[0].type],
            )
            self.replace(rewriter, op, [bias, new], absorbed=[linear])
            return


class Flat(LocatedPattern):
    """`reshape(linear(reshape(x)))` -> `linear(x)`, when only the dimensions before the channels are reshaped."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, ReshapeOp) or not isinstance(op.x.owner, LinearOp) or not op.x.has_one_use():
            return
        linear = op.x.owner
        if not isinstance(linear.x.owner, ReshapeOp):
            return
        x, shape = linear.x.owner.x, shape_of(op.y)
        if shape_of(x)[:-1] != shape[:-1] or shape_of(x)[-1] != shape_of(linear.x)[-1]:
            return
        if shape[-1] != shape_of(linear.y)[-1]:
            return
        new = LinearOp(
            operands=[x, linear.w, linear.bias],
            properties={"geglu": linear.geglu, **static_input(linear)},
            result_types=[op.y.type],
        )
        self.replace(rewriter, op, new, absorbed=[linear.x.owner, linear])


@dataclass(frozen=True)
class RecogniseLinear(ModulePass):
    """Recognise linear layers in MatMul with Add, and in Gemm."""

    name = "recognise-linear"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(GreedyRewritePatternApplier([Matmul(), Gemm(), Flat(), Bias()])).rewrite_module(op)
