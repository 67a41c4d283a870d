"""What an image is paid for, and the frontier of speed and cost."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from typing import TypeVar

from ...simulator.economics.compare import Comparison
from ...simulator.economics.cost import Cost
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
    log_axis,
    places,
)
from .frontier import Frontier, Made, platforms
from .marks import LETTERS, digits, money
from .words import PARTS

_COLOURS = dict(zip(PARTS, (ORANGE, BLUE, SKY, YELLOW, GREY, PINK, GREEN, RED), strict=True))
_LARGEST = 4.0
"""Times the median beyond which a bar would squeeze the others; it is in the table."""
T = TypeVar("T")


def costs(comparisons: Sequence[Comparison]) -> tuple[list[Cost], list[Cost]]:
    """Platforms that are drawn, cheapest first, and those that cost so much that they are not."""
    ordered = sorted(platforms(comparisons).values(), key=lambda c: c.image.value)
    values = [c.image.value for c in ordered]
    return _split(ordered, values, values)


def _split(found: Sequence[T], values: Sequence[float], usual: Sequence[float]) -> tuple[list[T], list[T]]:
    """Those whose values are not beyond `_LARGEST` times the median of `usual`, and the others."""
    most = _LARGEST * sorted(usual)[len(usual) // 2]
    pairs = list(zip(found, values, strict=True))
    return [x for x, v in pairs if v <= most], [x for x, v in pairs if v > most]


def breakdown(drawn: Sequence[Cost]) -> Figure:
    """Stacked bars, a thousand images each, cheapest on top."""
    names = [_name(c) for c in drawn]
    traces: list[Trace] = []
    for (part, words), pattern in zip(PARTS.items(), PATTERNS, strict=True):
        values = [1000 * c.parts[part].value if part in c.parts else 0.0 for c in drawn]
        if not any(values):
            continue
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "y": names,
                "x": values,
                "name": words,
                "hovertemplate": f"%{{y}}<br>{words}: $%{{x:.3g}}<extra></extra>",
                "marker": hatched(_COLOURS[part], pattern),
            }
        )
    wholes = [1000 * c.image.value for c in drawn]
    traces.append(
        {
            "type": "scatter",
            "mode": "text",
            "y": names,
            "x": wholes,
            "text": [f" {money(w)} {LETTERS[c.image.provenance]}" for w, c in zip(wholes, drawn, strict=True)],
            "textposition": "middle right",
            "hoverinfo": "skip",
            "showlegend": False,
            "cliponaxis": False,
        }
    )
    layout = {
        "barmode": "stack",
        "xaxis": axis("USD a thousand images", range=[0, max(wholes) * 1.22], tickprefix="$"),
        "yaxis": axis("", type="category", autorange="reversed"),
        "legend": {"orientation": "h", "x": 0, "y": -0.16, "yanchor": "top", "traceorder": "normal"},
    }
    return figure(traces, 130 + 30 * len(drawn), {"layout": {"height": 190 + 30 * len(drawn)}}, **layout)


def _name(c: Cost) -> str:
    return f"<b>{c.platform.name}</b>" if c.platform.kind != "gpu" else c.platform.name


_KINDS = (
    ("asic", "chip", BLUE, "star-diamond"),
    ("fpga", "FPGA card", GREEN, "triangle-up"),
    ("gpu", "GPU or TPU", ORANGE, "square"),
    ("variant", "variant of the chip", GREY, "circle"),
)


def shown(f: Frontier) -> tuple[list[Made], list[Made]]:
    """What the frontier's figure draws, and what is so dear that the others would lie on each other."""
    return _split(f.everything, [m.usd for m in f.everything], [m.usd for m in f.made])


def speed_and_cost(f: Frontier) -> Figure:
    """Seconds against dollars; filled where quality was shown, hollow where nobody has."""
    everything, _ = shown(f)
    x0, x1 = min(m.seconds for m in everything) / 1.6, max(m.seconds for m in everything) * 1.8
    y0, y1 = min(m.usd for m in everything) / 1.5, max(m.usd for m in everything) * 1.5
    front = f.front
    traces: list[Trace] = [
        {
            "type": "scatter",
            "mode": "lines",
            "x": [m.seconds for m in front],
            "y": [m.usd for m in front],
            "line": {"color": INK, "width": 1.2, "dash": "dot", "shape": "hv"},
            "name": "nothing is faster and cheaper",
            "hoverinfo": "skip",
        }
    ]
    for kind, words, colour, symbol in _KINDS:
        for quality in (True, None, False):
            mine = [m for m in everything if m.kind == kind and m.quality is quality]
            if mine:
                said = {True: "quality shown", None: "no quality shown", False: "quality outside the window"}[quality]
                traces.append(_made(mine, f"{words}, {said}", colour, symbol + ("" if quality else "-open"), kind))
    named = [t for t in traces if t["mode"] == "markers+text"]
    points = [(log10(x), log10(y)) for t in named for x, y in zip(t["x"], t["y"], strict=True)]
    labels = [s for t in named for s in t["text"]]
    spans = (log10(x1 / x0), log10(y1 / y0))
    wide, phone = (iter(places(points, labels, spans, s, w)) for s, w in (((560, 330), 6.4), ((270, 330), 5.2)))
    small = {}
    for i, t in enumerate(traces):
        if t["mode"] == "markers+text":
            t["textposition"] = [next(wide) for _ in t["x"]]
            small[str(i)] = {"textposition": [next(phone) for _ in t["x"]], "textfont": {"size": 9}}
    layout = {
        "xaxis": log_axis("device-seconds an image", x0, x1),
        "yaxis": log_axis("USD a thousand images", y0, y1),
        "legend": {"orientation": "h", "x": 0, "y": -0.17, "yanchor": "top"},
    }
    return figure(traces, 460, {"layout": {"height": 520}, "data": small}, **layout)


def _made(mine: Sequence[Made], name: str, colour: str, symbol: str, kind: str) -> Trace:
    return {
        "type": "scatter",
        "mode": "markers" if kind == "variant" else "markers+text",
        "x": [m.seconds for m in mine],
        "y": [m.usd for m in mine],
        "text": [m.name for m in mine],
        "textfont": {"size": 11},
        "hovertext": [
            f"<b>{escape(m.name)}</b><br>{escape(m.title)}<br>{digits(m.seconds)} s ({m.rate_provenance.label}),"
            f" {money(m.usd)} a thousand ({m.provenance.label})"
            for m in mine
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "name": name,
        "marker": {
            "symbol": symbol,
            "color": colour,
            "size": 7 if kind == "variant" else 12,
            "line": {
                "width": 2 if symbol.endswith("-open") else 0.8,
                "color": colour if symbol.endswith("-open") else INK,
            },
        },
    }
