"""Concatenations of channels become operations with two sources."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker

from ..ir.graph import ConcatOp, ConvOp, GroupNormOp, LinearOp
from ..ir.locations import LocatedPattern
from .rebuild import rebuild


class ConcatIntoReader(LocatedPattern):
    """`f(concat(a, b))` -> `f(a concat b)` for convolution, linear and group norm; an unread concat goes."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, (ConvOp, GroupNormOp, LinearOp)) or op.x2:
            return
        concat = op.x.owner
        if isinstance(concat, ConcatOp):
            self.replace(rewriter, op, rebuild(op, x=concat.a, x2=concat.b), absorbed=[concat])


@dataclass(frozen=True)
class FuseConcat(ModulePass):
    """Give convolutions, linears and group norms two sources instead of a concatenation."""

    name = "fuse-concat"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(ConcatIntoReader()).rewrite_module(op)
