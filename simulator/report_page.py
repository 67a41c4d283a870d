"""The report as one page of HTML that needs nothing else: tables, interactive figures, and what draws them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Sequence
from functools import cache
from html import escape

from ..evidence import Quantity
from .energy import GROUPS
from .figures import figures, idle_text
from .profile import ChannelRow, DramReport, L2Row, Report, Row
from .roofline import scaled

STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.5em auto; max-width: 100em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 }
th, td { padding: .2em .6em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
table.sort th { cursor: pointer }
th { position: sticky; top: 0; background: #f4f4f4 }
tfoot td { border-top: 2px solid #444; font-weight: 600 }
td.text, th.text { text-align: left; max-width: 28em; overflow: hidden; text-overflow: ellipsis }
.wide { overflow: auto; max-height: 44em; border: 1px solid #ddd }
.wide td:first-child { position: sticky; left: 0; background: #fff; max-width: 36em; border-right: 1px solid #ddd }
.wide table { margin: 0 }
.wide tfoot td { position: sticky; bottom: 0; background: #fff }
.mxu { color: #005a91 } .vpu { color: #8f5f00 } .memory { color: #a84300 } .sync { color: #555 }
nav button { font: inherit; padding: .3em .9em; margin: 0 .2em .3em 0; border: 1px solid #999; background: #f4f4f4;
  border-radius: 3px; cursor: pointer }
nav button.on { background: #005a91; color: #fff; border-color: #005a91 }
.bar { display: inline-block; width: 12em; height: .9em; border: 1px solid #888; vertical-align: middle }
.bar i { display: block; height: 100%; background: #0072B2 }
.figure { min-height: 3em }
.note { color: #555; max-width: 70em }
section { display: none } section.on { display: block }
input.find { font: inherit; padding: .2em .5em; width: 22em }
@media print { section { display: block } nav, input.find { display: none }
  .wide { max-height: none; overflow: visible } }
"""

SCRIPT = """
for (const th of document.querySelectorAll('table.sort th')) th.onclick = () => {
  const body = th.closest('table').tBodies[0], k = th.cellIndex, up = th.dataset.up = th.dataset.up === '1' ? '0' : '1';
  const key = r => { const v = r.cells[k].dataset.v; return v === undefined ? r.cells[k].textContent : +v; };
  const sign = up === '1' ? 1 : -1;
  [...body.rows].sort((a, b) => sign * (key(a) > key(b) ? 1 : key(a) < key(b) ? -1 : 0)).forEach(r => body.append(r));
};
for (const input of document.querySelectorAll('input.find')) input.oninput = () => {
  const want = input.value.toLowerCase();
  for (const r of document.getElementById(input.dataset.table).tBodies[0].rows)
    r.hidden = !r.textContent.toLowerCase().includes(want);
};
"""

_FIGURES = """
const config = { responsive: true, displaylogo: false, showSendToCloud: false,  // nothing leaves the page
  modeBarButtonsToRemove: ['sendChartToCloud', 'sendDataToCloud', 'select2d', 'lasso2d'] };
let ready = null;
function library() {
  return ready ??= (async () => {
    const raw = Uint8Array.from(atob(document.getElementById('plotly').textContent.trim()), c => c.charCodeAt(0));
    const text = await new Response(new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
    const script = document.createElement('script');
    script.textContent = text;
    document.head.append(script);
  })();
}
const all = JSON.parse(document.getElementById('figures').textContent);
async function show(name) {
  for (const s of document.querySelectorAll('section')) s.classList.toggle('on', s.id === 'entry-' + name);
  for (const b of document.querySelectorAll('nav button')) b.classList.toggle('on', b.dataset.entry === name);
  const empty = [...document.querySelectorAll('section.on .figure')].filter(d => !d.dataset.drawn);
  for (const d of empty) d.dataset.drawn = '1';
  await library();
  for (const d of empty) {
    const f = all[d.dataset.entry][d.dataset.figure];
    d.textContent = '';
    await Plotly.newPlot(d, f.data, f.layout, config);
  }
}
for (const b of document.querySelectorAll('nav button')) b.onclick = () => { location.hash = b.dataset.entry; };
const chosen = () => decodeURIComponent(location.hash.slice(1));
const first = document.querySelector('nav button')?.dataset.entry;
const go = () => show(chosen() in all ? chosen() : first);
window.onhashchange = go;
if (first !== undefined) go().catch(e => { document.querySelector('.note').textContent = 'figures: ' + e; });
"""


