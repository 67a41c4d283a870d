"""Provenance: the weakest input decides, and no number goes without a source."""

import pytest
from dpu.evidence import Provenance, Quantity, assumed, derived, simulated
from pydantic import ValidationError


def measured(value: float) -> Quantity:
    return Quantity(value=value, unit="s", provenance=Provenance.MEASURED, source="test bench")


def test_a_derived_number_is_as_weak_as_its_weakest_input() -> None:
    seconds = derived(2.0, "s", measured(1.0), simulated(3.0, "cycle", "dpu_tiny"), assumed(1.5, "Hz", "arch file"))
    assert seconds.provenance is Provenance.ASSUMED
    assert derived(1.0, "s", measured(1.0), measured(2.0)).provenance is Provenance.MEASURED


def test_order_of_provenance() -> None:
    assert [p.label for p in sorted(Provenance)] == ["assumed", "simulated", "published", "datasheet", "measured"]


def test_a_number_needs_a_source_and_a_derived_one_inputs() -> None:
    with pytest.raises(ValidationError, match="a number without a source is no evidence"):
        assumed(1.0, "s", " ")
    with pytest.raises(ValueError, match="a derived number needs inputs"):
        derived(1.0, "s")


def test_json_round_trip_keeps_the_tree() -> None:
    q = derived(2.0, "s", simulated(3.0, "cycle", "dpu_tiny"), assumed(1.5, "Hz", "arch file"), source="cycles / clock")
    back = Quantity.model_validate_json(q.model_dump_json())
    assert back.inputs[0].source == "dpu_tiny" and back.provenance is Provenance.ASSUMED
    assert back.uncertainty is None
    assert back.explain().splitlines() == [
        "2 s [assumed] cycles / clock",
        "  3 cycle [simulated] dpu_tiny",
        "  1.5 Hz [assumed] arch file",
    ]
