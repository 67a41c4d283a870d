"""The head of the page: the verdict in a sentence, the bad news, what speaks for the chip, what would change it."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from math import isinf

from ...evidence import Provenance
from ...simulator.economics.compare import GOAL, Comparison
from ...simulator.economics.cost import KINDS, Cost
from ...simulator.economics.sampling import THRESHOLDS
from .. import gate
from ..image_tables import ArchTable
from .frame import table
from .gather import Findings
from .marks import digits, mark, marked, money, percent, priced, short_commit, shown, times
from .service import Served

_WORDS: dict[gate.Verdict, str] = {
    "GO": "GO: every condition is met",
    "NO-GO": "NO-GO: do not tape out",
    "NOT PROVEN": "NOT PROVEN: do not tape out yet",
}


def head(f: Findings) -> str:
    """Verdict, bad news, the other side."""
    d, c = f.kindest, _kindest(f)
    p, best, assumed = c.dpu.platform, c.cheapest, c.dpu.image.provenance
    verdict = f.decision.verdict
    harshest = f.cases(d.arch)[-1]
    assert d.advantage is not None
    chip = f"<b>{escape(d.arch)}</b> ({escape(p.title)} {mark(assumed)})"
    first = (
        f"Where it does best ({escape(c.scenario.title)}), a thousand images of the best {_noun(c)}, {chip}, cost"
        f" {_thousand(c.dpu)}; of the cheapest alternative, {escape(best.platform.title)}, {_thousand(best)}. The"
        f" advantage, their cost over its own, is <b>{marked(times(d.advantage), assumed)}</b>; the goal is {GOAL:g}x."
    )
    if harshest.scenario != d.scenario and harshest.comparison is not None and harshest.advantage is not None:
        first += (
            f" Where it does worst ({escape(harshest.comparison.scenario.title)}) it is"
            f" {marked(times(harshest.advantage), assumed)}: an image on the chip costs"
            f" {marked(times(1 / harshest.advantage), assumed)} as much."
        )
    bad = "".join(f"<li>{text}</li>" for say in _BAD if (text := say(f)))
    good = "".join(f"<li>{text}</li>" for say in _GOOD if (text := say(f)))
    parts = [
        f'<div class="verdict {verdict.lower().replace(" ", "-")}"><p class="word">{escape(_WORDS[verdict])}</p>'
        f"<p>{first}</p></div>",
        f"<h3>The bad news</h3><ol>{bad}</ol>",
        f"<h3>What speaks for it</h3><ul>{good}</ul>"
        if good
        else "<h3>What speaks for it</h3><p>Nothing here does.</p>",
        _flips(f),
    ]
    return "\n".join(parts)


def _kindest(f: Findings) -> Comparison:
    c = f.kindest.comparison
    assert c is not None
    return c


def _thousand(c: Cost) -> str:
    return marked(money(c.thousand.value), c.thousand.provenance, c.thousand.source)


def _noun(c: Comparison) -> str:
    return KINDS[c.dpu.platform.kind]


# -- bad news: each says its sentence, or nothing where there is none --------------------------------------------------


def _short_of_goal(f: Findings) -> str:
    d = f.kindest
    assert d.advantage is not None
    if d.advantage >= GOAL:
        return ""
    failed = sum(1 for c in f.cases(d.arch) if (c.advantage or 0) < GOAL)
    many = len(f.cases(d.arch))
    where = "in every scenario" if failed == many else f"in {failed} of {many} scenarios"
    a = f.comparison.dpu.image.provenance
    return (
        f"The goal of {GOAL:g}x is missed {where}: an image would have to cost"
        f" {marked(times(GOAL / d.advantage), a)} less where it does best."
    )


def _unlikely(f: Findings) -> str:
    mine = {s: x for (arch, s), x in f.draws.items() if arch == f.detail.arch}
    best = max(x.probability[GOAL] for x in mine.values())
    a = f.comparison.dpu.image.provenance
    if best > 0.5:
        return ""
    samples = next(iter(mine.values())).samples
    cheaper = max(x.probability[1.0] for x in mine.values())
    return (
        f"With every stated uncertainty drawn {samples:,} times, {GOAL:g}x is reached in {marked(percent(best), a)}"
        f" of the draws, and the chip is cheaper at all in {marked(percent(cheaper), a)}; that is the scenario in"
        " which it is likeliest."
    )


def _not_measured(f: Findings) -> str:
    found = {x.name: x for x in f.detail.conditions}
    absent = [n for n in ("measured FPGA", "simulator within 5 % of the FPGA") if found[n].status != "met"]
    if not absent:
        return ""
    return "No DPU has been measured: no program has run on an FPGA, so every number of a DPU here comes from a model."


def _no_quality(f: Findings) -> str:
    found = next(x for x in f.detail.conditions if x.name == "quality")
    if found.status == "met":
        return ""
    said = f"Nobody knows whether its images are good enough: {escape(found.said)} {mark(Provenance.PUBLISHED)}."
    words = {True: "seeded weights", False: "weights with the outliers of trained ones"}
    seen = [
        f"{marked(f'{digits(i.psnr)} dB', Provenance.SIMULATED, i.file)} PSNR with {words[i.seeded]}" for i in f.images
    ]
    if seen:
        said += (
            f" An image on the simulator beside float32's has {', '.join(seen)}; that checks the arithmetic, not the"
            " quality of SDXL."
        )
    return said


def _estimate_is_kind(f: Findings) -> str:
    found, rate = f.simulated.get(f.detail.arch), f.comparison.dpu.platform.rate
    seconds = None if found is None else simulated_seconds(found, f.task.steps)
    if found is None or seconds is None or seconds * rate.value < 1.01:
        return ""
    source = f"{found.command}, commit {short_commit(found.commit)}"
    more = marked(percent(seconds * rate.value - 1), rate.provenance)
    return (
        f"Its costs rest on an estimate of {shown(1 / rate, 's/image', 's')} an image; the timing simulation of the"
        f" whole programs says {marked(f'{digits(seconds)} s', Provenance.SIMULATED, source)}, {more} more."
    )


def _idle_array(f: Findings) -> str:
    b = f.detail.bottleneck
    if b is None or b.array > 0.5:
        return ""
    a = f.comparison.dpu.platform.rate.provenance
    return (
        f"Its arrays do {marked(percent(b.array), a)} of what they could, its memory {marked(percent(b.memory), a)}:"
        " most of the silicon that is paid for waits."
    )


def _nre(f: Findings) -> str:
    c = f.comparison
    p = c.dpu.platform
    if p.nre is None or p.volume is None:
        return ""
    share = c.dpu.parts["nre"].value / c.dpu.image.value
    return (
        f"Its development ({priced(p.nre)}) is {marked(percent(share), c.dpu.image.provenance)} of the cost of an"
        f" image, although {shown(p.volume, name='cards')} share it: a plan, nobody has ordered them."
    )


def _service(f: Findings) -> list[tuple[Served, float, float, str]]:
    """Of each traffic, costs of a thousand served images of the DPU and of the cheapest other, and that one's name."""
    found, name = [], f.comparison.dpu.platform.name
    for s in f.service:
        costs = {r.platform: r.usd_per_1000_images or float("inf") for r in s.queue.rows}
        other = min((k for k in costs if k != name), key=lambda k: costs[k])
        found.append((s, costs[name], costs[other], other))
    return found


