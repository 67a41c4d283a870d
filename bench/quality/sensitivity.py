"""What each layer does to the final picture when it alone is quantised; blocks, parts and everything at once too.

Measured in the float32 pipeline (`sensitivity_model.py`), over all denoising steps, against the same pipeline without
any quantised layer. The other question, one layer left exact among quantised ones, has no answer of use: what the other
layers do hides it. Squared errors of single layers add up to that of all as far as layers do not meet each other; the
table shows the sum beside what all together did.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ...errors import DpuError
from ...files import atomic_write
from ...passes.policy import Precision
from .plan import Say, make_plan, parse_precision, prepare
from .sensitivity_model import PARTS, FakePipeline, Key, Layer, block_of, resolved
from .sensitivity_trials import (
    Outcome,
    Place,
    Progress,
    Trial,
    decibels,
    pipeline_of,
    place_of,
    run,
    search_captions,
    trial,
)

FORMAT: Literal["dpu.quality-sensitivity/1"] = "dpu.quality-sensitivity/1"
MOST_PROMPTS = 64


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Row(_Frozen):
    """Layers that were quantised together. `psnr_db` is of all pictures as one, none where nothing changed; `share` is
    a layer's part of the sum of all layers' squared errors."""

    what: Literal["layer", "block", "part", "all"]
    name: str
    kind: str
    layers: int
    psnr_db: float | None
    flip: float
    latents_db: float | None
    share: float | None = None


class Sensitivity(_Frozen):
    """The ranked rows: most harmful first within layers, blocks and parts."""

    format: Literal["dpu.quality-sensitivity/1"] = FORMAT
    command: str
    precision: str
    measure: str
    model_sha256: str
    calibration_sha256: str
    steps: int
    seed: int
    guidance: float
    prompts: tuple[str, ...]
    sum_psnr_db: float | None  # of all layers' squared errors
    rows: tuple[Row, ...]
    provenance: Literal["simulated"] = "simulated"

    def of(self, what: str) -> list[Row]:
        """The rows of layers, blocks, parts, or of everything."""
        return [r for r in self.rows if r.what == what]

    def text(self, top: int) -> str:
        """The tables that `dpubench sensitivity` prints."""
        layers = self.of("layer")
        lines = [f"the final picture when one layer alone is {self.precision}, against float32 ({self.measure})"]
        lines += _table("layer", layers[:top])
        if len(layers) > top:
            rest = sum(r.share or 0 for r in layers[top:])
            lines.append(f"     and {len(layers) - top} more with {rest:.1%} of the squared error")
        lines += ["", "all layers of a block", *_table("block", self.of("block"))]
        lines += ["", "all layers of a part", *_table("part", [*self.of("part"), *self.of("all")])]
        lines.append(f"the squared errors of single layers add up to {_db(self.sum_psnr_db).strip()} dB")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """As JSON, atomically."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")


def _table(title: str, rows: Sequence[Row]) -> list[str]:
    lines = [f"{'':>3}  {'PSNR dB':>7}  {'FLIP':>6}  {'latents dB':>10}  {'share':>6}  {'kind':<9}  {title}"]
    for i, r in enumerate(rows):
        share = "" if r.share is None else f"{r.share:.1%}"
        head = f"{i + 1:>3}  {_db(r.psnr_db):>7}  {r.flip:6.4f}  {_db(r.latents_db):>10}  {share:>6}"
        lines.append(f"{head}  {r.kind:<9}  {r.name}")
    return lines


def _db(value: float | None) -> str:
    return "equal" if value is None else f"{value:.1f}"


