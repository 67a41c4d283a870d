"""A changed copy of a canonical operation."""

from __future__ import annotations

from typing import Any

from xdsl.ir import Attribute, SSAValue

from ..ir.graph import ConvOp, GroupNormOp, LinearOp

OPERANDS: dict[type[Any], tuple[str, ...]] = {
    LinearOp: ("x", "x2", "w", "bias", "residual"),
    ConvOp: ("x", "x2", "w", "bias", "temb", "residual"),
    GroupNormOp: ("x", "x2", "gamma", "beta"),
}
"""The operands of the operations that take several optional ones, in order."""


def rebuild(op: Any, *, result: Attribute | None = None, **changes: SSAValue | Attribute) -> Any:
    """A copy of `op` with other operands and properties, named in `changes`; still to be inserted."""
    names = OPERANDS[type(op)]
    operands = [changes.pop(n) if n in changes else getattr(op, n) for n in names]
    properties = {k: v for k, v in op.properties.items() if k != "operandSegmentSizes"} | changes
    return type(op)(operands=operands, properties=properties, result_types=[result or op.y.type])
