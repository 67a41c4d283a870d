"""How far noise predictions are from a reference's, step by step: SQNR and cosine.

Where both sides saw the same samples (teacher-forced) a step shows one forward's error; where each saw its own, errors
accumulate. `runtime.sqnr` makes both kinds of runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
import numpy.typing as npt

from ...runtime.sqnr import sqnr
from .bootstrap import Estimate, mean


@dataclass(frozen=True)
class Agreement:
    """One step, over prompts: SQNR in dB (mean of the prompts' dB) and cosine, each with its interval."""

    sqnr_db: Estimate
    cosine: Estimate


def cosine(reference: npt.ArrayLike, found: npt.ArrayLike) -> float:
    """r.f / (|r| |f|) over all elements, in -1 to 1; NaN where one is all zeros or not finite."""
    r, f = np.asarray(reference, np.float64).ravel(), np.asarray(found, np.float64).ravel()
    size = sqrt(float(r @ r)) * sqrt(float(f @ f))
    return float(np.clip(r @ f / size, -1, 1)) if np.isfinite(size) and size > 0 else float("nan")


def agreement(
    reference: Sequence[Sequence[npt.ArrayLike]], found: Sequence[Sequence[npt.ArrayLike]], seed: int = 0
) -> list[Agreement]:
    """Of each step. `reference[p][s]` and `found[p][s]` are the predictions for prompt p in step s, of one shape.

    Raises:
        ValueError: the two sides have different prompts or steps, or there is none.
    """
    if not reference or {len(run) for run in reference} != {len(run) for run in found} or len(reference) != len(found):
        raise ValueError("both sides must have the same prompts and steps, at least one")
    return [
        Agreement(
            mean([sqnr(r[step], f[step]) for r, f in zip(reference, found, strict=True)], seed),
            mean([cosine(r[step], f[step]) for r, f in zip(reference, found, strict=True)], seed),
        )
        for step in range(len(reference[0]))
    ]
