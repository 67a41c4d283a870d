"""The report's interactive figures, as the JSON that plotly.js draws: dicts with `data` and `layout`."""

from __future__ import annotations

from html import escape
from math import log10
from typing import Any

from .profile import Report, Row
from .roofline import COLOURS, MARKERS, VIEWS, Point, View, ceilings, limits, points, scaled

Figure = dict[str, Any]

ENGINE_COLOURS = {"MXU": "#0072B2", "VPU": "#E69F00", "LOAD": "#009E73", "STORE": "#CC79A7", "waiting": "#DDDDDD"}
ENGINE_PATTERNS = {"MXU": "", "VPU": "/", "LOAD": ".", "STORE": "x", "waiting": ""}
GROUP_COLOURS = {"MAC": "#0072B2", "VPU": "#E69F00", "SRAM": "#009E73", "DRAM": "#D55E00", "leakage": "#999999"}
_HEAT = [[0, "#ffffff"], [0.25, "#c6dbef"], [0.5, "#6baed6"], [0.75, "#2171b5"], [1, "#08306b"]]
_LIFE_COLOURS = ("#56B4E9", "#F0E442", "#009E73", "#CC79A7", "#E69F00", "#BBBBBB")
_FONT = {"family": "system-ui, sans-serif", "size": 12, "color": "#222"}


def _layout(title: str, height: int, **more: Any) -> dict[str, Any]:
    base = {
        "title": {"text": title, "font": {"size": 14}, "x": 0.01, "xanchor": "left"},
        "height": height,
        "font": _FONT,
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hoverlabel": {"align": "left", "bgcolor": "white", "font": {"size": 12, "color": "#222"}},
        "margin": {"l": 80, "r": 30, "t": 50, "b": 60},
    }
    return base | more


def _axis(title: str, **more: Any) -> dict[str, Any]:
    look = {
        "title": {"text": title},
        "gridcolor": "#e5e5e5",
        "zeroline": False,
        "linecolor": "#444",
        "ticks": "outside",
    }
    return look | more


def idle_text(row: Row, most: int = 4) -> list[str]:
    """The largest idle times before words of an operation, all tiles: `VPU semaphore MXU 1,234`."""
    found = [(n, f"{e} {reason} {n:,}") for e, reasons in row.idle.items() for reason, n in reasons.items()]
    return [text for _, text in sorted(found, key=lambda x: (-x[0], x[1]))[:most]]


def hover(report: Report, row: Row) -> str:
    """What a point or a cell says of its operation."""
    share = row.own / max(1, report.tiles * report.cycles)
    micro = 1e6 / report.clock_hz
    lines = [
        f"<b>{escape(row.name)}</b>",
        escape(row.kind),
        *(f"ONNX {escape(n)}" for n in row.nodes[:3]),
        *([f"and {len(row.nodes) - 3} more nodes"] if row.nodes[3:] else []),
        f"result {escape('; '.join(row.shapes[:3])) or 'none'}",
    ]
    if row.tiling:
        lines.append(f"tiles {escape(row.tiling)}")
    lines += [
        f"bound by <b>{row.bound}</b>, {100 * share:.2f} % of the time",
        f"span {row.span:,} cycles ({row.span * micro:,.1f} us), from {row.start:,}",
        f"MACs {row.executed_macs:,} executed, {row.logical_macs:,} logical",
        f"{100 * row.utilisation:.1f} % of the array",
        f"DRAM {row.bytes_read:,} B read, {row.bytes_written:,} B written; scratchpads {row.sram_bytes:,} B",
    ]
    waits = idle_text(row)
    if waits:
        lines.append("idle " + escape("; ".join(waits[:2])))
    if waits[2:]:
        lines.append("     " + escape("; ".join(waits[2:])))
    return "<br>".join(lines)


