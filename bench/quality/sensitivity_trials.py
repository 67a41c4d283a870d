"""Trials: pictures with some layers quantised beside those in float32, by worker processes, kept in a file.

A trial is a name and the layers that are quantised. What was measured is kept by content, in one file for each choice
of model, calibration, prompts, seed and steps; a run that was killed goes on there.

    WORK/trials/<digest>.json
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import log10
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict

from ...files import atomic_write, sha256
from ...passes.policy import Precision
from ..resumed import read_record
from ..train.captions import FORMS, caption, combination_of, split
from .plan import CALIBRATION_PROMPTS, captions_of_training
from .sensitivity_model import FakePipeline, Key
from .workers import each

if TYPE_CHECKING:
    from ..train.judge import Classifier

RULES = 1
"""Of the fake quantiser: a larger number makes older trials those of something else."""
Fixed = tuple[tuple[Key, Precision], ...]
"""Which layers are quantised and how, in a fixed order."""
Progress = Callable[[int, int], None]


class Place(BaseModel):
    """What a trial's pictures are made from, except the precisions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    export: str
    calibration: str
    unet_sha256: str
    calibration_sha256: str
    size: int
    guidance: float
    steps: int
    seed: int
    prompts: tuple[str, ...]
    rules: int = RULES

    @property
    def digest(self) -> str:
        """12 hex digits over what decides the pictures: not where they lie."""
        fields = self.model_dump(mode="json", exclude={"export", "calibration"})
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:12]


class Outcome(BaseModel):
    """Of one trial, by prompt: mean squared error of the picture (white is 1), mean FLIP, and noise over signal of the
    final latents, in power; against the same pipeline in float32."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    squared_error: tuple[float, ...]
    flip: tuple[float, ...]
    latents: tuple[float, ...]
    right: tuple[bool, ...] = ()  # whether the classifier sees the caption, where it was asked

    @property
    def noise(self) -> float:
        """The mean squared error over all pictures."""
        return float(np.mean(self.squared_error))

    @property
    def psnr(self) -> float | None:
        """dB of all pictures together; none where nothing changed."""
        return decibels(self.noise)


def decibels(noise: float) -> float | None:
    """-10 log10 of noise over signal; none where there is no noise."""
    return -10 * log10(noise) if noise > 0 else None


class Log(BaseModel):
    """The file of trials."""

    model_config = ConfigDict(extra="forbid")

    format: Literal["dpu.quality-trials/1"] = "dpu.quality-trials/1"
    place: Place
    outcomes: dict[str, Outcome] = {}


class Trial(NamedTuple):
    """Some layers quantised; the others stay float32. `judge` is a model whose classifier looks at the pictures, or
    empty."""

    name: str
    precisions: Fixed
    judge: str = ""

    @property
    def key(self) -> str:
        """16 hex digits over the precisions, and whether there is a judge."""
        rows: list[object] = [[*k, *p.model_dump().values()] for k, p in self.precisions]
        rows += ["judged"] * bool(self.judge)
        return hashlib.sha256(json.dumps(rows).encode()).hexdigest()[:16]


def trial(name: str, precisions: Mapping[Key, Precision], judge: str = "") -> Trial:
    """A trial of layers in any order."""
    return Trial(name, tuple(sorted(precisions.items(), key=lambda item: item[0])), judge)


def search_captions(count: int) -> tuple[str, ...]:
    """Captions of the training that calibration did not use; the prompts of the evaluation are unseen by all three."""
    seen = split()[0]
    taken = set(captions_of_training(CALIBRATION_PROMPTS))
    # By the golden section: the first few already differ in all they say.
    places = (int(len(seen) * (i * 0.6180339887498949 % 1)) for i in range(1, 2 * count + 1))
    texts = dict.fromkeys(caption(seen[n], i % FORMS) for i, n in enumerate(places))
    return tuple([t for t in texts if t not in taken][:count])


def place_of(work: Path, size: int, guidance: float, prompts: int, steps: int, seed: int) -> Place:
    """The place of trials with the export and the calibration of a work folder."""
    export, calibration = work / "export", work / "calibration.safetensors"
    return Place(
        export=str(export),
        calibration=str(calibration),
        unet_sha256=sha256(export / "unet" / "model.onnx"),
        calibration_sha256=sha256(calibration),
        size=size,
        guidance=guidance,
        steps=steps,
        seed=seed,
        prompts=search_captions(prompts),
    )


def run(
    place: Place, trials: Sequence[Trial], work: Path, jobs: int, progress: Progress = lambda done, total: None
) -> list[Outcome]:
    """The outcome of every trial, in order, on `jobs` processes; what was tried before is read.

    Raises:
        DpuError: E502, the file of trials is damaged; or what a worker met.
    """
    path = work / "trials" / f"{place.digest}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    log = read_record(path, Log, "trials are kept there") if path.is_file() else Log(place=place)
    todo = {t.key: t for t in trials if t.key not in log.outcomes}
    tasks = [(place.model_dump_json(), t) for t in todo.values()]
    for done, (key, outcome) in enumerate(each(_measure, tasks, jobs, ordered=False)):
        log.outcomes[key] = outcome
        with atomic_write(path) as temporary:
            temporary.write_text(log.model_dump_json(indent=0) + "\n")
        progress(done + 1, len(tasks))
    return [log.outcomes[t.key] for t in trials]


def _measure(task: tuple[str, Trial]) -> tuple[str, Outcome]:
    from ..metrics.flip import flip
    from ..train.judge import look

    place, tried = Place.model_validate_json(task[0]), task[1]
    pipeline = pipeline_of(place)
    errors, flips, latents, right = [], [], [], []
    for prompt in place.prompts:
        where = (prompt, place.steps, place.seed, place.guidance)
        clean, signal = pipeline.picture(*where, {})
        picture, found = pipeline.picture(*where, dict(tried.precisions))
        errors.append(float(np.mean((picture.astype(np.float64) - clean) ** 2)))
        a, b = ((np.round(x * 255)).astype(np.uint8) for x in (clean, picture))
        flips.append(flip(a, b))
        if tried.judge:
            seen = look(_judge(tried.judge), b[None])[0].combination
            right.append(seen == combination_of(prompt))
        wide = signal.astype(np.float64)
        latents.append(float(np.sum((found - wide) ** 2) / np.sum(wide**2)))
    return tried.key, Outcome(
        name=tried.name,
        squared_error=tuple(errors),
        flip=tuple(flips),
        latents=tuple(latents),
        right=tuple(right),
    )


def pipeline_of(place: Place) -> FakePipeline:
    """The pipeline of a place, loaded once a process."""
    return _pipeline(place.export, place.calibration, place.size)


@cache
def _judge(model: str) -> Classifier:
    from ..train.judge import load_judge

    return load_judge(Path(model))


@cache
def _pipeline(export: str, calibration: str, size: int) -> FakePipeline:
    return FakePipeline(Path(export), Path(calibration), size)