def _served(s: Served, mine: float, theirs: float, other: str) -> str:
    a = Provenance.ASSUMED
    return (
        f"In a service ({escape(s.traffic.title)}, prices of {escape(s.queue.scenario)}) a thousand images cost"
        f" {marked(money(mine), a)}, on {escape(other)} {marked(money(theirs), a)}."
    )


def _worse_service(f: Findings) -> str:
    found = [x for x in _service(f) if x[1] > x[2]]
    if not found:
        return ""
    worst = max(found, key=lambda x: x[1] / x[2])
    if isinf(worst[1]):
        return (
            f"With {escape(worst[0].traffic.title)} no number of devices meets the objective: one image takes too long."
        )
    return _served(*worst)


_BAD: tuple[Callable[[Findings], str], ...] = (
    _short_of_goal,
    _unlikely,
    _not_measured,
    _no_quality,
    _estimate_is_kind,
    _idle_array,
    _nre,
    _worse_service,
)


# -- the other side ----------------------------------------------------------------------------------------------------


def _before_nre(f: Findings) -> str:
    c = _kindest(f)
    ratio = c.cheapest.image.value / c.dpu.marginal.value
    if ratio <= 1 or c.dpu.platform.nre is None:
        return ""
    return (
        f"Without its development cost an image is cheaper: the other one costs"
        f" {marked(times(ratio), c.dpu.marginal.provenance)} the chip's ({escape(c.scenario.title)})."
    )


def _energy(f: Findings) -> str:
    c = _kindest(f)
    least = min(c.gpus, key=lambda g: g.busy_energy.value)
    if least.busy_energy.value <= c.dpu.busy_energy.value:
        return ""
    return (
        f"While busy it takes {shown(c.dpu.busy_energy, 'J/image', 'J')} an image at the wall, the thriftiest other"
        f" ({escape(least.platform.name)}) {shown(least.busy_energy, 'J/image', 'J')}."
    )


