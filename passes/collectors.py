"""Collectors: which magnitude of a static scale's operand counts as its largest.

Static are the scales of a convolution's input and, where a policy says so, of a linear's. Larger values saturate, which
`docs/numerics.md` defines: `absmax` lets none, `percentile` 0.01 % of those that calibration saw, `mean` those above
the mean of the maxima of all prompts and steps. Scales of attention's keys and values, float16 exponents and a
model's own scales always cover the maximum.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, cast

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from .calibration import F32, Calibration

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]

BINS = 1024
"""Bins of a histogram of magnitudes: 64 octaves from 2^-24; the first bin also takes what is smaller.

A float32's bin is its exponent and the first four bits of its mantissa: no logarithm, so no rounding.
"""
PER_OCTAVE = 16
LEAST_OCTAVE = -24
PERCENTILE = 99.99
"""What `percentile` alone means."""


@dataclass(frozen=True)
class Collector:
    """A named rule; `percent` is that of a percentile."""

    kind: Literal["absmax", "percentile", "mean"] = "absmax"
    percent: float = PERCENTILE

    @property
    def text(self) -> str:
        """As options and suffixes write it: `percentile`, `percentile99.9`."""
        return f"{self.kind}{self.percent:g}" if self.kind == "percentile" and self.percent != PERCENTILE else self.kind


ABSMAX = Collector()
_PERCENTILE = re.compile(r"percentile(\d+(?:\.\d+)?)")


def parse_collector(text: str, where: str = "") -> Collector:
    """`absmax`, `mean`, `percentile` (99.99 %) or one of another share, such as `percentile99.9`.

    Raises:
        DpuError: there is no such collector, or the share is not between 50 and 100.
    """
    if text in ("absmax", "percentile", "mean"):
        return Collector(cast(Literal["absmax", "percentile", "mean"], text))
    where = where or f"--collector {text}"
    if (found := _PERCENTILE.fullmatch(text)) is None:
        hint = "one of absmax, mean, percentile (which is percentile99.99)"
        raise DpuError(where, "no such collector", hint=hint, code="E501")
    percent = float(found[1])
    if not 50 < percent < 100:
        what = f"{percent:g} is not between 50 and 100"
        raise DpuError(where, what, hint="such as percentile99.9", code="E501")
    return Collector("percentile", percent)


def edges() -> F64:
    """Lower edges of the bins and, last, the end of all; the first is 0."""
    octave, part = np.divmod(np.arange(BINS + 1), PER_OCTAVE)
    found = np.ldexp(1 + part / PER_OCTAVE, octave + LEAST_OCTAVE)
    found[0] = 0
    return np.asarray(found, np.float64)


def percentile_of(counts: I64, percent: float, largest: float) -> float:
    """The magnitude that `percent` of the counted values do not exceed, linear inside a bin; at most `largest`."""
    total, edge = int(counts.sum()), edges()
    if not total:
        return largest
    wanted = total * percent / 100
    below = np.cumsum(counts)
    at = min(int(np.searchsorted(below, wanted)), BINS - 1)
    inside = (wanted - (int(below[at]) - int(counts[at]))) / max(int(counts[at]), 1)
    return min(float(edge[at] + inside * (edge[at + 1] - edge[at])), largest)


def _erf(x: F64) -> F64:
    """Abramowitz and Stegun 7.1.26, x >= 0; error below 1.5e-7."""
    t = 1 / (1 + 0.3275911 * x)
    poly = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    return np.asarray(1 - poly * np.exp(-x * x), np.float64)


def normal_square_of_maximum(sigma: F64) -> float:
    """The mean square of a token's largest magnitude, its channels independent and normal with `sigma`."""
    end = 6 * float(sigma.max(initial=0))
    if end == 0:
        return 0.0
    t = (np.arange(64) + 0.5) * (end / 64)
    inside = _erf(t[:, None] / (np.maximum(sigma, 1e-30)[None] * math.sqrt(2)))
    below = np.exp(np.log(np.maximum(inside, 1e-300)).sum(axis=1))
    return float((2 * t * (1 - below)).sum() * (end / 64))


@dataclass
class Collected:
    """A calibration as seen by a collector, and after smoothing: what `derived.Statistics` asks for.

    `factors` divide the channels of an operand, by its key; `smooth` fills them in. The scale of such an operand has
    headroom, whatever the collector: smoothing brings the maxima of all channels near the scale, and a new prompt
    exceeds that of some channel nearly always. Each counts for as much more as it is above its mean over the runs.
    """

    base: Calibration
    collector: Collector = ABSMAX
    factors: dict[str, F32] = field(default_factory=dict)

    def __contains__(self, key: object) -> bool:
        return key in self.base

    def absmax(self, key: str) -> float:
        """The magnitude that a static scale covers; of a result (`...:y`) the largest."""
        factor, kind = self.factors.get(key), self.collector.kind
        if key.endswith(":y"):
            return self.base.absmax(key)
        if factor is not None:
            peaks = self.base.channel_absmax(key)
            means = self.base.record(key, "channel_mean", "--smooth")
            return float(((2 * peaks - means) / factor).max())
        largest = self.base.absmax(key)
        if kind == "percentile":
            counts = self.base.record(key, "counts", "--collector percentile")
            return percentile_of(counts.astype(np.int64), self.collector.percent, largest)
        if kind == "mean":
            return min(float(self.base.record(key, "mean_absmax", "--collector mean")), largest)
        return largest

    def channel_absmax(self, key: str) -> F32:
        """The largest magnitude of each channel."""
        return self._divided(key, self.base.channel_absmax(key))

    def centred_absmax(self, key: str) -> F32:
        """The largest magnitude of each channel less its mean over a sample's tokens."""
        return self._divided(key, self.base.centred_absmax(key))

    def channel_square(self, key: str) -> F64:
        """The mean square of each channel.

        Raises:
            DpuError: an earlier version made the file.
        """
        factor = self.factors.get(key)
        found = self.base.record(key, "channel_square", "--smooth").astype(np.float64)
        return found if factor is None else found / factor.astype(np.float64) ** 2

    def token_square(self, key: str) -> float:
        """The mean square of a token's largest magnitude, before smoothing.

        Raises:
            DpuError: an earlier version made the file.
        """
        return float(self.base.record(key, "token_square", "--smooth"))

    def gram(self, key: str) -> Callable[[], F32] | None:
        """Reads the sums of x^T x, where the calibration has them."""
        read, factor = self.base.gram(key), self.factors.get(key)
        if read is None or factor is None:
            return read
        return lambda: np.asarray(read() / factor[:, None] / factor[None, :], np.float32)

    def _divided(self, key: str, found: F32) -> F32:
        factor = self.factors.get(key)
        return found if factor is None else np.asarray(found / factor, np.float32)
