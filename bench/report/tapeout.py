"""Schedule, cash by month and risks of making one chip, from a plan, the silicon's prices and the comparison.

The plan adds up what is paid from below; the cost of an image has NRE from above (masks + design + software of
silicon.json). Nothing makes the two agree: the page shows both, and what the advantage is with the plan's sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Literal, get_args

import numpy as np

from ...evidence import Quantity, evaluate, total
from ...simulator.economics.compare import Comparison
from ...simulator.economics.inputs import Silicon
from ...simulator.economics.sampling import Bar, tornado
from .plan import NodePlan, Payment, Phase, Plan, node_plan

Kind = Literal["engineers", "design tools", "IP licences", "MPW shuttle", "mask set, wafers", "package, tests"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_KIND_OF: dict[Payment, Kind] = {
    "licences": "IP licences",
    "mpw": "MPW shuttle",
    "masks": "mask set, wafers",
    "lot": "mask set, wafers",
    "package": "package, tests",
    "qualification": "package, tests",
}


@dataclass(frozen=True)
class Task:
    """A phase with its place in time, in months from the start, and what its people and payments cost."""

    phase: Phase
    start: float
    end: float
    engineers: Quantity
    labour: Quantity  # USD
    tools: Quantity | None
    payments: Mapping[Payment, Quantity]


@dataclass(frozen=True)
class Tapeout:
    """Everything the page says about making the chip."""

    plan: Plan
    node: str
    node_plan: NodePlan
    comparison: Comparison
    tasks: tuple[Task, ...]
    shortest: float  # months, all phases at the low ends of their ranges
    longest: float
    by_kind: Mapping[Kind, tuple[float, ...]]  # USD of each month
    total: Quantity
    before_gate: Quantity  # spent when the gate's phase ends
    gate_month: float
    masks: Quantity
    lot: Quantity
    respin: Quantity  # masks, and people while it is mended
    production: Quantity  # the cards of the plan, at their cost
    advantage: float  # over the cheapest other image, with the plan's sum as NRE
    widest: Bar  # input that moves the advantage most

    @property
    def months(self) -> float:
        """Until the last phase ends."""
        return max(t.end for t in self.tasks)

    @property
    def by_month(self) -> tuple[float, ...]:
        """USD of each month, all kinds."""
        return tuple(float(sum(values)) for values in zip(*self.by_kind.values(), strict=True))


def schedule(phases: tuple[Phase, ...], end: Literal["value", "low", "high"] = "value") -> list[tuple[float, float]]:
    """(start, end) of each phase in months: each begins as early as those before it let it."""
    ends: dict[str, float] = {}
    found = []
    for p in phases:
        low, high = p.months.ends
        factor = p.months.quantity("").to("month").value / p.months.value
        months = {"value": p.months.value, "low": low, "high": high}[end]
        start = max((ends[a] for a in p.after), default=0.0)
        ends[p.name] = start + months * factor
        found.append((start, ends[p.name]))
    return found


def make(c: Comparison, silicon: Silicon, found: Plan, where: str) -> Tapeout:
    """The tape-out of a comparison's chip at its scenario's node.

    Raises:
        DpuError: the plan lacks the node.
    """
    name = c.scenario.asic.node
    here, node = node_plan(found, name, where), silicon.nodes[name]
    masks = node.masks.quantity("masks")
    wafers = (found.lot.quantity("lot") * node.wafer.quantity("wafer")).to("USD").called("lot", "wafers x price")
    tasks = _tasks(found, here, masks, wafers)
    by_kind = _cash(tasks)
    whole = _spent(tasks).called("plan", "engineers + tools + licences + MPW + masks + wafers + package + tests")
    gate = next(t for t in tasks if t.phase.gate)
    nre, volume = c.dpu.platform.nre, c.dpu.platform.volume
    assert nre is not None and volume is not None
    best = c.versus_cheapest
    (with_plan,) = evaluate([best.advantage], {nre.name: np.array([whole.value])})
    shortest = max(e for _, e in schedule(found.phases, "low"))
    longest = max(e for _, e in schedule(found.phases, "high"))
    last = tasks[-1]
    delay = found.respin_delay.quantity("respin_delay") * last.engineers * found.engineer.quantity("engineer")
    return Tapeout(
        plan=found,
        node=name,
        node_plan=here,
        comparison=c,
        tasks=tasks,
        shortest=shortest,
        longest=longest,
        by_kind=by_kind,
        total=whole,
        before_gate=_until(tasks, gate),
        gate_month=gate.end,
        masks=masks,
        lot=wafers,
        respin=(masks * found.respin.quantity("respin") + delay.to("USD")).called(
            "respin", "share of the masks + engineers of the last phase while it is mended"
        ),
        production=_production(c),
        advantage=float(with_plan[0]),
        widest=tornado(best.advantage, c.stated)[0],
    )


def _production(c: Comparison) -> Quantity:
    """What the cards of the plan cost to make."""
    volume = c.dpu.platform.volume
    assert volume is not None
    each = c.dpu.platform.details["cost_of_card"]
    return (each.counted("1/device") * volume).to("USD").called("production", "cost_of_card x volume")


def _tasks(found: Plan, here: NodePlan, masks: Quantity, lot: Quantity) -> tuple[Task, ...]:
    prices: dict[Payment, Quantity] = {
        "licences": here.all_licences,
        "mpw": here.mpw.quantity("mpw"),
        "package": here.package_tooling.quantity("package_tooling"),
        "masks": masks,
        "lot": lot,
        "qualification": found.qualification.quantity("qualification"),
    }
    tasks = []
    for p, (start, end) in zip(found.phases, schedule(found.phases), strict=True):
        months, people = p.months.quantity(f"{p.name}.months"), p.engineers.quantity(f"{p.name}.engineers")
        people = people * here.effort.quantity("effort")
        tasks.append(
            Task(
                phase=p,
                start=start,
                end=end,
                engineers=people,
                labour=(people * months * found.engineer.quantity("engineer")).to("USD"),
                tools=(months * here.tools.quantity("tools")).to("USD") if p.tools else None,
                payments={k: prices[k] for k in p.pays},
            )
        )
    return tuple(tasks)


def _spent(tasks: Sequence[Task]) -> Quantity:
    """What phases cost: people, tools, payments."""
    tools = [t.tools for t in tasks if t.tools is not None]
    return total([*(t.labour for t in tasks), *tools, *(q for t in tasks for q in t.payments.values())])


def _cash(tasks: tuple[Task, ...]) -> dict[Kind, tuple[float, ...]]:
    """USD of each month: what is spent evenly over a phase, and what is paid as it begins."""
    found = {kind: np.zeros(ceil(max(t.end for t in tasks) - 1e-9)) for kind in KINDS}
    for t in tasks:
        months = np.arange(len(found["engineers"]))
        share = np.clip(np.minimum(t.end, months + 1) - np.maximum(t.start, months), 0, None) / (t.end - t.start)
        found["engineers"] += share * t.labour.value
        if t.tools is not None:
            found["design tools"] += share * t.tools.value
        for payment, q in t.payments.items():
            found[_KIND_OF[payment]][int(t.start + 1e-9)] += q.to("USD").value
    return {kind: tuple(float(v) for v in values) for kind, values in found.items()}


def _until(tasks: tuple[Task, ...], gate: Task) -> Quantity:
    """What phases that began before the gate's end have cost by then; those that go on are counted whole."""
    begun = [t for t in tasks if t.start < gate.end - 1e-9]
    return _spent(begun).called("before_gate", "phases that begin before the gate")
