"""Confidence intervals by the bootstrap, with prompts as the unit that is drawn again.

BCa (bias-corrected and accelerated): Efron, "Better bootstrap confidence intervals", 1987. A statistic is a function of
weights: how often each prompt was drawn. So one routine serves means, accuracies (means of 0 and 1) and the kernel
distance. Draws depend on the seed and the number of prompts only.

Too few prompts give no interval: the draws of a handful say little about the prompts that were not asked. An
accuracy of exactly 0 or 1 has an interval of no width, which is the bootstrap's weakness and no certainty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

LEVEL = 0.95
DRAWS = 2000
LEAST = 5
"""Fewer prompts than this give no interval."""

Array = npt.NDArray[np.float64]
Statistic = Callable[[Array], Array]
"""Weights, draws x prompts -> the statistic of each draw; NaN where a draw has none."""


@dataclass(frozen=True)
class Estimate:
    """A value and its interval; `low` and `high` are none where there is no interval."""

    value: float
    low: float | None = None
    high: float | None = None


def mean(values: Sequence[float], seed: int = 0, level: float = LEVEL, draws: int = DRAWS) -> Estimate:
    """The mean over prompts, or an accuracy where values are 0 and 1. No interval where a value is not finite."""
    v = np.asarray(values, np.float64)
    if not np.isfinite(v).all():
        return Estimate(float(np.mean(v)))
    return estimate(lambda w: w @ v / w.sum(1), len(v), seed, level, draws)


def estimate(statistic: Statistic, prompts: int, seed: int = 0, level: float = LEVEL, draws: int = DRAWS) -> Estimate:
    """A statistic over `prompts` with its BCa interval, of the draws that have a value.

    No interval where the statistic has none without some one prompt: then it hangs on that prompt.
    """
    value = float(statistic(np.ones((1, prompts)))[0])
    if prompts < LEAST or not np.isfinite(value):
        return Estimate(value)
    without = statistic(1 - np.eye(prompts))
    if not np.isfinite(without).all():
        return Estimate(value)
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(prompts, np.full(prompts, 1 / prompts), size=draws).astype(np.float64)
    found = statistic(weights)
    return Estimate(value, *_bca(value, found[np.isfinite(found)], without, level))


def _bca(value: float, drawn: Array, without: Array, level: float) -> tuple[float, float]:
    """Ends of the interval from the draws and from the statistic without each prompt (jackknife)."""
    normal = NormalDist()
    below = float(np.count_nonzero(drawn < value) + np.count_nonzero(drawn <= value)) / (2 * len(drawn))
    if not 0 < below < 1:  # the value lies outside all draws: no correction exists
        below = 0.5
    bias = normal.inv_cdf(below)
    slope = without.mean() - without
    spread = float(np.sum(slope**2)) ** 1.5
    acceleration = float(np.sum(slope**3)) / (6 * spread) if spread else 0.0
    ends = []
    for tail in ((1 - level) / 2, (1 + level) / 2):
        z = bias + normal.inv_cdf(tail)
        ends.append(normal.cdf(bias + z / (1 - acceleration * z)))
    low, high = np.quantile(drawn, ends)
    return float(low), float(high)
