"""LDR-FLIP: Andersson et al., "FLIP: a difference evaluator for alternating images", 2020.

From `flip-evaluator`, the authors' own C++ (BSD-3, wheels for CPython up to 3.13). The paper's viewing distance: a
monitor 0.7 m wide of 3,840 pixels seen from 0.7 m, 67.02 pixels a degree of visual angle.
"""

from __future__ import annotations

from math import pi

import numpy as np

from .extra import quality_package
from .images import Pixels

PIXELS_PER_DEGREE = 0.7 * 3840 / 0.7 * pi / 180


def flip(reference: Pixels, candidate: Pixels) -> float:
    """Mean of the error map, 0 when equal, at most 1; the map is the library's float32, its mean float64.

    Raises:
        DpuError: the extra `quality` is not installed.
    """
    library = quality_package("flip_evaluator", "FLIP")
    a, b = (np.ascontiguousarray(x, dtype=np.float32) / 255 for x in (reference, candidate))
    settings = {"ppd": PIXELS_PER_DEGREE}
    errors, _, _ = library.evaluate(a, b, "LDR", applyMagma=False, computeMeanError=False, parameters=settings)
    return float(np.mean(errors, dtype=np.float64))
