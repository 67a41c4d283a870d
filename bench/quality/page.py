"""The README of the results: rendered from the file, never written by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ...files import atomic_write
from .published import PUBLISHED, SOURCE
from .results import UNIFORM, Quality, Row, Value, beside_uniform, better_than_uniform, verdicts


def write_page(q: Quality, json_name: str, png_names: Sequence[str], path: Path) -> None:
    """Beside the result file."""
    with atomic_write(path) as temporary:
        temporary.write_text(page(q, json_name, png_names), encoding="utf-8")


def page(q: Quality, json_name: str, png_names: Sequence[str]) -> str:
    """As Markdown."""
    lines = [
        "# Quality of the precisions, on the small trained model",
        "",
        *_alone(q),
        f"Written by {', '.join(f'`{c}`' for c in q.commands)}; the numbers are those of [{json_name}]({json_name}).",
        f"Model {q.model_sha256[:12]}, programs for {q.arch}, guidance {q.guidance:g}. Calibration: {q.calibration}.",
        f"Provenance: {q.provenance}. Intervals: {q.interval}.",
        "",
        *(f"- **{name}**: {what}." for name, what in q.arithmetic.items()),
        "",
        f"The reference of PSNR and the distances is {q.reference}. Captions are judged by the model's own classifier.",
        "",
        "| precision | steps | images | all of the caption right | object, colour, place, count | PSNR, dB |"
        " 5 %, median, 95 % | SSIM | MS-SSIM | FLIP | feature distance | kernel distance | overflows |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(r) for r in q.rows),
        "",
        *(f"- {v}." for v in (*verdicts(q), *better_than_uniform(q))),
        *_beside(q),
        "",
        "## Published figures, of another model",
        "",
        f"Not ours and not of our model: {SOURCE}. They say what such numbers look like on SDXL, no more.",
        "",
        "| model | precision | how | PSNR against FP16, dB | LPIPS |",
        "|---|---|---|---|---|",
        *(f"| {p.model} | {p.precision} | {p.how} | {p.psnr_db} | {p.lpips} |" for p in PUBLISHED),
    ]
    lines += _predicted(q)
    if q.sqnr:
        lines += [
            "",
            "## Noise prediction, step by step",
            "",
            "SQNR in dB and cosine against float32, in the first, the middle and the last step: of one forward on the",
            "reference's samples, and free-running.",
            "",
            "| precision | steps | prompts | one forward | its cosine | free-running | its cosine |",
            "|---|---|---|---|---|---|---|",
            *(
                f"| {s.precision} | {s.steps} | {s.prompts} | {_ends(s.one_forward)} |"
                f" {_ends(s.one_forward_cosine, 4)} | {_ends(s.free_running)} | {_ends(s.free_running_cosine, 4)} |"
                for s in q.sqnr
            ),
        ]
    if q.costs:
        lines += [
            "",
            "## What an image takes",
            "",
            "| precision | model | arch | steps | seconds | DRAM, MB | J | USD a thousand | provenance |",
            "|---|---|---|---|---|---|---|---|---|",
        ]
        for c in q.costs:
            usd = "-" if c.usd_a_thousand is None else f"{c.usd_a_thousand:.3g}"
            lines.append(
                f"| {c.precision} | {c.model} | {c.arch} | {c.steps} | {c.seconds:.4g} | {c.dram_bytes / 1e6:,.0f} |"
                f" {c.joules:.3g} | {usd} | {c.provenance} |"
            )
        lines += ["", *(f"- {t}." for t in dict.fromkeys(f"{c.model} on {c.arch}: {c.source}" for c in q.costs))]
        lines += [f"- J of {t}." for t in dict.fromkeys(f"{c.model}: {c.joules_are}" for c in q.costs)]
        lines += ["", *(f"![The frontier]({n})" for n in png_names)]
    return "\n".join(lines) + "\n"


def _row(r: Row) -> str:
    a = r.accuracy
    cells = [r.precision, str(r.steps), str(r.images), f"{a.all:.1%} [{a.low:.1%}, {a.high:.1%}]"]
    cells.append(", ".join(f"{100 * v:.1f}" for v in a.attributes.values()))
    if r.psnr is None:
        return f"| {' | '.join([*cells, *['-'] * 7, str(r.exceptions)])} |"
    quantiles = ", ".join(f"{x:.1f}" if isinstance(x, float) else x for x in r.psnr_quantiles)
    cells += [r.psnr.text(), quantiles]
    cells += [_text(v) for v in (r.ssim, r.ms_ssim, r.flip, r.feature_distance, r.kernel_distance)]
    return f"| {' | '.join([*cells, str(r.exceptions)])} |"


def _text(v: Value | None) -> str:
    return "-" if v is None else v.text(3)


def _ends(values: Sequence[float], digits: int = 1) -> str:
    if not values:
        return "-"
    return ", ".join(f"{x:.{digits}f}" for x in (values[0], values[len(values) // 2], values[-1]))


def _alone(q: Quality) -> list[str]:
    few = [f"{r.precision} ({r.steps} steps, {r.images})" for r in q.rows if r.images < 400]
    if not few:
        return []
    of = f"{len(few)} of {len(q.rows)} rows have fewer than 400 images and are rehearsals, no results"
    return [f"**{of}: {', '.join(few)}.**", ""]


def _beside(q: Quality) -> list[str]:
    found = beside_uniform(q)
    if not found:
        return []
    return [
        "",
        f"## Beside uniform {UNIFORM}",
        "",
        f"PSNR less that of {UNIFORM}, paired by prompt; time and DRAM traffic of the small model's image less those of"
        f" {UNIFORM}, by the timing simulation. Pictures are those of the programs for {q.arch}: on another arch sums"
        " are split elsewhere.",
        "",
        f"| precision | steps | images | PSNR more than {UNIFORM}, dB | arch | time | DRAM bytes |",
        "|---|---|---|---|---|---|---|",
        *(
            f"| {b.precision} | {b.steps} | {b.images} | {b.gain.text(3)} | {b.arch} | {b.seconds:+.2%} |"
            f" {b.dram_bytes:+.2%} |"
            for b in found
        ),
    ]


def _predicted(q: Quality) -> list[str]:
    found = [(r, r.predicted) for r in q.rows if r.predicted is not None]
    if not found:
        return []
    lines = [
        "",
        "## Predicted and simulated",
        "",
        f"Does a second implementation of the numerics give the same PSNR against {q.reference}? Written apart from"
        " compiler and simulator, on diffusers' modules; same prompts and seeds (`dpubench predict`). A rounding that"
        " falls the other way anywhere changes a whole picture, so pictures differ where means agree; the difference is"
        " of means over prompts, with its interval.",
        "",
        "| precision | steps | prompts, images | simulated, dB | predicted, dB | difference, dB | predicted against"
        " simulated, dB | verdict | CPU s an image |",
        "|---|---|---|---|---|---|---|---|---|",
        *(
            f"| {r.precision} | {r.steps} | {p.prompts}, {p.images} | {p.simulated.text()} | {p.psnr.text()} |"
            f" {p.difference.text(3)} | {p.beside_simulated.text(3)} | {p.verdict} | {p.cpu_seconds_an_image:.3g} |"
            for r, p in found
        ),
        "",
        *(f"- Predicted: {t}." for t in dict.fromkeys(p.arithmetic for _, p in found)),
    ]
    if few := [f"{r.precision} ({p.images})" for r, p in found if p.images < 400]:
        lines.append(f"- Fewer than 400 images, so rehearsals and no results: {', '.join(few)}.")
    return lines
