"""How sure a comparison is: what `dpubench uncertainty` prints and writes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

from ..files import atomic_write
from ..simulator.economics.compare import Comparison
from ..simulator.economics.sampling import (
    PERCENTILES,
    THRESHOLDS,
    Advantage,
    Bar,
    Spread,
    Surface,
    Uncertainty,
    break_even_surfaces,
    monte_carlo,
    tornado,
)

SCHEMA = "dpu.uncertainty/1"


@dataclass(frozen=True)
class Report:
    """What the verb prints and writes."""

    comparison: Comparison
    uncertainty: Uncertainty
    bars: tuple[Bar, ...]  # of the advantage over the cheapest GPU
    surfaces: tuple[Surface, ...]


def run(comparison: Comparison, samples: int, seed: int) -> Report:
    """All of it; the same seed gives the same numbers."""
    best = comparison.versus_cheapest
    return Report(
        comparison=comparison,
        uncertainty=monte_carlo(comparison, samples, seed),
        bars=tuple(tornado(best.advantage, comparison.stated)),
        surfaces=tuple(break_even_surfaces(comparison)),
    )


def _number(value: float) -> float | str:
    """JSON has no infinity."""
    return value if isfinite(value) else "infinite"


def _spread(s: Spread) -> dict[str, Any]:
    fields = {"name": s.name, "unit": s.unit, "nominal": s.nominal, "mean": _number(s.mean), "sd": _number(s.sd)}
    return fields | {"percentiles": {str(p): _number(v) for p, v in s.percentiles.items()}}


def _advantage(a: Advantage) -> dict[str, Any]:
    return {
        "gpu": a.gpu,
        "spread": _spread(a.spread),
        "probability_above": {f"{t:g}": p for t, p in a.probability.items()},
        "never_breaks_even": a.never,
        "break_even_devices": {str(p): _number(v) for p, v in a.break_even_devices.items()},
    }


def save(r: Report, path: Path) -> None:
    """As JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    u = r.uncertainty
    content = {
        "format": SCHEMA,
        "scenario": r.comparison.scenario.name,
        "samples": u.samples,
        "seed": u.seed,
        "provenance": r.comparison.dpu.image.provenance.label,
        "dpu": _spread(u.dpu),
        "gpus": [_spread(g) for g in u.gpus],
        "advantages": [_advantage(a) for a in u.advantages],
        "tornado": [vars(b) for b in r.bars],
        "surfaces": [
            {
                "output": s.output,
                "x": s.x,
                "y": s.y,
                "xs": [float(f"{v:.6g}") for v in s.xs],
                "ys": [float(f"{v:.6g}") for v in s.ys],
                "values": [[float(f"{v:.4g}") for v in row] for row in s.values],
            }
            for s in r.surfaces
        ],
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, separators=(",", ":")) + "\n")


def text(r: Report, bars: int = 10) -> str:
    """For people."""
    c, u = r.comparison, r.uncertainty
    lines = [
        f"{c.scenario.name}: {c.scenario.title}; {u.samples:,} draws, seed {u.seed}; every input independent",
        "",
        f"{'$/1000 images':<18}{'stated':>9}{'mean':>9}{'sd':>9}" + "".join(f"{f'{p}%':>9}" for p in PERCENTILES),
    ]
    for s in (u.dpu, *u.gpus):
        lines.append(f"{s.name.split('.')[0]:<18}" + _row([s.nominal, s.mean, s.sd, *s.percentiles.values()], 1000))
    above = "".join(f"{f'P(>{t:g}x)':>9}" for t in THRESHOLDS)
    lines += ["", f"{'advantage over':<18}{'stated':>9}{'5%':>9}{'50%':>9}{'95%':>9}{above}   break-even cards"]
    for a in u.advantages:
        s = a.spread
        ranks = [s.nominal, *(s.percentiles[p] for p in (5, 50, 95))]
        chances = "".join(f"{p:>9.1%}" for p in a.probability.values())
        lines.append(f"{a.gpu:<18}{_row(ranks, 1)}{chances}   {_volumes(a)}")
    best = c.cheapest.platform.name
    lines += ["", f"advantage over {best}, one input at either end of its range (stated: {_at(r):.3g}x)"]
    for b in r.bars[:bars]:
        lines.append(f"  {b.name:<42}{b.low:>12.4g} -> {b.at_low:<9.3g}{b.high:>12.4g} -> {b.at_high:.3g}")
    return "\n".join(lines)


def _at(r: Report) -> float:
    return r.comparison.versus_cheapest.advantage.value


def _row(values: list[float], factor: float) -> str:
    return "".join(f"{factor * v:>9.3g}" for v in values)


def _volumes(a: Advantage) -> str:
    if not a.break_even_devices:
        return "no NRE"
    shown = [f"{v:,.0f}" if isfinite(v) else "never" for v in (a.break_even_devices[p] for p in (5, 50, 95))]
    return f"{' / '.join(shown)} (5/50/95 %), never in {a.never:.0%}"
