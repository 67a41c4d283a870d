"""The gate's decision as JSON (`dpu.gate/1`) and as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..evidence import Quantity
from ..files import atomic_write
from ..simulator.economics.compare import GOAL
from .gate import Case, Decision
from .gate_conditions import Condition

SCHEMA = "dpu.gate/1"


def save(d: Decision, path: Path) -> None:
    """As JSON, atomically."""
    path.parent.mkdir(parents=True, exist_ok=True)
    roles = ("gpu", "fpga", "simulated", "quality")
    content = {
        "format": SCHEMA,
        "verdict": d.verdict,
        "exit_code": d.exit_code,
        "goal": GOAL,
        "evidence": {r: {e.path.name: e.digest for e in getattr(d.files, r)} for r in roles},
        "opponents_left_out": dict(d.left_out),
        "dpus": {
            arch: {"verdict": d.of(arch), "scenarios": {c.scenario: _json(c) for c in d.cases if c.arch == arch}}
            for arch in dict.fromkeys(c.arch for c in d.cases)
        },
    }
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(content, indent=1) + "\n")


def _json(c: Case) -> dict[str, Any]:
    found: dict[str, Any] = {"verdict": c.verdict, "conditions": [vars(x) for x in c.conditions]}
    if c.comparison is not None and c.bottleneck is not None:
        best = c.comparison.cheapest
        costs = {p.platform.name: _number(p.image) for p in (c.comparison.dpu, *c.comparison.gpus)}
        found |= {
            "opponent": best.platform.name,
            "advantage": c.advantage,
            "lowest_over_utilisation": c.lowest,
            "probability_of_goal": c.likely,
            "few_step": c.few_step,
            "bottleneck": {**vars(c.bottleneck), "text": c.bottleneck.text},
            "flips": [{**vars(f), "text": f.text} for f in c.flips],
            "cost_per_image": costs,
            "images_per_second": _number(c.comparison.dpu.platform.rate),
            "skipped": dict(c.comparison.skipped),
        }
    return found


def _number(q: Quantity) -> dict[str, Any]:
    fields = q.model_dump(mode="json", include={"value", "unit", "provenance", "uncertainty"})
    return {k: v for k, v in fields.items() if v is not None}


_SIGN = {"met": "+", "failed": "-", "missing": "?"}


def text(d: Decision) -> str:
    """For people: the conditions that all DPUs share once, then each DPU in each scenario."""
    everywhere = [x for x in d.cases[0].conditions if all(x in c.conditions for c in d.cases)]
    lines = [f"gate: {d.verdict}", "", "evidence", *_shown(everywhere, 2)]
    for arch in dict.fromkeys(c.arch for c in d.cases):
        cases = [c for c in d.cases if c.arch == arch]
        shared = [x for x in cases[0].conditions if x not in everywhere and all(x in c.conditions for c in cases)]
        lines += ["", f"{arch}: {d.of(arch)}", *_shown(shared, 2)]
        for c in cases:
            chance = "" if c.likely is None else f" ({GOAL:g}x in {c.likely:.0%} of the draws)"
            lines.append(f"  {c.scenario}: {c.verdict}{chance}")
            lines += _shown([x for x in c.conditions if x not in everywhere and x not in shared], 4)
            if c.comparison is not None and c.comparison.skipped:
                lines.append(f"    no price in this scenario: {', '.join(c.comparison.skipped)}")
            if c.bottleneck is not None:
                lines += [f"    bottleneck: {c.bottleneck.text}", f"    few steps: {c.few_step}"]
            for label, found in (
                ("would flip it", [f.text for f in c.flips if f.needed is not None]),
                ("would not, alone", [f.text for f in c.flips if f.needed is None]),
            ):
                lines += [f"    {label}: {'; '.join(found)}"] if found else []
    if d.left_out:
        lines += ["", "opponents left out: " + "; ".join(f"{k}: {v}" for k, v in d.left_out.items())]
    lines += ["", "+ met, - failed, ? missing; exit code 0 GO, 1 NO-GO, 3 NOT PROVEN, 2 refused input"]
    return "\n".join(lines)


def _shown(found: Sequence[Condition], indent: int) -> list[str]:
    return [f"{' ' * indent}{_SIGN[x.status]} {x.name}: {x.said}" for x in found]
