"""SQNR and cosine of the noise prediction step by step, of a few prompts: kept as JSON in the work folder."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...files import atomic_write
from ..train.captions import evaluation_prompts
from .pictures import folder_name
from .plan import Plan, program_path
from .results import Sqnr
from .workers import each


class Task(NamedTuple):
    """One prompt with seed 0 in one precision. `key` is what the precision's pictures are made from."""

    work: str
    precision: str
    steps: int
    prompt: int
    key: str
    device: str
    size: int
    guidance: float


class Found(NamedTuple):
    """Of each step: SQNR in dB and cosine, on the samples of the float32 UNet (one forward) and on its own."""

    one_forward: list[float]
    free_running: list[float]
    one_forward_cosine: list[float]
    free_running_cosine: list[float]


def tasks(
    plan: Plan, work: Path, precision: str, steps: int, prompts: int, key: str, device: str = "cpu"
) -> list[Task]:
    """One for each of the first `prompts` prompts."""
    return [Task(str(work), precision, steps, p, key, device, plan.size, plan.guidance) for p in range(prompts)]


def run(todo: Sequence[Task], jobs: int) -> list[Found]:
    """What each task found, in order."""
    return list(each(step_errors, todo, jobs))


def step_errors(task: Task) -> Found:
    """Of one prompt, from the work folder if it is there: three images else."""
    path = Path(task.work) / "steps" / folder_name(task.precision) / str(task.steps) / f"{task.prompt:02}.json"
    if path.is_file():
        kept = json.loads(path.read_text())
        if kept.pop("key") == task.key and kept.keys() == set(Found._fields):
            return Found(**kept)
    found = _compared(task)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"key": task.key, **found._asdict()}) + "\n")
    return found


def _compared(task: Task) -> Found:
    from ...codegen.dpufile import load
    from ...runtime.parts import device_parts
    from ...runtime.pipeline import Pipeline, Request
    from ...runtime.pipeline_files import BundledFiles, FolderFiles
    from ...runtime.session import Session
    from ...runtime.sqnr import compare
    from ...runtime.targets import open_device
    from ...runtime.unets import DpuUnet, OnnxUnet

    path = program_path(Path(task.work), task.precision)
    program = load(path)
    with Session(program, open_device("sim", program.arch, device=task.device, timed=False)) as session:
        pipeline = Pipeline(BundledFiles(program.files, str(path)), device_parts(session))
        text = evaluation_prompts()[task.prompt][1]
        size = (task.size, task.size)
        request = Request(text, steps=task.steps, guidance=task.guidance, height=size[0], width=size[1])
        reference = OnnxUnet(FolderFiles(Path(task.work) / "export"))
        found = compare(pipeline, request, reference, DpuUnet(session))
    return Found(found.teacher_forced, found.free_running, found.teacher_forced_cosine, found.free_running_cosine)


def summary(precision: str, steps: int, found: Sequence[Found]) -> Sqnr:
    """Means over prompts."""
    return Sqnr(
        precision=folder_name(precision),
        steps=steps,
        prompts=len(found),
        one_forward=_means([f.one_forward for f in found], 2),
        free_running=_means([f.free_running for f in found], 2),
        one_forward_cosine=_means([f.one_forward_cosine for f in found], 6),
        free_running_cosine=_means([f.free_running_cosine for f in found], 6),
    )


def _means(prompts: Sequence[Sequence[float]], digits: int) -> tuple[float, ...]:
    return tuple(round(float(x), digits) for x in np.array(prompts).mean(0))
