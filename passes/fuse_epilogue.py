"""What is computed while a result leaves the accumulators: activation, time embedding, residual."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import (
    GreedyRewritePatternApplier,
    PatternRewriter,
    PatternRewriteWalker,
    op_type_rewrite_pattern,
)

from ..ir.graph import AddOp, ConvOp, GeluOp, GroupNormOp, LinearOp, QuickGeluOp, SiluOp, shape_of
from ..ir.locations import LocatedPattern
from .rebuild import rebuild


class Activation(LocatedPattern):
    """`silu(group_norm(x))` -> `group_norm(x) act "silu"`; the same for a linear with any activation."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, (SiluOp, GeluOp, QuickGeluOp)):
            return
        producer = op.x.owner
        if not op.x.has_one_use() or not isinstance(producer, (GroupNormOp, LinearOp)) or producer.act:
            return
        if isinstance(producer, LinearOp) and (producer.residual or producer.geglu):
            return
        if isinstance(producer, GroupNormOp) and not isinstance(op, SiluOp):
            return
        act = StringAttr(op.name.removeprefix("dpu."))
        self.replace(rewriter, op, rebuild(producer, act=act, result=op.y.type), absorbed=[producer])


class TimeEmbedding(LocatedPattern):
    """`conv(x) + e`, e one value a channel -> `conv(x) temb e`, when nobody else reads the convolution."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, add: AddOp, rewriter: PatternRewriter) -> None:
        conv, e = add.a.owner, add.b
        if not isinstance(conv, ConvOp) or not add.a.has_one_use() or conv.temb or conv.residual:
            return
        if shape_of(e)[1] == 1 and shape_of(conv.y)[1] > 1:
            self.replace(rewriter, add, rebuild(conv, temb=e, result=add.y.type), absorbed=[conv])


class Residual(LocatedPattern):
    """`f(x) + r` -> `f(x) residual r` for a convolution or linear that nobody else reads; of two, the later one."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, add: AddOp, rewriter: PatternRewriter) -> None:
        if shape_of(add.a) != shape_of(add.b):
            return
        sides = [(v.owner, other) for v, other in ((add.a, add.b), (add.b, add.a)) if self._takes(v)]
        block = add.parent
        if not sides or block is None:
            return
        if len(sides) == 2:
            sides.sort(key=lambda side: block.get_operation_index(side[0]))  # type: ignore[arg-type]
        producer, residual = sides[-1]
        assert isinstance(producer, Operation)
        self.replace(rewriter, add, rebuild(producer, residual=residual, result=add.y.type), absorbed=[producer])

    @staticmethod
    def _takes(value: SSAValue) -> bool:
        op = value.owner
        if not isinstance(op, (ConvOp, LinearOp)) or op.residual or not value.has_one_use():
            return False
        return isinstance(op, ConvOp) or not op.geglu


@dataclass(frozen=True)
class FuseEpilogue(ModulePass):
    """Fold activation, time embedding and residual into the operation before them."""

    name = "fuse-epilogue"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        patterns = [Activation(), TimeEmbedding(), Residual()]
        PatternRewriteWalker(GreedyRewritePatternApplier(patterns)).rewrite_module(op)  # type: ignore[arg-type]