def number(value: float, text: str | None = None, title: str = "") -> str:
    """A cell that sorts by its value."""
    hint = f' title="{escape(title)}"' if title else ""
    return f'<td data-v="{value}"{hint}>{text if text is not None else f"{value:,}"}</td>'


def text(value: str) -> str:
    """A cell of text, cut to its column; the whole is its tooltip."""
    return f'<td class="text" title="{escape(value)}">{escape(value)}</td>'


def table(
    head: Sequence[tuple[str, bool]], rows: Iterable[str], foot: str = "", name: str = "", sort: bool = True
) -> str:
    """`head` are headings, each with whether its column is text."""
    columns = "".join(f"<th{' class=text' if words else ''}>{escape(c)}</th>" for c, words in head)
    end = f"<tfoot>{foot}</tfoot>" if foot else ""
    marks = (' class="sort"' if sort else "") + (f' id="{name}"' if name else "")
    return f"<table{marks}><thead><tr>{columns}</tr></thead><tbody>{''.join(rows)}</tbody>{end}</table>"


def page(title: str, body: str, script: str = "") -> str:
    """The frame of every page."""
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title><style>{STYLE}</style></head><body>
<h1>{escape(title)}</h1>
{body}
<script>{SCRIPT}{script}</script></body></html>
"""


@cache
def plotly_data() -> str:
    """plotly.js, compressed, as text."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), 9, mtime=0)).decode()


_COLUMNS = (
    ("operation", True),
    ("kind", True),
    ("logical MACs", False),
    ("executed MACs", False),
    ("own cycles", False),
    ("share", False),
    ("of it nothing runs", False),
    ("start", False),
    ("span", False),
    ("utilisation", False),
    ("bound", True),
    ("DRAM read", False),
    ("DRAM written", False),
    ("MACs/byte", False),
    ("scratchpad bytes", False),
    *((f"{e} idle", False) for e in ("LOAD", "MXU", "VPU", "STORE")),
    ("uJ", False),
    ("ONNX nodes", True),
    ("result", True),
    ("tiles", True),
)


def _share(part: float, whole: float) -> str:
    return f"{100 * part / whole if whole else 0:.1f} %"


def _idle(r: Row, engine: str) -> str:
    reasons = r.idle.get(engine, {})
    parts = sorted(reasons.items(), key=lambda x: -x[1])
    return number(sum(reasons.values()), title=", ".join(f"{reason} {n:,}" for reason, n in parts))


