"""The roofline: what each operation attains against what memories and engines allow, and its figure as PNG.

x is executed MACs a byte, of DRAM or of all scratchpads; y is executed MACs a second over the operation's span. An
operation without MACs counts the elements that the VPU works on instead, and is drawn hollow.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any, Literal

from .profile import Bound, Report, Row

View = Literal["dram", "sram"]
VIEWS: tuple[View, ...] = ("dram", "sram")

COLOURS: dict[Bound, str] = {"mxu": "#0072B2", "vpu": "#E69F00", "memory": "#D55E00", "sync": "#666666"}
"""Of Okabe and Ito: told apart by colour-blind readers, and by lightness in grey print. Markers differ as well."""
MARKERS: dict[Bound, tuple[str, str]] = {
    "mxu": ("circle", "o"),
    "vpu": ("square", "s"),
    "memory": ("triangle-up", "^"),
    "sync": ("diamond", "D"),
}
"""Names of plotly and of matplotlib."""


@dataclass(frozen=True)
class Ceiling:
    """A limit. `rate` is work a second, or with `slanted` bytes a second."""

    name: str
    rate: float
    slanted: bool
    style: Literal["solid", "dash", "dot", "dashdot"]

    def at(self, x: float) -> float:
        """Work a second that it allows at x work a byte."""
        return self.rate * x if self.slanted else self.rate


@dataclass(frozen=True)
class Point:
    """One operation: `x` work a byte, `y` work a second, `share` of the time."""

    row: Row
    x: float
    y: float
    share: float


def scaled(value: float, unit: str) -> str:
    """`3.2 GMAC/s`: three digits and a prefix."""
    for factor, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= factor:
            return f"{value / factor:.3g} {prefix}{unit}"
    return f"{value:.3g} {unit}"


def ceilings(report: Report, view: View = "dram") -> list[Ceiling]:
    """The limits of a view, slanted ones first; two of the same rate are one."""
    hz = report.clock_hz
    slanted: list[tuple[str, float, Literal["solid", "dash", "dot", "dashdot"]]] = []
    if view == "dram":
        if report.dram_peak_bytes_per_cycle is not None:
            slanted.append(("DRAM pins", report.dram_peak_bytes_per_cycle * hz, "solid"))
        slanted.append(("DRAM sustained", report.dram_bytes_per_cycle * hz, "dash"))
        slanted.append(("DRAM ports", report.port_bytes_per_cycle * hz, "dot"))
    else:
        slanted.append(("scratchpad ports", report.sram_bytes_per_cycle * hz, "solid"))
    merged: dict[float, tuple[str, Literal["solid", "dash", "dot", "dashdot"]]] = {}
    for name, rate, style in slanted:
        known = merged.get(rate)
        merged[rate] = (f"{known[0]}, {name.removeprefix('DRAM ')}", known[1]) if known else (name, style)
    found = [Ceiling(f"{name} {scaled(rate, 'B/s')}", rate, True, style) for rate, (name, style) in merged.items()]
    array, lanes = report.peak_macs_per_cycle * hz, report.tiles * report.lanes * hz
    found.append(Ceiling(f"array {scaled(array, 'MAC/s')}", array, False, "solid"))
    found.append(Ceiling(f"VPU lanes {scaled(lanes, 'element/s')}", lanes, False, "dashdot"))
    return found


def attainable(report: Report, intensity: float) -> float:
    """MACs a cycle of all tiles that `intensity` (MACs a DRAM byte) allows: the lowest roof."""
    rates = [report.dram_bytes_per_cycle, report.port_bytes_per_cycle]
    return min(float(report.peak_macs_per_cycle), *(intensity * r for r in rates))


def points(report: Report, view: View = "dram") -> list[Point]:
    """Operations that compute and move something, in the order of the rows."""
    found = []
    whole = max(1, report.tiles * report.cycles)
    for r in report.rows:
        size = r.dram_bytes if view == "dram" else r.sram_bytes
        if r.work and size and r.span:
            found.append(Point(r, r.work / size, r.work / r.span * report.clock_hz, r.own / whole))
    return found


def limits(report: Report, view: View = "dram") -> tuple[float, float, float, float]:
    """Axes: lowest and highest x, lowest and highest y, with room for all points and the array's knees."""
    found, roofs = points(report, view), ceilings(report, view)
    top = max(c.rate for c in roofs if not c.slanted)
    knees = [top / c.rate for c in roofs if c.slanted]
    xs, ys = [p.x for p in found] + knees, [p.y for p in found] + [top]
    return min(xs) / 2, max(xs) * 3, min(ys) / 2, top * 2.5


def roofline_png(reports: Sequence[Report]) -> bytes:
    """One panel an entry point, per DRAM byte."""
    import matplotlib
    from matplotlib.figure import Figure

    columns = 1 if len(reports) < 2 else 2
    lines = max(1, ceil(len(reports) / columns))
    figure: Any
    with matplotlib.rc_context({"font.size": 8, "axes.linewidth": 0.6}):
        figure = Figure(figsize=(7.2 * columns, 4.6 * lines), layout="constrained")
        axes = figure.subplots(lines, columns, squeeze=False).reshape(-1)
        for at in axes[len(reports) :]:
            at.set_axis_off()
        for at, report in zip(axes, reports, strict=False):
            _panel(at, report)
        if reports:
            arch = reports[0].arch
            figure.suptitle(f"Roofline on {arch}, provenance: {reports[0].provenance}; area of a marker: share of time")
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=130, metadata={"Software": None})
    return buffer.getvalue()


def _panel(axes: Any, report: Report) -> None:
    x0, x1, y0, y1 = limits(report)
    styles = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
    roofs = ceilings(report)
    top = max(c.rate for c in roofs if not c.slanted)
    for c in roofs:
        end = top / c.rate if c.slanted else x1
        begin = max(x0, y0 / c.rate) if c.slanted else x0
        axes.plot([begin, end], [c.at(begin), c.at(end)], color="black", linewidth=0.9, linestyle=styles[c.style])
        if c.slanted:
            axes.plot([], [], color="black", linewidth=0.9, linestyle=styles[c.style], label=c.name)
        else:
            axes.annotate(c.name, (x1, c.rate), (-3, 2), textcoords="offset points", ha="right", va="bottom")
    found = points(report)
    for bound, colour in COLOURS.items():
        for hollow in (False, True):
            mine = [p for p in found if p.row.bound == bound and (not p.row.executed_macs) == hollow]
            if not mine:
                continue
            axes.scatter(
                [p.x for p in mine],
                [p.y for p in mine],
                s=[12 + 900 * p.share for p in mine],
                marker=MARKERS[bound][1],
                facecolors="none" if hollow else colour,
                edgecolors=colour if hollow else "white",
                linewidths=0.9 if hollow else 0.4,
                alpha=0.85,
                label=f"{bound}{', VPU elements' if hollow else ''} ({len(mine)})",
            )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(x0, x1)
    axes.set_ylim(y0, y1)
    axes.set_xlabel("executed MACs (hollow: VPU elements) a DRAM byte")
    axes.set_ylabel("executed MAC/s (hollow: element/s)")
    axes.set_title(f"{report.entry}: {report.cycles:,} cycles, {100 * report.executed_utilisation:.1f} % of the array")
    axes.grid(True, which="major", linewidth=0.3, color="#bbbbbb")
    legend = axes.legend(loc="lower right", fontsize=7, title="bound by", framealpha=0.9)
    for handle in legend.legend_handles:
        if hasattr(handle, "set_sizes"):
            handle.set_sizes([24])
