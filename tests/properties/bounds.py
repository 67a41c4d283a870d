"""How far a quantised operation may be from its float value: interval arithmetic with the bound of each quantiser.

An `Approx` is a float64 reference `y` and `e`, such that what the DPU holds is within `e` of `y`, element by element.
Each function is one step of docs/numerics.md and derives its own error; nothing is tuned. Notation: u = 2^-24, the
relative error of one float32 operation. Where a derivation gives a small multiple of u (say 3 u), the next power of
two is used, which also covers second-order terms.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F

F64 = npt.NDArray[np.float64]
U = 2.0**-24

SLOPE = {"silu": 1.1, "gelu": 1.13, "quick_gelu": 1.1}
"""Largest slope: silu' <= 1.09984 (at 2.40), gelu' <= 1.12890 (at sqrt 2); quick_gelu'(x) = silu'(1.702 x)."""
TABLE = {"silu": 3.82e-6, "gelu": 7.6e-7, "quick_gelu": 1.2e-6}
"""Largest error of x * T(x) from its table, docs/numerics.md section 4."""


@dataclass(frozen=True)
class Approx:
    """A value known to `e`."""

    y: F64
    e: F64

    @property
    def top(self) -> F64:
        """The largest possible magnitude."""
        return np.abs(self.y) + self.e

    def map(self, f: object) -> Approx:
        """The same rearrangement of value and error."""
        return Approx(f(self.y), f(self.e))  # type: ignore[operator]


def exact(x: npt.ArrayLike) -> Approx:
    """A value that the DPU holds exactly."""
    y = np.asarray(x, np.float64)
    return Approx(y, np.zeros_like(y))


def concat(a: Approx, b: Approx) -> Approx:
    return Approx(np.concatenate([a.y, b.y], -1), np.concatenate([a.e, b.e], -1))


def f32(x: Approx, operations: int = 1) -> Approx:
    """After some float32 operations on values of this size: u each, relative."""
    return Approx(x.y, x.e + operations * U * x.top)


def f16(x: Approx) -> Approx:
    """Rounded to float16: half an ulp is 2^-11 relative, 2^-25 for subnormals."""
    return Approx(x.y, x.e + 2.0**-11 * x.top + 2.0**-25)


def add(a: Approx, b: Approx) -> Approx:
    """One float32 addition."""
    y = a.y + b.y
    return f32(Approx(y, a.e + b.e + np.zeros_like(y)))


def mul(a: Approx, b: Approx) -> Approx:
    """One float32 product: |ab - a'b'| <= |a| eb + |b| ea + ea eb."""
    return f32(Approx(a.y * b.y, np.abs(a.y) * b.e + np.abs(b.y) * a.e + a.e * b.e))


def dynamic_int8(x: Approx, axis: int = -1) -> Approx:
    """`q = rint(x * 127 recip(amax))`, read back as `q * amax / 127`, amax over `axis`.

    Half a step, amax / 254, from rint. recip is off by 0.868 * 2 u, its product and the one with x by u each: x * inv
    by 3.8 u relative, so by 3.8 u * 127 steps. The scale, amax * f32(1/127), is off by 2 u. Together less than
    8 u amax = 2^-21 amax. amax is that of the values the DPU holds, at most max(|y| + e), at least the floor 2^-24.
    """
    amax = np.maximum(x.top.max(axis, keepdims=True), 2.0**-24)
    return Approx(x.y, x.e + amax / 254 + 2.0**-21 * amax)


def static_int8(x: Approx, amax: F64 | float) -> Approx:
    """`q = rint(x * f32(1 / s))`, s = amax / 127 with the calibrated maximum of |y|.

    Half a step, and 4 roundings of at most 127 steps: less than 8 u amax. A value pushed beyond amax by its error
    saturates, which moves it towards y. amax itself comes from a float32 evaluation of y: 2^-20 in all.
    """
    amax = np.asarray(amax, np.float64)
    return Approx(x.y, x.e + amax / 254 + 2.0**-20 * amax)


def weight_int8(w: npt.ArrayLike, axes: tuple[int, ...] = (0,)) -> Approx:
    """`q = rint(w / sw)`, sw = max |w| / 127 over `axes`: half a step, and 3 roundings of at most 127 steps.

    A zero and the maximum itself lie on the grid: no half step for them.
    """
    w = np.asarray(w, np.float64)
    amax = np.abs(w).max(axes, keepdims=True)
    on_grid = (w == 0) | (np.abs(w) == amax)
    return Approx(w, np.where(on_grid, 0, amax / 254) + np.where(w == 0, 0, 2.0**-22 * amax))


def product(x: Approx, w: Approx) -> Approx:
    """`cvt(acc) * s * cs`: the int32 sum is exact, so

        |sum xw - sum x'w'| <= sum |x| ew + ex |w| + ex ew

    and conversion and two scales are 3 float32 operations on a value of at most sum (|x| + ex) (|w| + ew).
    """
    ax, aw = np.abs(x.y), np.abs(w.y)
    e = ax @ w.e + x.e @ aw + x.e @ w.e
    return Approx(x.y @ w.y, e + 4 * U * (x.top @ w.top))


def act(x: Approx, name: str) -> Approx:
    """`x * T(x)`: the error grows by the slope; the table's error, or |x| 2^-23 beyond its range; two roundings."""
    t = torch.from_numpy(x.y)
    y = {"silu": F.silu, "gelu": F.gelu, "quick_gelu": lambda x: x * (1.702 * x).sigmoid()}[name](t).numpy()
    return f32(Approx(y, SLOPE[name] * x.e + TABLE[name] + 2.0**-23 * x.top), 2)


