"""Rooflines: all devices of one kind in one figure, in the same axes for GPUs and DPUs."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import log10
from typing import Any

from ...simulator.roofline import scaled
from .draw import BLUE, GREEN, INK, ORANGE, PINK, RED, Figure, Trace, figure, log_axis, note, places
from .marks import LETTERS
from .roofs import Point, Roofline

_LOOKS = (
    (BLUE, "circle", "solid"),
    (ORANGE, "square", "dash"),
    (GREEN, "triangle-up", "dot"),
    (PINK, "diamond", "dashdot"),
    (RED, "x", "longdash"),
)
_WORDS = {"unet": "UNet", "vae_decoder": "VAE", "whole image, FP8": "whole image"}


def limits(found: Sequence[Roofline]) -> tuple[float, float, float, float]:
    """Lowest and highest x and y of all figures."""
    points = [p for r in found for p in r.points]
    tops = [f.rate for r in found for f in r.roofs if not f.slanted]
    knees = [max(t.rate for t in r.roofs if not t.slanted) / f.rate for r in found for f in r.roofs if f.slanted]
    xs = [p.x for p in points] + knees
    ys = [p.y for p in points] + tops
    return min(xs) / 2, max(xs) * 12, min(ys) / 2, max(ys) * 4


def rooflines(found: Sequence[Roofline], ends: tuple[float, float, float, float]) -> Figure:
    """Ceilings as lines, parts of an image as markers; UNet and VAE decoder are named, the others on hover."""
    x0, x1, y0, y1 = ends
    traces: list[Trace] = []
    notes: list[dict[str, Any]] = []
    small: list[dict[str, Any]] = []
    looks = iter(_LOOKS * 3)
    for r in found:
        styles = [next(looks) for _ in r.series] or [next(looks)]
        colour, dash = (INK, "solid") if len(found) == 1 else (styles[0][0], styles[0][2])
        traces += _ceilings(r, ends, colour, dash)
        notes += _names(r, x1, phone=False)
        small += _names(r, x1, phone=True)
        for i, ((name, points), (tint, symbol, _)) in enumerate(zip(r.series.items(), styles, strict=False)):
            traces.append(_markers(r, name, points, tint, symbol, 14 if i == 0 else 9))
    _place(traces, notes, (log10(x1 / x0), log10(y1 / y0)))
    layout = {
        "xaxis": log_axis("MACs a byte of memory traffic", x0, x1),
        "yaxis": log_axis("MACs a second", y0, y1),
        "annotations": notes,
        "legend": {"orientation": "h", "x": 0, "y": -0.2, "yanchor": "top"},
    }
    plain = {str(i): {"mode": "markers"} for i, t in enumerate(traces) if t["mode"] == "markers+text"}
    return figure(traces, 370, {"layout": {"annotations": small, "height": 420}, "data": plain}, **layout)


def _ceilings(r: Roofline, ends: tuple[float, float, float, float], colour: str, dash: str) -> list[Trace]:
    x0, x1, y0, _ = ends
    top = max(f.rate for f in r.roofs if not f.slanted)
    memory = max((f.rate for f in r.roofs if f.slanted), default=0.0)
    found = []
    for f in r.roofs:
        begin, end = (max(x0, y0 / f.rate), top / f.rate) if f.slanted else (max(x0, f.rate / memory), x1)
        found.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [begin, end],
                "y": [f.rate * v for v in (begin, end)] if f.slanted else [f.rate, f.rate],
                "line": {"color": colour, "width": 1.6, "dash": dash},
                "hovertemplate": f"{escape(r.device)} {escape(_said(f.name, f.rate, f.slanted))}"
                f"<br>{f.provenance.label}<extra></extra>",
                "showlegend": False,
            }
        )
    return found


def _said(name: str, rate: float, slanted: bool) -> str:
    return f"{name} {scaled(rate, 'B/s' if slanted else 'MAC/s')}"


def _names(r: Roofline, end: float, phone: bool) -> list[dict[str, Any]]:
    """Flat ceilings are named at their right ends: above the line, or below where the next one is near."""
    found = []
    flat = [f for f in r.roofs if not f.slanted]
    for f in flat:
        near = any(1 < g.rate / f.rate < 4 for g in flat)
        name = f.name.removesuffix(" peak") if not phone or len(flat) > 1 else ""
        text = f"{r.device} {_said(name, f.rate, f.slanted).strip()} {LETTERS[f.provenance]}"
        look: dict[str, Any] = {"bgcolor": "rgba(0,0,0,0)", "font": {"size": 9 if phone else 11, "color": INK}}
        look["yanchor"] = "top" if near and not phone else "bottom"
        found.append(note(text, log10(end), log10(f.rate), xanchor="right", **look))
    return found


def _markers(r: Roofline, name: str, points: Sequence[Point], colour: str, symbol: str, size: int) -> Trace:
    letters = "".join(dict.fromkeys(LETTERS[p.provenance] for p in points))
    many = len(points) > 20
    return {
        "type": "scatter",
        "mode": "markers" if many else "markers+text",
        "x": [p.x for p in points],
        "y": [p.y for p in points],
        "text": [_WORDS.get(p.name, "") for p in points],
        "textfont": {"size": 11},
        "hovertext": [
            f"<b>{escape(r.device)} {escape(p.name)}</b><br>{scaled(p.y, 'MAC/s')} at {p.x:.3g} MACs a byte"
            f"<br>{p.provenance.label}"
            for p in points
        ],
        "hovertemplate": "%{hovertext}<extra></extra>",
        "name": f"{r.device}, {name} {letters}" if r.device != name else f"{name} {letters}",
        "marker": {
            "symbol": symbol,
            "color": colour,
            "size": 5 if many else size,
            "opacity": 0.5 if many else 1,
            "line": {"width": 0.8, "color": "#222"},
        },
    }


def _place(traces: list[Trace], notes: Sequence[dict[str, Any]], spans: tuple[float, float]) -> None:
    """Labels of all traces together, so that they cover neither each other nor the ceilings' names."""
    mine = [t for t in traces if t["mode"] == "markers+text"]
    points = [(log10(x), log10(y)) for t in mine for x, y in zip(t["x"], t["y"], strict=True)]
    if not points:
        return
    size = (560.0, 270.0)
    boxes = []
    for n in notes:
        right, low = n["x"] / spans[0] * size[0], n["y"] / spans[1] * size[1]
        low -= 16 if n["yanchor"] == "top" else 0
        boxes.append((right - 6.4 * len(n["text"]), low, right, low + 16))
    labels = _once([s for t in mine for s in t["text"]], points, spans)
    found = iter(zip(labels, places(points, labels, spans, size, avoid=boxes), strict=True))
    for t in mine:
        pairs = [next(found) for _ in t["x"]]
        t["text"], t["textposition"] = [s for s, _ in pairs], [p for _, p in pairs]


def _once(labels: Sequence[str], points: Sequence[tuple[float, float]], spans: tuple[float, float]) -> list[str]:
    """Points that lie on each other are named once."""
    kept: list[str] = []
    for i, (label, p) in enumerate(zip(labels, points, strict=True)):
        near = any(
            labels[k] == label and all(abs(a - b) < 0.03 * w for a, b, w in zip(p, points[k], spans, strict=True))
            for k in range(i)
        )
        kept.append("" if near else label)
    return kept
