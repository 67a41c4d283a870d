"""Units: what fits, what converts, what nobody knows."""

from __future__ import annotations

import pytest
from dpu.units import UnitError, parse
from hypothesis import given
from hypothesis import strategies as st

SYMBOLS = ["s", "h", "year", "kWh", "W", "pJ", "USD", "image", "MAC", "MiB", "bit", "mm", "wafer", "GHz", "%"]


@pytest.mark.parametrize(
    ("a", "b", "factor"),
    [
        ("kWh", "J", 3.6e6),
        ("USD/kWh", "USD/J", 1 / 3.6e6),
        ("GHz", "cycle/s", 1e9),
        ("USD/(1000 image)", "USD/image", 1e-3),
        ("mm2/MiB", "m2/byte", 1e-6 / 2**20),
        ("1/cm2", "1/mm2", 0.01),
        ("year", "h", 8760),
        ("GB/s", "bit/s", 8e9),
        ("images/s", "image/h", 3600),
        ("%", "", 0.01),
        ("W*h", "Wh", 1),
        ("J/image", "W*s/image", 1),
    ],
)
def test_conversions(a: str, b: str, factor: float) -> None:
    assert parse(a).factor_to(parse(b)) == pytest.approx(factor, rel=1e-12)


@pytest.mark.parametrize(
    "a, b", [("USD/die", "USD/wafer"), ("image/s", "1/s"), ("MAC", "op"), ("Hz", "1/s"), ("J", "W")]
)
def test_what_does_not_fit(a: str, b: str) -> None:
    with pytest.raises(UnitError, match="measure different things"):
        parse(a).factor_to(parse(b))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("furlong", "unknown unit 'furlong'"),
        ("kimage", "unknown unit 'kimage'"),  # counts take no prefix
        ("USD//h", "cannot read the unit 'USD//h'"),
        ("(USD", "cannot read the unit '(USD'"),
        ("USD h", "cannot read the unit 'USD h'"),
        ("USD)", "cannot read the unit 'USD)'"),
        ("m2.5", "cannot read the unit 'm2.5'"),
        ("$/h", "cannot read the unit '$/h'"),
    ],
)
def test_unreadable(text: str, said: str) -> None:
    with pytest.raises(UnitError) as e:
        parse(text)
    assert str(e.value) == said


units = st.lists(st.tuples(st.sampled_from(SYMBOLS), st.integers(-3, 3).filter(bool)), min_size=1, max_size=4)


@given(units, units)
def test_a_product_has_the_product_of_scales_and_prints_readably(
    a: list[tuple[str, int]], b: list[tuple[str, int]]
) -> None:
    left, right = (parse("*".join(f"({s}^{p})" for s, p in u)) for u in (a, b))
    product = left.times(right)
    assert product.scale == pytest.approx(left.scale * right.scale, rel=1e-9)
    again = parse(str(product))
    assert again.dimensions == product.dimensions and again.scale == pytest.approx(product.scale, rel=1e-5)
    assert product.times(right, -1).dimensions == left.dimensions
