"""One attention as the device computes it, bit for bit, and in float64.

Operands become int8 with the scales of `passes/quantise_attention.py` and the conversions of `ir/numerics.py`; the rest
is the compiled words of `dpu.q.attention` on the simulator: scores, block maxima, exp2 tables, probabilities of 8 or 15
bits, the products with V, blocks of keys one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...codegen.emit import emit
from ...ir import numerics as nm
from ...ir.arch import Arch
from ...ir.dialects import parse_module
from ...ir.numerics import ABSMAX_FLOOR, F32, I8
from ...passes.lower.attention import fitting_key_block
from ...passes.quantise_function import scale_of
from ...runtime.session import Session
from ...runtime.sim_device import SimDevice
from .operands import F64, Operands

PARTIAL = 1024  # rows of a partial sum of V
LEAST_PEAK = np.float32(1e-6)  # of a channel, in smoothing
STEPS = {8: 255, 15: 16319}
"""The largest quantised probability: that of a block's maximum."""


@dataclass(frozen=True)
class Quantised:
    """int8 operands with their scales: q [samples, queries, heads * channels], q_scale [samples, heads, queries], k and
    v [samples, keys, ...], k_scale [heads], mu [samples, 1, ...], v_scale [heads * channels]."""

    q: I8
    q_scale: F32
    k: I8
    k_scale: F32
    v: I8
    mu: F32
    v_scale: F32


def quantised(x: Operands) -> Quantised:
    """Smoothed queries for each token and head, keys for each head, values for each channel about their mean.

    The static scales are those of a calibration on the same operands.
    """
    q_peak = np.abs(x.q).max((0, 1)) if x.q_peak is None else x.q_peak
    k_peak = np.abs(x.k).max((0, 1))
    ratio = np.maximum(q_peak, LEAST_PEAK) / np.maximum(k_peak, LEAST_PEAK)
    smooth = np.clip(np.sqrt(ratio), 1 / 16, 16).astype(np.float32)
    q, q_scale = _queries(nm.f16_to_f32(nm.f32_to_f16(nm.fmul(x.q, np.float32(1) / smooth))[0]), x.heads)
    k_scale = scale_of((k_peak * smooth).reshape(x.heads, -1).max(axis=1))
    each = np.repeat(k_scale, x.channels)
    k = nm.f32_to_i8(nm.fmul(nm.fmul(x.k, smooth), np.float32(1) / each))[0]
    mu = np.stack([_mean(sample) for sample in x.v])
    centred = nm.fadd(x.v, nm.fmul(mu, _one(-1)))
    v_scale = scale_of(np.abs(centred).max((0, 1)))
    return Quantised(q, q_scale, k, k_scale, nm.f32_to_i8(nm.fmul(centred, np.float32(1) / v_scale))[0], mu, v_scale)


