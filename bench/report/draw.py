"""What all figures of the page share: colours, fonts, axes, places of labels. Figures are what plotly.js draws.

Colours are those of Okabe and Ito, which colour-blind readers tell apart; markers, dashes or patterns differ as well,
so that grey print does too. `narrow` is what changes on a phone: parts of the layout, and of single traces.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor, log10
from typing import Any

Figure = dict[str, Any]
Trace = dict[str, Any]

BLUE, ORANGE, GREEN, RED = "#0072B2", "#E69F00", "#009E73", "#D55E00"
PINK, SKY, YELLOW, GREY, INK = "#CC79A7", "#56B4E9", "#F0E442", "#999999", "#222222"
PATTERNS = ("", "/", "x", ".", "\\", "-", "|", "+")
LIGHT = [[0, "#ffffff"], [1, "#8fbfe0"]]
"""Black lines and labels are read on all of it."""


def figure(data: Sequence[Trace], height: int, narrow: dict[str, Any] | None = None, **layout: Any) -> Figure:
    """Traces in the page's layout; `narrow` holds `layout`, and `data` by the index of the trace."""
    base = {
        "height": height,
        "font": {"family": "system-ui, 'DejaVu Sans', sans-serif", "size": 12, "color": INK},
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "hoverlabel": {"align": "left", "bgcolor": "white", "font": {"size": 12, "color": INK}},
        "margin": {"l": 70, "r": 20, "t": 14, "b": 50},
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": -0.2, "yanchor": "top"},
    }
    made: Figure = {"data": list(data), "layout": base | layout}
    if narrow:
        made["narrow"] = narrow
    return made


def axis(title: str, **more: Any) -> dict[str, Any]:
    """A linear axis."""
    look = {
        "title": {"text": title, "standoff": 8},
        "gridcolor": "#e5e5e5",
        "zeroline": False,
        "linecolor": "#444444",
        "ticks": "outside",
        "automargin": True,
    }
    return look | more


def log_axis(title: str, low: float, high: float, **more: Any) -> dict[str, Any]:
    """A logarithmic axis from `low` to `high`."""
    marks = ticks(low, high)
    look = {
        "type": "log",
        "range": [log10(low), log10(high)],
        "tickvals": marks,
        "ticktext": [short(m) for m in marks],
    }
    return axis(title) | look | more


def axis_of_logs(title: str, low: float, high: float, prefix: str = "") -> dict[str, Any]:
    """An axis for values whose logarithms are drawn: what plotly.js smooths and contours must lie on linear axes."""
    marks = ticks(low, high)
    look = {
        "range": [log10(low), log10(high)],
        "tickvals": [log10(m) for m in marks],
        "ticktext": [prefix + short(m) for m in marks],
    }
    return axis(title) | look


def ticks(low: float, high: float) -> list[float]:
    """1, 2 and 5 times powers of ten, or over many decades the powers alone."""
    steps = (1, 2, 5) if log10(high / low) <= 2.5 else (1,)
    powers = range(floor(log10(low)), ceil(log10(high)) + 1)
    return [found for k in powers for m in steps if low <= (found := float(f"{m}e{k}")) <= high]


def short(value: float) -> str:
    """`0.05`, `20`, `5k`, `2M`, `10G`: a tick."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= factor:
            return f"{value / factor:g}{prefix}"
    return f"{value:g}"


def line(x0: Any, x1: Any, y0: Any, y1: Any, dash: str, **more: Any) -> dict[str, Any]:
    """A straight line as a shape of the layout."""
    look = {"color": INK, "width": 1.3, "dash": dash}
    return {"type": "line", "x0": x0, "x1": x1, "y0": y0, "y1": y1, "line": look, "layer": "above"} | more


def note(text: str, x: float, y: float, **more: Any) -> dict[str, Any]:
    """Words in a figure without an arrow."""
    look = {"text": text, "x": x, "y": y, "showarrow": False, "font": {"size": 11, "color": INK}}
    return look | {"bgcolor": "rgba(255,255,255,0.8)"} | more


def hatched(colour: str, pattern: str, size: int = 7, edge: float = 0.6) -> dict[str, Any]:
    """The marker of a bar, which has a pattern beside its colour; `edge` is the width of the line around it."""
    return {
        "color": colour,
        "pattern": {"shape": pattern, "fgcolor": INK, "fillmode": "overlay", "size": size, "solidity": 0.2},
        "line": {"width": edge, "color": INK},
    }


_PLACES = (
    "top center",
    "bottom center",
    "middle right",
    "middle left",
    "top right",
    "bottom right",
    "top left",
    "bottom left",
)


def places(
    points: Sequence[tuple[float, float]],
    labels: Sequence[str],
    spans: tuple[float, float],
    size: tuple[float, float] = (600.0, 380.0),
    letter: float = 6.4,
    avoid: Sequence[tuple[float, float, float, float]] = (),
) -> list[str]:
    """Where each label goes so that it covers no other and no marker: first place that is free, in a fixed order.

    Args:
        points: on linear axes, or the logarithms on logarithmic ones.
        spans: lengths of the two axes in the same terms.
        size: of the plot in pixels.
        letter: width of a letter in pixels.
        avoid: boxes of other words (left, low, right, high), in pixels.
    """
    at = [(x / spans[0] * size[0], y / spans[1] * size[1]) for x, y in points]
    left, right = min(x for x, _ in at), max(x for x, _ in at)
    taken = [*avoid, *((x - 7, y - 7, x + 7, y + 7) for x, y in at)]
    found = []
    for (x, y), label in zip(at, labels, strict=True):
        boxes = {p: _box(p, x, y, letter * len(label)) for p in _PLACES}

        def cost(place: str, boxes: dict[str, tuple[float, float, float, float]] = boxes) -> float:
            a = boxes[place]
            over = sum(
                max(0.0, min(a[2], b[2]) - max(a[0], b[0])) * max(0.0, min(a[3], b[3]) - max(a[1], b[1])) for b in taken
            )
            return over + 50 * (max(0.0, left - 20 - a[0]) + max(0.0, a[2] - right - 20))

        best = min(_PLACES, key=cost)
        taken.append(boxes[best])
        found.append(best)
    return found


def _box(place: str, x: float, y: float, width: float) -> tuple[float, float, float, float]:
    vertical, horizontal = place.split()
    low = {"top": y + 7, "bottom": y - 21, "middle": y - 7}[vertical]
    start = {"center": x - width / 2, "right": x + 7, "left": x - 7 - width}[horizontal]
    return (start, low, start + width, low + 14)
