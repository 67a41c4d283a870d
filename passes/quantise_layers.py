"""Quantise linears, convolutions, GroupNorm and SiLU."""

from __future__ import annotations

import math
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, FloatAttr, IntegerAttr, StringAttr, f16, f32, i8, i64
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Attribute, SSAValue

from ..errors import DpuError
from ..ir import graph as g
from ..ir import qgraph as q
from ..ir.locations import where
from .derived import DERIVED
from .policy import Kept
from .quantise_attention import attention_of, centre, key_scales, role_of, smoothed
from .quantise_function import INTEGERS_OF, NORMED, Function, model_scale, scale_of, static_of, tensor
from .unsupported import plain


def same_input(a: g.LinearOp, b: g.LinearOp) -> bool:
    """Whether two linears read the same values, quantised the same way."""
    return (a.x, a.x2, static_of(a)) == (b.x, b.x2, static_of(b))


def conv(f: Function, op: g.ConvOp) -> None:
    """A convolution of integers with static scales, made by the GroupNorm before it or by a pass of their own."""
    sources, scales = [op.x] + ([op.x2] if op.x2 else []), []
    quantised: list[SSAValue] = []
    bits = f.bits(op)
    for operand, v in zip(("x", "x2"), sources, strict=False):
        producer = v.owner
        scale, zero = static_of(op) or (float(scale_of(f.absmax(op, operand), bits)), 0)
        if isinstance(producer, g.GroupNormOp) and (v, NORMED) in f.integers:
            q_op = cast(q.QGroupNormOp, f.integers[v, NORMED].owner)
            assert q_op.scale is not None
            scale = q_op.scale.value.data
            quantised.append(q_op.y)
        else:
            quantised.append(f.quantised(v, scale, op, zero, bits))
        scales.append(scale)
    shape = g.btc(op.y, "y")
    want = f.wanted(op.y)
    results: list[Attribute] = [tensor(shape, f16)]
    if want == "column_pair":
        results.append(f.stats_type(want, shape))
    properties: dict[str, Attribute] = {
        k: v for k, v in op.properties.items() if k not in ("operandSegmentSizes", "resultSegmentSizes")
    }
    properties["x_scale"] = FloatAttr(scales[0], 32)
    if f.precision(op).weights == 4:
        properties["w_bits"] = IntegerAttr(4, 64)
    f.set_exponent(properties, "y_exp", op.y)
    if len(scales) > 1:
        properties["x2_scale"] = FloatAttr(scales[1], 32)
    new = q.QConvOp(
        operands=[
            [quantised[0]],
            quantised[1:],
            [op.w],
            f.optional(op.bias),
            f.optional(op.temb),
            f.optional(op.residual),
        ],
        properties=properties,
        result_types=[[results[0]], results[1:]],
    )
    f.emit(new, op)
    f.new[op.y] = new.y
    if new.stats is not None:
        f.stats[op.y] = (want, new.stats)


def group_norm(f: Function, op: g.GroupNormOp) -> None:
    """A GroupNorm that writes the integers which all convolutions that read it take, or else float16.

    Raises:
        DpuError: its producers leave no statistics.
    """
    stats = []
    for v in [op.x] + ([op.x2] if op.x2 else []):
        kind, value = f.stats.get(v, ("none", None))
        if kind != "column_pair" or value is None:
            raise DpuError(
                where(op),
                f"GroupNorm of {'x'.join(map(str, g.shape_of(v)))} whose producer leaves no channel statistics",
                why="statistics come from the epilogue of a convolution or linear",
                hint="keep this part on the host",
                code="E221",
            )
        stats.append(value)
    convs = [u.operation for u in op.y.uses if isinstance(u.operation, g.ConvOp)]
    shape = g.btc(op.y, "y")
    # Statistics of x * 2^-e: the variance, and what is added to it, are smaller by 4^e.
    eps = math.ldexp(op.eps.value.data, -2 * f.exponents.get(op.x, 0))
    properties: dict[str, Attribute] = {"groups": op.groups, "eps": FloatAttr(eps, 32)}
    if op.act:
        properties["act"] = op.act
    results: list[Attribute] = []
    static = {(static_of(c), f.bits(c)) for c in convs}
    if len(static) > 1 or any(s is not None and s[1] for s, _ in static):
        convs = []  # each reader quantises for itself
    bits = 8
    if convs:
        given, bits = next(iter(static))
        amax = max(f.absmax(c, "x" if c.x is op.y else "x2") for c in convs) if given is None else 0.0
        properties["scale"] = FloatAttr(given[0] if given else float(scale_of(amax, bits)), 32)
    elif f.wanted(op.y) == "row_max":
        results.append(f.stats_type("row_max", shape))
    new = q.QGroupNormOp(
        operands=[
            [f.value(op.x)],
            [stats[0]],
            [f.value(op.x2)] if op.x2 else [],
            stats[1:],
            [op.gamma],
            [op.beta],
        ],
        properties=properties,
        result_types=[[tensor(shape, INTEGERS_OF[bits] if convs else f16)], results],
    )
    f.emit(new, op)
    if convs:
        f.integers[op.y, NORMED] = new.y
    else:
        f.new[op.y] = new.y
        if new.row_max is not None:
            f.stats[op.y] = ("row_max", new.row_max)


