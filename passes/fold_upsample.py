"""Nearest-neighbour enlargement in front of a convolution."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, op_type_rewrite_pattern

from ..ir.graph import ConvOp, UpsampleOp, ints, shape_of
from ..ir.locations import LocatedPattern
from .rebuild import rebuild


class UpsampleIntoConv(LocatedPattern):
    """`conv3x3(upsample(x))` -> `conv3x3(x) upsample`, for stride 1 and one pixel of padding."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, conv: ConvOp, rewriter: PatternRewriter) -> None:
        up = conv.x.owner
        if not isinstance(up, UpsampleOp) or conv.x2 or conv.upsample or conv.stride.value.data != 1:
            return
        if shape_of(conv.w)[2:] != (3, 3) or ints(conv.pad) != (1, 1, 1, 1):
            return
        new = rebuild(conv, x=up.x, height=up.height, width=up.width, upsample=UnitAttr())
        self.replace(rewriter, conv, new, absorbed=[up])


@dataclass(frozen=True)
class FoldUpsample(ModulePass):
    """Fold nearest-neighbour enlargement into the 3x3 convolution that reads it."""

    name = "fold-upsample"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(UpsampleIntoConv()).rewrite_module(op)
