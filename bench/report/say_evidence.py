"""The evidence: conditions of the gate, rooflines, costs, frontier."""

from __future__ import annotations

from html import escape

from ...evidence import Provenance
from ...simulator.economics.cost import Cost
from ..gate_conditions import Condition
from .draw_cost import breakdown, costs, speed_and_cost
from .draw_cost import shown as drawn_of
from .draw_roofs import limits, rooflines
from .frame import Book, gap, table
from .frontier import Made
from .gather import COMMANDS, Findings, compared
from .marks import digits, mark, marked, money, percent, priced, short_commit, shown, times
from .missing import Missing
from .roofs import BYTES, Roofline
from .say_verdict import simulated_seconds
from .words import PARTS

_SIGNS = {"met": "&#10003; met", "failed": "&#10007; failed", "missing": "? missing"}


def conditions(f: Findings) -> str:
    """What a GO needs, of the details' case."""
    rows = [
        [
            escape(x.name),
            f'<span class="status">{_SIGNS[x.status]}</span>',
            f"{escape(x.said)} {_marks(f, x)}",
            _way(x),
        ]
        for x in sorted(f.detail.conditions, key=lambda x: ("failed", "missing", "met").index(x.status))
    ]
    head = [("condition", True), ("", True), ("what was seen", True), ("what would meet it", True)]
    return (
        f"<p>A GO needs all of these, in every scenario. Shown for {escape(f.detail.arch)} in"
        f" {escape(f.detail.scenario)}; <code>dpubench gate</code> prints all.</p>{table(head, rows, stack=True)}"
    )


def _way(x: Condition) -> str:
    """What would meet a condition."""
    if x.status == "met":
        return ""
    if x.name == "cost" and x.status == "failed":
        return '<a href="#flips">what would change the cost verdict</a>'
    return f"<code>{escape(COMMANDS.get(x.name, 'dpubench gate'))}</code>"


def _marks(f: Findings, x: Condition) -> str:
    """The letter of the numbers in a condition's words."""
    c = f.comparison
    known = {
        "cost": c.dpu.image.provenance,
        "realistic utilisation": c.scenario.utilisation.quantity("").provenance,
        "quality": Provenance.PUBLISHED,
    }
    if x.name in known:
        return mark(known[x.name])
    return mark(Provenance.MEASURED) if x.name.startswith("measured") and x.status == "met" else ""


# -- rooflines ---------------------------------------------------------------------------------------------------------


def roofs(f: Findings, book: Book) -> str:
    """GPU and DPUs in the same axes, and how far the estimate is from the simulation."""
    gpus = [r for r in f.gpu_roofs if isinstance(r, Roofline)]
    dpus = [r for r in f.dpu_roofs if isinstance(r, Roofline)]
    gaps = list(dict.fromkeys(gap(r) for r in (*f.gpu_roofs, *f.dpu_roofs) if isinstance(r, Missing)))
    if not gpus and not dpus:
        return "".join(gaps) + _estimates(f)
    ends = limits([*gpus, *dpus])
    parts = [
        "<p>A device cannot be above its lines: the slanted one is its memory, the flat one its arithmetic. Both"
        " figures have the same axes, so that heights can be compared.</p>"
    ]
    for name, found, title, said in (
        ("gpu-roof", gpus, "What the GPU attains", _GPU_SAID),
        ("dpu-roof", dpus, "What the DPUs attain", _DPU_SAID),
    ):
        if found:
            letters = [BYTES, *(p.provenance for r in found for p in r.points)]
            letters += [x.provenance for r in found for x in r.roofs]
            parts.append(book.add(name, rooflines(found, ends), title, said, *letters))
    return "".join([*parts, *gaps]) + _attained(gpus, dpus) + _estimates(f)


_GPU_SAID = (
    "UNet forward of one guided image, and VAE decoder. MACs over measured seconds; bytes are counted: operands and"
    " results of all products in float16, each moved once. The published point is MLPerf's rate of whole images in"
    " FP8, at the same count of bytes."
)
_DPU_SAID = (
    "Entry points of whole programs on the timing simulation; bytes are those at the DRAM. Points without a name are"
    " text encoders, cached context and time embedding."
)