def linear(
    x: Approx, w: npt.ArrayLike, bias: npt.ArrayLike | None = None, activation: str = "", residual: Approx | None = None
) -> Approx:
    """Dynamic int8 for each token, int8 weights for each column; float32, not rounded to float16 yet."""
    y = product(dynamic_int8(x), weight_int8(w))
    if bias is not None:
        y = add(y, exact(bias))
    if activation:
        y = act(y, activation)
    return y if residual is None else add(y, residual)


def geglu(x: Approx, w: npt.ArrayLike, bias: npt.ArrayLike) -> Approx:
    """`value * gelu(gate)`, both halves from one quantised x."""
    y = linear(x, w, bias)
    n = y.y.shape[-1] // 2
    value, gate = Approx(y.y[..., :n], y.e[..., :n]), Approx(y.y[..., n:], y.e[..., n:])
    return mul(value, act(gate, "gelu"))


@dataclass(frozen=True)
class Window:
    """How a convolution walks its image."""

    size: tuple[int, int]
    stride: int = 1
    pad: tuple[int, int, int, int] = (1, 1, 1, 1)
    upsample: bool = False

    def conv(self, x: F64, w: F64) -> F64:
        """Tokens x channels -> tokens x channels, in float64; cells outside are zeros."""
        t = torch.from_numpy(np.ascontiguousarray(x)).reshape(x.shape[0], *self.size, -1).permute(0, 3, 1, 2)
        if self.upsample:
            t = F.interpolate(t, scale_factor=2, mode="nearest")
        top, left, bottom, right = self.pad
        y = F.conv2d(F.pad(t, (left, right, top, bottom)), torch.from_numpy(w), stride=self.stride)
        return y.permute(0, 2, 3, 1).reshape(x.shape[0], -1, w.shape[0]).numpy()


def conv(x: Approx, w: Approx, window: Window) -> Approx:
    """As `product`, on windows. x holds its quantiser's error already; cells outside the image are exact zeros."""
    ax, aw = np.abs(x.y), np.abs(w.y)
    e = window.conv(ax, w.e) + window.conv(x.e, aw) + window.conv(x.e, w.e)
    return Approx(window.conv(x.y, w.y), e + 4 * U * window.conv(x.top, w.top))


def conv_weight(w: npt.ArrayLike, ratio: npt.ArrayLike = 1.0) -> Approx:
    """Weight N x C x kh x kw, int8 for each of the N outputs.

    With two sources the second one's weights are stored times the ratio of the sources' scales (`ratio`, an array over
    C), so their step in units of w is the common step divided by the ratio.
    """
    r = np.broadcast_to(np.asarray(ratio, np.float64), (np.shape(w)[1],))[None, :, None, None]
    scaled = weight_int8(np.asarray(w, np.float64) * r, (1, 2, 3))
    return Approx(np.asarray(w, np.float64), scaled.e / r)


