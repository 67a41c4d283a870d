"""Pictures of the predictor, and how far their PSNR is from the simulator's: is the loss of a precision understood?

The predictor (`predict_pipeline.py`) is a second implementation of the numerics on diffusers' modules. Its pictures lie
beside the simulator's in the work folder of `dpubench quality`, one file a prompt, and are scored by the same code.

    WORK/predicted/w8a8/20/07.npz
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...errors import DpuError
from ...files import sha256
from ...runtime.sqnr import psnr
from ..metrics.bootstrap import mean
from ..train.captions import PROMPTS, evaluation_prompts
from . import pictures, score
from .kept import read_result
from .plan import FLOATS, Plan, label, make_plan, program_path
from .results import Predicted, Quality, Value
from .workers import each

REFERENCE = "fp16"
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Request:
    """What to predict: the first `prompts` of the evaluation's, with seeds from 0 on."""

    model: Path
    work: Path
    precisions: tuple[str, ...]
    steps: tuple[int, ...] = (20,)
    prompts: int = PROMPTS
    seeds: int = 10
    arch: str = "dpu_tiny"
    jobs: int = 1
    device: str = "cpu"

    def check(self) -> None:
        """Refuse what cannot be predicted, before any work.

        Raises:
            DpuError: a precision is unknown, no quantised one or there twice, or a number is out of range.
        """
        from .predict_pipeline import check_device

        check_device(self.device)
        for i, name in enumerate(self.precisions):
            if name in FLOATS or name in self.precisions[:i]:
                what = f"'{name}' is there twice" if name in self.precisions[:i] else f"'{name}' is not quantised"
                raise DpuError("--precisions", what, hint="give every quantised precision once", code="E501")
            label(name)
        for option, value, low, high in (
            ("--prompts", self.prompts, 1, PROMPTS),
            ("--seeds", self.seeds, 1, 1000),
            *(("--steps", s, 1, 1000) for s in self.steps),
        ):
            if not low <= value <= high:
                raise DpuError(option, f"{value} is not between {low} and {high}", code="E501")


class Batch(NamedTuple):
    """The predicted pictures of one prompt, for one worker. `key` is what they are made from."""

    model: str
    work: str
    precision: str
    steps: int
    prompt: int
    seeds: tuple[int, ...]
    key: str
    device: str
    guidance: float

    @property
    def path(self) -> Path:
        """Where its pictures are kept."""
        return predicted_path(Path(self.work), self.precision, self.steps, self.prompt)


def predicted_path(work: Path, precision: str, steps: int, prompt: int) -> Path:
    """The file of one prompt."""
    return work / "predicted" / label(precision) / str(steps) / f"{prompt:02}.npz"