def _attained(gpus: list[Roofline], dpus: list[Roofline]) -> str:
    """Shares of the highest ceiling, UNet and VAE decoder."""
    rows = []
    for r in (*gpus, *dpus):
        flat = [x for x in r.roofs if not x.slanted]
        for series, points in r.series.items():
            for p in points:
                if len(points) <= 20 and p.name not in ("unet", "vae_decoder", "whole image, FP8"):
                    continue
                if len(points) > 20:
                    break
                roof = max(flat, key=lambda x: x.rate) if "FP8" in p.name else min(flat, key=lambda x: x.rate)
                share = p.y / roof.rate
                weakest = min(p.provenance, roof.provenance)
                rows.append(
                    [
                        escape(r.device if r.device == series else f"{r.device}, {series}"),
                        escape(p.name.replace("_", " ")),
                        marked(f"{digits(p.x)} MAC/byte", BYTES),
                        marked(f"{digits(p.y / 1e12)} TMAC/s", p.provenance, p.source),
                        marked(f"{digits(roof.rate / 1e12)} TMAC/s", roof.provenance, roof.source),
                        marked(percent(share), weakest),
                    ]
                )
    head = [
        ("device", True),
        ("part", True),
        ("intensity", False),
        ("attained", False),
        ("its roof", False),
        ("of it", False),
    ]
    return table(head, rows)


def _estimates(f: Findings) -> str:
    """Seconds of an image: what is costed, and what the simulation of the whole programs says."""
    rows = []
    for arch in dict.fromkeys(c.arch for c in f.decision.cases):
        cases, t = f.cases(arch), f.simulated.get(arch)
        if not cases or cases[0].comparison is None:
            continue
        rate = cases[0].comparison.dpu.platform.rate
        seconds = None if t is None else simulated_seconds(t, f.task.steps)
        if t is None or seconds is None:
            rows.append([escape(arch), shown(1 / rate, "s/image", "s"), "not simulated", "-", "-"])
            continue
        unet = next((e for e in t.entries if e.entry == "unet"), None)
        s = Provenance.SIMULATED
        rows.append(
            [
                escape(arch),
                shown(1 / rate, "s/image", "s"),
                marked(f"{digits(seconds)} s", s, f"{t.command}, commit {short_commit(t.commit)}"),
                marked(times(seconds * rate.value), min(s, rate.provenance)),
                "-" if unet is None else marked(percent(unet.executed_utilisation), s),
            ]
        )
    head = [("DPU", True), ("costed: an image takes", False), ("timing simulation", False), ("ratio", False)]
    head += [("UNet's use of the arrays", False)]
    return "<h3>Is the estimate right?</h3>" + table(head, rows) + _waits(f)


_REASONS = {
    "semaphore LOAD": "for data from memory",
    "semaphore VPU": "for the vector units",
    "pipeline": "for its own pipeline to fill",
    "dispatch": "for its next instruction",
    "finished": "because its tile has finished",
}


def _waits(f: Findings) -> str:
    t = f.simulated.get(f.detail.arch)
    unet = None if t is None else next((e for e in t.entries if e.entry == "unet"), None)
    if unet is None:
        return ""
    idle = sorted(unet.idle().items(), key=lambda x: -x[1])[:2]
    said = " and ".join(
        f"{marked(percent(n / unet.tile_cycles), Provenance.SIMULATED)} {_REASONS.get(k, f'({k})')}" for k, n in idle
    )
    return f"<p>In a UNet forward of {escape(f.detail.arch)} the arrays wait, of all tile cycles, {said}.</p>"


# -- cost --------------------------------------------------------------------------------------------------------------