def roofline(report: Report) -> Figure:
    """Log-log, with a button for DRAM bytes and one for scratchpad bytes."""
    traces: list[dict[str, Any]] = []
    views: list[View] = []
    for view in VIEWS:
        new = _roofline_traces(report, view)
        for t in new:
            t["visible"] = view == "dram"
        traces += new
        views += [view] * len(new)
    titles: dict[View, str] = {
        "dram": "executed MACs (hollow: VPU elements) a DRAM byte",
        "sram": "executed MACs (hollow: VPU elements) a scratchpad byte",
    }
    labels: dict[View, str] = {"dram": "per DRAM byte", "sram": "per scratchpad byte"}
    buttons = []
    for view, label in labels.items():
        x0, x1, y0, y1 = _log(limits(report, view))
        buttons.append(
            {
                "label": label,
                "method": "update",
                "args": [
                    {"visible": [v == view for v in views]},
                    {"xaxis.title.text": titles[view], "xaxis.range": [x0, x1], "yaxis.range": [y0, y1]},
                ],
            }
        )
    x0, x1, y0, y1 = _log(limits(report))
    layout = _layout(
        "Roofline: one marker an operation, its area the share of time",
        620,
        xaxis=_axis(titles["dram"], type="log", range=[x0, x1], dtick=1, exponentformat="power"),
        yaxis=_axis("executed MAC/s over the span", type="log", range=[y0, y1], dtick=1, exponentformat="power"),
        legend={"x": 1.01, "y": 1, "bgcolor": "rgba(255,255,255,0.9)"},
        updatemenus=[
            {
                "type": "buttons",
                "direction": "right",
                "buttons": buttons,
                "x": 1,
                "xanchor": "right",
                "y": 1.09,
                "yanchor": "bottom",
                "showactive": True,
            }
        ],
        margin={"l": 80, "r": 30, "t": 90, "b": 60},
    )
    return {"data": traces, "layout": layout}


def _log(values: tuple[float, ...]) -> list[float]:
    return [round(log10(v), 4) for v in values]


def _roofline_traces(report: Report, view: View) -> list[dict[str, Any]]:
    x0, x1, y0, _ = limits(report, view)
    roofs = ceilings(report, view)
    top = max(c.rate for c in roofs if not c.slanted)
    traces: list[dict[str, Any]] = []
    for c in roofs:
        begin = max(x0, y0 / c.rate) if c.slanted else x0
        end = top / c.rate if c.slanted else x1
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+text",
                "x": [begin, end],
                "y": [c.at(begin), c.at(end)],
                "text": ["", "" if c.slanted else c.name],
                "textposition": "top left",
                "textfont": {"size": 11, "color": "#222"},
                "line": {"color": "#222", "width": 1.3, "dash": c.style},
                "name": c.name,
                "hoverinfo": "name",
                "legendgroup": "ceilings",
            }
        )
    found = points(report, view)
    for bound, colour in COLOURS.items():
        for hollow in (False, True):
            mine = [p for p in found if p.row.bound == bound and (not p.row.executed_macs) == hollow]
            if mine:
                traces.append(_scatter(report, mine, f"{bound}{', VPU elements' if hollow else ''}", colour, hollow))
    return traces


def _scatter(report: Report, mine: list[Point], name: str, colour: str, hollow: bool) -> dict[str, Any]:
    symbol = MARKERS[mine[0].row.bound][0] + ("-open" if hollow else "")
    unit = "element/s" if hollow else "MAC/s"
    return {
        "type": "scatter",
        "mode": "markers",
        "x": [p.x for p in mine],
        "y": [p.y for p in mine],
        "text": [f"{hover(report, p.row)}<br>{scaled(p.y, unit)} at {p.x:.3g} a byte" for p in mine],
        "hovertemplate": "%{text}<extra></extra>",
        "name": f"{name} ({len(mine)})",
        "marker": {
            "symbol": symbol,
            "color": colour,
            "opacity": 0.85,
            "size": [round((36 + 2500 * p.share) ** 0.5, 2) for p in mine],
            "line": {"width": 1.2 if hollow else 0.6, "color": colour if hollow else "white"},
        },
    }


def _middles(report: Report) -> list[float]:
    step = 1e6 * report.seconds / report.occupancy.bins
    return [round((i + 0.5) * step, 4) for i in range(report.occupancy.bins)]


def _owners(report: Report) -> list[str]:
    rows = report.rows
    return [escape(rows[i].name) if 0 <= i < len(rows) else "" for i in report.occupancy.operation]


def occupancy(report: Report) -> Figure:
    """Heat strips: one an engine of a tile, one for the DRAM."""
    o = report.occupancy
    names, strips = [], []
    for tile in range(report.tiles):
        for engine in ("LOAD", "MXU", "VPU", "STORE"):
            names.append(f"{engine} {tile}" if report.tiles > 1 else engine)
            strips.append(o.busy[engine][tile])
    names.append("DRAM")
    rate = report.dram_peak_bytes_per_cycle or report.dram_bytes_per_cycle
    strips.append([round(min(1.0, v / rate), 3) for v in o.dram])
    trace = {
        "type": "heatmap",
        "x": _middles(report),
        "y": names,
        "z": strips,
        "zmin": 0,
        "zmax": 1,
        "colorscale": _HEAT,
        "colorbar": {"title": {"text": "busy"}, "tickformat": ".0%"},
        "ygap": 1,
        "hovertemplate": "%{y}, %{x:.1f} us: %{z:.1%}<extra></extra>",
    }
    layout = _layout(
        "Occupancy: the part of each bin in which an engine works; DRAM: of its pins' or nominal rate",
        110 + 22 * len(names),
        xaxis=_axis("us"),
        yaxis=_axis("", autorange="reversed", type="category"),
    )
    return {"data": [trace], "layout": layout}


