"""The plan of a tape-out: phases with months and engineers, and what is paid when. A file of configs/tapeout.

docs/economics.md describes the fields. Masks and wafers cost what silicon.json says, as in the cost of an image.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from ...errors import DpuError
from ...evidence import Quantity, total
from ...simulator.economics.inputs import find
from ...simulator.economics.schema import Bounds, Config, Factor, Price, Share, Stated, load

PLAN = "dpu.tapeout/1"

Months = Annotated[Stated, AfterValidator(Bounds("month", 0.25, 120))]
Engineers = Annotated[Stated, AfterValidator(Bounds("1", 0, 10_000))]
YearlyPrice = Annotated[Stated, AfterValidator(Bounds("USD/year", 0, 1e7))]
MonthlyPrice = Annotated[Stated, AfterValidator(Bounds("USD/month", 0, 1e8))]
Wafers = Annotated[Stated, AfterValidator(Bounds("wafer", 1, 10_000))]

Payment = Literal["licences", "mpw", "package", "masks", "lot", "qualification"]


class Phase(Config):
    """Work that begins when all phases of `after` have ended; what it `pays` is paid as it begins."""

    name: str
    title: str
    after: tuple[str, ...]
    months: Months
    engineers: Engineers
    pays: tuple[Payment, ...]
    tools: bool = False  # design tools are rented meanwhile
    gate: bool = False  # it ends with the decision to go on


class Licence(Config):
    """IP that others made."""

    name: str
    title: str
    price: Price


class NodePlan(Config):
    """What depends on the process node."""

    package: str
    effort: Factor  # engineers over those that the phases state
    tools: MonthlyPrice
    mpw: Price
    package_tooling: Price
    licences: tuple[Licence, ...]

    @property
    def all_licences(self) -> Quantity:
        """Their prices together."""
        return total(x.price.quantity(f"licence.{x.name}") for x in self.licences)


class Plan(Config):
    """The whole file."""

    format: Literal["dpu.tapeout/1"]
    name: str
    title: str
    engineer: YearlyPrice
    lot: Wafers
    respin: Share  # of the mask set, to mend a fault in metal
    respin_delay: Months
    qualification: Price
    phases: tuple[Phase, ...]
    nodes: dict[str, NodePlan]


def plan(name_or_path: str = "plan") -> Plan:
    """A plan, by name or path.

    Raises:
        DpuError: no such file, a field is wrong, the order of the phases is none, or the gate is not that of one phase.
    """
    path = find("tapeout", name_or_path)
    found = load(path, Plan, PLAN)
    _check(str(path), found)
    return found


def _check(where: str, found: Plan) -> None:
    """Each phase once, after phases that come before it; nothing paid twice; one gate; licences at every node."""
    seen: list[str] = []
    paid: list[str] = []
    for i, p in enumerate(found.phases):
        if p.name in seen:
            raise DpuError(where, f"field 'phases.{i}.name': '{p.name}' is there twice", code="E520")
        for before in p.after:
            if before not in seen:
                what = f"field 'phases.{i}.after': value is '{before}', allowed: {', '.join(seen) or 'nothing'}"
                why = "a phase follows phases that come before it in the file"
                raise DpuError(where, what, why, "docs/economics.md describes every field", code="E520")
        for payment in p.pays:
            if payment in paid:
                raise DpuError(where, f"field 'phases.{i}.pays': '{payment}' is paid twice", code="E520")
            paid.append(payment)
        seen.append(p.name)
    if not found.phases:
        raise DpuError(where, "field 'phases': value is empty, allowed: one or more phases", code="E520")
    gates = [p.name for p in found.phases if p.gate]
    if len(gates) != 1:
        what = f"field 'phases': `gate` is true of {', '.join(gates) or 'none'}, allowed: of one phase"
        raise DpuError(where, what, hint="docs/economics.md describes every field", code="E520")
    for node, here in found.nodes.items():
        if not here.licences:
            what = f"field 'nodes.{node}.licences': value is empty, allowed: one or more licences"
            raise DpuError(where, what, hint="docs/economics.md describes every field", code="E520")


def node_plan(found: Plan, node: str, where: str) -> NodePlan:
    """What a plan says of a node.

    Raises:
        DpuError: the plan says nothing of it.
    """
    if node not in found.nodes:
        raise DpuError(
            where,
            f"field 'nodes': value is {', '.join(found.nodes)}, allowed: a list with '{node}'",
            why="the scenario's chip is made at that node",
            hint="add the node to the plan, or give another with --plan",
            code="E520",
        )
    return found.nodes[node]
