"""What the property tests draw from, and how they compare."""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
from hypothesis import Phase, settings
from hypothesis import strategies as st

from .bounds import Approx

# Shapes are drawn from short lists and arrays from a seed: a failing case is readable as it is, and shrinking is slow.
settings.register_profile(
    "programs", deadline=None, derandomize=True, database=None, phases=(Phase.explicit, Phase.generate)
)
settings.load_profile("programs")

F32 = npt.NDArray[np.float32]
ARCHES = st.sampled_from(["dpu_tiny", "dpu_f2", "dpu_32tops"])
"""One 8 x 8 tile, three 64 x 64 tiles, four 64 x 64 tiles."""

CHANNELS = st.sampled_from([1, 2, 7, 8, 13, 64, 65, 97, 131])
TOKENS = st.sampled_from([1, 2, 3, 5, 7, 9, 13, 31, 64, 101])
SAMPLES = st.integers(1, 4)
SEEDS = st.integers(0, 2**32 - 1)


def half(x: npt.ArrayLike) -> F32:
    """Rounded to float16: inputs and parameters that need no rounding later."""
    return np.asarray(x, np.float16).astype(np.float32)


def inside(what: str, got: F32, want: Approx) -> None:
    """`got` is within its bound everywhere. With DPU_RATIOS=FILE the largest error / bound is appended there."""
    assert got.shape == want.y.shape
    ratio = np.abs(got - want.y) / np.maximum(want.e, 1e-300)
    worst = np.unravel_index(np.argmax(ratio), ratio.shape)
    if path := os.environ.get("DPU_RATIOS"):
        with open(path, "a") as f:  # noqa: PTH123 - a line, appended
            f.write(f"{what} {ratio.max():.4f}\n")
    assert ratio.max() <= 1, f"{what} at {worst}: got {got[worst]}, want {want.y[worst]} +- {want.e[worst]}"


def on_grid(
    rng: np.random.Generator, shape: tuple[int, ...], axis: int | tuple[int, ...] = -1, step: float = 2.0**-6
) -> F32:
    """Integers from -127 to 127 times a power of two, with a 127 along `axis`: int8 with this maximum is exact."""
    q = rng.integers(-127, 128, shape).astype(np.float32)
    q[0, 0] = np.where(q[0, 0] < 0, -127, 127)  # every channel of the tensor has the same maximum
    axes = (axis,) if isinstance(axis, int) else axis
    first = tuple(slice(0, 1) if i in axes or i - len(shape) in axes else slice(None) for i in range(len(shape)))
    q[first] = 127
    return q * np.float32(step)
