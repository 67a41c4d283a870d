"""The report of a timed entry point as `report.json` and a self-contained `report.html`."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write
from .profile import ChannelRow, DramReport, Report, Row
from .roofline import roofline_svg

_STYLE = """
body { font: 14px/1.45 system-ui, sans-serif; margin: 2em auto; max-width: 90em; padding: 0 1em; color: #222 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin: 1em 0 }
th, td { padding: .2em .6em; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap }
th { cursor: pointer; position: sticky; top: 0; background: #f4f4f4 }
td.text, th.text { text-align: left; max-width: 30em; overflow: hidden; text-overflow: ellipsis }
.mxu { color: #1b6ca8 } .vpu { color: #d1730b } .memory { color: #a32a2a } .sync { color: #777 }
svg { max-width: 100%; height: auto }
"""

_SCRIPT = """
for (const th of document.querySelectorAll('table.sort th')) th.onclick = () => {
  const body = th.closest('table').tBodies[0], k = th.cellIndex, up = th.dataset.up = th.dataset.up === '1' ? '0' : '1';
  const key = r => { const v = r.cells[k].dataset.v; return v === undefined ? r.cells[k].textContent : +v; };
  const sign = up === '1' ? 1 : -1;
  [...body.rows].sort((a, b) => sign * (key(a) > key(b) ? 1 : key(a) < key(b) ? -1 : 0)).forEach(r => body.append(r));
};
"""

_COLUMNS = (
    "operation",
    "kind",
    "ONNX nodes",
    "logical MACs",
    "executed MACs",
    "start",
    "span",
    "MXU busy",
    "VPU busy",
    "utilisation",
    "read",
    "written",
    "MACs/byte",
    "bound",
)


def _number(value: float, text: str | None = None) -> str:
    return f'<td data-v="{value}">{text if text is not None else f"{value:,}"}</td>'


def _text(value: str) -> str:
    return f'<td class="text" title="{escape(value)}">{escape(value)}</td>'


def _row(r: Row) -> str:
    cells = [
        _text(r.name),
        _text(r.kind),
        _text(", ".join(r.nodes)),
        _number(r.logical_macs),
        _number(r.executed_macs),
        _number(r.start),
        _number(r.span),
        _number(r.mxu_busy),
        _number(r.vpu_busy),
        _number(r.utilisation, f"{100 * r.utilisation:.1f} %"),
        _number(r.bytes_read),
        _number(r.bytes_written),
        _number(r.intensity, f"{r.intensity:.1f}"),
        f'<td class="text {r.bound}">{r.bound}</td>',
    ]
    return f"<tr>{''.join(cells)}</tr>"


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
        ("words", f"{report.words:,}"),
    ]
    lines += [
        (f"{e} busy", ", ".join(f"{100 * b / max(1, report.cycles):.1f} %" for b in v)) for e, v in report.busy.items()
    ]
    for engine, reasons in report.stalls.items():
        if reasons:
            parts = sorted(reasons.items(), key=lambda x: -x[1])
            lines.append((f"{engine} stalls", ", ".join(f"{reason} {cycles:,}" for reason, cycles in parts)))
    return "".join(f'<tr><td class="text">{escape(k)}</td><td class="text">{escape(v)}</td></tr>' for k, v in lines)


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
        return _number(n, f"{n:,} ({100 * n / clocks if clocks else 0:.1f} %)")

    cells = [
        _text(name),
        _number(c.bytes_read),
        _number(c.bytes_written),
        _number(c.row_hits),
        _number(c.row_misses),
        _number(c.row_conflicts),
        _number(c.hit_rate, f"{100 * c.hit_rate:.1f} %"),
        _number(c.refreshes),
        wait(c.refresh_wait),
        _number(c.turns),
        wait(c.turnaround),
    ]
    return f"<tr>{''.join(cells)}</tr>"


def _dram(d: DramReport) -> str:
    head = "".join(f"<th{'' if i else ' class=text'}>{c}</th>" for i, c in enumerate(_CHANNEL_COLUMNS))
    body = "".join(_channel(str(i), c, d.clocks) for i, c in enumerate(d.channels))
    return f"""<h2>DRAM channels</h2>
<p>{escape(d.file)}: accesses of one column each that found their row open, their bank closed, or another row open;
clocks, of {d.clocks:,} at {d.clock_hz / 1e6:g} MHz, that the next access waited for refresh or for the bus to turn.</p>
<table class="sort"><thead><tr>{head}</tr></thead><tbody>{body}</tbody>
<tfoot>{_channel("all", d.total, d.clocks * len(d.channels))}</tfoot></table>
"""


def report_html(report: Report) -> str:
    """One page without external assets."""
    head = "".join(f"<th{' class=text' if i < 3 else ''}>{c}</th>" for i, c in enumerate(_COLUMNS))
    missing = "".join(f"<li>{escape(x)}</li>" for x in report.not_modelled)
    title = escape(f"{report.entry} on {report.arch}")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>
<h1>{title}</h1>
<p>Provenance: <b>{report.provenance}</b>, arch digest {report.arch_digest}.
Cycles of the tile clock, bytes of DRAM payload.</p>
<table>{_summary(report)}</table>
{roofline_svg(report)}
<h2>Graph operations</h2>
<p>An operation is bound by "sync" when none of its words runs for more than half of its span on its longest tile;
else by the busiest of MXU, VPU and memory there. Click a heading to sort.</p>
<table class="sort"><thead><tr>{head}</tr></thead><tbody>{"".join(_row(r) for r in report.rows)}</tbody></table>
{_dram(report.dram) if report.dram else ""}<h2>Not modelled</h2><ul>{missing}</ul>
<script>{_SCRIPT}</script></body></html>
"""


def index_html(reports: Sequence[Report]) -> str:
    """A page that leads to the reports of a program's entry points, each in a folder with its name."""
    head = "".join(
        f"<th{' class=text' if c == 'entry' else ''}>{c}</th>"
        for c in ("entry", "cycles", "ms", "utilisation, executed MACs", "DRAM bytes", "words")
    )
    rows = "".join(
        f'<tr><td class="text"><a href="{escape(r.entry)}/report.html">{escape(r.entry)}</a></td>'
        + _number(r.cycles)
        + _number(r.seconds, f"{1e3 * r.seconds:.3f}")
        + _number(r.executed_utilisation, f"{100 * r.executed_utilisation:.1f} %")
        + _number(r.bytes_read + r.bytes_written)
        + _number(r.words)
        + "</tr>"
        for r in reports
    )
    title = escape(f"Entry points on {reports[0].arch}" if reports else "No entry point was timed")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head><body>
<h1>{title}</h1>
<p>One run of each. Provenance: <b>simulated</b>.</p>
<table class="sort"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>
<script>{_SCRIPT}</script></body></html>
"""


def write_report(report: Report, folder: Path | str) -> None:
    """Write `report.json` and `report.html` into `folder` (created if its parent exists), each atomically.

    Raises:
        DpuError: the folder cannot be written.
    """
    folder = Path(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as e:
        raise DpuError(str(folder), f"cannot create the folder ({e.strerror})", code="E101") from e
    with atomic_write(folder / "report.json") as path:
        path.write_text(report.model_dump_json(indent=2) + "\n", encoding="utf-8")
    with atomic_write(folder / "report.html") as path:
        path.write_text(report_html(report), encoding="utf-8")
