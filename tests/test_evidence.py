"""Provenance: the weakest input decides, and no number goes without a source."""

from math import sqrt

import numpy as np
import pytest
from dpu.evidence import (
    Provenance,
    Quantity,
    assumed,
    combine,
    derived,
    evaluate,
    function,
    leaves,
    recomputed,
    simulated,
    total,
)
from dpu.measurement import DeviceIdentity, Measurement
from dpu.units import UnitError
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError


def measured(value: float) -> Quantity:
    device = DeviceIdentity(target="cpu", name="test bench", marks={"model": "a processor"})
    return Measurement.of("t", "s", [value], device, command="a test").quantity()


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


# -- arithmetic --------------------------------------------------------------------------------------------------------


def published(value: float, unit: str, sd: float | None = None, name: str = "") -> Quantity:
    return Quantity(value=value, unit=unit, provenance=Provenance.PUBLISHED, source="a page", uncertainty=sd, name=name)


def test_units_follow_and_are_checked() -> None:
    price, rate = published(7.2, "USD/h"), published(2.0, "image/s")
    cost = (price / rate).to("USD/image")
    assert cost.value == pytest.approx(7.2 / 3600 / 2.0) and cost.provenance is Provenance.PUBLISHED
    assert (price * published(0.5, "h")).unit == "USD"
    assert (published(1.0, "kWh") + published(3.6e6, "J")).value == pytest.approx(2.0)
    assert (1 - published(0.25, "1")).value == 0.75 and (1 / published(4.0, "s")).unit == "1/s"
    assert (1 / published(4.0, "s")).counted("image").unit == "image/s"
    for wrong in (lambda: price + rate, lambda: price - rate, lambda: price + 1, lambda: price.to("USD")):
        with pytest.raises(UnitError, match="measure different things"):
            wrong()
    with pytest.raises(ValidationError, match="unknown unit 'dollar'"):
        published(1.0, "dollar")
    with pytest.raises(ValueError, match=r"7\.2 USD/h / 0 s is no finite number"):
        price / published(0.0, "s")
    with pytest.raises(ValidationError, match=r"uncertainty -1\.0 is no standard deviation"):
        published(1.0, "s", -1.0)
    with pytest.raises(
        ValidationError, match="'guessed' is none of assumed, simulated, published, datasheet, measured"
    ):
        Quantity(value=1, unit="s", provenance="guessed", source="x")


def test_first_order_uncertainty() -> None:
    a, b = published(3.0, "s", 0.3, "a"), published(4.0, "s", 0.4, "b")
    assert (a + b).uncertainty == pytest.approx(0.5)  # 3-4-5
    assert (a * b).uncertainty == pytest.approx(12 * sqrt(0.1**2 + 0.1**2))
    assert (a / b).uncertainty == pytest.approx(0.75 * sqrt(0.1**2 + 0.1**2))
    assert (a + published(1.0, "s")).uncertainty == pytest.approx(0.3)
    assert (published(1.0, "s") * 2).uncertainty is None
    # one number that occurs twice is one number
    assert (a - a).uncertainty == 0.0
    assert (a * a).uncertainty == pytest.approx(2 * 3.0 * 0.3)
    assert ((a + b) - b).uncertainty == pytest.approx(0.3)
    assert (a.to("min")).uncertainty == pytest.approx(0.3 / 60)


def test_a_named_formula_takes_its_units_and_slopes() -> None:
    hypotenuse = function("test_hypotenuse", ("m", "m"), "m")(lambda x, y: np.sqrt(x * x + y * y))
    q = hypotenuse(published(3.0, "m", 0.1, "x"), published(400.0, "cm", 20.0, "y"))
    assert q.value == pytest.approx(5.0) and q.unit == "m"
    assert q.uncertainty == pytest.approx(sqrt((0.6 * 0.1) ** 2 + (0.8 * 0.2) ** 2), rel=1e-6)
    assert recomputed(q) == q.value


@given(st.lists(st.floats(0.1, 1e3), min_size=3, max_size=6))
def test_trees_evaluate_to_their_values_and_to_those_of_other_inputs(values: list[float]) -> None:
    qs = [published(v, "s", name=f"q{i}") for i, v in enumerate(values)]
    tree = total(qs) * qs[0] / (qs[1] + qs[2])
    (same,) = evaluate([tree], {})
    assert float(same) == tree.value
    (other,) = evaluate([tree], {"q0": np.array([1.0, 2.0])})
    rest = sum(values[1:])
    expected = [x * (x + rest) / (values[1] + values[2]) for x in (1.0, 2.0)]
    assert other == pytest.approx(expected, rel=1e-12)


def test_evaluate_refuses_a_name_that_nothing_depends_on_and_takes_derived_ones() -> None:
    tree = (published(2.0, "s", name="a") * 2).called("b") + published(1.0, "s", name="c")
    with pytest.raises(KeyError, match="no number is named d"):
        evaluate([tree], {"d": 1.0})
    assert evaluate([tree], {"b": 10.0})[0] == 11.0
    assert set(leaves(tree)) == {"a", "c"}
    with pytest.raises(ValueError, match="two numbers are named a"):
        leaves(tree, published(3.0, "s", name="a"))
    with pytest.raises(ValueError, match="is no finite number"):
        combine("scale", "s", published(1e300, "s"), constant=1e300, source="too large")