def layer_norm(f: Function, op: g.LayerNormOp) -> None:
    """Becomes the prologue of each linear that reads it."""


def linear(f: Function, op: g.LinearOp) -> None:
    """One linear, or all that share its input and feed the same attention."""
    group = _siblings(f, op)
    f.done.update(group)
    sections = [_section(f, x) for x in group]
    _emit_linear(f, group, sections)


def _siblings(f: Function, op: g.LinearOp) -> list[g.LinearOp]:
    attention = attention_of(op)
    if attention is None or not plain(op):
        return [op]
    found = []
    for role in ("q", "k", "v"):
        owner = getattr(attention, role).owner
        if isinstance(owner, g.LinearOp) and same_input(owner, op) and plain(owner):
            a, b = f.precision(owner), f.precision(op)
            if (a.activations, a.scale) == (b.activations, b.scale):
                found.append(owner)
    return found if op in found else [op]


def _section(f: Function, op: g.LinearOp) -> tuple[str, str, g.AttentionOp | None]:
    """(kind, statistics, attention) of a linear as a section."""
    attention, role = role_of(f, op)
    if op.geglu is not None:
        want = f.wanted(op.y)
        return "geglu", want if want == "row_max" else "none", None
    if attention is not None:
        return {"q": ("q8_head", "none"), "k": ("q8_static", "none"), "v": ("f16", "column_pair")}[role] + (attention,)
    if any(isinstance(u.operation, ReturnOp) for u in op.y.uses) or any(
        isinstance(u.operation, g.ConvOp) and u.operation.temb is op.y for u in op.y.uses
    ):
        return ("f32", "none", None) if g.shape_of(op.y)[1] == 1 else ("f16", f.wanted(op.y), None)
    return "f16", f.wanted(op.y), None


