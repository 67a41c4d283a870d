"""The quantised graph, interpreted from `docs/numerics.md`: one function for each operation, results in stored form.

Tensors are arrays [samples, tokens, channels] of float16, float32 or int8; 15-bit integers are two int8 planes side by
side, high ones first. What is shared with the compiler is data that is fixed before anything runs: the integers and
scales of weights (`passes/weights.py`, `passes/int4.py`) and where reductions are cut (`cuts.py`). No arithmetic of the
device is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr
from xdsl.ir import Operation, SSAValue

from ...errors import DpuError
from ...ir.graph import btc, conv_out_size, ints, shape_of
from ...ir.locations import where
from ...ir.qgraph import (
    QAttentionOp,
    QCentreOp,
    QConvOp,
    QGroupNormOp,
    QLinearOp,
    QQuantiseOp,
    QSiluOp,
    planes_of,
    section_bits,
    weight_bits,
)
from ...passes.int4 import Inputs, contiguous, inputs_of, quantise_int4
from ...passes.weights import (
    Fixed,
    column_scales,
    column_sums,
    quantise_columns,
    quantised,
    shifted_bias,
    upsample_phase,
)
from . import functions as fn
from .cuts import Cuts, Rows
from .functions import F32, I8, I64

Array = npt.NDArray[Any]
QUERY_ROWS = 2048  # queries worked on at once; bounds memory, changes nothing


@dataclass(frozen=True)
class Context:
    """What an operation may ask for: its operands as stored, its parameters in float32, the cuts."""

    read: Callable[[SSAValue], Array]
    param: Callable[[SSAValue], F32]
    cuts: Cuts
    fixed: Callable[[SSAValue], Fixed | None] = lambda value: None


def interpret(op: Operation, context: Context) -> list[Array]:
    """The results of one operation, in order.

    Raises:
        DpuError: the operation is not of the quantised graph.
    """
    rule = _RULES.get(type(op))
    if rule is None:
        raise DpuError(where(op), f"'{op.name}' is no quantised operation", code="E226")
    results: list[Array] = rule(op, context)
    return results


def _values(context: Context, *operands: SSAValue | None) -> F32:
    """Operands as float32, side by side."""
    return np.concatenate([fn.from_half(context.read(v)) for v in operands if v is not None], axis=2)


def _inverse(scale: npt.ArrayLike) -> F32:
    """f32(1 / scale)."""
    return np.asarray(np.float32(1) / np.asarray(scale, np.float32), np.float32)


def _token_scales(amax: F32, top: int = 127) -> tuple[F32, F32]:
    """(what quantises, what undoes it) for absolute maxima; `top` is the largest integer."""
    return fn.mul(np.float32(top), fn.recip(amax)), fn.mul(amax, _inverse(top))


def _integers(x: F32, planes: int) -> list[I8]:
    """Quantised values, plane by plane."""
    return [fn.to_int8(x)] if planes == 1 else list(fn.to_planes(x))


def _joined(accumulators: list[I64]) -> F32:
    """`cvt(acc)`, of two planes `cvt(acc_hi) * 128 + cvt(acc_lo)`."""
    high, *low = (fn.from_int(a) for a in accumulators)
    return fn.add(fn.mul(high, np.float32(128)), low[0]) if low else high


def _moments(s: F32, q: F32, count: int, eps: float) -> tuple[F32, F32]:
    """(r, nb) of a normalisation from the sums and the sums of squares over `count` elements."""
    share = _inverse(count)
    m = fn.mul(s, share)
    minus = fn.mul(m, np.float32(-1))
    v = fn.larger(fn.add(fn.mul(q, share), fn.mul(minus, m)), np.float32(0))
    r = fn.rsqrt(fn.add(v, np.float32(eps)))
    return r, fn.mul(minus, r)


def _partials(y: F32, cuts: list[list[Rows]]) -> F32:
    """Column pairs of y [B, T, N]: [B, partials, 2N]."""
    out = np.zeros((y.shape[0], len(cuts[0]), 2 * y.shape[2]), np.float32)
    n = y.shape[2]
    for b, parts in enumerate(cuts):
        for p, rows in enumerate(parts):
            x = y[b, rows]
            out[b, p, :n], out[b, p, n:] = fn.column_sum(x), fn.column_sum(fn.mul(x, x))
    return out


def _combine(parts: F32, chunk: int) -> F32:
    """The column sum of a tensor's partials [P, N], `chunk` of them in one instruction."""
    total: F32 | None = None
    for p in range(0, len(parts), chunk):
        total = fn.column_sum(parts[p : p + chunk], total)
    assert total is not None
    return total


