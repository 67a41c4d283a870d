"""SDXL's quality as a file and as a page. A rehearsal cannot be taken for it: file, row, page and figure say it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from ...errors import DpuError
from ...files import atomic_write
from ..full_image import Stage
from ..metrics.report import CLIP_OF_CANDIDATE, CLIP_OF_REFERENCE, Score
from ..rates import Result
from .kept import check_result
from .published import PUBLISHED, SOURCE
from .results import Cost

FORMAT: Literal["dpu.sdxl-quality/1"] = "dpu.sdxl-quality/1"
What = Literal["SDXL's quality", "rehearsal, not SDXL's quality"]
QUALITY: What = "SDXL's quality"
REHEARSAL: What = "rehearsal, not SDXL's quality"
ARITHMETIC = "diffusers, every tensor float16; the VAE in float32 where its config asks for that (force_upcast)"
FID_OF_REFERENCE = "FID of reference against statistics"
_COLUMNS = (
    ("PSNR", "PSNR, dB"),
    ("SSIM", "SSIM"),
    ("MS-SSIM", "MS-SSIM"),
    ("FLIP", "FLIP"),
    ("feature distance", "features"),
    ("kernel distance", "kernel"),
    ("FID of candidate against reference", "FID to fp16"),
    ("FID of candidate against statistics", "FID"),
    (CLIP_OF_CANDIDATE, "CLIP"),
)
"""Beginning of a score's name -> its column."""
_ITS_OWN = {FID_OF_REFERENCE: "FID", CLIP_OF_REFERENCE: "CLIP"}
"""Scores of the reference itself."""


class Row(Result):
    """One precision. Scores are against the float16 pictures of the same prompts and seeds; the reference's own row has
    those that need no other side (FID against statistics, CLIP score)."""

    what: What
    why: tuple[str, ...]  # of a rehearsal
    model: str  # `seeded weights`, or the digest of trained ones
    precision: str
    experiment: Literal["prompts", "captions"]
    steps: int
    prompts: int
    whole: int  # prompts of the whole experiment
    scores: tuple[Score, ...]
    mlperf: str
    notes: tuple[str, ...]
    exceptions: int  # float16 overflows, NaN, inputs beyond float16, over all pictures
    seconds_an_image: float  # measured: median of the pictures, of all models of one, without loading
    images_an_hour: float  # 3600 over that, of one device
    made_on: tuple[str, ...]
    layers: dict[str, int] = Field(default_factory=dict)  # of the program: how many have which precision
    program_sha256: str = ""

    def column(self, name: str) -> Score | None:
        """The score of a column."""
        own = {v: k for k, v in _ITS_OWN.items()} if not self.program_sha256 else {}
        start = own.get(name) or next(k for k, v in _COLUMNS if v == name)
        return next((s for s in self.scores if s.name.startswith(start)), None)


class SdxlQuality(Result):
    """The whole result."""

    format: Literal["dpu.sdxl-quality/1"] = FORMAT
    what: What
    command: str
    provenance: str = (
        "pictures of precisions: simulated, bit for bit; of fp16: computed, see arithmetic; metrics are computed from"
        " the pictures; seconds and images an hour: measured, of the simulation, not of a DPU"
    )
    model: str
    model_sha256: str
    weights_sha256: dict[str, str]
    arch: str
    size: int
    calibration: str
    reference: str
    arithmetic: str = ARITHMETIC
    experiments: dict[str, str]
    interval: str = "95 %, over prompts: bootstrap BCa"
    versions: dict[str, str]
    stages: tuple[Stage, ...]
    rows: tuple[Row, ...]
    costs: tuple[Cost, ...] = ()

    @property
    def title(self) -> str:
        """What it is, as a heading."""
        return self.what[0].upper() + self.what[1:]

    def text(self) -> str:
        """The table for people."""
        head = f"{self.what}: {self.model}" if self.what == QUALITY else f"REHEARSAL, NOT SDXL'S QUALITY: {self.model}"
        why = dict.fromkeys(w for r in self.rows for w in r.why)
        lines = [head, *(f"  {w}" for w in why)]
        names = [c for _, c in _COLUMNS if any(r.column(c) for r in self.rows)]
        lines.append(f"{'precision':<14}{'of':<9}{'steps':>5}{'images':>7}  " + "".join(f"{n:<22}" for n in names))
        for r in self.rows:
            cells = "".join(f"{_cell(r.column(n)):<22}" for n in names)
            lines.append(f"{r.precision:<14}{r.experiment:<9}{r.steps:>5}{r.prompts:>7}  {cells}".rstrip())
        for r in self.rows:
            lines.append(f"{r.precision}: {r.images_an_hour:.3g} images an hour (measured) on {'; '.join(r.made_on)}")
            lines += [f"{r.precision}: {text}" for text in (r.mlperf, *r.notes) if text]
            if r.exceptions:
                lines.append(f"{r.precision}: {r.exceptions:,} float16 overflows, NaN or inputs beyond float16")
        return "\n".join(lines)