def _emit_linear(f: Function, group: list[g.LinearOp], sections: list[tuple[str, str, g.AttentionOp | None]]) -> None:
    first = group[0]
    norm = first.x.owner if isinstance(first.x.owner, g.LayerNormOp) else None
    x = norm.x if norm is not None else first.x
    static = model_scale(first)
    sources = [v for v in (x, first.x2) if v is not None]
    inputs = [f.value(v) if static is None else f.quantised(v, static[0], first, static[1]) for v in sources]
    kind, rows = f.stats.get(x, ("none", None))
    chosen = f.is_static(first)
    use_rows = (
        (static is None and (norm is not None or not chosen))
        and rows is not None
        and first.x2 is None
        and kind == ("row_pair" if norm is not None else "row_max")
    )
    results: list[Attribute] = []
    k_scales: list[SSAValue] = []
    heads: IntegerAttr[Any] | None = None
    for op, (section, stats, attention) in zip(group, sections, strict=True):
        b, t, n = g.btc(op.y, "y")
        element = {"f32": f32, "q8_head": i8, "q8_static": i8}.get(section, f16)
        results.append(tensor((b, t, n), element))
        if section == "q8_head":
            assert attention is not None
            heads = attention.heads
            results.append(tensor((b, heads.value.data, t), f32))
        elif stats != "none":
            results.append(f.stats_type(stats, (b, t, n)))
        if section == "q8_static":
            assert attention is not None
            scale = np.repeat(key_scales(f, attention), n // attention.heads.value.data)
            k_scales.append(f.param(f"{DERIVED}{f.part}::{f.names[attention]}.k_scale", scale, op))
    properties: dict[str, Attribute] = {
        "kinds": ArrayAttr([StringAttr(s[0]) for s in sections]),
        "stats": ArrayAttr([StringAttr(s[1]) for s in sections]),
        "has_bias": DenseArrayBase.from_list(i64, [int(op.bias is not None) for op in group]),
    }
    if norm is not None:
        properties["eps"] = FloatAttr(math.ldexp(norm.eps.value.data, -2 * f.exponents.get(x, 0)), 32)
    if first.act is not None:
        properties["act"] = first.act
    if heads is not None:
        properties["heads"] = heads
    if f.bits(first) == 15:
        properties["x_bits"] = IntegerAttr(15, 64)
    weights = [f.precision(op).weights for op in group]
    if 4 in weights:
        properties["w_bits"] = DenseArrayBase.from_list(i64, weights)
    if static is None:
        f.set_exponent(properties, "x_exp", x)
        if chosen:
            amax = max(f.absmax(op, o) for op in group for o in (("x", "x2") if op.x2 else ("x",)))
            step = float(scale_of(amax, f.bits(first)))
            stored = 0 if norm is not None else f.exponents.get(x, 0)
            properties["x_scale"] = FloatAttr(math.ldexp(step, -stored), 32)
    else:
        properties["x_scale"] = FloatAttr(static[0], 32)
        if static[1]:
            properties["x_zero"] = IntegerAttr(static[1], 64)
    if len(group) == 1:
        f.set_exponent(properties, "y_exp", first.y)
    new = q.QLinearOp(
        operands=[
            inputs[:1],
            inputs[1:],
            [rows] if use_rows and rows is not None else [],
            [norm.gamma] if norm is not None else [],
            [norm.beta] if norm is not None else [],
            [smoothed(f, op, op.w) for op in group],
            [smoothed(f, op, op.bias) for op in group if op.bias is not None],
            [f.value(first.residual)] if first.residual is not None else [],
            k_scales,
            _gram(f, group) if 4 in weights else [],
        ],
        properties=properties,
        result_types=[results],
    )
    f.emit(new, *([norm] if norm is not None else []), *group)
    outs = iter(new.results_)
    for op, (section, stats, attention) in zip(group, sections, strict=True):
        y = next(outs)
        f.new[op.y] = y
        if section == "q8_head":
            f.q_scale[op.y] = next(outs)
        elif stats != "none":
            companion = next(outs)
            f.stats[op.y] = (stats, companion)
            if attention is not None:
                centre(f, op, attention, y, companion)


def _gram(f: Function, group: list[g.LinearOp]) -> list[SSAValue]:
    """The gram matrix of an input whose weights' errors are compensated, if that is asked for and was recorded."""
    if f.choices is None or not f.choices.gptq or f.statistics is None:
        return []
    first = group[0]
    readers = [u.operation for u in first.x.uses if isinstance(u.operation, g.LinearOp)]
    for op in readers:
        found = f.statistics.gram(f"{f.names[op]}:x") if (op.x, op.x2) == (first.x, first.x2) else None
        if found is not None:
            k = g.shape_of(first.w)[0]
            return [f.param(f"{DERIVED}{f.part}::{f.names[op]}.gram", found, first, (k, k))]
    why = "the calibration has no gram matrix of its input"
    f.choices.kept.append(Kept(f.names[first], "GPTQ", "rounding to nearest", why))
    return []


def silu(f: Function, op: g.SiluOp) -> None:
    """A SiLU of float16."""
    new = q.QSiluOp(operands=[f.value(op.x)], result_types=[tensor(g.shape_of(op.y), f16)])
    f.emit(new, op)
    f.new[op.y] = new.y
