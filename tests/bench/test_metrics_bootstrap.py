"""Intervals: the exact bootstrap of a small sample, coverage on simulated data, skew, ends of the scale."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from math import comb, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from dpu.bench.metrics.bootstrap import LEAST, Estimate, estimate, mean

Statistic = Callable[[np.ndarray], np.ndarray]


def bca_of_all_draws(statistic: Statistic, n: int, level: float) -> tuple[float, float]:
    """BCa from every one of the n^n draws, written a second time after Efron and Tibshirani (1993), section 14.3."""
    value = float(statistic(np.ones((1, n)))[0])
    drawn = statistic(np.array([np.bincount(i, minlength=n) for i in product(range(n), repeat=n)], float))
    normal = NormalDist()
    z0 = normal.inv_cdf(float(np.mean((drawn < value) + 0.5 * (drawn == value))))
    jack = np.array([float(statistic(np.delete(np.eye(n), i, 0).sum(0)[None])[0]) for i in range(n)])
    d = jack.mean() - jack
    a = float((d**3).sum() / (6 * (d**2).sum() ** 1.5))
    z = [z0 + normal.inv_cdf(alpha) for alpha in ((1 - level) / 2, (1 + level) / 2)]
    low, high = (float(np.quantile(drawn, normal.cdf(z0 + x / (1 - a * x)))) for x in z)
    return low, high


def mean_of(values: list[float]) -> Statistic:
    return lambda w: w @ np.array(values) / w.sum(1)


def variance_of(values: list[float]) -> Statistic:
    """With n below, so that draws are smaller than the sample's on the average: a bias to correct."""
    v = np.array(values)
    return lambda w: w @ v**2 / w.sum(1) - (w @ v / w.sum(1)) ** 2


@pytest.mark.parametrize("statistic", [mean_of, variance_of])
@pytest.mark.parametrize("values", [[0.0, 1, 3, 7, 20, 4], [1.0, 2, 3, 4, 5.5, 7.1]])
def test_many_draws_approach_all_draws(statistic: Callable[[list[float]], Statistic], values: list[float]) -> None:
    """A quantile of 30,000 draws is off by sqrt(q (1 - q) / 30,000) = 0.0009 in probability at 2.5 %: ends must lie
    between those of intervals whose tails are four times that smaller and larger, and cover lumps of equal draws."""
    low, high = bca_of_all_draws(statistic(values), 6, 0.95)
    wide, narrow = (bca_of_all_draws(statistic(values), 6, level) for level in (0.957, 0.943))
    found = estimate(statistic(values), 6, seed=1, draws=30_000)
    assert found.value == pytest.approx(float(statistic(values)(np.ones((1, 6)))[0]))
    assert found.low is not None and found.high is not None
    assert wide[0] <= found.low <= narrow[0] and narrow[1] <= found.high <= wide[1]
    assert wide[0] <= low <= narrow[0] and narrow[1] <= high <= wide[1]


def test_a_normal_sample_has_the_normal_interval() -> None:
    """Quantiles of a normal law as the sample: no skew, so mean +- 1.96 s / sqrt(n), s with n in the denominator; the
    ends are quantiles of 20,000 draws, good to a few hundredths of s / sqrt(n)."""
    n = 200
    v = [NormalDist(5, 2).inv_cdf((i + 0.5) / n) for i in range(n)]
    found = mean(v, draws=20_000)
    error = float(np.std(v)) / sqrt(n)
    assert found.low == pytest.approx(5 - 1.96 * error, abs=0.06 * error)
    assert found.high == pytest.approx(5 + 1.96 * error, abs=0.06 * error)


def chance_below(bound: int, n: int, p: float) -> float:
    """That fewer than `bound` of n succeed."""
    return sum(comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(bound))


def test_coverage_of_means_and_accuracies() -> None:
    """Of 300 data sets of 60, about 95 % of the intervals must hold the truth; the bootstrap is known to be narrow by
    sqrt(59 / 60) and to lose a little to skew, so 93 % is let pass. Bounds that such intervals cross once in 1,000."""
    assert chance_below(264, 300, 0.93) < 1e-3 and 1 - chance_below(297, 300, 0.95) < 1e-3
    rng = np.random.default_rng(7)
    for draw, truth in ((lambda: rng.exponential(2, 60), 2.0), (lambda: (rng.random(60) < 0.8) * 1.0, 0.8)):
        inside = 0
        for seed in range(300):
            e = mean(draw(), seed=seed, draws=600)
            assert e.low is not None and e.high is not None
            inside += e.low <= truth <= e.high
        assert 264 <= inside < 297


def test_skewed_data_lean_the_interval() -> None:
    e = mean(np.random.default_rng(0).exponential(1, 40).tolist())
    assert e.low is not None and e.high is not None
    assert e.high - e.value > 1.1 * (e.value - e.low)


def test_seeds_and_levels() -> None:
    v = [0.2, 0.9, 0.4, 0.4, 0.7, 1.3]
    assert mean(v, seed=4) == mean(v, seed=4) != mean(v, seed=5)
    wide, narrow = mean(v, level=0.99), mean(v, level=0.5)
    assert wide.low is not None and narrow.low is not None and wide.high is not None and narrow.high is not None
    assert wide.low < narrow.low < np.mean(v) < narrow.high < wide.high


def test_no_interval_where_there_is_none() -> None:
    assert mean([1.0] * (LEAST - 1)) == Estimate(1.0)
    assert mean([1.0, 2, 3, 4, float("inf"), 6]) == Estimate(float("inf"))
    assert np.isnan(mean([1.0, 2, 3, 4, float("nan"), 6]).value)
    assert mean([1.0] * LEAST) == Estimate(1.0, 1.0, 1.0)


def test_draws_without_a_value_are_left_out() -> None:
    """A share that has no value where a draw of five is one prompt five times: 5 of 5^5 draws, 1 in 625."""
    seen: list[np.ndarray] = []

    def share(w: np.ndarray) -> np.ndarray:
        seen.append(w)
        return np.where((w > 0).sum(1) > 1, w[:, 0] / w.sum(1), np.nan)

    e = estimate(share, 5, draws=20_000)
    assert e.value == 0.2
    assert e.low is not None and e.high is not None and 0 <= e.low <= 0.2 <= e.high < 1
    drawn = max(seen, key=len)
    assert (drawn.sum(1) == 5).all()
    lonely = int(((drawn > 0).sum(1) == 1).sum())
    assert 0 < lonely < 32 + 4 * sqrt(32)


def test_a_statistic_that_hangs_on_one_prompt_has_no_interval() -> None:
    assert estimate(lambda w: np.where(w[:, 0] > 0, 1.0, np.nan), 6) == Estimate(1.0)
