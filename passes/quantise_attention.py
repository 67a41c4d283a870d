"""Quantise attention: static key scales with smoothing folded into weights, centred values, probabilities by policy."""

from __future__ import annotations

from typing import cast

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f16, f32, i8
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, SSAValue

from ..errors import DpuError
from ..ir import graph as g
from ..ir import qgraph as q
from ..ir.locations import where
from ..ir.signature import argument_names, result_names, set_argument_names
from .derived import DERIVED, F32, Folded
from .lower.attention import fitting_key_block
from .quantise_function import Function, scale_of, tensor


def argument_name(f: FuncOp, value: BlockArgument) -> str:
    """The name of a function's argument."""
    return argument_names(f)[value.index]


def attention_of(op: g.LinearOp) -> g.AttentionOp | None:
    """The attention that alone reads a linear's result."""
    users = [u.operation for u in op.y.uses]
    return users[0] if len(users) == 1 and isinstance(users[0], g.AttentionOp) else None


def role_of(f: Function, op: g.LinearOp) -> tuple[g.AttentionOp | None, str]:
    """The attention a linear's result goes to and as what, also through a function's result."""
    attention = attention_of(op)
    if attention is not None:
        return attention, next(r for r in ("q", "k", "v") if getattr(attention, r) is op.y)
    for use in op.y.uses:
        if isinstance(use.operation, ReturnOp):
            name = result_names(f.func)[use.index]
            if name in f.returned_kv:
                return f.returned_kv[name]
    return None, "none"


def smoothing(f: Function, attention: g.AttentionOp) -> F32:
    """A factor for each channel of an attention's queries and keys that makes their ranges equal.

    Queries are divided by it and keys multiplied, so products do not change, and a head's one key scale serves all
    its channels: `f = sqrt(max |q| / max |k|)`, between 1/16 and 16.
    """
    n = g.shape_of(attention.q)[2]
    q_max, k_max = (np.maximum(f.channels(attention, r, n), np.float32(1e-6)) for r in ("q", "k"))
    return np.clip(np.sqrt(q_max / k_max), 1 / 16, 16).astype(np.float32)


def smoothed(f: Function, op: g.LinearOp, value: SSAValue) -> SSAValue:
    """A weight or bias that gives queries or keys, with the smoothing folded in."""
    attention, role = role_of(f, op)
    if attention is None or role not in ("q", "k") or f.statistics is None:
        return value
    owner = cast(g.ParamOp, value.owner)
    factor = smoothing(f, attention)
    factor = np.float32(1) / factor if role == "q" else factor
    source = f"{DERIVED}{f.part}::{owner.source.data} as {role} of {f.names[attention]}"
    transform = tuple(t.data for t in owner.transform.data) if owner.transform else ()
    f.derived[source] = Folded(owner.source.data, transform, factor)
    new = g.ParamOp(properties={"source": StringAttr(source)}, result_types=[value.type])
    f.emit(new, op)
    return new.value


def key_scales(f: Function, attention: g.AttentionOp) -> F32:
    """One scale for each head of an attention's keys."""
    n, heads = g.shape_of(attention.k)[2], attention.heads.value.data
    k_max = f.channels(attention, "k", n)
    if f.statistics is not None:
        k_max = k_max * smoothing(f, attention)
    return scale_of(k_max.reshape(heads, -1).max(axis=1))


def centre(f: Function, op: g.LinearOp, attention: g.AttentionOp, v: SSAValue, stats: SSAValue) -> None:
    """Values of an attention, less their mean, as int8."""
    b, t, n = g.btc(op.y, "y")
    scale = f.param(
        f"{DERIVED}{f.part}::{f.names[attention]}.v_scale",
        scale_of(f.channels(attention, "v", n, centred=True)),
        op,
    )
    centre = q.QCentreOp(operands=[v, stats, scale], result_types=[tensor((b, t, n), i8), tensor((b, 1, n), f32)])
    f.emit(centre, op)
    f.new[op.y], f.mu[op.y] = centre.y, centre.mu


def attention(f: Function, op: g.AttentionOp) -> None:
    """An attention; its key block is what the arch holds.

    Raises:
        DpuError: a causal one of more keys than fit a block.
    """
    b, t, n = g.btc(op.q, "q")
    heads = op.heads.value.data
    v_scale = f.param(f"{DERIVED}{f.part}::{f.names[op]}.v_scale", scale_of(f.channels(op, "v", n, centred=True)), op)
    mu = f.mu[op.v] if op.v in f.mu else _state_mu(f, op.v)
    share = 2 if op.causal is not None else 4  # a mask needs all keys in one block
    longest = fitting_key_block(n // heads, g.shape_of(op.k)[1], f.arch, share)
    key_block = min(op.key_block.value.data, longest)
    if op.causal is not None and t > key_block:
        raise DpuError(
            where(op),
            f"causal attention of {t} tokens",
            why=f"a mask needs all keys in one block, and arch '{f.arch.name}' holds {key_block}",
            hint="use an arch with larger scratchpads",
            code="E224",
        )
    want = f.wanted(op.y) == "row_max"
    new = q.QAttentionOp(
        operands=[f.value(op.q), f.q_scale[op.q], f.value(op.k), f.value(op.v), mu, v_scale],
        properties={
            "heads": op.heads,
            "scale": FloatAttr(op.scale.value.data, 64),
            "k_scale": DenseArrayBase.from_list(f32, [float(x) for x in key_scales(f, op)]),
            "key_block": IntegerAttr(key_block, 64),
            "prob_bits": IntegerAttr(f.precision(op).probabilities, 64) if f.precisions else op.prob_bits,
            **({"causal": op.causal} if op.causal is not None else {}),
        },
        result_types=[tensor((b, t, n), f16), [f.stats_type("row_max", (b, t, n))] if want else []],
    )
    f.emit(new, op)
    f.new[op.y] = new.y
    if new.row_max is not None:
        f.stats[op.y] = ("row_max", new.row_max)


def _state_mu(f: Function, v: SSAValue) -> SSAValue:
    """The mean that comes with values computed by another entry: a new argument `<name>.mu`."""
    if v not in f.mu:
        assert isinstance(v, BlockArgument)
        b, _, n = g.btc(v, "v")
        names = [*argument_names(f.func), f"{argument_name(f.func, v)}.mu"]
        f.mu[v] = f.block.insert_arg(tensor((b, 1, n), f32), len(f.block.args))
        set_argument_names(f.func, names)
    return f.mu[v]
