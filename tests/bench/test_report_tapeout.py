"""Plan, schedule and cash of a tape-out: by hand on a small plan, and what a wrong plan says."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from dpu.bench.report import plan as plans
from dpu.bench.report.frame import Book
from dpu.bench.report.plan import Plan, plan
from dpu.bench.report.roofs import Peak, peak
from dpu.bench.report.say_tapeout import tapeout
from dpu.bench.report.tapeout import Tapeout, make, schedule
from dpu.errors import DpuError
from dpu.evidence import Provenance
from dpu.simulator.economics.compare import Comparison, stated_numbers
from dpu.simulator.economics.inputs import folder, shipped, silicon
from dpu.simulator.economics.schema import Config, Stated
from pydantic import BaseModel

from tests.bench.report_findings import ROOT, findings
from tests.economics.shared import compared, edited


def number(value: float, unit: str, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    ends = {} if low is None else {"low": low, "high": high}
    return {"value": value, "unit": unit, "provenance": "assumed", "source": "a test"} | ends


def phase(name: str, after: list[str], months: float, people: float, pays: list[str], **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "title": name,
        "after": after,
        "months": number(months, "month", months / 2, 2 * months),
        "engineers": number(people, "1"),
        "pays": pays,
    } | more


def content(**changes: Any) -> dict[str, Any]:
    """Gate of 2 months, then design (with tools) of 2.5 beside software of 6, then masks of 3."""
    phases = [
        phase("gate", [], 2, 1, [], gate=True),
        phase("design", ["gate"], 2.5, 4, ["licences", "mpw"], tools=True),
        phase("software", ["gate"], 6, 2, []),
        phase("masks", ["design"], 3, 1, ["masks", "lot"]),
    ]
    licences = [{"name": n, "title": n, "price": number(p, "USD")} for n, p in (("a", 3e6), ("b", 1e6))]
    node = {
        "package": "a box",
        "effort": number(2, "1"),
        "tools": number(10_000, "USD/month"),
        "mpw": number(500_000, "USD"),
        "package_tooling": number(7, "USD"),
        "licences": licences,
    }
    return {
        "format": "dpu.tapeout/1",
        "name": "small",
        "title": "a test",
        "engineer": number(120_000, "USD/year"),
        "lot": number(10, "wafer"),
        "respin": number(0.5, "1"),
        "respin_delay": number(4, "month"),
        "qualification": number(9, "USD"),
        "phases": phases,
        "nodes": {"7": node},
    } | changes


@cache
def chip() -> Comparison:
    return compared("dpu_asic", "scenario_b")


def small(**changes: Any) -> Tapeout:
    return make(chip(), silicon(), Plan.model_validate(content(**changes)), "a test")


def test_phases_follow_those_before_them() -> None:
    t = small()
    assert [(x.phase.name, x.start, x.end) for x in t.tasks] == [
        ("gate", 0, 2),
        ("design", 2, 4.5),
        ("software", 2, 8),
        ("masks", 4.5, 7.5),
    ]
    assert (t.months, t.shortest, t.longest, t.gate_month) == (8, 4, 16, 2)


def test_years_are_twelve_months() -> None:
    phases = [phase("only", [], 1, 1, []) | {"months": number(1.5, "year", 1, 2)}]
    found = Plan.model_validate(content(phases=phases)).phases
    assert [schedule(found, end) for end in ("value", "low", "high")] == [[(0, 18)], [(0, 12)], [(0, 24)]]


def test_cash_by_hand() -> None:
    """An engineer is 10,000 USD a month, and two are needed where the phases state one."""
    t = small()
    wafer, masks = 10 * silicon().nodes["7"].wafer.value, silicon().nodes["7"].masks.value
    people = [2, 2, 8 + 4, 8 + 4, 4 + 4 + 1, 4 + 2, 4 + 2, 4 + 1]  # month 5: half of design's, half of masks'
    assert t.by_kind["engineers"] == pytest.approx([10_000 * n for n in people])
    assert t.by_kind["design tools"] == pytest.approx([0, 0, 10_000, 10_000, 5_000, 0, 0, 0])
    assert t.by_kind["IP licences"] == (0, 0, 4e6, 0, 0, 0, 0, 0)
    assert t.by_kind["MPW shuttle"] == (0, 0, 500_000, 0, 0, 0, 0, 0)
    assert t.by_kind["mask set, wafers"] == (0, 0, 0, 0, masks + wafer, 0, 0, 0)
    assert sum(t.by_kind["package, tests"]) == 0  # no phase pays them
    assert sum(t.by_month) == pytest.approx(t.total.value)
    assert t.before_gate.value == pytest.approx(2 * 2 * 10_000)
    assert t.respin.value == pytest.approx(masks / 2 + 4 * 2 * 10_000)
    assert t.total.provenance is Provenance.ASSUMED


def test_what_depends_on_the_chip() -> None:
    t, p = small(), chip().dpu.platform
    assert p.volume is not None and p.nre is not None
    assert t.production.value == pytest.approx(p.details["cost_of_card"].value * p.volume.value)
    parts = chip().dpu.parts
    # the NRE's part of an image grows as the NRE
    image = chip().dpu.image.value - parts["nre"].value * (1 - t.total.value / p.nre.value)
    assert t.advantage == pytest.approx(chip().cheapest.image.value / image)
    assert t.widest.swing > 0 and t.node == "7"


def test_a_plan_without_the_node_is_refused() -> None:
    with pytest.raises(DpuError) as e:
        small(nodes={"5": content()["nodes"]["7"]})
    assert e.value.text() == (
        "error[E520]: a test: field 'nodes': value is 5, allowed: a list with '7'\n"
        "  why: the scenario's chip is made at that node\n"
        "  try: add the node to the plan, or give another with --plan"
    )


@pytest.mark.parametrize(
    ("phases", "said"),
    [
        (
            [phase("b", ["a"], 1, 1, [])],
            "field 'phases.0.after': value is 'a', allowed: nothing\n"
            "  why: a phase follows phases that come before it in the file\n"
            "  try: docs/economics.md describes every field",
        ),
        ([phase("a", [], 1, 1, []), phase("a", [], 1, 1, [])], "field 'phases.1.name': 'a' is there twice"),
        (
            [phase("a", [], 1, 1, ["mpw"]), phase("b", ["a"], 1, 1, ["mpw"])],
            "field 'phases.1.pays': 'mpw' is paid twice",
        ),
        ([], "field 'phases': value is empty, allowed: one or more phases"),
        ([phase("a", [], 1, 1, [])], "field 'phases': `gate` is true of none, allowed: of one phase"),
        (
            [phase("a", [], 1, 1, [], gate=True), phase("b", [], 1, 1, [], gate=True)],
            "field 'phases': `gate` is true of a, b, allowed: of one phase",
        ),
        (
            [phase("a", [], 1, 1, []) | {"months": number(3, "USD")}],
            "field 'phases.0.months': unit is 'USD', allowed: 0.25 to 120 month",
        ),
        (
            [phase("a", [], 1, 1, ["tea"])],
            "field 'phases.0.pays.0': value is 'tea', allowed: 'licences', 'mpw', 'package', 'masks', 'lot' or"
            " 'qualification'",
        ),
    ],
)
def test_wrong_plans_are_refused(tmp_path: Path, phases: list[Any], said: str) -> None:
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(content(phases=phases)))
    with pytest.raises(DpuError) as e:
        plan(str(file))
    assert e.value.text().startswith(f"error[E520]: {file}: {said}")


def test_a_node_without_licences_is_refused(tmp_path: Path) -> None:
    file = edited("tapeout/plan.json", ("nodes", "7", "licences"), [], tmp_path / "mine.json")
    with pytest.raises(DpuError) as e:
        plan(str(file))
    assert e.value.text() == (
        f"error[E520]: {file}: field 'nodes.7.licences': value is empty, allowed: one or more licences\n"
        "  try: docs/economics.md describes every field"
    )


def test_licences_that_no_phase_pays_are_listed_and_not_in_the_cash() -> None:
    phases = [phase("gate", [], 2, 1, [], gate=True)]
    t = small(phases=phases)
    assert sum(t.by_kind["IP licences"]) == 0 and t.node_plan.all_licences.value == 4e6
    f = findings()
    said = tapeout(replace(f, tapeout=t), Book())
    assert re.search(r"all licences</td><td[^>]*><span[^>]*>\$4 million&", said)


def test_the_plan_that_ships() -> None:
    found = plan()
    assert set(found.nodes) == set(silicon().nodes)
    assert {p for x in found.phases for p in x.pays} == set(plans.Payment.__args__)  # type: ignore[attr-defined]
    assert sum(x.gate for x in found.phases) == 1 and found.phases[0].gate and not found.phases[0].pays
    for name, q in _stated(found).items():
        if q.source.startswith("no source") or "memory" in q.source:
            assert q.provenance == "assumed", name
    for node in found.nodes:  # dearer at finer nodes
        assert found.nodes[node].licences
    order = [found.nodes[n].mpw.value for n in ("28", "12", "7", "5")]
    assert order == sorted(order)


def _stated(config: Config) -> dict[str, Stated]:
    found = dict(stated_numbers(config, "plan"))
    if isinstance(config, Plan):
        for p in config.phases:
            found |= stated_numbers(p, f"plan.{p.name}")
        for n, node in config.nodes.items():
            for x in node.licences:
                found |= stated_numbers(x, f"plan.{n}.{x.name}")
    return found


def test_peaks_that_ship() -> None:
    for name in shipped("peak"):
        found = peak(name)
        assert isinstance(found, Peak) and found.name == name and name in shipped("gpu")
        assert list(found.rates) and (folder() / "gpu" / f"{name}.json").is_file()


def fields(model: type[BaseModel]) -> set[str]:
    found = set(model.model_fields) - {"format"}
    for f in model.model_fields.values():
        for part in (f.annotation, *getattr(f.annotation, "__args__", ())):
            if isinstance(part, type) and issubclass(part, Config) and part is not Stated:
                found |= fields(part)
    return found


@pytest.mark.parametrize("model", [Plan, Peak])
def test_every_field_is_documented(model: type[BaseModel]) -> None:
    page = (ROOT / "docs" / "economics.md").read_text()
    assert sorted(f for f in fields(model) if f"`{f}`" not in page) == []