def upsample_weight(w: npt.ArrayLike) -> Approx:
    """Nearest upsampling: each phase sums the taps that fall on one input pixel, then quantises the 2 x 2 sums.

    Stated on the 3 x 3 taps of the enlarged image: a sum of n taps is off by half a step of its phase, so each of them
    by at most that, once. The largest of the four phases' steps stands for all: its maximum over sums of up to 2 x 2
    taps. One tap of each sum carries the error; giving it to all 9 is what makes this a bound for every phase.
    """
    w = np.asarray(w, np.float64)
    rows = np.stack([w[:, :, [0]].sum(2), w[:, :, [1, 2]].sum(2), w[:, :, [0, 1]].sum(2), w[:, :, [2]].sum(2)], 2)
    both = np.stack([rows[..., c].sum(3) for c in ([0], [1, 2], [0, 1], [2])], 3)
    step = np.abs(both).max((1, 2, 3), keepdims=True)
    return Approx(w, np.zeros_like(w) + step / 254 + 2.0**-22 * step)


def _moments(mean: F64, var: F64, eps: float, depth: int) -> tuple[F64, F64]:
    """(r = 1 / sqrt(var + eps), its relative error) when sums of x and x^2 pass through at most `depth` additions.

    S and Q are off by (depth + 1) u of their sums of magnitudes. var = Q/n - m^2 is off by (depth + 4) u Q/n for Q, its
    scale and the subtraction, plus 2 (depth + 4) u m^2 for the square of m, and m^2 <= Q/n: d = 3 (depth + 4) u Q/n,
    clamped at 0. r lies between the values at var + d and var - d; rsqrt adds 1.211 * 2 u, the sum with eps u.
    """
    d = 3 * (depth + 4) * U * (mean**2 + var)
    r = 1 / np.sqrt(var + eps)
    low, high = 1 / np.sqrt(var + d + eps), 1 / np.sqrt(np.maximum(var - d, 0) + eps)
    return r, np.maximum(high - r, r - low) / r + 4 * U


def _normalise(x: F64, mean: F64, r: F64, dr: F64, depth: int, gamma: F64, beta: F64) -> Approx:
    """`(x * r + nb) * gamma + beta`: r's relative error scales x - m; m is off by (depth + 2) u mean |x|; each product
    is rounded at the size of |x| r and |m| r, up to 4 times."""
    y = (x - mean) * r
    size = (np.abs(x) + np.abs(mean)) * r * (1 + dr)
    e = np.abs(y) * dr + np.broadcast_to(r, y.shape) * (depth + 2) * U * np.sqrt(mean**2 + 1 / r**2) + 4 * U * size
    g = np.abs(gamma)
    return f32(Approx(y * gamma + beta, e * g + 4 * U * size * g), 2)


