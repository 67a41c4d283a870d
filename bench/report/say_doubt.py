"""How sure the cost is, where it would break even, and what a service of real requests costs."""

from __future__ import annotations

from html import escape

from ...evidence import Provenance, leaves
from ...simulator.economics.compare import GOAL
from ...simulator.economics.sampling import Surface
from ..queueing import Row
from .draw_doubt import break_even, histogram, levels, tornado
from .draw_service import served
from .frame import Book, table
from .gather import Findings
from .marks import digits, mark, marked, money, percent, shown, times

_BARS = 10


def uncertainty(f: Findings, book: Book) -> str:
    """Probabilities, histogram, tornado of the details' case."""
    d, c, a = f.draws[f.detail.arch, f.detail.scenario], f.comparison, f.comparison.dpu.image.provenance
    bars = f.uncertainty.bars[:_BARS]
    chances = "; ".join(f"above {t:g}x in {marked(percent(p), a)}" for t, p in d.probability.items())
    middle, stated = d.rank(50), f.detail.advantage or 0.0
    why = ", since most ranges reach further towards dear than towards cheap" if middle < 0.95 * stated else ""
    said = (
        f"<p>All {d.inputs} uncertain inputs of {escape(f.detail.arch)} and the others in"
        f" {escape(c.scenario.title)} were drawn {d.samples:,} times (seed {d.seed}), each by itself. The advantage"
        f" is {chances} of the draws. In the middle draw it is {marked(times(middle), a)}; as stated"
        f" {marked(times(stated), a)}{why}.</p>"
    )
    shape = book.add(
        "histogram",
        histogram(d),
        "Advantage in all draws",
        f"{d.samples:,} draws, each against whichever other image is then the cheapest. What lies beyond the axis is"
        " in its end bars.",
        a,
    )
    best = c.versus_cheapest
    units = {name: q.unit for name, q in leaves(best.advantage).items()}
    widest = book.add(
        "tornado",
        tornado(bars, best.advantage.value, units, GOAL),
        f"What moves the advantage over {c.cheapest.platform.name}",
        f"One input at a time from its low to its high end, the others as stated ({digits(best.advantage.value)}x). The"
        f" {len(bars)} widest of {len(f.uncertainty.bars)}.",
        a,
    )
    return said + shape + widest


def breaks_even(f: Findings, book: Book) -> str:
    """Surfaces, and the cards that pay the NRE against each GPU."""
    c = f.comparison
    p, parts = c.dpu.platform, []
    a = c.dpu.image.provenance
    here = {q.name: q.value for v in c.versus for q in leaves(v.advantage).values()} | {p.rate.name: p.rate.value}
    price = p.rent if p.rent is not None else p.hardware
    assert price is not None
    here[price.name] = price.value
    for s in f.uncertainty.surfaces:
        busy = s.x == "scenario.utilisation"
        titles = (
            ("utilisation", "cards that share the NRE")
            if busy
            else (
                "images a second of one device",
                "rent of one device, USD/h" if p.rent is not None else "price of one device with its host",
            )
        )
        money_axis = "" if busy else "$"
        figure = break_even(s, *titles, (here[s.x], here[s.y]), log_x=not busy, y_prefix=money_axis)
        name = "break-even-volume" if busy else "break-even-price"
        title = f"Advantage by {'utilisation and volume' if busy else 'throughput and price'}"
        parts.append(book.add(name, figure, title, _crossed(s), a))
    return "".join(parts) + _volumes(f)


def _crossed(s: Surface) -> str:
    """Which thresholds the surface reaches, in words."""
    low, high = float(s.values.min()), float(s.values.max())
    reached = levels(s)
    lines = f"Lines at {', '.join(f'{t:g}x' for t in reached)}." if reached else "No line at 1x, 2x or 5x crosses it."
    end = "" if high >= GOAL else f" <b>The goal of {GOAL:g}x is reached nowhere on it.</b>"
    return f"Darker is better for the DPU, from {digits(low, 2)}x to {digits(high, 2)}x. {lines}{end}"


