"""The roofline figure: what each operation attains against what its arithmetic intensity allows."""

from __future__ import annotations

import io
from typing import Any

from .profile import Report

COLOURS = {"mxu": "#1b6ca8", "vpu": "#d1730b", "memory": "#a32a2a", "sync": "#777777"}


def attainable(report: Report, intensity: float) -> float:
    """MACs a cycle of all tiles that `intensity` (MACs a DRAM byte) allows: the lower of the two roofs."""
    return min(float(report.peak_macs_per_cycle), intensity * report.dram_bytes_per_cycle)


def roofline_svg(report: Report) -> str:
    """The figure as an SVG element, to be put into an HTML page. Operations without MACs or DRAM bytes are left out."""
    import matplotlib
    from matplotlib.figure import Figure

    points = [r for r in report.rows if r.executed_macs and r.bytes_read + r.bytes_written and r.span]
    figure: Any
    axes: Any
    with matplotlib.rc_context({"svg.hashsalt": report.entry, "svg.fonttype": "none", "font.size": 9}):
        figure = Figure(figsize=(8, 4.5))
        axes = figure.subplots()
        knee = report.peak_macs_per_cycle / report.dram_bytes_per_cycle
        low = min([p.intensity for p in points] + [knee]) / 4
        high = max([p.intensity for p in points] + [knee]) * 4
        axes.plot([low, knee, high], [attainable(report, x) for x in (low, knee, high)], color="black", linewidth=1)
        for bound, colour in COLOURS.items():
            mine = [p for p in points if p.bound == bound]
            if not mine:
                continue
            axes.scatter(
                [p.intensity for p in mine],
                [p.executed_macs / p.span for p in mine],
                s=18,
                color=colour,
                alpha=0.7,
                label=f"{bound} ({len(mine)})",
            )
        axes.set_xscale("log")
        axes.set_yscale("log")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:g}"[0] in "25" else "")
        peak, rate = report.peak_macs_per_cycle, report.dram_bytes_per_cycle
        axes.annotate(f"peak: {peak:,} MACs a cycle", (high, peak), (0, 4), textcoords="offset points", ha="right")
        axes.annotate(
            f"DRAM: {rate:g} bytes a cycle", (low, attainable(report, low)), (8, 0), textcoords="offset points"
        )
        axes.set_xlabel("executed MACs a DRAM byte")
        axes.set_ylabel("executed MACs a cycle, all tiles")
        axes.set_title(f"{report.entry} on {report.arch} (simulated)")
        axes.grid(True, which="major", linewidth=0.3)
        if points:
            axes.legend(title="bound by", loc="lower right")
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", metadata={"Date": None}, bbox_inches="tight")
    text = buffer.getvalue()
    return text[text.index("<svg") :]