def _row(r: Row, whole: int) -> str:
    cells = [
        text(r.name),
        text(r.kind.removeprefix("dpu.q.")),
        number(r.logical_macs),
        number(r.executed_macs),
        number(r.own),
        number(r.own, _share(r.own, whole)),
        number(r.waiting),
        number(r.start),
        number(r.span),
        number(r.utilisation, f"{100 * r.utilisation:.1f} %"),
        f'<td class="text {r.bound}" title="idle: {escape("; ".join(idle_text(r)))}">{r.bound}</td>',
        number(r.bytes_read),
        number(r.bytes_written),
        number(r.intensity, f"{r.intensity:.1f}"),
        number(r.sram_bytes),
        *(_idle(r, e) for e in ("LOAD", "MXU", "VPU", "STORE")),
        number(r.energy * 1e6, f"{r.energy * 1e6:.3f}"),
        text(", ".join(r.nodes)),
        text("; ".join(r.shapes)),
        text(r.tiling),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _sums(report: Report) -> str:
    """The last line of the table: sums over the rows, which are the totals of the entry."""
    rows, whole = report.rows, report.tiles * report.cycles

    def idle(engine: str) -> int:
        return sum(sum(r.idle.get(engine, {}).values()) for r in rows)

    macs, moved = sum(r.executed_macs for r in rows), sum(r.dram_bytes for r in rows)
    own = sum(r.own for r in rows) + report.unowned
    without = f", {report.unowned:,} of them on tiles without work" if report.unowned else ""
    cells = [
        text(f"all {len(rows)} operations"),
        text(""),
        number(sum(r.logical_macs for r in rows)),
        number(macs),
        number(own, title=f"{report.tiles} tiles x {report.cycles:,} cycles{without}"),
        number(own, _share(own, whole)),
        number(sum(r.waiting for r in rows)),
        text(""),
        text(""),
        number(report.executed_utilisation, f"{100 * report.executed_utilisation:.1f} %"),
        text(""),
        number(sum(r.bytes_read for r in rows)),
        number(sum(r.bytes_written for r in rows)),
        number(macs / moved if moved else 0, f"{macs / moved if moved else 0:.1f}"),
        number(sum(r.sram_bytes for r in rows)),
        *(number(idle(e)) for e in ("LOAD", "MXU", "VPU", "STORE")),
        number(1e6 * sum(r.energy for r in rows), f"{1e6 * sum(r.energy for r in rows):.3f}", "without leakage"),
        *(text("") for _ in range(3)),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _engines(report: Report) -> str:
    """Where each engine's cycles went: runs, idle by reason, finished; the sum is tiles times cycles."""
    rows, whole = report.rows, report.tiles * report.cycles
    engines = list(report.finished)
    names = sorted({reason for r in rows for reasons in r.idle.values() for reason in reasons})

    def line(name: str, values: Sequence[int]) -> str:
        return f"<tr>{text(name)}{''.join(number(v, f'{v:,} ({_share(v, whole)})' if v else '') for v in values)}</tr>"

    ran = [sum(r.ran[e] for r in rows) for e in engines]
    idle = {n: [sum(r.idle.get(e, {}).get(n, 0) for r in rows) for e in engines] for n in names}
    finished = [report.finished[e] for e in engines]
    lines = [line("runs", ran), *(line(f"idle: {n}", v) for n, v in idle.items()), line("finished", finished)]
    sums = line("sum", [sum(v) for v in zip(ran, *idle.values(), finished, strict=True)])
    head = [("cycles", True), *((e, False) for e in engines)]
    booked = "".join(
        f"<li>{escape(engine)}: "
        + escape(", ".join(f"{reason} {n:,}" for reason, n in sorted(reasons.items(), key=lambda x: -x[1])))
        + "</li>"
        for engine, reasons in report.stalls.items()
        if reasons
    )
    return f"""<h2>Engines</h2>
<p class="note">Cycles of all {report.tiles} tiles. Idle cycles go to the condition that held before the next word of
the engine; "dispatch" is what no other explains. The stalls that the timing model books itself are another account:
cycles in which an engine could take a word but does not, for the first reason that holds.</p>
{table(head, lines, sums, sort=False)}
<details><summary>stalls booked by the timing model</summary><ul>{booked or "<li>none</li>"}</ul></details>
"""


def _detail(report: Report) -> str:
    """Every operation, engine and reason."""
    keys = sorted({(e, n) for r in report.rows for e, reasons in r.idle.items() for n in reasons})
    head = [("operation", True), *((f"{e} {n}", False) for e, n in keys)]
    lines = [
        f"<tr>{text(r.name)}" + "".join(number(r.idle.get(e, {}).get(n, 0)) for e, n in keys) + "</tr>"
        for r in report.rows
        if r.idle
    ]
    sums = "".join(number(sum(r.idle.get(e, {}).get(n, 0) for r in report.rows)) for e, n in keys)
    return f"""<details><summary>idle cycles by operation, engine and reason</summary>
<div class="wide">{table(head, lines, f"<tr>{text('sum')}{sums}</tr>")}</div></details>
"""


def _summary(report: Report) -> str:
    lines = [
        ("cycles", f"{report.cycles:,} ({1e3 * report.seconds:.3f} ms at {report.clock_hz / 1e6:g} MHz)"),
        (
            "utilisation, logical MACs",
            f"{100 * report.utilisation:.2f} % of {report.peak_macs_per_cycle:,} MACs a cycle",
        ),
        ("utilisation, executed MACs", f"{100 * report.executed_utilisation:.2f} %"),
        ("logical MACs", f"{report.logical_macs:,}"),
        ("executed MACs", f"{report.executed_macs:,}"),
        ("DRAM read, written", f"{report.bytes_read:,} B, {report.bytes_written:,} B"),
        ("words", f"{report.words:,}, of them {report.control_words} END"),
    ]
    lines += [
        (f"{e} busy", ", ".join(f"{100 * b / max(1, report.cycles):.1f} %" for b in v)) for e, v in report.busy.items()
    ]
    return "".join(f'<tr><td class="text">{escape(k)}</td><td class="text">{escape(v)}</td></tr>' for k, v in lines)


def _memory(report: Report) -> str:
    m = report.memory
    regions = table(
        [("region", True), ("bytes", False), ("reached by this entry", False), ("read", False), ("written", False)],
        (
            f"<tr>{text(r.name)}{number(r.bytes)}{number(r.touched)}{number(r.read)}{number(r.written)}</tr>"
            for r in m.regions
        ),
    )
    pads = table(
        [("scratchpad, a tile", True), ("bytes", False), ("high water", False), ("", False)],
        (
            f"<tr>{text(f.buffer)}{number(f.bytes)}{number(f.used)}"
            + number(f.used / f.bytes if f.bytes else 0, _bar(f.used, f.bytes))
            + "</tr>"
            for f in m.scratchpads
        ),
    )
    lives = table(
        [(c, c in ("tensor", "written by", "region")) for c in _LIFE_COLUMNS],
        (
            f"<tr>{text(x.name)}{text(x.operation)}{text(x.region)}{number(x.offset)}{number(x.bytes)}"
            f"{number(x.first)}{number(x.last)}<td>{'' if x.read else 'not here'}</td></tr>"
            for x in m.lives
        ),
    )
    return f"""<h2>Memory</h2>
<p class="note">Derived from the words that ran. At most {m.work_peak:,} bytes of WORK tensors are alive together.</p>
{regions}
{_figure(report, "memory")}
{pads}
<details><summary>every tensor that is written ({len(m.lives)})</summary><div class="wide">{lives}</div></details>
"""


_LIFE_COLUMNS = ("tensor", "written by", "region", "offset", "bytes", "first cycle", "last cycle", "read")


def _bar(part: int, whole: int) -> str:
    percent = 100 * part / whole if whole else 0
    return f'<span class="bar"><i style="width:{percent:.1f}%"></i></span> {percent:.1f} %'


def _quantity(q: Quantity) -> str:
    return f"{number(q.value, f'{q.value:.4g}')}{text(q.unit)}{text(q.provenance.label)}{text(q.source)}"


def _energy(report: Report) -> str:
    e = report.energy
    groups = e.by_group()
    total = e.total.value
    head = [("group", True), ("uJ", False), ("share", False)]
    split = table(
        head,
        (
            f"<tr>{text(g)}{number(1e6 * v, f'{1e6 * v:.3f}')}{number(v, _share(v, total))}</tr>"
            for g, v in groups.items()
        ),
        f"<tr>{text('total')}{number(1e6 * total, f'{1e6 * total:.3f}')}{number(total, _share(total, total))}</tr>",
    )
    lines = []
    for p in e.parts:
        *counts, price = p.energy.inputs
        count = counts[0]
        lines.append(
            f"<tr>{text(p.group)}{text(p.name)}{number(count.value, f'{count.value:,.6g}')}{text(count.unit)}"
            f"{_quantity(price)}{number(1e6 * p.energy.value, f'{1e6 * p.energy.value:.3f}')}"
            f"{text(p.energy.provenance.label)}</tr>"
        )
    columns = [("group", True), ("term", True), ("count", False), ("of", True), ("constant", False), ("unit", True)]
    columns += [("provenance", True), ("source", True), ("uJ", False), ("result is", True)]
    per_mac = f", {1e12 * total / report.executed_macs:.2f} pJ an executed MAC" if report.executed_macs else ""
    watts = f", {scaled(total / report.seconds, 'W')} on average" if report.seconds else ""
    missing = "; ".join(e.not_counted)
    return f"""<h2>Energy</h2>
<p class="note">One run, standard cells and SRAM at {e.node_nm} nm: {1e6 * total:.3f} uJ{per_mac}{watts}. Provenance:
<b>{e.total.provenance.label}</b>. Never measured; an FPGA takes several times more. Not counted: {escape(missing)}.</p>
{split}
{_figure(report, "energy")}
<details><summary>terms, constants and their sources ({len(GROUPS)} groups)</summary>{table(columns, lines)}</details>
"""


_CHANNEL_COLUMNS = (
    "channel",
    "read",
    "written",
    "row hits",
    "closed",
    "conflicts",
    "hit rate",
    "refreshes",
    "refresh wait",
    "turns",
    "turnaround",
)


def _channel(name: str, c: ChannelRow, clocks: int) -> str:
    def wait(n: int) -> str:
        return number(n, f"{n:,} ({100 * n / clocks if clocks else 0:.1f} %)")

    cells = [
        text(name),
        number(c.bytes_read),
        number(c.bytes_written),
        number(c.row_hits),
        number(c.row_misses),
        number(c.row_conflicts),
        number(c.hit_rate, f"{100 * c.hit_rate:.1f} %"),
        number(c.refreshes),
        wait(c.refresh_wait),
        number(c.turns),
        wait(c.turnaround),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _dram(d: DramReport) -> str:
    head = [(c, not i) for i, c in enumerate(_CHANNEL_COLUMNS)]
    body = (_channel(str(i), c, d.clocks) for i, c in enumerate(d.channels))
    return f"""<h2>DRAM channels</h2>
<p class="note">{escape(d.file)}: accesses of one column each that found their row open, their bank closed, or another
row open; clocks, of {d.clocks:,} at {d.clock_hz / 1e6:g} MHz, that the next access waited for refresh or for the bus to
turn.</p>
{table(head, body, _channel("all", d.total, d.clocks * len(d.channels)))}
{"" if d.l2 is None else _l2(d.l2)}"""


def _l2(x: L2Row) -> str:
    head = [(c, False) for c in ("hits", "merged", "misses", "hit rate", "to tiles", "from DRAM")]
    cells = [
        *(number(n) for n in (x.hits, x.merged, x.misses)),
        number(x.hit_rate, f"{100 * x.hit_rate:.1f} %"),
        *(number(n) for n in (x.bytes, x.filled)),
    ]
    return f"""<h2>Shared L2</h2>
<p class="note">Look-ups of lines that LOADs of constants touch: there, asked for by another and not yet there, or read
from DRAM; bytes. Simulated; the organisation is assumed.</p>
{table(head, [f"<tr>{''.join(cells)}</tr>"])}
"""


def _figure(report: Report, name: str) -> str:
    return f'<div class="figure" data-entry="{escape(report.entry)}" data-figure="{name}">drawing {name}</div>'


def _entry(report: Report) -> str:
    missing = "".join(f"<li>{escape(x)}</li>" for x in report.not_modelled)
    whole = report.tiles * report.cycles
    name = escape(report.entry)
    rows = (_row(r, whole) for r in report.rows)
    return f"""<section id="entry-{name}">
<h2>{name}</h2>
<table>{_summary(report)}</table>
{_figure(report, "roofline")}
<p class="note">y is work over the operation's span, which overlaps with those of its neighbours; so no marker is
above a ceiling that holds for it.</p>
<h2>Operations</h2>
<p class="note">Each cycle of each tile is the own cycle of one operation: of that on the MXU, else on the VPU, else in
LOAD's data phase, else in STORE's; when nothing runs, of that which begins next. Own cycles add up to
{report.tiles} x {report.cycles:,}. An operation is bound by "sync" when none of its words runs for more than half of
its span on its longest tile; else by the busiest of MXU, VPU and memory there. Utilisation is over spans. Click a
heading to sort; idle cells name their reasons.</p>
<input class="find" data-table="rows-{name}" placeholder="show operations that contain">
<div class="wide">{table(_COLUMNS, rows, _sums(report), f"rows-{name}")}</div>
{_detail(report)}
{_figure(report, "time")}
{_figure(report, "occupancy")}
{_engines(report)}
{_memory(report)}
{_energy(report)}
{_dram(report.dram) if report.dram else ""}<h2>Not modelled</h2><ul>{missing}</ul>
</section>"""


def _overview(reports: Sequence[Report]) -> str:
    head = [("entry", True)] + [
        (c, False)
        for c in ("cycles", "ms", "logical MACs", "executed MACs", "executed", "DRAM bytes", "words", "uJ (assumed)")
    ]
    rows = (
        f"<tr>{text(r.entry)}{number(r.cycles)}{number(r.seconds, f'{1e3 * r.seconds:.3f}')}"
        f"{number(r.logical_macs)}{number(r.executed_macs)}"
        f"{number(r.executed_utilisation, f'{100 * r.executed_utilisation:.1f} %')}"
        f"{number(r.bytes_read + r.bytes_written)}{number(r.words)}"
        f"{number(1e6 * r.energy.total.value, f'{1e6 * r.energy.total.value:.2f}')}</tr>"
        for r in reports
    )
    return table(head, rows)


def report_page(reports: Sequence[Report]) -> str:
    """All entry points of a program on one page."""
    if not reports:
        return page("No entry point was timed", "<p>There is nothing to report.</p>")
    one = reports[0]
    title = f"{one.entry if len(reports) == 1 else f'{len(reports)} entry points'} on {one.arch}"
    drawings = json.dumps({r.entry: figures(r) for r in reports}, separators=(",", ":"))
    buttons = "".join(f'<button data-entry="{escape(r.entry)}">{escape(r.entry)}</button>' for r in reports)
    body = f"""<p class="note">One run of each. Provenance: <b>{one.provenance}</b>, arch digest {one.arch_digest}.
Cycles of the tile clock, bytes of DRAM payload.</p>
{_overview(reports)}
<nav>{buttons}</nav>
{"".join(_entry(r) for r in reports)}
<script type="application/json" id="figures">{drawings.replace("</", "<" + chr(92) + "/")}</script>
<script type="text/plain" id="plotly">{plotly_data()}</script>"""
    return page(title, body, _FIGURES)
