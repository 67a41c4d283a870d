"""The whole of `dpubench quality`: prepare, make the pictures, score them, write the result."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import DpuError
from ...files import atomic_write, sha256
from ..metrics.report import versions
from ..train.captions import PROMPTS, evaluation_prompts
from . import pictures, score, speed, steps
from .draw import write_frontier
from .gallery import Shown, choose, write_gallery
from .kept import read_result
from .page import write_page
from .plan import ARITHMETIC, FLOATS, Plan, label, make_plan, prepare, program_path
from .results import UNIFORM, Quality, Row, Sqnr, merged

REFERENCE = "fp16"
_SHOWN = 6  # rows of the gallery
_PACKAGES = ("dpu", "torch", "numpy", "numba", "diffusers", "onnxruntime", "flip-evaluator")

Progress = Callable[[int, int], None]
Say = Callable[[str], None]


@dataclass(frozen=True)
class Request:
    """What to make and score. `prompts` are the first of the evaluation's; `sqnr` of them are seen step by step."""

    model: Path
    work: Path
    precisions: tuple[str, ...]
    steps: tuple[int, ...] = (20,)
    seeds: int = 10
    prompts: int = PROMPTS
    arch: str = "dpu_tiny"
    jobs: int = 1
    device: str = "cpu"
    sqnr: int = 0

    @property
    def every(self) -> tuple[str, ...]:
        """The reference, float32, and the precisions."""
        return (*FLOATS, *self.precisions)


def check(request: Request) -> None:
    """Refuse what cannot be made, before any work.

    Raises:
        DpuError: a precision is unknown or there twice, or a number is out of range.
    """
    labels = [label(p) for p in request.precisions]
    for i, name in enumerate(labels):
        if name in labels[:i] or name in FLOATS:
            what = f"'{name}' is there twice" if name in labels[:i] else f"'{name}' is always made"
            raise DpuError("--precisions", what, hint="give every precision once", code="E501")
    for option, value, low, high in (
        ("--limit", request.prompts, 1, PROMPTS),
        ("--seeds", request.seeds, 1, 1000),
        ("--sqnr", request.sqnr, 0, PROMPTS),
        *(("--steps", s, 1, 1000) for s in request.steps),
    ):
        if not low <= value <= high:
            raise DpuError(option, f"{value} is not between {low} and {high}", code="E501")


def make_pictures(request: Request, say: Say, progress: Progress) -> Plan:
    """Everything up to the pictures; what is there already is not made again.

    Raises:
        DpuError: the work folder is of another model, or export, calibration, compiler or a run refuse.
    """
    check(request)
    plan = make_plan(request.model, request.arch, request.work)
    prepare(request.model, plan, request.work, request.precisions, say)
    todo = pictures.batches(
        request.model,
        plan,
        request.work,
        request.every,
        request.steps,
        request.prompts,
        request.seeds,
        request.device,
    )
    say(f"{sum(len(b.seeds) for b in todo)} pictures to make")
    pictures.run(todo, request.jobs, progress)
    return plan


def measure(request: Request, plan: Plan, command: str, say: Say, progress: Progress) -> tuple[Quality, list[Shown]]:
    """The scores of all pictures and the costs; and pictures for the gallery, of the first number of steps.

    Raises:
        DpuError: pictures are missing or of something else.
    """
    work = request.work
    keys = {p: pictures.key_of(plan, work, p) for p in request.every}
    rows: list[Row] = []
    worst: list[tuple[float, int, int]] = []
    of_steps: list[Sqnr] = []
    scored: dict[tuple[str, int], list[score.Scored]] = {}
    for count in request.steps:
        base: list[score.Scored] | None = None
        for precision in request.every:
            say(f"scoring {pictures.folder_name(precision)}, {count} steps ...")
            where = (request.model, work, precision, REFERENCE, count, request.prompts, request.seeds, keys)
            found = score.score_pairs(score.pairs(*where), request.jobs, progress)
            rows.append(row := score.row_of(precision, count, found, base))
            if precision in FLOATS:
                base = base or found
                continue
            scored[precision, count] = found
            rows[-1] = row.model_copy(update={"layers": _layers(program_path(work, precision))})
            if count == request.steps[0]:
                each = [(s.paired["psnr"], p) for p, s in enumerate(found)]
                worst += [(float(db), p, seed) for values, p in each for seed, db in enumerate(values)]
            if request.sqnr:
                say(f"steps of {label(precision)} ...")
                todo = steps.tasks(plan, work, precision, count, request.sqnr, keys[precision], request.device)
                of_steps.append(steps.summary(precision, count, steps.run(todo, request.jobs)))
    gains = {
        (label(p), count): score.gain(found, scored[UNIFORM, count])
        for (p, count), found in scored.items()
        if p != UNIFORM and (UNIFORM, count) in scored
    }
    rows = [r.model_copy(update={"psnr_gain": gains.get((r.precision, r.steps))}) for r in rows]
    quality = Quality(
        command=command,
        model_sha256=plan.model_sha256,
        classifier_sha256=plan.classifier_sha256,
        arch=plan.arch,
        calibration=f"{plan.calibration_prompts} captions of the training, {plan.calibration_steps} steps each",
        reference=REFERENCE,
        arithmetic=ARITHMETIC,
        guidance=plan.guidance,
        versions={"python": platform.python_version()} | versions(_PACKAGES),
        programs={label(p): sha256(program_path(work, p)) for p in request.precisions},
        rows=tuple(rows),
        sqnr=tuple(of_steps),
        costs=tuple(speed.costs(work, plan, request.precisions, request.steps, say)),
    )
    return quality, _shown(request, keys, choose(worst, request.prompts, min(_SHOWN, request.prompts)))


def write(quality: Quality, shown: Sequence[Shown], output: Path, gallery: Path) -> Quality:
    """The result file, merged with what it held; table and figures beside it; the gallery where asked for.

    Raises:
        DpuError: the file is of another model, or a folder cannot be written.
    """
    whole = merged(quality, read_result(output, Quality), output)
    write_gallery(quality, shown, quality.rows[0].steps, gallery)
    save(whole, output)
    return whole


def save(whole: Quality, output: Path) -> None:
    """The result file as it is; table and figures beside it.

    Raises:
        DpuError: a folder cannot be written.
    """
    counts = list(dict.fromkeys(r.steps for r in whole.rows))
    drawn = [c for c in counts if any(k.steps == c for k in whole.costs)]
    names = [f"{output.stem}-{c}-steps.png" for c in drawn]
    for count, name in zip(drawn, names, strict=True):
        write_frontier(whole, count, output.parent / name)
    write_page(whole, output.name, names, output.parent / "README.md")
    with atomic_write(output) as temporary:
        temporary.write_text(whole.model_dump_json(indent=1, exclude_none=True) + "\n")


def _layers(program: Path) -> dict[str, int]:
    from ...codegen.dpufile import load
    from ...codegen.precisions import by_class, layers

    return by_class(layers(load(program, verify=False)))


def _shown(request: Request, keys: dict[str, str], chosen: Sequence[tuple[int, int]]) -> list[Shown]:
    found = []
    for prompt, seed in chosen:
        made = {}
        for precision in request.every:
            path = pictures.picture_path(request.work, precision, request.steps[0], prompt)
            made[pictures.folder_name(precision)] = pictures.read_pictures(path, keys[precision]).found[seed].pixels
        right = {n: bool(score.judged(request.model, p[None], prompt).all()) for n, p in made.items()}
        found.append(Shown(evaluation_prompts()[prompt][1], seed, made, right))
    return found