def key_of(plan: Plan, work: Path, precision: str) -> str:
    """A digest of what decides the predicted pictures of a precision, except prompt, steps and seed.

    Raises:
        DpuError: there is no program or no calibration in the work folder.
    """
    from .predict_pipeline import digest

    calibration, program = work / "calibration.safetensors", program_path(work, precision)
    for path in (calibration, program):
        if not path.is_file():
            hint = f"dpubench quality MODEL --precisions {precision} --work {work} makes it"
            raise DpuError(str(path), "no such file", why="the predictor reads it", hint=hint, code="E106")
    made_from = {
        "model": plan.model_sha256,
        "size": plan.size,
        "guidance": plan.guidance,
        "calibration": sha256(calibration),
        "program": sha256(program),
        "predictor": digest(),
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def batches(request: Request, plan: Plan) -> list[Batch]:
    """Every file of the run, with the seeds that it lacks; those with all are left out.

    Raises:
        DpuError: a file is damaged or of something else.
    """
    found = []
    for precision in request.precisions:
        key = key_of(plan, request.work, precision)
        for count in request.steps:
            for prompt in range(request.prompts):
                kept = pictures.read_pictures(predicted_path(request.work, precision, count, prompt), key).found
                missing = tuple(s for s in range(request.seeds) if s not in kept)
                where = (str(request.model), str(request.work), precision, count, prompt, missing)
                if missing:
                    found.append(Batch(*where, key, request.device, plan.guidance))
    return found


def make_pictures(request: Request, progress: Progress = lambda done, total: None) -> Plan:
    """Predict what is not there yet; `progress` counts pictures.

    Raises:
        DpuError: see `Request.check`, `batches`, `open_predictor`.
    """
    request.check()
    plan = make_plan(request.model, request.arch, request.work)
    todo = batches(request, plan)
    total, made = sum(len(b.seeds) for b in todo), 0
    for count in each(make_batch, todo, request.jobs, ordered=False):
        made += count
        progress(made, total)
    return plan


def make_batch(batch: Batch) -> int:
    """Predict what the batch's file lacks; how many were made.

    On the CPU one at a time, so that a picture does not depend on what it is made with; on CUDA all seeds at once.
    """
    kept = pictures.read_pictures(batch.path, batch.key)
    missing = [s for s in batch.seeds if s not in kept.found]
    text = evaluation_prompts()[batch.prompt][1]
    predictor = _opened(batch.model, batch.work, batch.precision, batch.device)
    where = pictures.made_on(batch.device).replace("simulator", "predictor")
    for seeds in [missing] if batch.device == "cuda" else [[s] for s in missing]:
        start = pictures.cpu_seconds()
        found = predictor.pictures(text, batch.steps, seeds, batch.guidance)
        seconds = (pictures.cpu_seconds() - start) / len(seeds)
        kept.found |= {s: pictures.Made(p, seconds, 0, where) for s, p in zip(seeds, found, strict=True)}
        kept.save(batch.path)
    return len(missing)


@lru_cache(maxsize=1)  # batches come precision by precision
def _opened(model: str, work: str, precision: str, device: str):  # type: ignore[no-untyped-def]  # loads torch
    from .predict_pipeline import open_predictor

    return open_predictor(Path(model), Path(work), precision, device)


class Compared(NamedTuple):
    """One precision at one number of steps."""

    precision: str
    steps: int
    found: Predicted

    @property
    def text(self) -> str:
        """As a line of the table."""
        p = self.found
        one = f"{self.precision:<20}{self.steps:>5}{p.images:>7}  {p.simulated.text():<24}{p.psnr.text():<24}"
        return one + f"{p.difference.text(3):<26}{p.beside_simulated.text(3):<20}{p.verdict}"


HEADER = (
    f"{'precision':<20}{'steps':>5}{'images':>7}  {'simulated PSNR dB':<24}{'predicted PSNR dB':<24}"
    f"{'difference dB':<26}{'beside':<20}verdict"
)


def compare(request: Request, plan: Plan, progress: Progress = lambda done, total: None) -> list[Compared]:
    """PSNR against fp16 of the predicted and of the simulated pictures, of the same prompts and seeds.

    Raises:
        DpuError: pictures of fp16, of the simulator or of the predictor are missing or of something else.
    """
    compared = []
    for precision in request.precisions:
        keys = {p: pictures.key_of(plan, request.work, p) for p in (REFERENCE, precision)}
        key = key_of(plan, request.work, precision)
        for count in request.steps:
            where = (request.model, request.work, precision, REFERENCE, count, request.prompts, request.seeds, keys)
            simulated = score.pairs(*where)
            predicted = [
                p._replace(
                    candidate=str(predicted_path(request.work, precision, count, p.prompt)),
                    candidate_key=key,
                    out=str(request.work / "scores" / "predicted" / label(precision) / str(count) / Path(p.out).name),
                )
                for p in simulated
            ]
            of_simulated = score.score_pairs(simulated, request.jobs, progress)
            of_predicted = score.score_pairs(predicted, request.jobs, progress)
            beside = [_beside(a, b) for a, b in zip(simulated, predicted, strict=True)]
            found = summary(of_simulated, of_predicted, beside)
            compared.append(Compared(label(precision), count, found))
    return compared


def _beside(simulated: score.Pair, predicted: score.Pair) -> float:
    """Mean PSNR in dB of a prompt's predicted pictures against the simulated ones; equal ones count as 100 dB."""
    sides = [
        pictures.read_pictures(Path(p.candidate), p.candidate_key).found for p in (simulated, predicted)
    ]  # all seeds are there: both were scored
    return float(np.mean([min(psnr(sides[0][s].pixels, sides[1][s].pixels), 100.0) for s in simulated.seeds]))


def summary(simulated: Sequence[score.Scored], predicted: Sequence[score.Scored], beside: Sequence[float]) -> Predicted:
    """Means over prompts of both, each with an entry a prompt; the difference is paired by prompt."""
    from .predict_pipeline import digest

    a, b = (np.array([s.paired["psnr"].mean() for s in side]) for side in (simulated, predicted))
    seconds = np.concatenate([s.cpu_seconds for s in predicted])
    return Predicted(
        prompts=len(predicted),
        images=int(sum(len(s.cpu_seconds) for s in predicted)),
        psnr=Value.of(mean(list(b))),
        simulated=Value.of(mean(list(a))),
        difference=Value.of(mean(list(b - a))),
        beside_simulated=Value.of(mean(list(beside))),
        flip=Value.of(mean([float(s.paired["flip"].mean()) for s in predicted])),
        cpu_seconds_an_image=round(float(np.median(seconds)), 3),
        made_on=tuple(dict.fromkeys(m for s in predicted for m in s.made_on)),
        predictor_sha256=digest(),
    )


def add_to(path: Path, plan: Plan, work: Path, compared: Sequence[Compared]) -> Quality:
    """Put the predictions into the rows of a result of `dpubench quality`, and write its README anew.

    Raises:
        DpuError: there is no such result, or it has no such row of this program.
    """
    from .measure import save

    quality = read_result(path, Quality)
    if quality is None:
        hint = f"dpubench quality MODEL --work {work} -o {path} makes it"
        raise DpuError(str(path), "no such file", why="predictions go into its rows", hint=hint, code="E106")
    rows = {(r.precision, r.steps): r for r in quality.rows}
    for c in compared:
        row = rows.get((c.precision, c.steps))
        if row is None or quality.programs.get(c.precision) != sha256(program_path(work, c.precision)):
            what = f"has no row of {c.precision} with {c.steps} steps and this program"
            raise DpuError(str(path), what, hint=f"run dpubench quality with --work {work} first", code="E522")
        rows[c.precision, c.steps] = row.model_copy(update={"predicted": c.found})
    if quality.model_sha256 != plan.model_sha256:
        raise DpuError(str(path), "is of another model", hint="choose another output file", code="E522")
    whole = quality.model_copy(update={"rows": tuple(rows.values())})
    save(whole, path)
    return whole