def check_name(what: str, why: Sequence[str], output: Path) -> None:
    """Refuse a rehearsal in a file whose name does not say so, and a result in one that calls it a rehearsal.

    Raises:
        DpuError: E501.
    """
    if what == REHEARSAL and "rehearsal" not in output.name:
        raise DpuError(
            "--output",
            f"value is {output}, and these pictures are a rehearsal, not SDXL's quality",
            why="; ".join(why),
            hint=f"say so in the name: -o {output.with_name(f'{output.stem}-rehearsal.json')}",
            code="E501",
        )
    if what == QUALITY and "rehearsal" in output.name:
        what_is = f"value is {output}, and these pictures are no rehearsal"
        raise DpuError("--output", what_is, hint="name another file, such as results/quality/sdxl.json", code="E501")


def merged(new: SdxlQuality, old: SdxlQuality | None, path: Path) -> SdxlQuality:
    """`new`, and of `old` the rows that it does not replace and whose program has not changed.

    Raises:
        DpuError: E522, `old` is of another model, arch, size or calibration, or the one is a rehearsal.
    """
    if old is None:
        return new
    check_result(path, old, new, ("what", "model_sha256", "arch", "size", "calibration"))
    now = {r.precision: r.program_sha256 for r in new.rows}
    kept = {_place(r): r for r in old.rows if now.get(r.precision, r.program_sha256) == r.program_sha256}
    rows = kept | {_place(r): r for r in new.rows}
    costs = {(c.precision, c.model, c.arch, c.steps): c for c in (*old.costs, *new.costs)}
    changes = {
        "rows": tuple(sorted(rows.values(), key=lambda r: (r.experiment, r.steps))),
        "costs": tuple(costs.values()),
        "experiments": old.experiments | new.experiments,
    }
    return new.model_copy(update=changes)


def _place(r: Row) -> tuple[str, int, str]:
    return r.experiment, r.steps, r.precision


def write_page(q: SdxlQuality, json_name: str, png_names: Sequence[str], path: Path) -> None:
    """Beside the result file."""
    with atomic_write(path) as temporary:
        temporary.write_text(page(q, json_name, png_names), encoding="utf-8")


def page(q: SdxlQuality, json_name: str, png_names: Sequence[str]) -> str:
    """As Markdown."""
    names = [c for _, c in _COLUMNS if any(r.column(c) for r in q.rows)]
    lines = [
        f"# {q.title}",
        "",
        f"Written by `{q.command}`; the numbers are those of [{json_name}]({json_name}).",
        f"Model: {q.model} ({q.model_sha256[:12]} with configs and tokenizers), programs for {q.arch},"
        f" {q.size}x{q.size} pixels. Calibration: {q.calibration}.",
        f"Provenance: {q.provenance}. Intervals: {q.interval}. Reference: {q.reference}, {q.arithmetic}.",
        "",
        *(f"- **{w}.**" for w in dict.fromkeys(w for r in q.rows for w in r.why)),
        *(f"- {name}: {says}." for name, says in q.experiments.items()),
        "",
        f"| what | model | precision | of | steps | images | {' | '.join(names)} | overflows | images an hour |",
        f"|{'---|' * (len(names) + 8)}",
    ]
    for r in q.rows:
        cells = [r.what, r.model, r.precision, r.experiment, str(r.steps), f"{r.prompts:,} of {r.whole:,}"]
        cells += [*(_cell(r.column(n)) for n in names), f"{r.exceptions:,}", f"{r.images_an_hour:.3g}"]
        lines.append(f"| {' | '.join(cells)} |")
    said = [f"- {r.precision}, {r.experiment}: {t}." for r in q.rows for t in (r.mlperf, *r.notes) if t]
    rates = [f"- {r.precision}: made on {'; '.join(r.made_on)}." for r in q.rows]
    lines += ["", *dict.fromkeys(said), *dict.fromkeys(rates), "", "## Published figures, of another's SDXL", ""]
    lines += [
        f"Not ours: {SOURCE}. Other prompts, other steps, another reference; they say what such numbers look like.",
        "",
        "| model | precision | how | PSNR against FP16, dB | LPIPS |",
        "|---|---|---|---|---|",
        *(f"| {p.model}, another's | {p.precision} | {p.how} | {p.psnr_db} | {p.lpips} |" for p in PUBLISHED),
    ]
    if q.costs:
        lines += ["", "## What an image takes", ""]
        lines += [
            "| precision | arch | steps | seconds | DRAM, GB | J | USD a thousand | provenance |",
            f"|{'---|' * 8}",
        ]
        for c in q.costs:
            usd = "-" if c.usd_a_thousand is None else f"{c.usd_a_thousand:.3g}"
            lines.append(
                f"| {c.precision} | {c.arch} | {c.steps} | {c.seconds:.4g} | {c.dram_bytes / 1e9:,.0f} |"
                f" {c.joules:.3g} | {usd} | {c.provenance} |"
            )
        lines += ["", *(f"- {t}." for t in dict.fromkeys(f"{c.arch}: {c.source}; J {c.joules_are}" for c in q.costs))]
        lines += ["", *(f"![The frontier, {q.what}]({n})" for n in png_names)]
    return "\n".join(lines) + "\n"


def _cell(score: Score | None) -> str:
    if score is None:
        return "-"
    value, low, high = (f"{x:.4g}" if isinstance(x, float) else str(x) for x in (score.value, score.low, score.high))
    return value if score.low is None else f"{value} [{low}, {high}]"