# -- convolution -------------------------------------------------------------------------------------------------------


def _conv_weights(w: F32, op: QConvOp, first: int, given: Fixed | None) -> tuple[list[I8], F32]:
    """Weights of each source as [kh, kw, c, n] integers, and the column scales; the model's own where it has some."""
    four = weight_bits(op) == 4
    if not four and given is not None and not op.upsample and (op.x2_scale is None or op.x2_scale == op.x_scale):
        q, scale = quantised(given.map(lambda a: a.transpose(2, 3, 1, 0).reshape(-1, len(a))))
        q = q.reshape(*w.shape[2:], w.shape[1], -1)
        return ([q] if op.x2 is None else [q[:, :, :first], q[:, :, first:]]), scale
    parts = [w[:, :first]]
    if op.x2_scale is not None:
        ratio = np.float32(op.x2_scale.value.data) / np.float32(op.x_scale.value.data)
        parts.append((w[:, first:] * ratio).astype(np.float32))
    n = w.shape[0]
    if four:
        flat = [p.transpose(0, 2, 3, 1).reshape(n, -1) for p in parts]
        taps = w.shape[2] * w.shape[3]
        cuts = contiguous([p.shape[1] for p in parts for _ in range(taps)])
        found = quantise_int4(np.concatenate(flat, axis=1), cuts)
        whole, integers = found.integers(), []
        for p, (a, k) in zip(parts, contiguous([m.shape[1] for m in flat]), strict=True):
            mine = whole[:, a : a + k].reshape(n, *p.shape[2:], -1)
            integers.append(np.ascontiguousarray(mine.transpose(1, 2, 3, 0)))
        return integers, found.scale
    scale = column_scales(*(p.transpose(2, 3, 1, 0).reshape(-1, n) for p in parts))
    return [quantise_columns(p.transpose(2, 3, 1, 0), scale) for p in parts], scale


def _zero(zero: IntegerAttr[Any] | None) -> int:
    """A zero point; none is 0."""
    return 0 if zero is None else int(zero.value.data)


def _power(exponent: IntegerAttr[Any] | None, sign: int) -> F32:
    """2 to the power of plus or minus an exponent; no exponent is 0."""
    power = 0 if exponent is None else sign * exponent.value.data
    return np.array(2.0**power, np.float32)


def _taps(images: list[I8], weights: list[I8], origin: tuple[int, int], size: tuple[int, int], stride: int) -> I64:
    """Sum of products over taps and sources; `origin` is the padded input pixel of tap (0, 0) at output (0, 0)."""
    (ho, wo), n = size, weights[0].shape[3]
    acc = np.zeros((images[0].shape[0], ho, wo, n), np.int64)
    for x, w in zip(images, weights, strict=True):
        for ky in range(w.shape[0]):
            for kx in range(w.shape[1]):
                y0, x0 = origin[0] + ky, origin[1] + kx
                patch = x[:, y0 : y0 + stride * (ho - 1) + 1 : stride, x0 : x0 + stride * (wo - 1) + 1 : stride]
                acc += fn.product(patch, w[ky, kx])
    return acc


