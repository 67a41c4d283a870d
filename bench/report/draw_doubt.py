"""How sure the advantage is: tornado, histogram, and where it would break even."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import log10
from typing import Any

import numpy as np

from ...simulator.economics.sampling import Bar, Surface
from .draw import (
    BLUE,
    INK,
    LIGHT,
    ORANGE,
    RED,
    Figure,
    Trace,
    axis,
    axis_of_logs,
    figure,
    hatched,
    line,
    log_axis,
    note,
    short,
)
from .marks import digits
from .spread import Draws
from .words import of_number, wrapped

_DASHES = {1.0: "dot", 2.0: "solid", 5.0: "dash"}
"""Of the lines at 1x, 2x (the goal) and 5x, in all figures."""


def tornado(bars: Sequence[Bar], now: float, units: Mapping[str, str], goal: float) -> Figure:
    """One input at a time at either end of its range; the widest on top. `units` are those of the inputs by name."""
    names = [_input(b, units.get(b.name, "")) for b in bars]
    small = [wrapped(of_number(b.name), 16) for b in bars]
    ends = [v for b in bars for v in (b.at_low, b.at_high)] + [now]
    low, high = min(0.0, *ends), max(*ends, goal) * 1.08
    traces: list[Trace] = []
    for label, colour, pattern, reached in (
        ("input at its low end", ORANGE, "/", [b.at_low for b in bars]),
        ("input at its high end", BLUE, "", [b.at_high for b in bars]),
    ):
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": list(range(len(bars))),
                "base": [now] * len(bars),
                "x": [v - now for v in reached],
                "name": label,
                "hovertext": [f"{n}<br>advantage {digits(v)}x" for n, v in zip(names, reached, strict=True)],
                "hovertemplate": "%{hovertext}<extra></extra>",
                "marker": hatched(colour, pattern),
            }
        )
    shapes, notes = _lines([v for v in (1.0, goal) if low < v < high])
    rows: dict[str, Any] = {"tickvals": list(range(len(bars))), "range": [len(bars) - 0.4, -0.6]}
    layout = {
        "barmode": "overlay",
        "bargap": 0.35,
        "xaxis": axis("advantage", range=[low, high], ticksuffix="x"),
        "yaxis": axis("", **rows, ticktext=names),
        "shapes": shapes,
        "annotations": notes,
        "margin": {"l": 70, "r": 20, "t": 28, "b": 50},
        "legend": {"orientation": "h", "x": 0, "y": -0.13, "yanchor": "top"},
    }
    phone = {"yaxis": axis("", **rows, ticktext=small, tickfont={"size": 10}), "height": 150 + 44 * len(bars)}
    return figure(traces, 125 + 32 * len(bars), {"layout": phone}, **layout)


def _input(b: Bar, unit: str) -> str:
    words = {"": "", "1": "", "device": " cards", "year": " years", "1/year": " a year"}.get(unit, f" {unit}")
    ends = " to ".join(digits(v) if v < 1e6 else short(float(f"{v:.3g}")) for v in (b.low, b.high))
    return f"{of_number(b.name)}<br><i>{ends}{words}</i>"


def _lines(values: Sequence[float], log: bool = False) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Vertical lines over the whole figure, named above it."""
    shapes = [line(v, v, 0, 1, _DASHES[v], yref="paper") for v in values]
    names = {1.0: "1x: equal", 2.0: "2x: goal", 5.0: "5x"}
    notes = [note(names[v], log10(v) if log else v, 1, yref="paper", yanchor="bottom") for v in values]
    return shapes, notes


