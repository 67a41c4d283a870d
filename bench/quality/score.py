"""How good the pictures are: each file beside the reference's, kept by content, then means with intervals over prompts.

Prompts are what is drawn again in every interval (pictures of one prompt are alike); `bench/metrics` has the metrics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import astuple
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...files import atomic_write, sha256
from ..metrics import efficientnet_lite0
from ..metrics.bootstrap import Estimate, mean
from ..metrics.images import Pixels
from ..metrics.kernel import Features, paired_kernel_distance
from ..metrics.report import of_pair
from ..train.captions import evaluation_prompts
from ..train.evaluate import score
from ..train.judge import Classifier, load_judge, look
from .pictures import Made, folder_name, picture_path, read_pictures
from .plan import classifier_file
from .results import Accuracy, Row, Value, number
from .workers import gathered

PAIRED = ("psnr", "ssim", "ms_ssim", "flip", "feature_distance")
"""Metrics of a picture beside the reference's of the same prompt and seed: those of `metrics.report.of_pair`."""


Arrays = dict[str, Any]  # numpy arrays of several types, by name


class Pair(NamedTuple):
    """One prompt in one precision, beside the reference. `seeds` are those scored."""

    model: str
    reference: str  # files of pictures, and what they are made from
    reference_key: str
    candidate: str
    candidate_key: str
    prompt: int
    seeds: tuple[int, ...]
    out: str


class Scored(NamedTuple):
    """Of one prompt's pictures: metrics by name [seeds], attributes right [seeds, 4], features [seeds, 1280], and of
    their making CPU seconds, overflows, and where it was."""

    paired: dict[str, npt.NDArray[np.float64]]
    right: npt.NDArray[np.bool_]
    pooled: Features
    cpu_seconds: npt.NDArray[np.float64]
    exceptions: npt.NDArray[np.int64]
    made_on: tuple[str, ...] = ()


def pairs(
    model: Path, work: Path, precision: str, reference: str, steps: int, prompts: int, seeds: int, keys: dict[str, str]
) -> list[Pair]:
    """A pair for each prompt; `keys` are those of `pictures.key_of`."""
    return [
        Pair(
            str(model),
            str(picture_path(work, reference, steps, p)),
            keys[reference],
            str(picture_path(work, precision, steps, p)),
            keys[precision],
            p,
            tuple(range(seeds)),
            str(work / "scores" / folder_name(precision) / str(steps) / f"{p:02}.npz"),
        )
        for p in range(prompts)
    ]