def _hardware(f: Findings) -> str:
    c = _kindest(f)
    theirs = [(g, g.rate_per_dollar) for g in c.gpus if g.rate_per_dollar is not None]
    if c.dpu.rate_per_dollar is None or not theirs:
        return ""
    best, most = max(theirs, key=lambda x: x[1].value)
    mine, other = 1 / c.dpu.rate_per_dollar, 1 / most
    if mine.value >= other.value:
        return ""
    return (
        f"Hardware for one image a second costs {marked(money(mine.value), mine.provenance)}, of the cheapest other"
        f" device ({escape(best.platform.name)}) {marked(money(other.value), other.provenance)}; hosts included."
    )


def _better_service(f: Findings) -> str:
    found = [x for x in _service(f) if x[1] < x[2] < float("inf")]
    return _served(*max(found, key=lambda x: x[2] / x[1])) if found else ""


_GOOD: tuple[Callable[[Findings], str], ...] = (_before_nre, _energy, _hardware, _better_service)


def _flips(f: Findings) -> str:
    """What would reach the goal in the details' scenario."""
    d = f.detail
    if not d.flips:
        return ""
    a = f.comparison.dpu.image.provenance
    would = [x for x in d.flips if x.needed is not None]
    never = [f"{x.lever} (at best {marked(times(x.best), a)})" for x in d.flips if x.needed is None]
    rows = [
        (
            escape(x.lever),
            marked(_amount(x.now, x.unit), a),
            marked(_amount(x.needed or 0.0, x.unit), a),
            marked(
                times((x.needed or 0.0) / x.now) if (x.needed or 0) > x.now else f"1/{digits(x.now / (x.needed or 1))}",
                a,
            ),
        )
        for x in would
    ]
    head = [("one number alone", True), ("now", False), ("needed", False), ("ratio", False)]
    said = table(head, rows) if rows else "<p>No single number reaches it.</p>"
    rest = f"<p>Alone, none of these reaches it: {', '.join(never)}.</p>" if never else ""
    title = escape(f.comparison.scenario.title)
    return f'<h3 id="flips">What would change the cost verdict ({title}: {GOAL:g}x)</h3>{said}{rest}'


def _amount(value: float, unit: str) -> str:
    if unit == "USD":
        return money(value)
    return percent(value) if unit == "1" else f"{digits(value)} {unit}"


def simulated_seconds(table: ArchTable, steps: int) -> float | None:
    """Of one image of the Euler scheduler, if all entries were simulated."""
    return next((i.seconds for i in table.images if (i.scheduler, i.steps) == ("Euler", steps)), None)


# -- every DPU in every scenario ---------------------------------------------------------------------------------------


def _verdict(case: gate.Case) -> str:
    return f'<span class="status">{case.verdict}</span>'


def everywhere(f: Findings) -> str:
    """One row a DPU and scenario."""
    rows, here = [], []
    for case in f.decision.cases:
        c = case.comparison
        if c is None:
            why = next((x.said for x in case.conditions if x.name == "cost"), "")
            rows.append([escape(case.arch), escape(case.scenario), f"{_verdict(case)}: {escape(why)}"])
            continue
        d, a = f.draws[case.arch, case.scenario], c.dpu.image.provenance
        if case is f.detail:
            here.append(len(rows))
        ends = f"{digits(d.rank(5), 2)} to {digits(d.rank(95), 2)}x"
        rows.append(
            [
                escape(case.arch),
                f"{escape(c.scenario.title)}<br><small>{escape(case.scenario)}</small>",
                _verdict(case),
                _thousand(c.dpu),
                f"{_thousand(c.cheapest)}<br><small>{escape(c.cheapest.platform.name)}</small>",
                marked(times(case.advantage or 0.0), a),
                marked(ends, a),
                *(marked(percent(d.probability[t]), a) for t in THRESHOLDS),
            ]
        )
    head = [("DPU", True), ("scenario", True), ("verdict", True), ("its 1,000", False)]
    head += [("cheapest other", False), ("advantage", False), ("5 to 95 %", False)]
    head += [(f"above {t:g}x", False) for t in THRESHOLDS]
    chosen = "in the scenario asked for" if f.request.detail else "where it does best"
    return (
        "<p>Advantage: what the cheapest other image costs over what the DPU's costs. Above 1x the DPU is cheaper;"
        f" the goal is {GOAL:g}x. Costs are of 1,000 images. The last columns are shares of {f.request.samples:,}"
        " draws of all stated uncertainties. The rest of the page is about the shaded row: the best chip"
        f" {chosen}.</p>" + table(head, rows, here)
    )