def histogram(d: Draws) -> Figure:
    """Shares of the draws by advantage, on a logarithmic axis; with NRE as bars, before it as a line."""
    both = np.log10(np.concatenate([d.advantage, d.before_nre]))
    low, high = float(np.quantile(both, 0.001)) - 0.05, float(np.quantile(both, 0.999)) + 0.05
    high = max(high, log10(2.4))
    edges = np.linspace(low, high, 51)
    middles = [float(10**v) for v in (edges[1:] + edges[:-1]) / 2]
    inside = [np.clip(np.log10(v), low, high) for v in (d.advantage, d.before_nre)]
    with_nre, before = (np.histogram(v, edges)[0] / d.samples for v in inside)
    widths = [float(10**b - 10**a) for a, b in pairwise(edges)]
    nre = not np.array_equal(d.advantage, d.before_nre)
    traces: list[Trace] = [
        {
            "type": "bar",
            "x": middles,
            "width": widths,
            "y": [float(v) for v in with_nre],
            "name": "with development (NRE)" if nre else "advantage",
            "hovertemplate": "%{x:.3g}x: %{y:.1%} of the draws<extra></extra>",
            "marker": {"color": BLUE, "line": {"width": 0.4, "color": INK}},
        },
    ]
    if nre:
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": middles,
                "y": [float(v) for v in before],
                "line": {"color": RED, "width": 2, "dash": "dash", "shape": "hvh"},
                "name": "before NRE",
                "hovertemplate": "before NRE, %{x:.3g}x: %{y:.1%} of the draws<extra></extra>",
            }
        )
    shapes, notes = _lines([t for t in d.probability if log10(t) < high], log=True)
    layout = {
        "xaxis": log_axis("advantage", 10**low, 10**high, ticksuffix="x"),
        "yaxis": axis("share of the draws", tickformat=".0%", rangemode="tozero"),
        "shapes": shapes,
        "annotations": notes,
        "margin": {"l": 70, "r": 20, "t": 28, "b": 50},
        "bargap": 0,
    }
    return figure(traces, 300, {"layout": {"height": 340}}, **layout)


def break_even(s: Surface, x: str, y: str, here: tuple[float, float], log_x: bool, y_prefix: str = "") -> Figure:
    """The advantage over two inputs: darker is better, lines at 1x, 2x and 5x, a cross where the scenario is.

    Args:
        s: its y is drawn as logarithm, and its x with `log_x`.
        x, y: titles of the axes.
        here: the scenario's own values.
    """
    xs = [log10(v) if log_x else float(v) for v in s.xs]
    ys = [log10(v) for v in s.ys]
    grid = {"x": xs, "y": ys}
    traces: list[Trace] = [
        grid
        | {
            "type": "heatmap",
            "z": [[round(log10(v), 4) for v in row] for row in s.values],
            "text": [
                [f"{digits(v)}x at {digits(a)}, {y_prefix}{digits(b)}" for a, v in zip(s.xs, row, strict=True)]
                for b, row in zip(s.ys, s.values, strict=True)
            ],
            "hovertemplate": "%{text}<extra></extra>",
            "zsmooth": "best",
            "colorscale": LIGHT,
            "showscale": False,
        }
    ]
    for t in levels(s):
        traces.append(
            grid
            | {
                "type": "contour",
                "z": [[round(log10(v), 5) for v in row] for row in s.values],
                "contours": {"start": log10(t), "end": log10(t), "size": 1, "coloring": "none"},
                "line": {"color": INK, "width": 2.2 if t == 2.0 else 1.4, "dash": _DASHES[t]},
                "name": f"{t:g}x{' (goal)' if t == 2.0 else ''}",
                "showlegend": True,
                "showscale": False,
                "hoverinfo": "skip",
            }
        )
    traces.append(
        {
            "type": "scatter",
            "mode": "markers",
            "x": [log10(here[0]) if log_x else here[0]],
            "y": [log10(here[1])],
            "name": "the scenario",
            "marker": {"symbol": "x", "size": 12, "color": RED, "line": {"width": 1, "color": INK}},
            "hovertemplate": "the scenario<extra></extra>",
        }
    )
    ends = (float(s.xs[0]), float(s.xs[-1]))
    layout = {
        "xaxis": axis_of_logs(x, *ends) if log_x else axis(x, range=list(ends), tickformat=".0%"),
        "yaxis": axis_of_logs(y, float(s.ys[0]), float(s.ys[-1]), y_prefix),
    }
    return figure(traces, 380, {"layout": {"height": 380}}, **layout)


def levels(s: Surface) -> list[float]:
    """The thresholds that the surface crosses."""
    return [t for t in _DASHES if float(s.values.min()) < t < float(s.values.max())]
