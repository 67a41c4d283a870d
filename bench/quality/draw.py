"""The frontier: PSNR and its interval against seconds, DRAM bytes, energy and cost of an image, as one PNG."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any, NamedTuple

from ...files import atomic_write
from ..metrics.report import Number
from .published import PUBLISHED
from .results import Cost, Quality

Axis = tuple[str, Callable[[Cost], float | None]]
TINY: tuple[Axis, ...] = (
    ("ms an image", lambda c: 1e3 * c.seconds),
    ("DRAM MB an image", lambda c: c.dram_bytes / 1e6),
    ("mJ an image, device", lambda c: 1e3 * c.joules),
)
FULL: tuple[Axis, ...] = (
    ("s an image", lambda c: c.seconds),
    ("DRAM GB an image", lambda c: c.dram_bytes / 1e9),
    ("J an image, wall", lambda c: c.joules),
    ("USD a thousand images", lambda c: c.usd_a_thousand),
)
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9")
MARKERS = "os^DvP"


def front(points: Sequence[tuple[float, float]]) -> list[int]:
    """Indices of (cost, quality) pairs that no other beats: none is as cheap and better, or cheaper and as good."""
    return [
        i
        for i, (x, y) in enumerate(points)
        if not any(a <= x and b >= y and (a, b) != (x, y) for j, (a, b) in enumerate(points) if j != i)
    ]


class Point(NamedTuple):
    """The quality of a precision: PSNR in dB with the ends of its interval, where it has one; and the legend's text."""

    value: float
    low: float | None
    high: float | None
    said: str

    @classmethod
    def of(cls, value: Number, low: Number | None, high: Number | None, said: str) -> Point | None:
        """None where the value is no number."""
        if not isinstance(value, float):
            return None
        both = isinstance(low, float) and isinstance(high, float)
        return cls(value, low if both else None, high if both else None, said)  # type: ignore[arg-type]


def write_frontier(q: Quality, steps: int, path: Path) -> None:
    """The small model's figure at one number of steps."""
    write_png(frontier_png(q, steps), path)


def write_png(content: bytes, path: Path) -> None:
    """A figure, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(content)


def frontier_png(q: Quality, steps: int) -> bytes:
    """A row of panels for the small model, one for full-size SDXL on each arch; quality is always the small model's."""
    points = {}
    for r in q.rows:
        said = f"{r.precision}: {r.accuracy.all:.1%} of captions right"
        if r.steps == steps and r.psnr and (point := Point.of(r.psnr.value, r.psnr.low, r.psnr.high, said)):
            points[r.precision] = point
    title = (
        f"Quality: PSNR of the small model's pictures against {q.reference}, {steps} steps, 95 % interval;"
        " full marks: on the frontier"
    )
    return figure_png(points, [c for c in q.costs if c.steps == steps], title, "published, of SDXL, another model")


def figure_png(points: Mapping[str, Point], costs: Sequence[Cost], title: str, published: str) -> bytes:
    """Panels of `points` against what an image takes, a row for each model and arch among `costs`.

    `published` says what the published figures, which are dotted lines, are of.
    """
    from matplotlib.figure import Figure

    costs = [c for c in costs if c.precision in points]
    groups = list(dict.fromkeys((c.model, c.arch) for c in costs))
    names = [n for n in points if any(c.precision == n for c in costs)]
    figure: Any = Figure(figsize=(14, 3.3 * max(len(groups), 1)), layout="constrained")
    axes = figure.subplots(max(len(groups), 1), 4, squeeze=False)
    for line, group in zip(axes, groups, strict=False):
        of_group = [c for c in costs if (c.model, c.arch) == group]
        panels = TINY if group[0] == "tiny" else FULL
        for at, panel in enumerate(line):
            if at < len(panels):
                _panel(panel, panels[at], of_group, points, names)
            else:
                panel.axis("off")
        about = "timing simulation of its program" if group[0] == "tiny" else "estimate of full-size SDXL (assumed)"
        line[0].set_title(f"{group[1]}: {about}", loc="left", fontsize=10)
    if groups:
        _legend(axes, groups, points, names, published)
    figure.suptitle(title, fontsize=10)
    out = BytesIO()
    figure.savefig(out, format="png", dpi=80, metadata={"Software": None})
    return out.getvalue()


def _panel(panel: Any, axis: Axis, costs: Sequence[Cost], points: Mapping[str, Point], names: Sequence[str]) -> None:
    label, of = axis
    placed = [(c.precision, x, points[c.precision]) for c in costs if (x := of(c)) is not None]
    best = front([(x, p.value) for _, x, p in placed])
    for i, (name, x, point) in enumerate(placed):
        colour, marker = COLOURS[names.index(name) % len(COLOURS)], MARKERS[names.index(name) % len(MARKERS)]
        if point.low is not None:
            panel.plot([x, x], [point.low, point.high], color=colour, linewidth=1.2)
        face = colour if i in best else "white"
        panel.plot([x], [point.value], marker=marker, color=colour, markerfacecolor=face, markersize=8, linestyle="")
    for p in PUBLISHED:
        panel.axhline(p.psnr_db, color="#999999", linewidth=0.8, linestyle=":")
    panel.set_xlabel(label)
    panel.set_ylabel("PSNR, dB")
    panel.set_xlim(0, 1.1 * max((x for _, x, _ in placed), default=1))
    panel.grid(color="#e5e5e5")
    panel.set_axisbelow(True)


def _legend(
    axes: Any, groups: Sequence[tuple[str, str]], points: Mapping[str, Point], names: Sequence[str], published: str
) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=COLOURS[i % len(COLOURS)], marker=MARKERS[i % len(MARKERS)], linestyle="", markersize=8)
        for i in range(len(names))
    ]
    dotted = Line2D([], [], color="#999999", linestyle=":")
    others = ", ".join(f"{p.precision} {p.psnr_db}" for p in PUBLISHED)
    place = next((i for i, g in enumerate(groups) if g[0] == "tiny"), None)
    target = axes[place][3] if place is not None else axes[0][0]
    texts = [*(points[n].said for n in names), f"{published}:\n{others} dB"]
    target.legend([*marks, dotted], texts, fontsize=8, loc="best")
