"""The formula: parts sum to wholes, cost falls with utilisation and rises with every price, one formula for all."""

from __future__ import annotations

import pytest
from dpu.evidence import Provenance, assumed
from dpu.simulator.economics.compare import Comparison
from dpu.simulator.economics.cost import Cost, Terms, annuity, cost, from_accelerator
from dpu.simulator.economics.inputs import accelerator, scenario, shipped
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.economics.shared import certain, compared, stated

PLACES = ["scenario_a", "scenario_b", "scenario_c"]
ARCHS = ["dpu_f2", "dpu_32tops", "dpu_asic"]


def test_annuity() -> None:
    def a(rate: float, years: float) -> float:
        return annuity(assumed(rate, "1/year", "a test"), assumed(years, "year", "a test")).value

    assert a(0.10, 2) == pytest.approx(0.1 / (1 - 1.1**-2))  # two payments, 0.5762 each, are worth 1 today
    assert a(0.10, 2) / 1.1 + a(0.10, 2) / 1.21 == pytest.approx(1.0)
    assert a(0.0, 4) == 0.25
    assert a(1e-8, 4) == pytest.approx(0.25, rel=1e-6)


def test_a_gpu_by_hand() -> None:
    """L40S owned at 50 %: every term of the formula worked out here from the numbers of the files."""
    place = scenario("scenario_b")
    terms = Terms.of(place)
    gpu, own = accelerator("l40s"), place.ownership
    c = cost(from_accelerator(gpu, terms), terms)
    assert gpu.offline is not None and gpu.purchase is not None and gpu.busy_power is not None
    images = 0.690051 * 0.5 * 3600  # an hour
    assert gpu.offline.value == 0.690051 and place.utilisation.value == 0.5
    capital = (8500 + 3000) * 1.05
    assert (gpu.purchase.value, gpu.host_price.value, own.spares.value) == (8500, 3000, 0.05)
    yearly = capital * 0.08 / (1 - 1.08**-4)
    watts = 0.5 * (350 + 100) + 0.5 * (35 + 100)
    expected = {
        "capital": yearly / 8760 / images,
        "maintenance": capital * 0.05 / 8760 / images,
        "energy": watts / 1000 * 1.5 * 0.09 / images,
        "storage": 0.001 / images,
        "network": 0.6e-3 * 0.005,  # GB an image, USD a GB
    }
    assert {k: q.value for k, q in c.parts.items()} == pytest.approx(expected, rel=1e-12)
    assert c.image.value == pytest.approx(sum(expected.values()), rel=1e-12)
    assert c.energy.value == pytest.approx(watts * 3600 / images, rel=1e-12)
    assert c.busy_energy.value == pytest.approx(450 / 0.690051, rel=1e-12)
    assert c.rate_per_dollar is not None and c.rate_per_dollar.value == pytest.approx(0.690051 / 11500)
    assert c.first_image is not None and c.first_image.value == pytest.approx(6.94 / 1.0 + 1.490)
    assert c.thousand.value == pytest.approx(1000 * c.image.value)


def every_cost(c: Comparison) -> list[Cost]:
    return [c.dpu, *c.gpus]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("arch", ARCHS)
def test_parts_sum_to_wholes(arch: str, place: str) -> None:
    c = compared(arch, place, tuple(shipped("gpu")))
    for one in every_cost(c):
        assert sum(q.value for q in one.parts.values()) == pytest.approx(one.image.value, rel=1e-12)
        assert all(q.value >= 0 for q in one.parts.values())
        images = one.platform.rate.value * 3600 * c.scenario.utilisation.value
        hour = sum(q.to("USD/h").value for q in one.hourly.values())
        rest = one.parts["network"].value + (one.parts["nre"].value if "nre" in one.parts else 0.0)
        assert hour / images + rest == pytest.approx(one.image.value, rel=1e-9)
        without = one.image.value - (one.parts["nre"].value if "nre" in one.parts else 0.0)
        assert one.marginal.value == pytest.approx(without, rel=1e-9)
    for v in c.versus:
        gpu = next(g for g in c.gpus if g.platform.name == v.gpu)
        assert v.advantage.value == pytest.approx(gpu.image.value / c.dpu.image.value, rel=1e-12)


@pytest.mark.parametrize("arch", ["dpu_32tops", "dpu_asic"])
def test_area_sums_to_the_die(arch: str) -> None:
    c = compared(arch)
    d = c.dpu.platform.details
    blocks = sum(q.value for k, q in d.items() if k.startswith("area."))
    assert blocks / 0.8 == pytest.approx(d["die_area"].value, rel=1e-12)  # layout of silicon.json


