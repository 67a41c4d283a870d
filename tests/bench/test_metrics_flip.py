"""FLIP: the colour pipeline by hand on flat images, properties."""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest
from dpu.bench.metrics.flip import PIXELS_PER_DEGREE, flip
from dpu.errors import DpuError

from tests.bench.metrics_images import disturbed, flat, picture

TO_XYZ = np.array(
    [
        [10135552 / 24577794, 8788810 / 24577794, 4435075 / 24577794],
        [2613072 / 12288897, 8788810 / 12288897, 887015 / 12288897],
        [1425312 / 73733382, 8788810 / 73733382, 70074185 / 73733382],
    ]
)
"""Linear sRGB to XYZ, as the paper's code has it."""


def hunt_lab(rgb: tuple[int, int, int]) -> npt.NDArray[np.float64]:
    """L*, and a* and b* scaled by L* / 100 (Hunt's effect), from sRGB bytes."""
    s = np.array(rgb) / 255
    linear = np.where(s > 0.04045, ((s + 0.055) / 1.055) ** 2.4, s / 12.92)
    t = TO_XYZ @ linear / TO_XYZ.sum(1)
    delta = 6 / 29
    f = np.where(t > delta**3, np.cbrt(t), t / (3 * delta**2) + 4 / 29)
    lightness = 116 * f[1] - 16
    return np.array([lightness, *(np.array([500 * (f[0] - f[1]), 200 * (f[1] - f[2])]) * lightness / 100)])


def hyab(a: tuple[int, int, int], b: tuple[int, int, int]) -> float:
    """|dL| + |(da, db)|, to the power 0.7."""
    d = hunt_lab(a) - hunt_lab(b)
    return float((abs(d[0]) + np.hypot(d[1], d[2])) ** 0.7)


def of_flat(a: tuple[int, int, int], b: tuple[int, int, int]) -> float:
    """FLIP of two flat images: filters leave them, there are no edges or points, so only the colour error is left.
    Errors up to 0.4 of the largest (green to blue) fill 0 to 0.95, the others the rest."""
    error, largest = hyab(a, b), hyab((0, 255, 0), (0, 0, 255))
    knee = 0.4 * largest
    if error < knee:
        return 0.95 * error / knee
    return 0.95 + 0.05 * (error - knee) / (largest - knee)


COLOURS = [(255, 255, 255), (0, 0, 0), (200, 30, 60), (201, 30, 60), (20, 90, 250), (128, 128, 128)]


@pytest.mark.parametrize("a", COLOURS)
@pytest.mark.parametrize("b", COLOURS)
def test_flat_images_by_hand(a: tuple[int, int, int], b: tuple[int, int, int]) -> None:
    """The library computes in float32, through three colour spaces and a power of 0.7: four digits of 0 to 1."""
    assert flip(flat(*a), flat(*b)) == pytest.approx(of_flat(a, b), abs=1e-4)


def test_green_to_blue_is_the_largest_error() -> None:
    assert flip(flat(0, 255, 0), flat(0, 0, 255)) == pytest.approx(1, abs=1e-6)


def test_the_viewing_distance_is_the_papers() -> None:
    assert pytest.approx(67.0206, abs=1e-4) == PIXELS_PER_DEGREE


def test_identity_symmetry_and_noise() -> None:
    a = picture(80, 64)
    errors = [flip(a, disturbed(a, size)) for size in (0, 2, 8, 32, 128)]
    assert errors[0] == 0
    assert all(x < y for x, y in pairwise(errors))
    b = disturbed(a, 32)
    assert flip(a, b) == flip(b, a)
    assert [flip(a, b) for _ in range(3)] == [flip(a, b)] * 3


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flip_evaluator", None)
    with pytest.raises(DpuError) as e:
        flip(picture(), picture())
    assert str(e.value) == (
        "error[E526]: package 'flip_evaluator': is not installed\n"
        "  why: FLIP needs it; it belongs to the optional extra 'quality'\n"
        "  try: pip install 'dpu[quality]'"
    )
