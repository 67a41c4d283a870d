"""The page about making the chip: what, where, from whom, when, for how much, and what can go wrong."""

from __future__ import annotations

from html import escape

from ...evidence import Provenance, Quantity
from ...ir.arch import load_arch
from ...simulator.economics.compare import GOAL
from ...simulator.economics.inputs import silicon
from .draw_tapeout import cash, die, schedule
from .frame import Book, gap, table
from .gather import Findings
from .marks import digits, mark, marked, money, priced, shown, times
from .missing import Missing
from .tapeout import KINDS, Tapeout
from .words import of_number

_A = Provenance.ASSUMED


def tapeout(f: Findings, book: Book) -> str:
    """All of it, or why there is none."""
    t = f.tapeout
    if isinstance(t, Missing):
        return gap(t)
    verdict = f.decision.verdict
    warning = (
        "" if verdict == "GO" else f"<p><b>The gate says {verdict}: this is what it would take, not a proposal.</b></p>"
    )
    return "".join(
        [
            warning,
            _chip(f, t),
            book.add("die", die(t), "The die", "Areas by block, mm2.", _A),
            _licences(t),
            _steps(t),
            book.add("schedule", schedule(t), "Schedule", _length(t), _A),
            book.add(
                "cash", cash(t), "Cash by month", "Until the card is qualified; making cards for sale comes after.", _A
            ),
            _money(f, t),
            _risks(f, t),
        ]
    )


def _chip(f: Findings, t: Tapeout) -> str:
    c = f.comparison
    p, d = c.dpu.platform, c.dpu.platform.details
    arch = load_arch(f.detail.arch)
    tops = 2 * arch.peak_macs_per_cycle * arch.clock_hz / 1e12
    design = f"arch file {arch.name}: a design choice"
    buffers = sum(getattr(arch.buffers, b).bytes for b in ("act", "wgt", "acc", "vbuf", "param"))
    on_chip = (arch.tiles * buffers + arch.l2_bytes) / 2**20
    assert p.volume is not None

    def chosen(text: str) -> str:
        return marked(text, _A, design)

    wafer = shown(silicon().nodes[t.node].wafer.quantity("wafer"), name="USD")
    good = marked(f"{100 * d['die_yield'].value:.0f} %", d["die_yield"].provenance, d["die_yield"].source)
    a_die = marked(money(d["cost_of_good_die"].value), d["cost_of_good_die"].provenance)
    watts = marked(f"{p.busy.value:.0f} W", p.busy.provenance, p.busy.source)
    array = chosen(f"{arch.tiles} tiles of {arch.rows}x{arch.cols} MACs")
    rows = [
        (
            "chip",
            f"{escape(arch.name)}: {array} at {chosen(f'{arch.clock_hz / 1e9:g} GHz')},"
            f" {chosen(f'{digits(tops)} TOPS')} peak",
        ),
        ("node", f"{marked(f'{t.node} nm', _A, 'the scenario')}; a wafer costs {wafer}"),
        (
            "die",
            f"{shown(d['die_area'], 'mm2')}, of which SRAM {shown(d['area.sram'], 'mm2')}"
            f" ({chosen(f'{digits(on_chip)} MiB')})",
        ),
        ("yield", f"{shown(d['dies_per_wafer'], name='dies a wafer')}, {good} good: a good die costs {a_die}"),
        (
            "package",
            f"{escape(t.node_plan.package)}, {shown(silicon().package.quantity('package'), name='USD')} and more"
            f" with the area; memory on the board: {chosen(arch.dram.kind)},"
            f" {chosen(f'{arch.dram.bytes / 2**30:g} GiB')}",
        ),
        (
            "card",
            f"costs {priced(d['cost_of_card'])} to make, is sold for {priced(d['price_of_card'])}; the plan is"
            f" {shown(p.volume, name='cards')}",
        ),
        ("speed", f"{shown(p.rate, name='image/s')}; {watts} at the wall with its share of the host"),
    ]
    return table(
        [("", True), (f"as costed in: {f.comparison.scenario.title}", True)], [list(row) for row in rows], stack=True
    )


def _licences(t: Tapeout) -> str:
    rows = [[escape(x.title), _range(x.price.quantity(x.name), x.price.ends)] for x in t.node_plan.licences]
    rows.append(["all licences", priced(t.node_plan.all_licences)])
    said = (
        "<h3>IP to license</h3><p>The tile, its instruction set and its compiler are this project's (Apache-2.0).</p>"
    )
    return said + table([("what others make", True), ("price, range", False)], rows, total=True)


