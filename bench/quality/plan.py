"""What is made from what: the model, its export, one calibration, a program for each precision.

Everything of one model on one arch lies in a work folder. `plan.json` says which; another model is refused there.

    WORK/plan.json   WORK/export/   WORK/calibration.safetensors   WORK/programs/<precision>.dpu   WORK/pictures/
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ...errors import DpuError
from ...files import sha256
from ...passes.policy import Policy
from ..train.captions import FORMS, caption, split
from .kept import keep_plan
from .variants import parse_variant

Say = Callable[[str], None]
FORMAT: Literal["dpu.quality-plan/1"] = "dpu.quality-plan/1"
FLOATS = ("fp16", "fp32")
"""Pictures of no program. `fp16`: diffusers in float16, what all others are compared with; `fp32`: the CPU reference
of `dpurun --target cpu`."""
ARITHMETIC = {
    "fp16": "diffusers on torch's CPU kernels, every tensor float16 (sums inside a kernel may be wider)",
    "fp32": "ONNX Runtime on the CPU, float32 arithmetic on the same float16 weights; dpurun --target cpu",
}
GPTQ = "+gptq"
CALIBRATION_PROMPTS, CALIBRATION_STEPS, GUIDANCE = 16, 20, 5.0
SIZE = 128  # pixels, each way: that of train/compose.py, which loads torch
PARTS = ("unet", "vae", "text_encoder", "text_encoder_2", "tokenizer", "tokenizer_2", "scheduler")


class Plan(BaseModel):
    """Of a work folder: pictures of other plans do not belong there."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal["dpu.quality-plan/1"] = FORMAT
    model_sha256: str
    classifier_sha256: str
    arch: str
    size: int  # pixels, each way
    calibration_prompts: int
    calibration_steps: int
    guidance: float


def model_digest(model: Path) -> str:
    """Over names and bytes of all files that decide a picture.

    Raises:
        DpuError: it is no diffusers folder.
    """
    if not (model / "model_index.json").is_file():
        what = "has no model_index.json" if model.is_dir() else "no such folder"
        hint = "give a diffusers folder, such as one of make train"
        raise DpuError(str(model), what, hint=hint, code="E106")
    files = [model / "model_index.json", *(f for p in PARTS for f in sorted((model / p).rglob("*")) if f.is_file())]
    digest = hashlib.sha256()
    for file in files:
        digest.update(f"{file.relative_to(model).as_posix()}\0{sha256(file)}\n".encode())
    return digest.hexdigest()


def classifier_file(model: Path) -> Path:
    """The judge of the pictures.

    Raises:
        DpuError: the folder has none.
    """
    from ..train.judge import FILE  # loads torch

    file = model / FILE
    if not file.is_file():
        why = "it says whether a picture shows its caption"
        raise DpuError(
            str(file),
            "no such file",
            why=why,
            hint="give models/tiny, or what python -m dpu.bench.train wrote",
            code="E106",
        )
    return file


def make_plan(model: Path, arch: str, work: Path) -> Plan:
    """The plan of a work folder, written there if it has none.

    Raises:
        DpuError: no model; E522, the folder belongs to another model or arch.
    """
    plan = Plan(
        model_sha256=model_digest(model),
        classifier_sha256=sha256(classifier_file(model)),
        arch=arch,
        size=SIZE,
        calibration_prompts=CALIBRATION_PROMPTS,
        calibration_steps=CALIBRATION_STEPS,
        guidance=GUIDANCE,
    )
    why = "the pictures in this folder are of another model, arch or calibration"
    return keep_plan(work / "plan.json", plan, why, _short)


def _short(value: object) -> str:
    return repr(value[:12] + "..." if isinstance(value, str) and len(value) == 64 else value)


def label(name: str) -> str:
    """What a precision is called in tables and file names.

    Raises:
        DpuError: see `parse_variant`.
    """
    return parse_variant(name).label


def parse_precision(name: str) -> tuple[Policy, bool]:
    """(policy, whether with GPTQ): `parse_variant` without the rest."""
    variant = parse_variant(name)
    return variant.policy, variant.gptq


def captions_of_training(count: int = CALIBRATION_PROMPTS) -> list[str]:
    """Captions evenly out of the combinations that the model was trained on; none is a prompt of the evaluation."""
    seen = split()[0]
    every = len(seen) // count
    return [caption(c, i * 5 % FORMS) for i, c in enumerate(seen[every // 2 :: every][:count])]


def program_path(work: Path, name: str) -> Path:
    """Where the program of a precision is kept."""
    return work / "programs" / f"{label(name)}.dpu"


def prepare(
    model: Path,
    plan: Plan,
    work: Path,
    precisions: Sequence[str],
    say: Say,
) -> None:
    """Export, calibrate and compile what is not there yet.

    Raises:
        DpuError: anything that these three refuse.
    """
    from ...codegen.driver import compile_folder
    from ...runtime.calibrate import calibrate_folder

    folder = _exported(model, plan, work, say)
    missing = [p for p in precisions if not program_path(work, p).is_file()]
    calibration = work / "calibration.safetensors"
    if missing and not calibration.is_file():
        say(f"calibrating: {plan.calibration_prompts} captions, {plan.calibration_steps} steps each ...")
        prompts, size = captions_of_training(plan.calibration_prompts), (plan.size, plan.size)
        calibrate_folder(folder, calibration, prompts, plan.calibration_steps, plan.guidance, size, grams=True)
    (work / "programs").mkdir(exist_ok=True)
    for name in missing:
        say(f"compiling {label(name)} for {plan.arch} ...")
        variant = parse_variant(name)
        compile_folder(
            folder,
            arch=plan.arch,
            precision=variant.policy,
            calibration=calibration,
            size=(plan.size, plan.size),
            out=program_path(work, name),
            gptq=variant.gptq,
            collector=variant.collector,
            smooth=variant.smooth,
        )


def _exported(model: Path, plan: Plan, work: Path, say: Say) -> Path:
    from ...runtime.export import export_pipeline

    folder = work / "export"
    if not folder.is_dir():
        say("exporting ...")
        export_pipeline(str(model), folder, size=plan.size, open_sizes=True)
    return folder
