"""The files that ship: readable, every field documented, every number with its source."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpu.simulator.economics import inputs
from dpu.simulator.economics.compare import stated_numbers
from dpu.simulator.economics.inputs import (
    Accelerator,
    Scenario,
    Silicon,
    accelerator,
    folder,
    scenario,
    shipped,
    silicon,
)
from dpu.simulator.economics.schema import Config, Stated
from pydantic import BaseModel

ROOT = Path(__file__).parents[2]
SCENARIOS = [n for n in shipped("economics") if n != "silicon"]


PARTS = [c for c in vars(inputs).values() if isinstance(c, type) and issubclass(c, Config) and c is not Stated]


def fields(model: type[BaseModel]) -> set[str]:
    """Names of all fields of a file, those of its parts too."""
    found = set(model.model_fields) - {"format"}
    for field in model.model_fields.values():
        for part in (field.annotation, *getattr(field.annotation, "__args__", ())):
            if part in PARTS:
                found |= fields(part)
    return found


@pytest.mark.parametrize("model", [Accelerator, Scenario, Silicon])
def test_every_field_is_documented(model: type[BaseModel]) -> None:
    page = (ROOT / "docs" / "economics.md").read_text()
    assert sorted(f for f in fields(model) if f"`{f}`" not in page) == []


def test_what_ships() -> None:
    assert set(shipped("gpu")) >= {"b200", "h200", "h100", "l40s", "l4", "rtx_pro_6000", "mi325x", "tpu_v6e"}
    assert len(SCENARIOS) >= 3 and shipped("card") == ["f2_6xlarge"]
    for name in SCENARIOS:
        assert scenario(name).name == name
    for kind in ("gpu", "card"):
        for name in shipped(kind):
            assert accelerator(name, kind).name == name
    assert set(silicon().nodes) == {"28", "12", "7", "5"}


def test_templates_are_valid() -> None:
    assert scenario(str(folder() / "economics" / "_template.json")).name == "template"
    assert accelerator(str(folder() / "gpu" / "_template.json")).name == "template"


def test_memory_is_no_source() -> None:
    """What is from memory, or has no source, is assumed."""
    configs = [
        *map(accelerator, shipped("gpu")),
        accelerator("f2_6xlarge", "card"),
        silicon(),
        *map(scenario, SCENARIOS),
    ]
    for config in configs:
        for name, number in stated_numbers(config, "x").items():
            if "memory" in number.source.replace("more memory", "") or number.source.startswith("no source"):
                assert number.provenance == "assumed", name
