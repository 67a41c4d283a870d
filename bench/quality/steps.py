"""SQNR of the noise prediction step by step, of a few prompts: three images each, kept as JSON in the work folder."""

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


def tasks(
    plan: Plan, work: Path, precision: str, steps: int, prompts: int, key: str, device: str = "cpu"
) -> list[Task]:
    """One for each of the first `prompts` prompts."""
    return [Task(str(work), precision, steps, p, key, device, plan.size, plan.guidance) for p in range(prompts)]


def run(todo: Sequence[Task], jobs: int) -> list[tuple[list[float], list[float]]]:
    """(one forward, free-running) SQNR of each task, in order."""
    return list(each(step_errors, todo, jobs))


def step_errors(task: Task) -> tuple[list[float], list[float]]:
    """SQNR in dB of each step: on the samples of the float32 UNet, and on its own."""
    path = Path(task.work) / "steps" / folder_name(task.precision) / str(task.steps) / f"{task.prompt:02}.json"
    if path.is_file():
        kept = json.loads(path.read_text())
        if kept["key"] == task.key:
            return kept["one_forward"], kept["free_running"]
    one, free = _compared(task)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps({"key": task.key, "one_forward": one, "free_running": free}) + "\n")
    return one, free


def _compared(task: Task) -> tuple[list[float], list[float]]:
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
    return found.teacher_forced, found.free_running


def summary(precision: str, steps: int, found: Sequence[tuple[list[float], list[float]]]) -> Sqnr:
    """Means over prompts."""
    one, free = (np.array([f[i] for f in found]).mean(0) for i in (0, 1))
    return Sqnr(
        precision=folder_name(precision),
        steps=steps,
        prompts=len(found),
        one_forward=tuple(round(float(x), 2) for x in one),
        free_running=tuple(round(float(x), 2) for x in free),
    )