@given(low=st.floats(0.01, 0.98), more=st.floats(1.01, 50))
@settings(max_examples=25, deadline=None)
def test_cost_falls_with_utilisation(low: float, more: float) -> None:
    high = min(low * more, 1.0)
    for name in PLACES:
        found = []
        for u in (low, high):
            place = scenario(name).model_copy(update={"utilisation": stated(u, "1")})
            found.append(every_cost(compared("dpu_asic", place, ("h200", "b200"))))
        for idle, busy in zip(*found, strict=True):
            assert busy.image.value < idle.image.value
            assert busy.energy.value <= idle.energy.value


PRICES = [
    ("ownership", "electricity", "USD/kWh", 0.01, 1.0),
    ("ownership", "maintenance", "1/year", 0.0, 0.5),
    ("ownership", "spares", "1", 0.0, 0.5),
    ("ownership", "interest", "1/year", 0.0, 0.5),
    ("ownership", "pue", "1", 1.0, 3.0),
    ("ownership", "storage", "USD/h", 0.0, 1.0),
    ("ownership", "network", "USD/GB", 0.0, 1.0),
]


@pytest.mark.parametrize("group, name, unit, least, most", PRICES)
@given(share=st.floats(0.0, 0.95), step=st.floats(0.02, 0.05))
@settings(max_examples=10, deadline=None)
def test_cost_rises_with_every_price_of_the_owner(
    group: str, name: str, unit: str, least: float, most: float, share: float, step: float
) -> None:
    place = scenario("scenario_b")
    found = []
    for at in (share, share + step):
        own = certain(getattr(place, group), **{name: stated(least + at * (most - least), unit)})
        found.append(every_cost(compared("dpu_asic", place.model_copy(update={group: own}), ("l4", "b200"))))
    for cheap, dear in zip(*found, strict=True):
        assert dear.image.value > cheap.image.value


@given(price=st.floats(0.01, 100), more=st.floats(1.001, 10))
@settings(max_examples=25, deadline=None)
def test_cost_rises_with_rent_and_falls_with_rate(price: float, more: float) -> None:
    terms = Terms.of(scenario("scenario_a"))
    gpu = accelerator("l40s")

    def image(dollars: float, rate: float) -> float:
        rental = gpu.rental.model_copy(update={"on_demand": stated(dollars, "USD/h")})
        device = gpu.model_copy(update={"rental": rental, "online": stated(rate, "image/s")})
        return cost(from_accelerator(device, terms), terms).image.value

    assert image(price * more, 1.0) > image(price, 1.0) > image(price, more)


def test_a_card_and_a_chip_follow_the_same_formula_as_a_gpu() -> None:
    """A GPU of the rate, power and price that the chip has costs what the chip does, without its NRE."""
    c = compared("dpu_asic", "scenario_b", ("h200",))
    p = c.dpu.platform
    assert p.hardware is not None
    twin = accelerator("h200").model_copy(
        update={
            "name": "twin",
            "offline": stated(p.rate.value, "image/s"),
            "busy_power": stated(p.busy.value, "W"),
            "idle_power": stated(p.idle.value, "W"),
            "host_power": stated(0.0, "W"),
            "host_price": stated(0.0, "USD"),
            "purchase": stated(p.hardware.value, "USD"),
        }
    )
    both = compared("dpu_asic", "scenario_b", (), extra=(twin,))
    assert both.gpus[0].image.value == pytest.approx(both.dpu.marginal.value, rel=1e-12)
    assert both.versus[0].saving.value == pytest.approx(0.0, abs=1e-15)


def test_provenance_is_that_of_the_weakest_input() -> None:
    c = compared("dpu_f2", "scenario_a", ("h200",))
    assert c.gpus[0].parts["rent"].provenance is Provenance.ASSUMED  # utilisation is
    assert c.gpus[0].platform.rate.provenance is Provenance.PUBLISHED
    assert c.dpu.platform.rate.provenance is Provenance.ASSUMED
    assert c.decision().missing[0] == "f2_6xlarge.images_per_second (assumed)"


def test_a_provider_adds_its_margin() -> None:
    """Rented, the chip costs its owner's cost times the markup of the cloud: 3 in scenario_a."""
    c = compared("dpu_asic", "scenario_a")
    parts = {k: q.value for k, q in c.dpu.parts.items()}
    assert parts["margin"] == pytest.approx(2 * (parts["capital"] + parts["maintenance"] + parts["energy"]))


def test_verdicts() -> None:
    assert compared(seconds=3.0).decision().verdict == "NO-GO"
    fast = compared(seconds=0.05).decision()
    assert fast.verdict == "UNPROVEN" and fast.short < 1
    assert "not measured: dpu_asic.images_per_second (assumed)" in fast.text
    slow = compared("dpu_f2", "scenario_a", seconds=46.9).decision()
    assert slow.text.startswith(
        "NO-GO: the cheapest other image (rtx_pro_6000) costs 0.0274x the DPU's, 73x short of 2x;"
    )
