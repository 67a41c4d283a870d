"""Which alpha smooths best: the noise of linears' outputs as calibration lets it be predicted.

Two noises, each over the power of the reader's float output, are added. That of the weights: `tr(E^T M E)`, E the
error of the integers that compilation would choose (of int4 those without GPTQ), M the mean of x^T x, or its diagonal
where the calibration has no gram matrix. That of the input: `step^2 / 12` for each value times the sum of all squared
weights. The step is that of the static scale, or of a token's largest magnitude: its mean square is taken of
independent normal channels with the recorded mean squares, times what was recorded over that model before smoothing.

Of a wide weight every so many columns are taken, at most `COLUMNS`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .collectors import F64, Collected, normal_square_of_maximum
from .derived import F32
from .int4 import contiguous, quantise_int4
from .policy import Precision
from .quantise_function import LARGEST
from .weights import column_scales, quantise_columns

ALPHAS = tuple(round(0.1 * i, 1) for i in range(11))
COLUMNS = 256
"""Output columns of a weight that the prediction looks at."""
MARGIN = 0.99
"""Predicted noise must fall by 1 % to be worth a change: that is what a prediction can tell."""
WIDEST = 2.0**8
"""The largest factor and the inverse of the least: float16 values keep their bits."""


@dataclass(frozen=True)
class Reader:
    """A linear: the key of its input in the calibration, its weight [k, n], its precision."""

    key: str
    weight: F32
    bits: int
    precision: Precision


@dataclass(frozen=True)
class Best:
    """What was found: factors, none of which is other than 1 without an alpha, and predicted signal over noise."""

    alpha: float | None
    factor: F32
    before_db: float
    after_db: float


def best(statistics: Collected, readers: Sequence[Reader], alphas: Sequence[float] = ALPHAS) -> Best:
    """The alpha with the least predicted noise of all readers of one input.

    Raises:
        DpuError: the calibration lacks a statistic.
    """
    x = np.max([statistics.channel_absmax(r.key) for r in readers], axis=0).astype(np.float64)
    w = np.max([np.abs(r.weight).max(axis=1) for r in readers], axis=0).astype(np.float64)
    models = [_Model(statistics, r) for r in readers]
    none = np.ones(len(x), np.float32)
    before = sum(m.noise(None) for m in models)
    found: tuple[float, float | None, F32] = (before * MARGIN, None, none)
    for alpha in alphas:
        factor = factors(x, w, alpha)
        noise = sum(m.noise(factor) for m in models)
        if noise < found[0]:
            found = (noise, alpha, factor)
    after = found[0] if found[1] is not None else before
    return Best(found[1], found[2], *(-10 * float(np.log10(max(n, 1e-30))) for n in (before, after)))


def factors(x: F64, w: F64, alpha: float) -> F32:
    """`max |x|^alpha / max |w|^(1 - alpha)` of each channel, all times what leaves the largest of x as it is.

    Channels that were never seen, and weights of zero, keep 1.
    """
    live = (x > 0) & (w > 0)
    raw = np.ones(len(x))
    raw[live] = x[live] ** alpha / w[live] ** (1 - alpha)
    if live.any():
        raw[live] *= (x[live] / raw[live]).max() / x[live].max()
    return np.clip(raw, 1 / WIDEST, WIDEST).astype(np.float32)


class _Model:
    """The predicted noise over signal of one reader, by factors."""

    def __init__(self, statistics: Collected, reader: Reader) -> None:
        self._statistics, self._reader = statistics, reader
        self._w = reader.weight[:, :: -(-reader.weight.shape[1] // COLUMNS)].astype(np.float32)
        self._square = statistics.channel_square(reader.key)
        read = statistics.gram(reader.key)
        self._moment: F64 | None = None
        if read is not None:
            gram = read().astype(np.float64)
            self._moment = gram * (self._square.sum() / max(float(np.trace(gram)), 1e-300))
        self._signal = max(self._power(self._w.astype(np.float64), None), 1e-300)
        p = reader.precision
        self._levels = LARGEST[p.activation_bits]
        self._static = p.scale == "static"
        self._ratio = 1.0
        if not self._static:
            model = normal_square_of_maximum(np.sqrt(self._square))
            self._ratio = statistics.token_square(reader.key) / model if model > 0 else 1.0

    def _power(self, e: F64, factor: F64 | None) -> float:
        """Mean power of `x e`, summed over columns."""
        if self._moment is None:
            square = self._square if factor is None else self._square / factor**2
            return float((square[:, None] * e**2).sum())
        e = e if factor is None else e / factor[:, None]
        return float(((self._moment @ e) * e).sum())

    def noise(self, smoothing: F32 | None) -> float:
        """Predicted noise over signal with x / factor and w * factor, or as they are."""
        factor = np.ones(len(self._w), np.float32) if smoothing is None else smoothing
        w, wide = self._w * factor[:, None], factor.astype(np.float64)
        if self._reader.bits == 4:
            packed = quantise_int4(np.ascontiguousarray(w.T), contiguous([len(w)]))
            kept = (packed.integers() * packed.scale[:, None].astype(np.float64)).T
        else:
            scale = column_scales(w)
            kept = quantise_columns(w, scale) * scale.astype(np.float64)
        error = self._power(kept - w, wide)
        if self._static:
            square = self._largest(smoothing) ** 2
        else:
            square = self._ratio * normal_square_of_maximum(np.sqrt(self._square) / wide)
        error += square / self._levels**2 / 12 * float((w.astype(np.float64) ** 2).sum())
        return error / self._signal

    def _largest(self, factor: F32 | None) -> float:
        """The magnitude that the static scale would cover."""
        s, key = self._statistics, self._reader.key
        factors = s.factors if factor is None else {**s.factors, key: factor}
        return Collected(s.base, s.collector, factors).absmax(key)
