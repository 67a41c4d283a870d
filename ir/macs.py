"""Logical multiply-accumulates of an operation: what the model asks for, whatever the schedule saves."""

from __future__ import annotations

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from .graph import AttentionOp, ConvOp, LinearOp, btc, shape_of
from .qgraph import QAttentionOp, QConvOp, QLinearOp


def macs(op: Operation) -> int:
    """Multiply-accumulates of a linear, a convolution or an attention (both products); 0 for anything else.

    A convolution with `upsample` counts the enlarged image: the saving of its four phases is an executed count.
    """
    if isinstance(op, QLinearOp):
        b, t, k = btc(op.x, "x")
        k += btc(op.x2, "x2")[2] if op.x2 else 0
        return b * t * k * sum(shape_of(w)[1] for w in op.weights)
    if isinstance(op, LinearOp):
        b, t, _ = btc(op.y, "y")
        k, n = shape_of(op.w)
        return b * t * k * n
    if isinstance(op, ConvOp | QConvOp):
        b, t, n = btc(op.y, "y")
        _, c, kh, kw = shape_of(op.w)
        return b * t * n * c * kh * kw
    if isinstance(op, AttentionOp | QAttentionOp):
        b, t, c = btc(op.q, "q")
        return 2 * b * t * btc(op.k, "k")[1] * c
    return 0


def total_macs(module: ModuleOp) -> int:
    """The sum of `macs` over all functions of a module."""
    return sum(macs(op) for op in module.walk())
