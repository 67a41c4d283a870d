"""What a served image costs under each traffic, and how much of the devices it uses."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .draw import BLUE, GREEN, ORANGE, PATTERNS, Figure, Trace, axis, figure, hatched
from .marks import money, percent
from .service import Served
from .words import wrapped


def served(found: Sequence[Served]) -> Figure:
    """Groups of bars, one a traffic; each bar says how busy its devices are."""
    platforms = list(dict.fromkeys(r.platform for s in found for r in s.queue.rows))
    names = [wrapped(escape(s.traffic.title, quote=False), 16) for s in found]
    traces: list[Trace] = []
    for platform, colour, pattern in zip(platforms, (BLUE, ORANGE, GREEN), PATTERNS, strict=False):
        rows = [next(r for r in s.queue.rows if r.platform == platform) for s in found]
        values = [r.usd_per_1000_images for r in rows]
        traces.append(
            {
                "type": "bar",
                "x": names,
                "y": values,
                "name": platform,
                "text": [
                    ""
                    if r.utilisation is None or r.usd_per_1000_images is None
                    else f"{money(r.usd_per_1000_images)}<br>{percent(r.utilisation)}"
                    for r in rows
                ],
                "textposition": "outside",
                "textangle": 0,
                "textfont": {"size": 11},
                "cliponaxis": False,
                "hovertemplate": f"{platform}, %{{x}}<br>$%{{y:.3g}} a thousand<extra></extra>",
                "marker": hatched(colour, pattern),
            }
        )
    highest = max((v for t in traces for v in t["y"] if v is not None), default=1.0)
    layout = {
        "barmode": "group",
        "bargap": 0.18,
        "xaxis": axis("", type="category"),
        "yaxis": axis("USD a thousand served images", tickprefix="$", range=[0, highest * 1.18]),
        "uniformtext": {"mode": "show", "minsize": 8},
    }
    prices = [[money(v) if v is not None else "" for v in t["y"]] for t in traces]
    small = {str(i): {"text": p, "textfont": {"size": 8}} for i, p in enumerate(prices)}
    return figure(
        traces, 360, {"layout": {"height": 380, "xaxis": {"tickfont": {"size": 10}}}, "data": small}, **layout
    )
