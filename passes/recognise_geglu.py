"""GEGLU, and other linears whose result is cut into parts."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker

from ..ir.graph import ParamOp, shape_of
from ..ir.locations import LocatedPattern
from ..ir.tensor import ELEMENTWISE, LinearOp, SliceOp, SplitOp, static_input
from .match import MulOp, op_and, parameter, tensor, transforms
from .recognise_linear import Bias

Gelu = ELEMENTWISE["gelu"]


class Geglu(LocatedPattern):
    """`value * gelu(gate)`, value and gate the halves of `linear(x)` -> `linear(x) geglu`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MulOp):
            return
        for gelu, value in op_and(op, Gelu):
            gate = gelu.owner.operands[0]
            first, second = _part(value), _part(gate)
            if first is None or second is None or first[0] is not second[0] or not isinstance(first[0].owner, LinearOp):
                continue
            linear, n = first[0].owner, shape_of(op.results[0])[-1]
            if first[1:] != (0, n) or second[1:] != (n, 2 * n) or shape_of(linear.y)[-1] != 2 * n:
                continue
            if not gelu.has_one_use() or any(u.operation not in (value.owner, gate.owner) for u in linear.y.uses):
                continue
            new = LinearOp(
                operands=[linear.x, linear.w, linear.bias],
                properties={"geglu": UnitAttr(), **static_input(linear)},
                result_types=[op.results[0].type],
            )
            parts = list(dict.fromkeys([value.owner, gate.owner]))
            absorbed = [o for o in (linear, *parts, gelu.owner) if isinstance(o, Operation)]
            self.replace(rewriter, op, new, absorbed=absorbed)
            return


class SplitLinear(LocatedPattern):
    """`split(linear(x))` -> one linear a part, each with its columns of the weights (fused q, k, v)."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, SplitOp) or not isinstance(op.x.owner, LinearOp):
            return
        linear, axis = op.x.owner, op.axis.value.data
        w, bias = linear.w.owner, linear.bias.owner if linear.bias else None
        last = axis == len(shape_of(op.x)) - 1
        if not last or linear.geglu or not op.x.has_one_use() or not isinstance(w, ParamOp):
            return
        if bias is not None and not isinstance(bias, ParamOp):
            return
        made: list[Operation] = []
        results, at = [], 0
        for y in op.ys:
            n = shape_of(y)[-1]
            columns = f"cols:{at}:{at + n}"
            part = parameter(w.source, [*transforms(w), columns], tensor((shape_of(linear.w)[0], n), linear.w))
            more = parameter(bias.source, [*transforms(bias), columns], tensor((n,), bias.value)) if bias else None
            new = LinearOp(operands=[linear.x, part, more], properties=static_input(linear), result_types=[y.type])
            made += [part, *([more] if more else []), new]
            results.append(new.y)
            at += n
        self.replace(rewriter, op, made, results, absorbed=[linear])


def _part(value: SSAValue) -> tuple[SSAValue, int, int] | None:
    """(whole, first channel, last channel + 1) of a value that is a range of another's channels."""
    op = value.owner
    if isinstance(op, SplitOp) and op.axis.value.data == len(shape_of(op.x)) - 1:
        before = [y for y in op.ys if y.index < value.index]  # type: ignore[attr-defined]
        at = sum(shape_of(y)[-1] for y in before)
        return op.x, at, at + shape_of(value)[-1]
    if isinstance(op, SliceOp) and op.axis.value.data == len(shape_of(op.x)) - 1:
        return op.x, op.start.value.data, op.end.value.data
    return None


@dataclass(frozen=True)
class RecogniseGeglu(ModulePass):
    """Recognise GEGLU; give other parts of one linear a linear each."""

    name = "recognise-geglu"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(Geglu()).rewrite_module(op)
        # A split linear may meet its biases only after the split.
        PatternRewriteWalker(GreedyRewritePatternApplier([SplitLinear(), Bias()])).rewrite_module(op)