def _queries(q: F32, heads: int) -> tuple[I8, F32]:
    b, t, n = q.shape
    rows = q.reshape(b * t * heads, n // heads)
    amax = nm.row_absmax(rows, floor=ABSMAX_FLOOR)
    scale = nm.fmul(amax, _one(1 / 127)).reshape(b, t, heads)
    whole = nm.f32_to_i8(nm.fmul(rows, nm.fmul(_one(127), nm.recip(amax))[:, None]))[0]
    return whole.reshape(b, t, n), np.ascontiguousarray(scale.transpose(0, 2, 1))


def _mean(v: F32) -> F32:
    """[keys, n] -> [1, n]: partial sums of at most 1,024 rows, added as the device adds them."""
    parts = np.stack([nm.col_sum(v[at : at + PARTIAL]) for at in range(0, len(v), PARTIAL)])
    return nm.fmul(nm.col_sum(parts), _one(1 / len(v)))[None]


def _one(x: float) -> F32:
    """Rounded once, as the compiler rounds a constant."""
    return np.asarray(x, np.float32)


def on_device(x: Quantised, scale: float, bits: int, arch: Arch) -> F32:
    """The device's result [samples, queries, heads * channels], float16 values. The block of keys is the arch's.

    Raises:
        DpuError: the heads do not fit the arch.
    """
    block = key_block(x, arch)
    module = parse_module(_text(x, scale, bits, block))
    program = emit(module, arch, lambda source, transform: x.v_scale, {}).program
    inputs: dict[str, npt.ArrayLike] = {"q": x.q, "q_scale": x.q_scale, "k": x.k, "v": x.v, "mu": x.mu}
    with Session(program, SimDevice(arch, timed=False)) as session:
        return session.run("attention", inputs)["y"]


def key_block(x: Quantised, arch: Arch) -> int:
    """Keys that share a maximum."""
    return fitting_key_block(x.k.shape[2] // len(x.k_scale), x.k.shape[1], arch)


def _text(x: Quantised, scale: float, bits: int, block: int) -> str:
    (b, t, c), n, heads = x.q.shape, x.k.shape[1], len(x.k_scale)
    types = {
        "q": f"tensor<{b}x{t}x{c}xi8>",
        "q_scale": f"tensor<{b}x{heads}x{t}xf32>",
        "k": f"tensor<{b}x{n}x{c}xi8>",
        "v": f"tensor<{b}x{n}x{c}xi8>",
        "mu": f"tensor<{b}x1x{c}xf32>",
    }
    arguments = ", ".join(f'%{name}: {t} {{dpu.name = "{name}"}}' for name, t in types.items())
    v_scale, y = f"tensor<{c}xf32>", f"tensor<{b}x{t}x{c}xf16>"
    k_scale = ", ".join(repr(float(s)) for s in x.k_scale)
    return f"""func.func @attention({arguments}) -> ({y} {{dpu.name = "y"}}) {{
  %v_scale = dpu.param "v_scale" : {v_scale}
  %y = dpu.q.attention %q scale %q_scale, %k, %v mu %mu scale %v_scale heads {heads} by {scale!r} key_block {block} \
prob_bits {bits} {{k_scale = array<f32: {k_scale}>}} : {types["q"]}, {types["q_scale"]}, {types["k"]}, {types["v"]}, \
{types["mu"]}, {v_scale} -> {y}
  func.return %y : {y}
}}"""


# -- float64 -----------------------------------------------------------------------------------------------------------


def split(x: npt.NDArray[np.generic], heads: int) -> F64:
    """[samples, tokens, heads * channels] -> [samples, heads, tokens, channels] in float64."""
    b, t, n = x.shape
    return x.reshape(b, t, heads, n // heads).transpose(0, 2, 1, 3).astype(np.float64)


def joined(x: F64) -> F64:
    """The inverse of `split`."""
    b, heads, t, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(b, t, heads * d)


@dataclass(frozen=True)
class Exact:
    """Attention in float64: scores and values by head; `y` is the result, `mean` that of the values [samples, 1, n]."""

    scores: F64  # natural logarithms [samples, heads, queries, keys]
    values: F64  # [samples, heads, keys, channels]

    @property
    def weights(self) -> F64:
        """softmax(scores)."""
        p = np.exp(self.scores - self.scores.max(-1, keepdims=True))
        return np.asarray(p / p.sum(-1, keepdims=True))

    @property
    def y(self) -> F64:
        return joined(self.weights @ self.values)

    @property
    def mean(self) -> F64:
        return joined(self.values.mean(2, keepdims=True))


def of_floats(x: Operands) -> Exact:
    """Of the operands as they are."""
    q, k, v = (split(a, x.heads) for a in (x.q, x.k, x.v))
    return Exact(q @ k.swapaxes(2, 3) * x.scale, v)


def of_integers(x: Quantised, scale: float) -> Exact:
    """Of the int8 operands, which is what exact probabilities would give."""
    heads = len(x.k_scale)
    q, k = split(x.q, heads) * x.q_scale[..., None], split(x.k, heads) * x.k_scale[None, :, None, None]
    v = split(x.v * x.v_scale.astype(np.float64) + x.mu, heads)
    return Exact(q @ k.swapaxes(2, 3) * scale, v)