def rows_of(layers: Sequence[Layer], precisions: dict[Key, Precision]) -> list[tuple[Row, Trial]]:
    """What is tried: every layer, block and part, and everything; rows without their results."""
    found: list[tuple[Row, Trial]] = []

    def add(what: Literal["layer", "block", "part", "all"], name: str, kind: str, some: Sequence[Layer]) -> None:
        row = Row(what=what, name=name, kind=kind, layers=len(some), psnr_db=None, flip=0, latents_db=None)
        found.append((row, trial(f"{what} {name}", {x.key: precisions[x.key] for x in some})))

    for layer in layers:
        add("layer", f"{layer.part} {layer.name}", layer.kind, [layer])
    blocks: dict[str, list[Layer]] = {}
    for layer in layers:
        blocks.setdefault(block_of(layer), []).append(layer)
    for name, some in blocks.items():
        if len(some) > 1:
            add("block", name, f"{len(some)} layers", some)
    for part in PARTS:
        some = [x for x in layers if x.part == part]
        if some:
            add("part", part, f"{len(some)} layers", some)
    add("all", "everything", f"{len(layers)} layers", layers)
    return found


def ranked(rows: Sequence[tuple[Row, Outcome]]) -> tuple[list[Row], float]:
    """Rows with their results, the largest squared error first among equals of `what`, and the layers' sum of it."""
    total = sum(o.noise for r, o in rows if r.what == "layer")
    made = []
    for row, o in sorted(rows, key=lambda x: (("layer", "block", "part", "all").index(x[0].what), -x[1].noise)):
        update = {
            "psnr_db": _rounded(o.psnr, 3),
            "flip": round(sum(o.flip) / len(o.flip), 6),
            "latents_db": _rounded(decibels(sum(o.latents) / len(o.latents)), 3),
            "share": round(o.noise / total, 6) if row.what == "layer" and total else None,
        }
        made.append(row.model_copy(update=update))
    return made, total


def _rounded(value: float | None, digits: int) -> float | None:
    return None if value is None else round(value, digits)


def check(prompts: int, steps: int) -> None:
    """Refuse numbers out of range, before any work.

    Raises:
        DpuError: E501.
    """
    for option, value, high in (("--prompts", prompts, MOST_PROMPTS), ("--steps", steps, 1000)):
        if not 1 <= value <= high:
            raise DpuError(option, f"{value} is not between 1 and {high}", code="E501")


def opened(
    model: Path, arch: str, work: Path, prompts: int, steps: int, seed: int, say: Say
) -> tuple[Place, FakePipeline]:
    """Export and calibration of a work folder, made if they are not there, and the pipeline whose layers are tried.

    Raises:
        DpuError: see `make_plan`, `prepare`, `FakePipeline`.
    """
    plan = make_plan(model, arch, work)
    prepare(model, plan, work, ("w8a8",), say)
    place = place_of(work, plan.size, plan.guidance, prompts, steps, seed)
    say("importing the graphs ...")
    return place, pipeline_of(place)


def measure(
    model: Path,
    work: Path,
    command: str,
    precision: str = "w8a8",
    arch: str = "dpu_tiny",
    prompts: int = 2,
    steps: int = 20,
    seed: int = 0,
    jobs: int = 1,
    say: Say = lambda _: None,
    progress: Progress = lambda done, total: None,
) -> Sensitivity:
    """Every layer of every part alone, then blocks, parts and everything.

    Raises:
        DpuError: a number is out of range, no such precision, or see `opened`.
    """
    check(prompts, steps)
    policy, _ = parse_precision(precision)
    place, pipeline = opened(model, arch, work, prompts, steps, seed, say)
    tried = rows_of(pipeline.layers, resolved(policy, pipeline.layers))
    outcomes = run(place, [t for _, t in tried], work, jobs, progress)
    rows, total = ranked([(row, o) for (row, _), o in zip(tried, outcomes, strict=True)])
    return Sensitivity(
        command=command,
        precision=policy.name,
        measure=f"{prompts} prompts, {steps} steps, float32 arithmetic on quantised operands",
        model_sha256=place.unet_sha256,
        calibration_sha256=place.calibration_sha256,
        steps=steps,
        seed=seed,
        guidance=place.guidance,
        prompts=search_captions(prompts),
        sum_psnr_db=_rounded(decibels(total), 3),
        rows=tuple(rows),
    )