def _range(q: Quantity, ends: tuple[float, float]) -> str:
    ranged = f"{money(q.to('USD').value)} <small>({money(ends[0])} to {money(ends[1])})</small>"
    return f"{ranged}&nbsp;{mark(q.provenance, q.source)}"


def _steps(t: Tapeout) -> str:
    lot, d = t.lot, t.comparison.dpu.platform.details
    wafers = t.plan.lot.quantity("lot")
    good = (wafers * d["dies_per_wafer"] * d["die_yield"]).to("die")
    return (
        "<h3>MPW first, then the mask set</h3><ol><li>A seat on a shuttle (MPW):"
        f" {_range(t.node_plan.mpw.quantity('mpw'), t.node_plan.mpw.ends)}. One tile and a memory PHY are on the"
        f" bench before a mask set is paid.</li><li>The mask set, {priced(t.masks)}, and a first lot of"
        f" {shown(wafers, name='wafers')} for {priced(lot)}: about {marked(digits(good.value, 2), good.provenance)}"
        f" good dies.</li><li>Cards: the plan's volume costs {priced(t.production)} to make, after everything"
        " below.</li></ol>"
    )


def _length(t: Tapeout) -> str:
    return (
        f"{digits(t.months, 2)} months in all; {digits(t.shortest, 2)} if every phase is as short as its range says,"
        f" {digits(t.longest, 2)} if as long. People are those of {t.node} nm."
    )


def _money(f: Findings, t: Tapeout) -> str:
    nre = f.comparison.dpu.platform.nre
    assert nre is not None
    sums = [(kind, sum(t.by_kind[kind])) for kind in KINDS if sum(t.by_kind[kind])]
    rows = [[kind, marked(money(v), _A)] for kind, v in sums] + [["all", priced(t.total)]]
    worst = max(range(len(t.by_month)), key=lambda m: t.by_month[m])
    with_plan = marked(times(t.advantage), f.comparison.dpu.image.provenance)
    return (
        f"<p>The dearest month is month {marked(str(worst + 1), _A)} with {marked(money(t.by_month[worst]), _A)}."
        f" Until the gate {priced(t.before_gate)} is spent: that is what a NO-GO there loses. Two sums do not agree,"
        f" and nothing makes them: this plan adds up to {priced(t.total)}; the cost of an image everywhere else on"
        f" this page carries {priced(nre)} (masks + design + software of silicon.json). With the plan's sum the"
        f" advantage would be {with_plan}; the goal is {GOAL:g}x.</p>"
        + table([("until the card is qualified", True), ("cash", False)], rows, total=True)
    )


def _risks(f: Findings, t: Tapeout) -> str:
    """Three: evidence, the input that decides, the silicon."""
    unmet = [x.name for x in f.detail.conditions if x.status != "met"]
    b, a = t.widest, f.comparison.dpu.image.provenance
    slip = t.plan.respin_delay
    first = (
        "<b>The evidence is of a card, the chip is another design.</b> What limits it: the shuttle before the masks."
    )
    if unmet:
        first = (
            f"<b>It is built on what nobody has measured.</b> {len(unmet)} of {len(f.detail.conditions)} conditions"
            f" of the gate are not met ({escape(', '.join(unmet))}). What limits it: only the first phase is paid"
            f" before the gate, {priced(t.before_gate)}."
        )
    reach = f"{marked(_end(b.low), a)} to {marked(_end(b.high), a)}"
    words = of_number(b.name)
    second = (
        f"<b>{escape(words[:1].upper() + words[1:])}.</b> No input moves the result more: from {reach} the advantage"
        f" goes from {marked(times(b.at_low), a)} to {marked(times(b.at_high), a)}. What limits it: a contract on it"
        " before the masks are paid."
    )
    third = (
        f"<b>The first silicon does not work.</b> Mending it in metal costs {priced(t.respin)} (a share of the"
        f" masks, and people while they wait) and {marked(f'{slip.value:g} months', _A, slip.source)}, in which GPUs"
        " get cheaper; that is in no number here. What limits it: the same RTL on the FPGA first, one tile on the"
        " shuttle."
    )
    return f"<h3>Three risks</h3><ol><li>{first}</li><li>{second}</li><li>{third}</li></ol>"


def _end(value: float) -> str:
    return digits(value) if value < 1e6 else money(value).removeprefix("$")
