"""Activations that exporters spell out."""

from __future__ import annotations

import math
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import GreedyRewritePatternApplier, PatternRewriter, PatternRewriteWalker

from ..ir.locations import LocatedPattern
from ..ir.tensor import ELEMENTWISE, elementwise
from .match import AddOp, DivOp, MulOp, op_and, scalar

Sigmoid, Erf = ELEMENTWISE["sigmoid"], ELEMENTWISE["erf"]


class Silu(LocatedPattern):
    """`x * sigmoid(x)` -> `silu(x)`; `x * sigmoid(1.702 x)` -> `quick_gelu(x)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MulOp):
            return
        for gate, x in op_and(op, Sigmoid):
            inner = gate.owner.operands[0]
            if inner is x:
                silu = elementwise("silu", x, result=op.results[0].type)
                self.replace(rewriter, op, silu, absorbed=[gate.owner])
                return
            if isinstance(inner.owner, MulOp) and x in inner.owner.operands:
                a, b = inner.owner.operands
                factor = scalar(b if a is x else a)
                if factor is not None and abs(factor - 1.702) < 2e-3:
                    quick = elementwise("quick_gelu", x, result=op.results[0].type)
                    self.replace(rewriter, op, quick, absorbed=[inner.owner, gate.owner])
                    return


class ErfGelu(LocatedPattern):
    """`0.5 * x * (1 + erf(x / sqrt 2))`, the factors in any order -> `gelu(x)`."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MulOp):
            return
        inner = next((v.owner for v in op.operands if isinstance(v.owner, MulOp) and v.has_one_use()), None)
        if inner is None:
            return
        factors = [v for v in op.operands if v.owner is not inner] + list(inner.operands)
        half = next((v for v in factors if _near(scalar(v), 0.5)), None)
        gate = next((v for v in factors if isinstance(v.owner, AddOp) and op_and(v.owner, Erf)), None)
        x = next((v for v in factors if v is not half and v is not gate), None)
        if len(factors) != 3 or half is None or gate is None or x is None:
            return
        for erf, one in op_and(gate.owner, Erf):
            if _near(scalar(one), 1.0) and _is_over_sqrt2(erf.owner.operands[0], x):
                gelu = elementwise("gelu", x, result=op.results[0].type)
                absorbed = [erf.owner.operands[0].owner, erf.owner, gate.owner, inner]
                self.replace(rewriter, op, gelu, absorbed=absorbed)
                return


def _near(value: float | None, target: float) -> bool:
    return value is not None and abs(value - target) < 1e-3 * target


def _is_over_sqrt2(value: SSAValue, x: SSAValue) -> bool:
    op = value.owner
    if isinstance(op, DivOp):
        return op.a is x and _near(scalar(op.b), math.sqrt(2))
    return isinstance(op, MulOp) and any(
        a is x and _near(scalar(b), math.sqrt(0.5)) for a, b in (op.operands, op.operands[::-1])
    )


@dataclass(frozen=True)
class RecogniseActivation(ModulePass):
    """Recognise SiLU, quick GELU and the erf form of GELU."""

    name = "recognise-activation"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(GreedyRewritePatternApplier([Silu(), ErfGelu()])).rewrite_module(op)