def time_use(report: Report) -> Figure:
    """What the tiles' cycles are spent on, stacked to 100 %; hover names the operation that has most of a bin."""
    x, owners = _middles(report), _owners(report)
    traces = [
        {
            "type": "bar",
            "x": x,
            "y": values,
            "name": {"MXU": "MXU", "waiting": "nothing runs"}.get(name, f"{name}, not MXU"),
            "text": owners,
            "textposition": "none",
            "hovertemplate": f"{name} %{{y:.1%}}<br>%{{text}}<extra></extra>",
            "marker": {
                "color": ENGINE_COLOURS[name],
                "pattern": {"shape": ENGINE_PATTERNS[name], "fgcolor": "#222", "size": 5, "fillmode": "overlay"},
                "line": {"width": 0},
            },
        }
        for name, values in report.occupancy.runs.items()
    ]
    layout = _layout(
        "What cycles are spent on: a cycle counts for the first of MXU, VPU, LOAD, STORE that runs",
        320,
        barmode="stack",
        bargap=0,
        xaxis=_axis("us"),
        yaxis=_axis("", range=[0, 1], tickformat=".0%"),
    )
    return {"data": traces, "layout": layout}


def memory(report: Report) -> Figure:
    """Lives of the tensors in WORK: time across, bytes up."""
    lives = [x for x in report.memory.lives if x.region == "WORK"]
    micro = 1e6 / report.clock_hz
    traces = []
    for k, colour in enumerate(_LIFE_COLOURS):
        mine = lives[k :: len(_LIFE_COLOURS)]
        if not mine:
            continue
        traces.append(
            {
                "type": "bar",
                "x": [round((a.first + a.last) / 2 * micro, 4) for a in mine],
                "width": [round(max(1, a.last - a.first) * micro, 4) for a in mine],
                "base": [a.offset for a in mine],
                "y": [a.bytes for a in mine],
                "text": [
                    f"<b>{escape(a.name)}</b><br>written by {escape(a.operation)}<br>"
                    f"bytes {a.offset:,} to {a.offset + a.bytes - 1:,} ({a.bytes:,})<br>"
                    f"cycles {a.first:,} to {a.last:,}{'' if a.read else ', never read'}"
                    for a in mine
                ],
                "textposition": "none",
                "hovertemplate": "%{text}<extra></extra>",
                "marker": {"color": colour, "line": {"width": 0.7, "color": "#333"}},
                "showlegend": False,
            }
        )
    layout = _layout(
        "WORK region: where each tensor lies and how long it lives (colours only tell neighbours apart)",
        380,
        barmode="overlay",
        xaxis=_axis("us", range=[0, 1e6 * report.seconds]),
        yaxis=_axis("byte offset", rangemode="tozero", exponentformat="none", tickformat=",d"),
    )
    return {"data": traces, "layout": layout}


def energy(report: Report) -> Figure:
    """The split, one bar a term."""
    parts = [p for p in report.energy.parts if p.energy.value]
    total = report.energy.total.value or 1.0
    trace = {
        "type": "bar",
        "orientation": "h",
        "y": [p.name for p in parts],
        "x": [p.energy.value * 1e6 for p in parts],
        "text": [f"{100 * p.energy.value / total:.1f} %" for p in parts],
        "textposition": "outside",
        "cliponaxis": False,
        "hovertext": [f"{p.group}, {escape(p.energy.provenance.label)}" for p in parts],
        "hovertemplate": "%{y}: %{x:.4g} uJ<br>%{hovertext}<extra></extra>",
        "marker": {"color": [GROUP_COLOURS[p.group] for p in parts], "line": {"width": 0.6, "color": "#333"}},
    }
    layout = _layout(
        f"Energy of one run: {scaled(report.energy.total.value, 'J') if total >= 1 else _joules(total)}, assumed",
        90 + 26 * len(parts),
        xaxis=_axis("uJ"),
        yaxis=_axis("", autorange="reversed", type="category"),
        margin={"l": 190, "r": 70, "t": 50, "b": 60},
    )
    return {"data": [trace], "layout": layout}


def _joules(value: float) -> str:
    return f"{value * 1e3:.3g} mJ" if value >= 1e-3 else f"{value * 1e6:.3g} uJ"


def figures(report: Report) -> dict[str, Figure]:
    """All of one entry point, by name."""
    return {
        "roofline": roofline(report),
        "time": time_use(report),
        "occupancy": occupancy(report),
        "memory": memory(report),
        "energy": energy(report),
    }
