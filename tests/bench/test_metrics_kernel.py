"""Kernel distance: unbiased by enumeration of every sample, closed form on Gaussians, pairing, intervals."""

from __future__ import annotations

from itertools import pairwise, product
from math import comb
from typing import Any

import numpy as np
import pytest
from dpu.bench.metrics.kernel import kernel, kernel_distance, paired_kernel_distance

P_POINTS, P = np.array([[0.5, -1.0], [2.0, 1.0]]), np.array([0.3, 0.7])
Q_POINTS, Q = np.array([[0.0, 1.0], [-1.0, 0.5], [1.5, 1.5]]), np.array([0.2, 0.5, 0.3])


def exact(p: np.ndarray, q: np.ndarray) -> float:
    """The squared distance of two distributions on the points above, from its definition."""
    return float(
        p @ kernel(P_POINTS, P_POINTS) @ p + q @ kernel(Q_POINTS, Q_POINTS) @ q - 2 * p @ kernel(P_POINTS, Q_POINTS) @ q
    )


def biased(x: np.ndarray, y: np.ndarray) -> float:
    """The V-statistic, for contrast: with the diagonals."""
    return float(kernel(x, x).mean() + kernel(y, y).mean() - 2 * kernel(x, y).mean())


def test_the_kernel_is_cubic() -> None:
    x, y = np.array([[1.0, 2.0]]), np.array([[3.0, 4.0]])
    assert kernel(x, y)[0, 0] == (11 / 2 + 1) ** 3


def test_unbiased_over_every_pair_of_independent_samples() -> None:
    """The mean over all samples of 3 and 2, each weighted by its chance, is the distance itself; the V-statistic's is
    not."""
    total = total_biased = 0.0
    for i in product(range(2), repeat=3):
        for j in product(range(3), repeat=2):
            chance = P[list(i)].prod() * Q[list(j)].prod()
            x, y = P_POINTS[list(i)], Q_POINTS[list(j)]
            total += chance * kernel_distance(x, y)
            total_biased += chance * biased(x, y)
    assert total == pytest.approx(exact(P, Q), abs=1e-10)
    assert total_biased > exact(P, Q) + 0.1


def test_unbiased_over_every_sample_of_dependent_pairs() -> None:
    """Pairs from a joint distribution with strong dependence; its marginals are P and Q. What is right for independent
    samples is wrong here."""
    joint = np.array([[0.2, 0.1, 0.0], [0.0, 0.4, 0.3]])
    assert joint.sum(1) == pytest.approx(P) and joint.sum(0) == pytest.approx(Q)
    total = total_unpaired = 0.0
    cells = list(product(range(2), range(3)))
    for drawn in product(cells, repeat=3):
        chance = float(np.prod([joint[c] for c in drawn]))
        x, y = P_POINTS[[i for i, _ in drawn]], Q_POINTS[[j for _, j in drawn]]
        total += chance * paired_kernel_distance(x, y).value
        total_unpaired += chance * kernel_distance(x, y)
    assert total == pytest.approx(exact(P, Q), abs=1e-10)
    assert abs(total_unpaired - exact(P, Q)) > 0.1


def moment(mu: float, p: int) -> float:
    """E x^p of a normal law with variance 1."""
    return [1.0, mu, mu**2 + 1, mu**3 + 3 * mu][p]


@pytest.mark.parametrize("other", [0.0, 0.5, 1.0])
def test_gaussians_in_one_dimension(other: float) -> None:
    """(xy + 1)^3 = sum of C(3, p) x^p y^p, so the squared distance is the sum of C(3, p) (E x^p - E y^p)^2. 2,000
    estimates of 20 against 30; their mean within four standard errors."""
    truth = sum(comb(3, p) * (moment(0, p) - moment(other, p)) ** 2 for p in range(4))
    rng = np.random.default_rng(5)
    found = np.array(
        [kernel_distance(rng.standard_normal((20, 1)), other + rng.standard_normal((30, 1))) for _ in range(2000)]
    )
    error = found.std() / np.sqrt(len(found))
    assert abs(found.mean() - truth) < 4 * error
    v = np.mean([biased(rng.standard_normal((20, 1)), other + rng.standard_normal((30, 1))) for _ in range(500)])
    assert v - truth > 8 * error  # the V-statistic shows what bias looks like


def test_properties() -> None:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((12, 5))
    assert paired_kernel_distance(x, x.copy()).value == pytest.approx(0, abs=1e-12)
    y = x + 0.5
    assert paired_kernel_distance(x, y).value == pytest.approx(paired_kernel_distance(y, x).value)
    assert kernel_distance(x, y) == pytest.approx(kernel_distance(y, x))
    order = rng.permutation(12)
    assert paired_kernel_distance(x[order], y[order]).value == pytest.approx(paired_kernel_distance(x, y).value)
    assert kernel_distance(x, y[order]) == pytest.approx(kernel_distance(x, y))
    apart = [paired_kernel_distance(x, x + shift).value for shift in (0.0, 0.2, 0.5, 1.0)]
    assert all(a < b for a, b in pairwise(apart))


def test_the_interval_is_over_prompts() -> None:
    """It holds the value, is seeded, and shrinks with the number of prompts: eight times as many, sqrt(8) = 2.8."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((160, 4))
    y = x + 0.7 + 0.1 * rng.standard_normal(x.shape)
    few, many = paired_kernel_distance(x[:20], y[:20]), paired_kernel_distance(x, y)
    assert few.low is not None and few.high is not None and many.low is not None and many.high is not None
    assert few.low < few.value < few.high and many.low < many.value < many.high
    assert many.high - many.low < 0.6 * (few.high - few.low)
    assert few == paired_kernel_distance(x[:20], y[:20])
    same = paired_kernel_distance(x, x.copy())
    assert [same.value, same.low, same.high] == pytest.approx([0, 0, 0], abs=1e-12)


def test_a_draw_never_pairs_a_prompt_with_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draw that holds prompt 0 twice and prompt 1 once has three pairs of places, two of them of
    different prompts."""
    monkeypatch.setattr("dpu.bench.metrics.kernel.estimate", lambda statistic, *_: statistic)
    x, y = P_POINTS[[0, 1, 1]], Q_POINTS[[0, 1, 2]]
    h = kernel(x, x) + kernel(y, y) - kernel(x, y) - kernel(x, y).T
    statistic: Any = paired_kernel_distance(x, y)
    whole, twice, mixed, alone = statistic(np.array([[1.0, 1, 1], [2, 1, 0], [2, 2, 1], [3, 0, 0]]))
    assert whole == pytest.approx((h[0, 1] + h[0, 2] + h[1, 2]) / 3)
    assert twice == pytest.approx(h[0, 1])
    assert mixed == pytest.approx((4 * h[0, 1] + 2 * h[0, 2] + 2 * h[1, 2]) / 8)
    assert np.isnan(alone)


def test_too_few_rows() -> None:
    for x, y in ((P_POINTS[:1], Q_POINTS[:1]), (P_POINTS, Q_POINTS)):
        with pytest.raises(ValueError, match="paired distance needs the same two or more rows"):
            paired_kernel_distance(x, y)
    with pytest.raises(ValueError, match="two rows of each set"):
        kernel_distance(P_POINTS[:1], Q_POINTS)
