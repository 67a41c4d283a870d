"""The frontier: PSNR and its interval against seconds, DRAM bytes, energy and cost of an image, as one PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from ...files import atomic_write
from .published import PUBLISHED
from .results import Cost, Quality, Row

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


def write_frontier(q: Quality, steps: int, path: Path) -> None:
    """The figure at one number of steps."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(frontier_png(q, steps))


def frontier_png(q: Quality, steps: int) -> bytes:
    """A row of panels for the small model, one for full-size SDXL on each arch; quality is always the small model's."""
    from matplotlib.figure import Figure

    rows = {r.precision: r for r in q.rows if r.steps == steps and r.psnr and isinstance(r.psnr.value, float)}
    costs = [c for c in q.costs if c.steps == steps and c.precision in rows]
    groups = list(dict.fromkeys((c.model, c.arch) for c in costs))
    names = [n for n in rows if any(c.precision == n for c in costs)]
    figure: Any = Figure(figsize=(14, 3.3 * max(len(groups), 1)), layout="constrained")
    axes = figure.subplots(max(len(groups), 1), 4, squeeze=False)
    for line, group in zip(axes, groups, strict=False):
        of_group = [c for c in costs if (c.model, c.arch) == group]
        panels = TINY if group[0] == "tiny" else FULL
        for at, panel in enumerate(line):
            if at < len(panels):
                _panel(panel, panels[at], of_group, rows, names)
            else:
                panel.axis("off")
        about = "timing simulation of its program" if group[0] == "tiny" else "estimate of full-size SDXL (assumed)"
        line[0].set_title(f"{group[1]}: {about}", loc="left", fontsize=10)
    if groups:
        _legend(axes, groups, rows, names)
    figure.suptitle(
        f"Quality: PSNR of the small model's pictures against {q.reference}, {steps} steps, 95 % interval;"
        " full marks: on the frontier",
        fontsize=10,
    )
    out = BytesIO()
    figure.savefig(out, format="png", dpi=80, metadata={"Software": None})
    return out.getvalue()


def _panel(panel: Any, axis: Axis, costs: Sequence[Cost], rows: dict[str, Row], names: Sequence[str]) -> None:
    label, of = axis
    points = [(c.precision, x, rows[c.precision]) for c in costs if (x := of(c)) is not None]
    best = front([(x, _value(r)) for _, x, r in points])
    for i, (name, x, row) in enumerate(points):
        colour, marker = COLOURS[names.index(name) % len(COLOURS)], MARKERS[names.index(name) % len(MARKERS)]
        assert row.psnr is not None
        low, high = row.psnr.low, row.psnr.high
        if isinstance(low, float) and isinstance(high, float):
            panel.plot([x, x], [low, high], color=colour, linewidth=1.2)
        face = colour if i in best else "white"
        panel.plot([x], [_value(row)], marker=marker, color=colour, markerfacecolor=face, markersize=8, linestyle="")
    for p in PUBLISHED:
        panel.axhline(p.psnr_db, color="#999999", linewidth=0.8, linestyle=":")
    panel.set_xlabel(label)
    panel.set_ylabel("PSNR, dB")
    panel.set_xlim(0, 1.1 * max((x for _, x, _ in points), default=1))
    panel.grid(color="#e5e5e5")
    panel.set_axisbelow(True)


def _legend(axes: Any, groups: Sequence[tuple[str, str]], rows: dict[str, Row], names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    marks = [
        Line2D([], [], color=COLOURS[i % len(COLOURS)], marker=MARKERS[i % len(MARKERS)], linestyle="", markersize=8)
        for i in range(len(names))
    ]
    texts = [f"{n}: {rows[n].accuracy.all:.1%} of captions right" for n in names]
    dotted = Line2D([], [], color="#999999", linestyle=":")
    others = ", ".join(f"{p.precision} {p.psnr_db}" for p in PUBLISHED)
    place = next((i for i, g in enumerate(groups) if g[0] == "tiny"), None)
    target = axes[place][3] if place is not None else axes[0][0]
    target.legend(
        [*marks, dotted], [*texts, f"published, of SDXL, another model:\n{others} dB"], fontsize=8, loc="best"
    )


def _value(row: Row) -> float:
    assert row.psnr is not None and isinstance(row.psnr.value, float)
    return row.psnr.value
