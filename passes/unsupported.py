"""Combinations that the graph can state and the lowering cannot: refused by name instead of computed wrongly."""

from __future__ import annotations

from xdsl.ir import BlockArgument, Operation

from ..errors import DpuError
from ..ir import graph as g
from ..ir.locations import where

ON_HOST = "keep this part on the host"


def check(op: Operation) -> None:
    """Refuse an operation that has no quantised form with these readers, operands or attributes.

    Raises:
        DpuError: E222 LayerNorm, E223 attention, E229 linears and GroupNorm.
    """
    match op:
        case g.LinearOp():
            _linear(op)
        case g.GroupNormOp():
            _group_norm(op)
        case g.LayerNormOp():
            _layer_norm(op)
        case g.AttentionOp():
            _attention(op)


def _refuse(op: Operation, what: str, why: str, code: str, hint: str = ON_HOST) -> DpuError:
    return DpuError(where(op), what, why=why, hint=hint, code=code)


def _linear(op: g.LinearOp) -> None:
    if op.geglu is not None and (op.act is not None or op.residual is not None):
        rest = "an activation" if op.act is not None else "a residual"
        raise _refuse(op, f"GEGLU with {rest}", "its epilogue's second operand is the gate", "E229")


def _group_norm(op: g.GroupNormOp) -> None:
    if op.act is not None and op.act.data != "silu":
        raise _refuse(op, f"activation '{op.act.data}' after GroupNorm", "only silu is fused with it", "E229")
    uses = list(op.y.uses)
    convs = [u for u in uses if isinstance(u.operation, g.ConvOp) and u.index < (1 if u.operation.x2 is None else 2)]
    if convs and len(convs) < len(uses):
        other = next(u.operation for u in uses if u not in convs)
        role = " as something else" if isinstance(other, g.ConvOp) else ""
        raise _refuse(
            op,
            f"GroupNorm read by 'dpu.conv' and by '{other.name}'{role}",
            "its result is int8 for convolutions or float16 for others, not both",
            "E229",
            "compute it twice, or keep this part on the host",
        )


def _layer_norm(op: g.LayerNormOp) -> None:
    for use in op.y.uses:
        reader = use.operation
        if not isinstance(reader, g.LinearOp) or use.index != 0:
            raise _refuse(
                op, f"LayerNorm read by '{reader.name}'", "LayerNorm runs as the prologue of a linear", "E222"
            )
        if reader.x2 is not None:
            raise _refuse(
                op, "LayerNorm read by a linear with two sources", "the prologue would normalise both", "E222"
            )


def _attention(op: g.AttentionOp) -> None:
    for role in ("q", "k", "v"):
        value = getattr(op, role)
        linear = value.owner
        if isinstance(value, BlockArgument) and role != "q":
            continue  # computed by another entry
        if not isinstance(linear, g.LinearOp):
            raise _refuse(op, f"operand {role} is no linear's result", "its epilogue quantises it", "E223")
        readers = sum(1 for _ in value.uses)
        if readers > 1:
            raise _refuse(
                op,
                f"operand {role} has {readers} readers",
                "its epilogue quantises it for one",
                "E223",
                "compute it once for each reader, or keep this part on the host",
            )
        more: dict[str, object] = {"GEGLU": linear.geglu}
        if role != "v":
            more |= {"an activation": linear.act, "a residual": linear.residual}
        for name, found in more.items():
            if found is not None:
                raise _refuse(
                    op, f"operand {role} is a linear with {name}", "its epilogue quantises it and does no more", "E223"
                )


def plain(op: g.LinearOp) -> bool:
    """Whether a linear has nothing but a bias, so that it can share an operation with others."""
    return op.act is None and op.geglu is None and op.residual is None