def layer_norm(x: F64, gamma: npt.ArrayLike, beta: npt.ArrayLike, eps: float, cols: int) -> Approx:
    """Of an exact x, rounded to float16. A row sum is a tree over `cols` columns, then one addition a column tile."""
    depth = int(np.log2(cols)) + -(-x.shape[-1] // cols)
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    r, dr = _moments(mean, var, eps, depth)
    return f16(_normalise(x, mean, r, dr, depth, np.asarray(gamma, np.float64), np.asarray(beta, np.float64)))


def group_norm(
    x: F64, gamma: npt.ArrayLike, beta: npt.ArrayLike, groups: int, eps: float, cols: int, silu: bool = False
) -> Approx:
    """Of an exact x, in float32.

    A partial's column sum is 8 accumulators of n / 8 rows and a tree of 3; partials are combined likewise, in chunks
    that follow each other; then a row sum over the channels of a group. Rows and partials are at most tokens, so the
    depth is at most tokens / 8 + 3 twice, and log2(cols) + channels / cols + 2.
    """
    b, t, c = x.shape
    depth = 2 * (-(-t // 8) + 4) + int(np.log2(cols)) + -(-c // groups // cols) + 2
    grouped = x.reshape(b, t, groups, c // groups)
    mean, var = grouped.mean((1, 3), keepdims=True), grouped.var((1, 3), keepdims=True)
    r, dr = _moments(mean, var, eps, depth)
    shape = (1, 1, groups, c // groups)
    y = _normalise(grouped, mean, r, dr, depth, np.reshape(gamma, shape), np.reshape(beta, shape))
    y = y.map(lambda a: a.reshape(b, t, c))
    return act(y, "silu") if silu else y


def attention(
    q: Approx,
    k: Approx,
    v: Approx,
    heads: int,
    scale: float,
    key_block: int,
    prob_bits: int,
    causal: bool = False,
) -> Approx:
    """Attention of queries, keys and values that carry their quantisers' errors; rounded to float16.

    Scores. |dS_ij| <= scale * sum_d (|q| ek + |k| eq + eq ek) = a_ij, plus float32: the factor is off by 4 u and exp2's
    argument is as large as the spread of scores, so 8 u * spread, and 2 u for exp2 itself. (With a causal mask, scores
    are scaled before the maximum is taken off, so twice the largest score takes the place of the spread, and later
    keys' probabilities are exactly 0.) With A_i = max_j a_ij, every probability is within a factor exp(+-2A) of its
    own, and since probabilities sum to 1,

        |sum p' v - sum p v| = |sum (p' - p) (v - y)| <= (exp(2A) - 1) sum_j p_j |v_j - y|.

    Probabilities. Block b is quantised relative to its own maximum m_b, to half of 1/255 (or 1/16319), over a divisor
    L = sum exp(S - max) that is not quantised. With w_b = exp(m_b - max), over the keys that row i sees:

        sum_b w_b / L * sum_{j in b} |v_j - mu| / 510,  times exp(2A) for the scores' error.

    Values. v - mu is off by ev (half a step of sv and v's own error), and its weights sum to at most
    1 + sum_b w_b n_b / (510 L). mu is a float32 mean: n / 8 + 12 additions and the error of v.
    """
    unit = 510.0 if prob_bits == 8 else 2 * 16319.0
    out = np.zeros_like(q.y), np.zeros_like(q.y)
    d = q.y.shape[2] // heads
    tokens, keys = q.y.shape[1], k.y.shape[1]
    seen = np.tri(tokens, keys, dtype=bool) if causal else np.ones((tokens, keys), bool)
    for b in range(q.y.shape[0]):
        for h in range(heads):
            c = slice(h * d, (h + 1) * d)
            qy, qe, ky, ke = q.y[b, :, c], q.e[b, :, c], k.y[b, :, c], k.e[b, :, c]
            s = scale * qy @ ky.T
            a = scale * (np.abs(qy) @ ke.T + qe @ np.abs(ky).T + qe @ ke.T)
            spread = 2 * np.abs(s).max(1, keepdims=True) if causal else np.ptp(s, axis=1, keepdims=True)
            s = np.where(seen, s, -np.inf)
            peak = s.max(1, keepdims=True)
            grow = np.exp(2 * (np.where(seen, a, 0).max(1, keepdims=True) + 8 * U * spread + 4 * U))
            p = np.exp(s - peak)
            total = p.sum(1, keepdims=True)
            vy, mu = v.y[b, :, c], v.y[b, :, c].mean(0)
            y = p @ vy / total
            centred = np.abs(vy - mu)
            e = (grow - 1) * np.einsum("ij,ijd->id", p / total, np.abs(vy[None] - y[:, None]))
            mass = np.ones_like(peak)
            for lo in range(0, keys, key_block):
                block = slice(lo, lo + key_block)
                weight = grow * np.exp(s[:, block].max(1, keepdims=True) - peak) / total / unit
                e += weight * (seen[:, block] @ centred[block])
                mass += weight * seen[:, block].sum(1, keepdims=True)
            ve = v.e[b, :, c]
            e += grow * mass * ve.max(0)
            e += (keys / 8 + 12) * U * np.abs(vy).max(0) + ve.mean(0)
            # Sums over keys, recip, scales: at most (key_block + 16) operations on values of the size of v - mu.
            e += (min(keys, key_block) / 8 + keys / key_block + 16) * U * grow * mass * centred.max(0)
            out[0][b, :, c], out[1][b, :, c] = y, e
    return f16(Approx(out[0], out[1]))


def centred_int8(v: Approx) -> Approx:
    """Attention's values: static int8 for each channel of what is left after the mean over the tokens is taken off.

    The scale is calibrated over all samples. A value's error also moves its mean, by at most the mean error.
    """
    centred = Approx(v.y - v.y.mean(1, keepdims=True), v.e + v.e.mean(1, keepdims=True))
    step = static_int8(centred, np.abs(centred.y).max((0, 1)))
    return Approx(v.y, step.e)
