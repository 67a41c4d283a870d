"""Scores of SDXL's pictures, kept by the content of both pictures and of what judges them; then rows.

The metrics are those of `dpubench metrics` (`bench/metrics/report.py`); no classifier is needed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from zipfile import BadZipFile

import numpy as np

from ...errors import DpuError
from ...files import atomic_write, sha256
from ..metrics.report import Judges, Values
from .pictures import folder_name
from .sdxl_model import Given
from .sdxl_pictures import digest_of, key_of, picture_path, read
from .sdxl_plan import REFERENCE, Request
from .workers import gathered


class Pair(NamedTuple):
    """One prompt in one precision, beside the reference: files and what they are made from."""

    reference: str
    reference_key: str
    candidate: str
    candidate_key: str
    caption: str
    inception: str  # empty: none
    clip: str
    judges: str  # digest of both
    out: str


class Scored(NamedTuple):
    """One pair's metrics; seconds, overflows and maker of the candidate."""

    values: Values
    seconds: float
    exceptions: int
    made_on: str


def judges_digest(request: Request) -> str:
    """Over the weights of Inception and CLIP."""
    digest = hashlib.sha256()
    if request.inception:
        digest.update(sha256(request.inception).encode())
    if request.clip:
        for file in sorted(f for f in request.clip.rglob("*") if f.is_file()):
            digest.update(f"{file.relative_to(request.clip).as_posix()}\0{sha256(file)}\n".encode())
    return digest.hexdigest()


def pairs(request: Request, given: Given, precision: str, judges: str) -> list[Pair]:
    """A pair for each prompt."""
    keys = [key_of(request, given, p) for p in (REFERENCE, precision)]
    return [
        Pair(
            str(picture_path(request, REFERENCE, n)),
            digest_of(keys[0], asked),
            str(picture_path(request, precision, n)),
            digest_of(keys[1], asked),
            asked.prompt,
            str(request.inception or ""),
            str(request.clip or ""),
            judges,
            str(score_path(request, precision, n)),
        )
        for n, asked in enumerate(request.experiment.asked)
    ]


def score_path(request: Request, precision: str, number: int) -> Path:
    """Where the scores of a pair are kept."""
    folder = request.work / "scores" / request.experiment.name / folder_name(precision) / str(request.steps)
    return folder / f"{number:04}.npz"


def scored(request: Request) -> list[Path]:
    """Files of scores that are there, whatever they are of."""
    numbers = range(len(request.experiment.asked))
    paths = (score_path(request, p, n) for p in request.precisions for n in numbers)
    return [path for path in paths if path.is_file()]


def score(todo: Sequence[Pair], jobs: int, progress: Callable[[int, int], None]) -> list[Scored]:
    """Every pair, in order, on `jobs` processes; what was scored before is read.

    Raises:
        DpuError: a picture is missing or made from something else.
    """
    return gathered(score_pair, todo, jobs, progress)


def score_pair(pair: Pair) -> Scored:
    """One pair, from the file of an earlier run if it is of these very pictures and judges.

    Raises:
        DpuError: see `score`.
    """
    a, b = (
        read(Path(path), key)
        for path, key in ((pair.reference, pair.reference_key), (pair.candidate, pair.candidate_key))
    )
    if a is None or b is None:
        lost = pair.reference if a is None else pair.candidate
        raise DpuError(lost, "no such picture", hint="run the command again: it is made", code="E106")
    content = a.pixels.tobytes() + b.pixels.tobytes() + f"{pair.caption}\0{pair.judges}".encode()
    key = hashlib.sha256(content).hexdigest()
    out = Path(pair.out)
    values = _kept(out, key)
    if values is None:
        values = _judges(pair.clip, pair.inception).look(a.pixels, b.pixels, pair.caption)
        out.parent.mkdir(parents=True, exist_ok=True)
        arrays = {f"pooled{i}": side for i, side in enumerate(values.pooled)}
        arrays |= {f"inception{i}": side for i, side in enumerate(values.inception or ())}
        names = list(values.metrics)
        with atomic_write(out) as temporary, temporary.open("wb") as f:
            np.savez_compressed(
                f,
                key=np.array(key),
                names=np.array(names),
                metrics=np.array([values.metrics[n] for n in names], np.float64),
                **{n: np.asarray(x, np.float64) for n, x in arrays.items()},  # type: ignore[arg-type]
            )
    return Scored(values, b.seconds, b.exceptions, b.made_on)


@cache
def _judges(clip: str, inception: str) -> Judges:
    return Judges.load(Path(clip) if clip else None, Path(inception) if inception else None)


def _kept(path: Path, key: str) -> Values | None:
    """Scores of an earlier run; damaged ones and those of other pictures count as none: they are computed again."""
    try:
        with np.load(path, allow_pickle=False) as f:
            if str(f["key"]) != key:
                return None
            metrics = {str(n): float(v) for n, v in zip(f["names"], f["metrics"], strict=True)}
            pooled = np.asarray(f["pooled0"], np.float64), np.asarray(f["pooled1"], np.float64)
            if "inception0" not in f.files:
                return Values(metrics, pooled)
            features = np.asarray(f["inception0"], np.float64), np.asarray(f["inception1"], np.float64)
            return Values(metrics, pooled, features)
    except (OSError, ValueError, KeyError, BadZipFile, EOFError):
        return None