def score_pairs(
    todo: Sequence[Pair], jobs: int, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[Scored]:
    """Every pair, in order, on `jobs` processes; what was scored before is read.

    Raises:
        DpuError: pictures are missing or of something else, or a package of the extra `quality` is.
    """
    return gathered(score_pair, todo, jobs, progress)


def score_pair(pair: Pair) -> Scored:
    """The metrics of one prompt's pictures, from the file of an earlier run if they are of these very pictures.

    Raises:
        DpuError: see `score_pairs`.
    """
    a = np.stack([r.pixels for r in _read(pair.reference, pair.reference_key, pair.seeds)])
    rows = _read(pair.candidate, pair.candidate_key, pair.seeds)
    b = np.stack([r.pixels for r in rows])
    judge = sha256(classifier_file(Path(pair.model)))
    key = hashlib.sha256(a.tobytes() + b.tobytes() + f"{judge} {pair.prompt}".encode()).hexdigest()
    out = Path(pair.out)
    kept = _kept(out, key)
    if kept is None:
        kept = _measured(pair, a, b)
        out.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(out) as temporary, temporary.open("wb") as f:
            np.savez_compressed(f, key=np.array(key), **kept)
    paired = {n: kept[n] for n in PAIRED}
    return Scored(
        paired,
        kept["right"],
        kept["pooled"].astype(np.float64),
        np.array([r.cpu_seconds for r in rows]),
        np.array([r.exceptions for r in rows], np.int64),
        tuple(dict.fromkeys(r.made_on for r in rows)),
    )


def _read(path: str, key: str, seeds: Sequence[int]) -> list[Made]:
    found = read_pictures(Path(path), key).found
    missing = [s for s in seeds if s not in found]
    if missing:
        raise DpuError(path, f"has no picture of seed {missing[0]}", hint="make the pictures first", code="E106")
    return [found[s] for s in seeds]


def _kept(path: Path, key: str) -> Arrays | None:
    """Scores of an earlier run; damaged ones and those of other pictures count as none: they are computed again."""
    try:
        with np.load(path, allow_pickle=False) as f:
            if str(f["key"]) == key:
                return {n: f[n] for n in (*PAIRED, "right", "pooled")}
    except (OSError, ValueError, KeyError, BadZipFile, EOFError):
        pass
    return None


def _measured(pair: Pair, a: Pixels, b: Pixels) -> Arrays:
    lite0 = efficientnet_lite0.load()
    rows = [of_pair(x, y, lite0) for x, y in zip(a, b, strict=True)]
    columns = np.array(rows, np.float64).T
    found: Arrays = dict(zip(PAIRED, columns, strict=True))
    return found | {"right": judged(Path(pair.model), b, pair.prompt), "pooled": np.stack([lite0.pooled(y) for y in b])}


def judged(model: Path, pictures: Pixels, prompt: int) -> npt.NDArray[np.bool_]:
    """Whether the model's classifier sees each attribute of a prompt in pictures [n, height, width, 3]: [n, 4]."""
    wanted = astuple(evaluation_prompts()[prompt][0])
    seen = [astuple(s.combination) for s in look(_judge(model), pictures)]
    return np.array([[a == b for a, b in zip(row, wanted, strict=True)] for row in seen])


@cache
def _judge(model: Path) -> Classifier:
    return load_judge(model)


def row_of(precision: str, steps: int, found: Sequence[Scored], reference: Sequence[Scored] | None) -> Row:
    """One precision at one number of steps. `found` has an entry a prompt; without `reference` it is the reference."""
    hits = np.stack([s.right for s in found])  # prompts x seeds x attributes
    judged_as = score(hits.reshape(-1, hits.shape[-1]), len(found))
    accuracy = Accuracy(
        attributes={k: round(v, 6) for k, v in judged_as.attributes.items()},
        all=round(judged_as.all_correct, 6),
        low=round(judged_as.low, 6),
        high=round(judged_as.high, 6),
    )
    seconds = np.concatenate([s.cpu_seconds for s in found])
    row = Row(
        precision=folder_name(precision),
        steps=steps,
        prompts=len(found),
        images=int(hits.shape[0] * hits.shape[1]),
        accuracy=accuracy,
        exceptions=int(sum(s.exceptions.sum() for s in found)),
        cpu_seconds_an_image=round(float(np.median(seconds)), 3),
        made_on=tuple(dict.fromkeys(m for s in found for m in s.made_on)),
    )
    if reference is None:
        return row
    base = np.stack([s.right for s in reference]).all(2).mean(1)
    by_metric = {n: np.stack([s.paired[n] for s in found]) for n in PAIRED}
    quantiles = np.quantile(by_metric["psnr"], [0.05, 0.5, 0.95], method="nearest")
    beside: dict[str, object] = {n: Value.of(mean(list(v.mean(1)))) for n, v in by_metric.items()}
    beside["accuracy_change"] = Value.of(mean(list(hits.all(2).mean(1) - base)))
    beside["psnr_quantiles"] = tuple(number(round(float(q), 3)) for q in quantiles)
    beside["equal_images"] = int(np.isinf(by_metric["psnr"]).sum())
    beside["kernel_distance"] = Value.of(kernel_distance(reference, found))
    return row.model_copy(update=beside)


def gain(found: Sequence[Scored], base: Sequence[Scored]) -> Value:
    """PSNR in dB less that of other pictures of the same prompts and seeds: mean and interval, paired by prompt."""
    mine, others = (np.stack([s.paired["psnr"] for s in side]).mean(1) for side in (found, base))
    with np.errstate(invalid="ignore"):  # both sides equal the reference: undefined
        return Value.of(mean(list(mine - others)))


def kernel_distance(reference: Sequence[Scored], found: Sequence[Scored]) -> Estimate:
    """`metrics.kernel.paired_kernel_distance` of prompts with several pictures; none (NaN) of a single prompt."""
    if len(found) < 2:
        return Estimate(float("nan"))
    x, y = (np.concatenate([s.pooled for s in side]) for side in (reference, found))
    return paired_kernel_distance(x, y, each=len(x) // len(found))
