"""Queries, keys and values: synthetic ones whose scores have a known distribution, seeded.

All have one sample, one head of 64 channels and up to 64 queries. Values are N(0, 1) about channel means of N(0, 1/4).
A score is `q k^T / 8`, as the softmax sees it (natural logarithms). Queries with chosen keys are orthogonal, of length
8: then key `g q / |q|` has score g with its own query and 0 with all others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

F32 = npt.NDArray[np.float32]
F64 = npt.NDArray[np.float64]

CHANNELS = 64
QUERIES = 64
SCALE = CHANNELS**-0.5
FAINT = float(np.log(600))  # e^-FAINT is 1/600 of the maximum: just below half a step of 8 bits, 1/510
NEAR_EQUAL = 0.1  # standard deviation of "near-equal" scores


@dataclass(frozen=True)
class Operands:
    """What attention reads, as float16 values: q [samples, queries, heads * channels], k and v [samples, keys, ...].

    `q_peak` are the absolute maxima of each channel of all queries where `q` has only some of them: what a calibration
    sees.
    """

    q: F32
    k: F32
    v: F32
    heads: int = 1
    scale: float = SCALE
    q_peak: F32 | None = None

    @property
    def keys(self) -> int:
        return int(self.k.shape[1])

    @property
    def channels(self) -> int:
        """Of a head."""
        return int(self.q.shape[2]) // self.heads


def rounded(q: F64, k: F64, v: F64) -> Operands:
    """One sample of one head, from matrices [tokens, channels]."""
    made = [np.asarray(x, np.float16).astype(np.float32)[None] for x in (q, k, v)]
    return Operands(made[0], made[1], made[2])


Scores = Callable[[np.random.Generator, int], tuple[F64, F64]]
"""(generator, keys) -> queries and keys, [tokens, channels]."""


def _orthogonal(rng: np.random.Generator) -> F64:
    """64 queries of length 8, each at right angles to all others."""
    turned: F64 = np.linalg.qr(rng.standard_normal((CHANNELS, CHANNELS)))[0] * CHANNELS**0.5
    return turned


def _gaussian(sigma: float) -> Scores:
    """Scores of about N(0, sigma^2): what weights at random give."""
    return lambda rng, n: (
        rng.standard_normal((QUERIES, CHANNELS)) * sigma,
        rng.standard_normal((n, CHANNELS)),
    )


def _heavy(rng: np.random.Generator, n: int) -> tuple[F64, F64]:
    """Gaussian scores times the length of their key, |Student's t| of 3 degrees of freedom up to 8."""
    length = np.minimum(np.abs(rng.standard_t(3, (n, 1))), 8)
    return rng.standard_normal((QUERIES, CHANNELS)), rng.standard_normal((n, CHANNELS)) * length


def _peaks(gap: float, most: int, sigma: float) -> Scores:
    """Up to `most` keys of each query `gap` above all others, whose scores are N(0, sigma^2)."""

    def make(rng: np.random.Generator, n: int) -> tuple[F64, F64]:
        q, k = _orthogonal(rng), rng.standard_normal((n, CHANNELS)) * sigma
        chosen = rng.permutation(n)[: QUERIES * min(most, n // QUERIES)].reshape(QUERIES, -1)
        for i, keys in enumerate(chosen):
            k[keys] = q[i] / np.linalg.norm(q[i]) * gap
        return q, k

    return make


def _sink(gap: float) -> Scores:
    """One key that every query sees `gap` above the rest, which are N(0, 1): an attention sink."""

    def make(rng: np.random.Generator, n: int) -> tuple[F64, F64]:
        q, k = rng.standard_normal((QUERIES, CHANNELS)), rng.standard_normal((n, CHANNELS))
        q[:, 0], k[:, 0] = CHANNELS**0.5, 0
        k[rng.integers(n), 0] = gap
        return q, k

    return make


DISTRIBUTIONS: dict[str, Scores] = {
    "Gaussian, sigma 0.5": _gaussian(0.5),
    "Gaussian, sigma 1": _gaussian(1),
    "Gaussian, sigma 2": _gaussian(2),
    "Gaussian, sigma 3": _gaussian(3),
    "Gaussian, sigma 5": _gaussian(5),
    "heavy tail": _heavy,
    "one-hot: 1 key 20 above": _peaks(20, 1, 1.0),
    "1 key ln 600 above near-equal ones": _peaks(FAINT, 1, NEAR_EQUAL),
    "4 keys ln 600 above near-equal ones": _peaks(FAINT, 4, NEAR_EQUAL),
    "4 keys 4 above near-equal ones": _peaks(4, 4, NEAR_EQUAL),
    "sink: 1 key 6 above": _sink(6),
    "sink: 1 key 10 above": _sink(10),
}
KEYS = (77, 256, 1024, 4096)


def synthetic(name: str, keys: int, seed: int = 0) -> Operands:
    """Operands whose scores have the distribution `name`; the same for the same arguments."""
    rng = np.random.default_rng([seed, keys, list(DISTRIBUTIONS).index(name)])
    q, k = DISTRIBUTIONS[name](rng, keys)
    v = rng.standard_normal((keys, CHANNELS)) + rng.standard_normal(CHANNELS) / 2
    return rounded(q, k, v)