def cost(f: Findings, book: Book) -> str:
    """What an image is paid for, platform by platform, in the details' scenario."""
    there = compared(f.decision, f.detail.scenario)
    drawn, off = costs(there)
    u = f.comparison.scenario.utilisation
    said = (
        f"Scenario: {escape(f.comparison.scenario.title)}. Devices make {u.value:.0%} of what they could. DPUs in bold."
    )
    if off:
        said += f" Too dear for this scale, in the table: {', '.join(escape(c.platform.name) for c in off)}."
    everyone = [*drawn, *off]
    head = [("platform", True), ("", True), ("image/s", False), ("1,000 images", False), ("one sd", False)]
    head += [("largest part", True), ("J an image", False), ("hardware", False)]
    here = [i for i, c in enumerate(everyone) if c is f.comparison.dpu]
    letters = [c.image.provenance for c in drawn]
    parts = [
        book.add("cost", breakdown(drawn), "What a thousand images are paid for", said, *letters),
        table(head, [_cost_row(c) for c in everyone], here),
    ]
    skipped = {k: v for c in there for k, v in c.skipped.items()}
    if skipped:
        parts.append(f"<p>Without a price in this scenario: {escape(', '.join(skipped))}.</p>")
    left = f.decision.left_out
    if left:
        said = "; ".join(f"{escape(k)} ({escape(v)} {mark(Provenance.PUBLISHED)})" for k, v in left.items())
        parts.append(f"<p>Left out by the gate: {said}.</p>")
    return "".join(parts)


def _cost_row(c: Cost) -> list[str]:
    p, a = c.platform, c.thousand.provenance
    largest = max(c.parts, key=lambda k: c.parts[k].value)
    spread = "-" if c.thousand.uncertainty is None else marked(money(c.thousand.uncertainty), a)
    return [
        escape(p.name),
        f"<small>{escape(p.title)}</small>{f' {mark(Provenance.ASSUMED, p.title)}' if p.kind == 'asic' else ''}",
        marked(digits(p.rate.value), p.rate.provenance, p.rate.source),
        marked(money(c.thousand.value), a, c.thousand.source),
        spread,
        f"{PARTS[largest]}, {marked(percent(c.parts[largest].value / c.image.value), a)}",
        shown(c.energy, "J/image", " "),
        "-" if p.hardware is None else priced(p.hardware),
    ]


# -- frontier ----------------------------------------------------------------------------------------------------------


def frontier(f: Findings, book: Book) -> str:
    """Speed and cost; what is missing of quality."""
    quality = next(x for x in f.detail.conditions if x.name == "quality")
    parts = []
    if quality.status != "met":
        why = f"{quality.said}. In its place: speed and cost of what exists"
        parts.append(gap(Missing("the quality axis", why, COMMANDS["quality"], Provenance.PUBLISHED)))
    if isinstance(f.frontier.variants, Missing):
        parts.append(gap(f.frontier.variants))
    everything = f.frontier.made
    _, off = drawn_of(f.frontier)
    said = (
        f"Scenario: {escape(f.comparison.scenario.title)}. Lower left is better. Filled: FID and CLIP published, inside"
        " MLPerf's window; hollow: nobody has shown its quality. Seconds are 1 / rate: a GPU that makes many images"
        " at once takes longer for each."
    )
    if off:
        said += f" Too dear for this scale, in the table: {', '.join(escape(m.name) for m in off)}."
    letters = [p for m in everything for p in (m.provenance, m.rate_provenance)]
    parts.append(
        book.add("frontier", speed_and_cost(f.frontier), "Speed, cost, and whether quality was shown", said, *letters)
    )
    front = {m.name for m in f.frontier.front}
    rows = [_made(m, m.name in front) for m in sorted(everything, key=lambda m: m.usd)]
    head = [("platform", True), ("device-seconds", False), ("1,000 images", False), ("FID", False), ("CLIP", False)]
    head += [("on the frontier", True)]
    return "".join(parts) + table(head, rows)


def _made(m: Made, front: bool) -> list[str]:
    return [
        escape(m.name),
        marked(f"{digits(m.seconds)} s", m.rate_provenance),
        marked(money(m.usd), m.provenance),
        "-" if m.fid is None else marked(f"{m.fid:.2f}", Provenance.PUBLISHED),
        "-" if m.clip is None else marked(f"{m.clip:.2f}", Provenance.PUBLISHED),
        "yes" if front else "",
    ]