def _volumes(f: Findings) -> str:
    if f.comparison.dpu.platform.nre is None:
        return "<p>A card has no development cost here: there is no break-even volume.</p>"
    volume = f.comparison.dpu.platform.volume
    assert volume is not None
    a = f.comparison.dpu.image.provenance
    before = {v.gpu: v.before_nre.value for v in f.comparison.versus}
    rows = []
    for x in f.uncertainty.uncertainty.advantages:
        ranks = x.break_even_devices
        cells = [marked(digits(ranks[p], 2), a) for p in (5, 50, 95)]
        name = "the cheapest of each draw" if x.gpu == "cheapest" else escape(x.gpu)
        rows.append([name, _before(before.get(x.gpu), a), *cells, marked(percent(x.never), a)])
    head = [("against", True), ("advantage before NRE", False)]
    head += [(f"cards, {n}", False) for n in ("5 %", "50 %", "95 %")] + [("never, of the draws", False)]
    said = (
        "<p>Cards that must be made, and used for life, until their savings have paid the NRE: in 5, 50 and 95 % of"
        f" the draws no more than these are needed. The plan is {shown(volume, name='cards')}.</p>"
    )
    return said + table(head, rows)


def _before(value: float | None, a: Provenance) -> str:
    return "" if value is None else marked(times(value), a)


def service(f: Findings, book: Book) -> str:
    """The queue: devices, utilisation, cost of a served image."""
    if not f.service:
        return "<p>No traffic was asked for.</p>"
    first = f.service[0].queue
    figure = book.add(
        "service",
        served(f.service),
        "What a thousand served images cost",
        "By traffic. Where there is room, the utilisation is under the price: images made over those that could be.",
        *(Provenance[r.provenance.upper()] for s in f.service for r in s.queue.rows if r.provenance),
    )
    rows = []
    for s in f.service:
        for i, r in enumerate(s.queue.rows):
            rows.append(_row("" if i else s.traffic.title, r))
    head = [("traffic", True), ("platform", True), ("devices", False), ("utilisation", False), ("median", False)]
    head += [("99 % within", False), ("1,000 served images", False), ("always busy", False)]
    what = "".join(
        f"<li>{escape(s.traffic.title)}:"
        f" {marked(f'{digits(s.queue.rate, 2)} requests a second', Provenance.ASSUMED)}, 99 of 100 to be served"
        f" within {marked(f'{s.queue.objective:g} s', s.traffic.objective.quantity('').provenance)}</li>"
        for s in f.service
    )
    return (
        f"<p>Utilisation is not free to choose: requests come when they come. A simulation (each time {first.runs}"
        f" runs of {first.duration / 3600:g} h) finds the fewest devices that keep the promise, and what an image"
        " costs on them; prices of"
        f" {escape(f.comparison.scenario.title)}.</p><ul>{what}</ul>{figure}{table(head, rows)}"
    )


def _row(traffic: str, r: Row) -> list[str]:
    a = Provenance.ASSUMED
    if r.needed is None or r.devices is None or r.utilisation is None or r.p50 is None or r.p99 is None:
        return [escape(traffic), escape(r.platform), "none is enough", "-", "-", "-", "-", "-"]
    half = "" if r.utilisation_half_width is None else f" &plusmn; {digits(100 * r.utilisation_half_width, 2)}"
    costs = [r.usd_per_1000_images, r.usd_per_1000_images_at_full_load]
    return [
        escape(traffic),
        escape(r.platform),
        marked(f"{r.devices:,}", a),
        f'<span class="number">{percent(r.utilisation)}{half}&nbsp;{mark(a)}</span>',
        marked(f"{digits(r.p50)} s", a),
        marked(f"{digits(r.p99)} s", a),
        *("-" if v is None else marked(money(v), a) for v in costs),
    ]
