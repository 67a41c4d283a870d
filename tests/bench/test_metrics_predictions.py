"""SQNR and cosine of noise predictions, step by step."""

from __future__ import annotations

from math import cos, log10, pi, sin, sqrt

import numpy as np
import pytest
from dpu.bench.metrics.predictions import agreement, cosine


def test_cosine_by_hand() -> None:
    assert cosine([3, 4], [4, 3]) == pytest.approx(24 / 25, abs=1e-15)
    assert cosine([1, 0], [0, 5]) == 0
    assert cosine([1.5, -2], [-3, 4]) == -1
    assert cosine([[1, 2], [3, 4]], [[2, 4], [6, 8]]) == 1
    assert np.isnan(cosine([0, 0], [1, 1]))
    assert np.isnan(cosine([1, 1], [float("nan"), 1]))


def test_a_rotation_by_an_angle_has_its_cosine_and_sqnr() -> None:
    """|r - f|^2 = 2 - 2 cos of the angle, for unit vectors."""
    for angle in (0.01, 0.3, pi / 2, 2.0):
        r, f = [1.0, 0.0], [cos(angle), sin(angle)]
        (found,) = agreement([[r]], [[f]])
        assert found.cosine.value == pytest.approx(cos(angle), abs=1e-12)
        assert found.sqnr_db.value == pytest.approx(-10 * log10(2 - 2 * cos(angle)), abs=1e-9)
        assert found.sqnr_db.low is None


def test_steps_are_means_over_prompts_with_intervals() -> None:
    """Noise of a known share of the signal: 10^(-dB / 20), the same shape for all."""
    rng = np.random.default_rng(0)
    decibels = np.array([[20.0 + p + 5 * s for s in range(3)] for p in range(8)])
    reference = [[rng.standard_normal((4, 8, 8)) for _ in range(3)] for _ in range(8)]
    found = [[r * (1 + 10 ** (-decibels[p, s] / 20)) for s, r in enumerate(run)] for p, run in enumerate(reference)]
    steps = agreement(reference, found, seed=3)
    for s, step in enumerate(steps):
        assert step.sqnr_db.value == pytest.approx(decibels[:, s].mean(), abs=1e-9)
        assert step.sqnr_db.low is not None and step.sqnr_db.high is not None
        # Eight values one apart: the standard error is sqrt(63 / 12 / 8) = 0.81.
        error = sqrt(63 / 12 / 8)
        assert step.sqnr_db.low == pytest.approx(decibels[:, s].mean() - 1.96 * error, abs=0.25 * error)
        assert step.sqnr_db.high == pytest.approx(decibels[:, s].mean() + 1.96 * error, abs=0.25 * error)
        assert step.cosine.value == pytest.approx(1, abs=1e-12)


def test_both_sides_must_match() -> None:
    for reference, found in (([], []), ([[1]], [[1], [2]]), ([[1]], [[1, 2]])):
        with pytest.raises(ValueError, match="same prompts and steps"):
            agreement(reference, found)
