"""The schedule, the cash by month and the die of a tape-out."""

from __future__ import annotations

from html import escape
from itertools import accumulate

from .draw import (
    BLUE,
    GREEN,
    GREY,
    INK,
    ORANGE,
    PATTERNS,
    PINK,
    RED,
    SKY,
    YELLOW,
    Figure,
    Trace,
    axis,
    figure,
    hatched,
    line,
    note,
)
from .marks import digits
from .tapeout import KINDS, Tapeout
from .words import wrapped

_COLOURS = dict(zip(KINDS, (BLUE, SKY, ORANGE, YELLOW, RED, PINK), strict=True))


def schedule(t: Tapeout) -> Figure:
    """A bar a phase; the gate is the line after which silicon is paid for."""
    titles = [escape(p.phase.title, quote=False) for p in t.tasks]
    trace: Trace = {
        "type": "bar",
        "orientation": "h",
        "y": list(range(len(titles))),
        "base": [p.start for p in t.tasks],
        "x": [p.end - p.start for p in t.tasks],
        "text": [f"{digits(p.end - p.start, 2)} months, {digits(p.engineers.value, 2)} people" for p in t.tasks],
        "textposition": "auto",
        "textfont": {"color": INK},
        "insidetextfont": {"color": INK},
        "insidetextanchor": "middle",
        "textangle": 0,
        "hovertext": [
            f"<b>{escape(p.phase.title)}</b><br>months {digits(p.start, 2)} to {digits(p.end, 2)}"
            f"<br>range {digits(p.phase.months.ends[0], 2)} to {digits(p.phase.months.ends[1], 2)} months (assumed)"
            for p in t.tasks
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "marker": {
            "color": [ORANGE if p.phase.gate else SKY for p in t.tasks],
            "line": {"width": 0.6, "color": INK},
        },
        "cliponaxis": False,
    }
    rows = {"tickvals": list(range(len(titles))), "range": [len(titles) - 0.4, -0.6]}
    layout = {
        "showlegend": False,
        "xaxis": axis("months from the start", range=[0, t.months * 1.4], dtick=6),
        "yaxis": axis("", **rows, ticktext=[wrapped(x, 30) for x in titles]),
        "shapes": [line(t.gate_month, t.gate_month, 0, 1, "dash", yref="paper")],
        "annotations": [note("gate: go on or stop", t.gate_month, 1, yref="paper", yanchor="bottom", xanchor="left")],
        "margin": {"l": 70, "r": 20, "t": 30, "b": 50},
        "bargap": 0.3,
    }
    phone = {
        "yaxis": axis("", **rows, ticktext=[wrapped(x, 14) for x in titles], tickfont={"size": 10}),
        "height": 110 + 46 * len(titles),
    }
    months = {"text": [f"{digits(p.end - p.start, 2)} m" for p in t.tasks]}
    return figure([trace], 110 + 34 * len(titles), {"layout": phone, "data": {"0": months}}, **layout)


def cash(t: Tapeout) -> Figure:
    """Stacked bars by kind; the line is what has been spent by the end of the month."""
    months = [m + 1 for m in range(len(t.by_month))]
    traces: list[Trace] = []
    for kind, pattern in zip(KINDS, PATTERNS, strict=False):
        values = [v / 1e6 for v in t.by_kind[kind]]
        if any(values):
            traces.append(
                {
                    "type": "bar",
                    "x": months,
                    "y": values,
                    "name": kind,
                    "hovertemplate": f"month %{{x}}, {kind}: $%{{y:.3g}} million<extra></extra>",
                    "marker": hatched(_COLOURS[kind], pattern, size=6, edge=0.4),
                }
            )
    spent = [v / 1e6 for v in accumulate(t.by_month)]
    traces.append(
        {
            "type": "scatter",
            "mode": "lines",
            "x": months,
            "y": spent,
            "yaxis": "y2",
            "name": "all so far (right axis)",
            "line": {"color": INK, "width": 2, "dash": "dash"},
            "hovertemplate": "by month %{x}: $%{y:.3g} million<extra></extra>",
        }
    )
    gate = t.gate_month + 0.5
    layout = {
        "barmode": "stack",
        "bargap": 0.15,
        "xaxis": axis("month", range=[0.3, len(months) + 0.7], dtick=6, tick0=0),
        "yaxis": axis("USD million a month", tickprefix="$", rangemode="tozero"),
        "yaxis2": axis("USD million so far", tickprefix="$", overlaying="y", side="right", range=[0, spent[-1] * 1.06])
        | {"gridcolor": "rgba(0,0,0,0)", "tickmode": "auto"},
        "shapes": [line(gate, gate, 0, 1, "dash", yref="paper")],
        "annotations": [note("gate", gate, 1, yref="paper", yanchor="bottom")],
        "margin": {"l": 70, "r": 60, "t": 30, "b": 50},
        "legend": {"orientation": "h", "x": 0, "y": -0.22, "yanchor": "top", "traceorder": "normal"},
    }
    return figure(traces, 360, {"layout": {"height": 400}}, **layout)


_BLOCKS = {
    "sram": ("scratchpads and L2", BLUE, ""),
    "macs": ("MAC arrays", ORANGE, "/"),
    "lanes": ("vector lanes", GREEN, "x"),
    "phy": ("memory PHYs", PINK, "."),
    "fixed": ("host interface, pads", SKY, "\\"),
}


def die(t: Tapeout) -> Figure:
    """One bar: the blocks of the die, and what routing takes."""
    details = t.comparison.dpu.platform.details
    whole = details["die_area"].to("mm2").value
    areas = {k: details[f"area.{k}"].to("mm2").value for k in _BLOCKS}
    rest = ("routing, power, network", whole - sum(areas.values()), GREY, "-")
    blocks = [(w, areas[k], colour, pattern) for k, (w, colour, pattern) in _BLOCKS.items()] + [rest]
    traces: list[Trace] = [
        {
            "type": "bar",
            "orientation": "h",
            "y": ["die"],
            "x": [area],
            "name": f"{words} {digits(area)}",
            "hovertemplate": f"{words}: {digits(area)} mm2<extra></extra>",
            "marker": hatched(colour, pattern),
        }
        for words, area, colour, pattern in blocks
    ]
    layout = {
        "barmode": "stack",
        "xaxis": axis("mm2", range=[0, whole * 1.01]),
        "yaxis": axis("", showticklabels=False),
        "margin": {"l": 20, "r": 20, "t": 10, "b": 40},
        "legend": {"orientation": "h", "x": 0, "y": -0.55, "yanchor": "top", "traceorder": "normal"},
    }
    return figure(traces, 190, {"layout": {"height": 260}}, **layout)