def _conv(op: QConvOp, context: Context) -> list[Array]:
    h, w = op.height.value.data, op.width.value.data
    b, _, n = btc(op.y, "y")
    ho, wo = conv_out_size(op)
    top, left, bottom, right = ints(op.pad)
    images: list[list[I8]] = [[] for _ in range(op.planes)]
    for v in (op.x, op.x2):
        if v is not None:
            border = ((0, 0), (top, bottom), (left, right), (0, 0))
            for plane, x in zip(images, np.split(context.read(v), op.planes, axis=2), strict=True):
                plane.append(np.pad(x.reshape(b, h, w, -1), border, constant_values=_zero(op.x_zero)))
    first, weight = shape_of(op.x)[2], context.param(op.w)
    bias = context.param(op.bias) if op.bias is not None else None
    residual = fn.from_half(context.read(op.residual)).reshape(b, ho, wo, n) if op.residual is not None else None
    temb = fn.from_half(context.read(op.temb)).reshape(b, 1, 1, n) if op.temb is not None else None
    out = np.zeros((b, ho, wo, n), np.float16)
    step, stride = (2, 1) if op.upsample else (1, op.stride.value.data)
    for py in range(step):
        for px in range(step):
            kernel = upsample_phase(weight, py, px) if op.upsample else weight
            integers, scale = _conv_weights(kernel, op, first, context.fixed(op.w))
            acc = [_taps(plane, integers, (py, px), (ho // step, wo // step), stride) for plane in images]
            power = _power(op.y_exp, -1)
            scale = fn.mul(scale, np.float32(op.x_scale.value.data))
            y = fn.mul(_joined(acc), fn.mul(scale, power))
            added = bias
            if op.x_zero is not None:
                sums = np.sum([q.sum(axis=(0, 1, 2), dtype=np.int64) for q in integers], axis=0)
                added = shifted_bias(np.zeros(n, np.float32) if bias is None else bias, sums, scale, _zero(op.x_zero))
            if added is not None:
                y = fn.add(y, fn.mul(added, power))
            if temb is not None:
                y = fn.add(y, temb)
            if residual is not None:
                y = fn.add(y, residual[:, py::step, px::step])
            out[:, py::step, px::step] = fn.to_half(y)
    stored = out.reshape(b, ho * wo, n)
    return [stored] if op.stats is None else [stored, _partials(fn.from_half(stored), context.cuts.conv(op))]


# -- linear ------------------------------------------------------------------------------------------------------------


def _linear(op: QLinearOp, context: Context) -> list[Array]:
    x = _values(context, op.x, op.x2)
    supplied = context.read(op.rows) if op.rows is not None else None
    amax: F32 | None = None
    if op.gamma is not None and op.beta is not None and op.eps is not None:
        if supplied is not None:
            s, q = supplied[:, 0], supplied[:, 1]
        else:
            s, q = fn.row_sum(x, context.cuts.columns), fn.row_sum(fn.mul(x, x), context.cuts.columns)
        r, nb = _moments(s, q, x.shape[2], op.eps.value.data)
        x = fn.add(fn.mul(x, r[..., None]), nb[..., None])
        x = fn.add(fn.mul(x, context.param(op.gamma)), context.param(op.beta))
    elif supplied is not None:
        amax = supplied[:, 0]
    scale = np.ones(x.shape[:2], np.float32)
    if op.is_stored:
        rows = [x.astype(np.int8)]
    elif op.x_scale is not None:
        rows = _integers(fn.mul(x, _inverse(op.x_scale.value.data)), op.planes)
    else:
        top = 127 if op.planes == 1 else 16319
        inverse, scale = _token_scales(fn.row_absmax(x) if amax is None else amax, top)
        rows = _integers(fn.mul(x, inverse[..., None]), op.planes)
    residual = fn.from_half(context.read(op.residual)) if op.residual is not None else None
    biases, key_scales = iter(op.biases), iter(op.k_scales)
    results: list[Array] = []
    sections = zip(op.weights, op.kinds.data, op.stats.data, op.has_bias.get_values(), section_bits(op), strict=True)
    inputs = None if op.gram is None else inputs_of(context.param(op.gram))
    for w, kind, stats, has, bits in sections:
        q, columns = _linear_weight(w, bits, inputs, op, context)
        y = _joined([fn.product(plane, np.asarray(q)) for plane in rows])
        if op.x_scale is not None:
            columns = fn.mul(columns, np.float32(op.x_scale.value.data))
        power = _power(op.y_exp, -1)
        stored_scale = fn.mul(columns, power if op.gamma is not None else fn.mul(power, _power(op.x_exp, 1)))
        y = fn.mul(fn.mul(y, scale[..., None]), stored_scale)
        bias = context.param(next(biases)) if has else None
        if op.x_zero is not None:
            zeros = np.zeros(len(columns), np.float32)
            bias = shifted_bias(zeros if bias is None else bias, column_sums(q), columns, _zero(op.x_zero))
        if bias is not None:
            y = fn.add(y, fn.mul(bias, power))
        match kind.data:
            case "q8_static":
                results.append(fn.to_int8(fn.mul(y, _inverse(context.param(next(key_scales))))))
                continue
            case "q8_head":
                assert op.heads is not None
                results += _queries(fn.to_half(y), op.heads.value.data)
                continue
            case "geglu":
                value, gate = np.split(y, 2, axis=2)
                y = fn.mul(value, fn.gated(gate, "phi"))
            case _:
                if op.act is not None:
                    y = fn.activation(y, op.act.data)
                if residual is not None:
                    y = fn.add(y, residual)
        stored: Array = y if kind.data == "f32" else fn.to_half(y)
        results.append(stored)
        if stats.data != "none":
            results.append(_statistics(fn.from_half(stored), stats.data, op, context))
    return results


def _linear_weight(w: SSAValue, bits: int, inputs: Inputs | None, op: QLinearOp, context: Context) -> tuple[I8, F32]:
    """Integers [k, n] and column scales of a section's weight."""
    if bits == 8:
        return quantised(context.fixed(w) or context.param(w))
    widths = [btc(v, "x")[2] for v in (op.x, op.x2) if v is not None]
    found = quantise_int4(context.param(w).T, contiguous(widths), inputs)
    return found.integers().T, found.scale


def _queries(y: Array, heads: int) -> list[Array]:
    """Int8 with a scale for each token and head: values and scales [B, heads, T]."""
    b, t, n = y.shape
    x = fn.from_half(y).reshape(b, t, heads, -1)
    inverse, scale = _token_scales(fn.row_absmax(x))
    q = fn.to_int8(fn.mul(x, inverse[..., None]))
    return [q.reshape(b, t, n), np.ascontiguousarray(scale.transpose(0, 2, 1))]


def _statistics(y: F32, kind: str, op: QLinearOp, context: Context) -> F32:
    """The companion of a section's value as it is stored."""
    if kind == "row_max":
        return fn.row_absmax(y)[:, None]
    if kind == "row_pair":
        columns = context.cuts.columns
        return np.stack([fn.row_sum(y, columns), fn.row_sum(fn.mul(y, y), columns)], axis=1)
    return _partials(y, context.cuts.linear(op))


# -- row by row --------------------------------------------------------------------------------------------------------


def _group_norm(op: QGroupNormOp, context: Context) -> list[Array]:
    x = _values(context, op.x, op.x2)
    b, t, c = x.shape
    groups = op.groups.value.data
    gamma, beta = context.param(op.gamma), context.param(op.beta)
    parts = [context.read(v) for v in (op.stats, op.stats2) if v is not None]
    chunks = [context.cuts.combined(p.shape[2] // 2) for p in parts]
    y = np.empty_like(x)
    for i in range(b):
        pairs = [_combine(p[i], chunk).reshape(2, -1) for p, chunk in zip(parts, chunks, strict=True)]
        sums, squares = np.concatenate(pairs, axis=1)
        s, q = (fn.row_sum(v.reshape(groups, -1), context.cuts.columns) for v in (sums, squares))
        r, nb = (np.repeat(v, c // groups) for v in _moments(s, q, t * (c // groups), op.eps.value.data))
        y[i] = fn.add(fn.mul(x[i], fn.mul(r, gamma)), fn.add(fn.mul(nb, gamma), beta))
    if op.act is not None:
        y = fn.activation(y, op.act.data)
    if op.scale is not None:
        planes = _integers(fn.mul(y, _inverse(op.scale.value.data)), planes_of(op.y))
        return [np.concatenate(planes, axis=2)]
    half = fn.to_half(y)
    return [half] if op.row_max is None else [half, fn.row_absmax(fn.from_half(half))[:, None]]


def _quantise(op: QQuantiseOp, context: Context) -> list[Array]:
    y = fn.mul(_values(context, op.x), _inverse(op.scale.value.data))
    if op.zero is None:
        return [np.concatenate(_integers(y, planes_of(op.y)), axis=2)]
    return [fn.to_offset(fn.add(fn.add(y, np.float32(_zero(op.zero) + 128)), np.float32(-128)))]


def _silu(op: QSiluOp, context: Context) -> list[Array]:
    return [fn.to_half(fn.activation(_values(context, op.x), "silu"))]


def _centre(op: QCentreOp, context: Context) -> list[Array]:
    v, parts = _values(context, op.v), context.read(op.stats)
    chunk = context.cuts.combined(v.shape[2])
    sums = np.stack([_combine(np.split(p, 2, axis=1)[0], chunk) for p in parts])[:, None]
    mu = fn.mul(sums, _inverse(v.shape[1]))
    centred = fn.add(v, fn.mul(mu, np.float32(-1)))
    return [fn.to_int8(fn.mul(centred, _inverse(context.param(op.scale)))), mu]


# -- attention ---------------------------------------------------------------------------------------------------------


def _attention(op: QAttentionOp, context: Context) -> list[Array]:
    q, q_scale, k, v, mu = (context.read(x) for x in (op.q, op.q_scale, op.k, op.v, op.mu))
    v_scale = context.param(op.v_scale).reshape(-1)
    heads, d = op.heads.value.data, q.shape[2] // op.heads.value.data
    out = np.zeros(q.shape, np.float16)
    for h, k_scale in enumerate(op.k_scale.get_values()):
        factor = np.float32(float(np.float32(k_scale)) * op.scale.value.data * float(np.log2(np.e)))
        cols = slice(h * d, (h + 1) * d)
        for b in range(len(q)):
            for lo in range(0, q.shape[1], QUERY_ROWS):
                rows = slice(lo, lo + QUERY_ROWS)
                c = fn.mul(q_scale[b, h, rows], factor)[:, None]
                keys, values = k[b, :, cols], v[b, :, cols]
                y = _head(q[b, rows, cols], c, keys, values, v_scale[cols], mu[b, 0, cols], op, context, lo)
                out[b, rows, cols] = fn.to_half(y)
    assert heads == len(op.k_scale.get_values())
    return [out] if op.row_max is None else [out, fn.row_absmax(fn.from_half(out))[:, None]]


def _head(q: I8, c: F32, k: I8, v: I8, sv: F32, mu: F32, op: QAttentionOp, context: Context, row0: int) -> F32:
    """One head of one sample: q [rows, d] from token `row0` on, c [rows, 1], k and v [keys, d]."""
    wide, block = op.prob_bits.value.data == 15, op.key_block.value.data
    first: I64 | None = None
    o = total = np.zeros((0, 1), np.float32)
    for k0 in range(0, len(k), block):
        keys, values = k[k0 : k0 + block], v[k0 : k0 + block]
        scores = fn.product(q, np.ascontiguousarray(keys.T))
        top = scores.max(axis=1, keepdims=True)
        if op.causal is not None:
            later = np.arange(len(keys)) > row0 + np.arange(len(q))[:, None]
            z = fn.add(fn.mul(fn.from_int(scores), c), np.where(later, np.float32(-60000), np.float32(0)))
            p = fn.exp2(fn.add(z, fn.mul(z.max(axis=1, keepdims=True), np.float32(-1))))
        else:
            p = fn.exp2(fn.mul(fn.from_int(scores - top), c))
        sums = fn.row_sum(p, context.cuts.columns)[:, None]
        if wide:
            high, low = (fn.from_int(fn.product(x, values)) for x in fn.to_planes(fn.mul(p, np.float32(16319))))
            x = fn.mul(fn.add(fn.mul(high, np.float32(128)), low), sv)
        else:
            offset = fn.to_offset(fn.add(fn.mul(p, np.float32(255)), np.float32(-128)))
            base = fn.mul(fn.mul(fn.from_int(values.sum(axis=0, dtype=np.int64)), np.float32(128)), sv)
            x = fn.add(fn.mul(fn.from_int(fn.product(offset, values)), sv), base)
        if first is None:
            first, o, total = top, x, sums
            continue
        e = fn.larger(fn.mul(fn.mul(fn.from_int(top - first), c), np.float32(-1)), np.float32(-96))
        w = fn.exp2(fn.mul(e, np.float32(-1)))
        o, total = fn.add(fn.mul(x, w), o), fn.add(fn.mul(sums, w), total)
    share = fn.mul(fn.recip(total), _inverse(16319 if wide else 255))
    return fn.add(fn.mul(o, share), mu)


_RULES: dict[type[Operation], Callable[[Any, Context], list[Array]]] = {
    QConvOp: _conv,
    QLinearOp: _linear,
    QGroupNormOp: _group_norm,
    QQuantiseOp: _quantise,
    QSiluOp: _silu,
    QCentreOp: _centre,
    QAttentionOp: _attention,
}
