"""Kernel distance: the squared maximum mean discrepancy of two sets of features, unbiased, with k = (x.y/d + 1)^3.

The kernel is that of Binkowski et al., "Demystifying MMD GANs", 2018; the estimators those of Gretton et al., "A kernel
two-sample test", 2012 (lemma 6). With other features than Inception's its values are no KID and must not be called so.
An unbiased estimate may be negative where the sets are alike.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .bootstrap import DRAWS, LEVEL, Array, Estimate, estimate

Features = npt.NDArray[np.float64]
"""Images x dimensions."""


def kernel(x: Features, y: Features) -> Array:
    """(x_i . y_j / d + 1)^3 for every pair of rows."""
    return np.asarray((x @ y.T / x.shape[1] + 1) ** 3, np.float64)


def kernel_distance(x: Features, y: Features) -> float:
    """Unbiased squared distance of two independent samples: mean of k(x, x') and k(y, y') over different rows, less
    twice the mean of k(x, y) over all.

    Raises:
        ValueError: a set has fewer than two rows.
    """
    if min(len(x), len(y)) < 2:
        raise ValueError("an unbiased distance needs two rows of each set")
    within = sum((k.sum() - np.trace(k)) / (len(k) * (len(k) - 1)) for k in (kernel(x, x), kernel(y, y)))
    return float(within - 2 * kernel(x, y).mean())


def paired_kernel_distance(x: Features, y: Features, seed: int = 0, draws: int = DRAWS, each: int = 1) -> Estimate:
    """Unbiased squared distance where rows i of both sets are of one prompt, with its interval over prompts.

    The U-statistic of h = k(x_i, x_j) + k(y_i, y_j) - k(x_i, y_j) - k(x_j, y_i) over i != j. Images of one prompt
    depend on each other, so k(x_i, y_i) must stay out: with it the estimate would be biased. Equal sets give 0 up to
    rounding. A prompt that a bootstrap draw holds twice is not paired with itself either.

    With `each` above 1 so many rows, one after the other, are of one prompt; h of two prompts is its mean over theirs.

    Raises:
        ValueError: fewer than two prompts, or different numbers of rows.
    """
    prompts = len(x) // each
    if prompts < 2 or len(x) != len(y):
        raise ValueError("a paired distance needs the same two or more rows of each set")
    cross = kernel(x, y)
    every = kernel(x, x) + kernel(y, y) - cross - cross.T
    h = every.reshape(prompts, each, prompts, each).mean((1, 3))
    np.fill_diagonal(h, 0)

    def statistic(weights: Array) -> Array:
        pairs = weights.sum(1) ** 2 - (weights**2).sum(1)
        with np.errstate(invalid="ignore"):  # a draw of one prompt alone has no pairs: NaN
            return np.asarray(((weights @ h) * weights).sum(1) / pairs, np.float64)

    return estimate(statistic, prompts, seed, LEVEL, draws)
