"""The Frechet distance of two Gaussians, which on Inception's features is the FID.

    |m1 - m2|^2 + tr C1 + tr C2 - 2 tr (C1 C2)^(1/2)          (Dowson and Landau, 1982; Heusel et al., 2017)

With C1 = F'F the trace of the root is the sum of the roots of the eigenvalues of F C2 F', which is symmetric: no
complex numbers, no offset on the diagonal. F is the centred sample over sqrt(n - 1) where that has fewer rows than
dimensions, else the symmetric root. Covariances are the samples' (n - 1), as in the published FID code. With fewer
images than dimensions they are singular; the FID is then biased upwards, the more the fewer images.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import DpuError, refusing
from .bootstrap import Array
from .inception import DIMENSIONS


@dataclass(frozen=True)
class Gaussian:
    """Mean (d) and covariance (d x d); `factor` F (r x d), where known, has F'F as the covariance and r < d."""

    mean: Array
    covariance: Array
    factor: Array | None = None

    @classmethod
    def of(cls, features: Array) -> Gaussian:
        """Of rows of features, at least two."""
        rows, dimensions = features.shape
        mean = features.mean(0)
        factor = (features - mean) / np.sqrt(rows - 1)
        return cls(mean, factor.T @ factor, factor if rows < dimensions else None)

    def root(self) -> Array:
        """The factor, or the symmetric root."""
        if self.factor is not None:
            return self.factor
        values, vectors = np.linalg.eigh(self.covariance)
        return np.asarray((vectors * np.sqrt(np.clip(values, 0, None))) @ vectors.T, np.float64)


def frechet_distance(a: Gaussian, b: Gaussian) -> float:
    """The distance (the sum above, which FID takes without a root). Rounding may leave a little below 0."""
    first, second = (b, a) if a.factor is None and b.factor is not None else (a, b)
    root = first.root()
    inner = root @ second.covariance @ root.T
    shared = np.sqrt(np.clip(np.linalg.eigvalsh((inner + inner.T) / 2), 0, None)).sum()
    apart = a.mean - b.mean
    return float(apart @ apart + np.trace(a.covariance) + np.trace(b.covariance) - 2 * shared)


def read_statistics(path: Path) -> Gaussian:
    """`mu` and `sigma` of an NPZ file, such as MLPerf's val2014.npz.

    Raises:
        DpuError: no such file, or it holds no such arrays of 2,048 dimensions.
    """
    if not path.is_file():
        raise DpuError(str(path), "no such file", hint="give val2014.npz of MLPerf's text_to_image", code="E106")
    with refusing(str(path), "holds no statistics", hint="give an NPZ file with mu and sigma", code="E112"):
        with np.load(path) as file:
            found = Gaussian(np.asarray(file["mu"], np.float64), np.asarray(file["sigma"], np.float64))
        shapes = (found.mean.shape, found.covariance.shape)
        if shapes != ((DIMENSIONS,), (DIMENSIONS, DIMENSIONS)):
            raise ValueError(f"mu and sigma are {shapes[0]} and {shapes[1]}, expected {DIMENSIONS} dimensions")
    return found
