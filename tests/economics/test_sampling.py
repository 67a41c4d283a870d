"""Monte Carlo against closed forms, reproducible; tornado and surfaces against direct evaluation."""

from __future__ import annotations

from math import erf, exp, log, sqrt

import numpy as np
import pytest
from dpu.evidence import Array, evaluate
from dpu.simulator.economics.compare import Comparison
from dpu.simulator.economics.inputs import scenario
from dpu.simulator.economics.sampling import (
    break_even_surfaces,
    draw,
    draws,
    monte_carlo,
    surface,
    tornado,
)
from dpu.simulator.economics.schema import Stated

from tests.economics.shared import certain, compared, stated

N = 40_000
SIGMAS = 5  # a correct draw leaves five standard errors once in 1.7 million


def near(samples: Array, mean: float, sd: float) -> None:
    """Sample mean and standard deviation within SIGMAS standard errors: sd / sqrt(n), and about sd sqrt(k / 4n).

    The error of a standard deviation is sd sqrt((kurtosis - 1) / 4n); the sample's own kurtosis is taken.
    """
    n = len(samples)
    assert abs(np.mean(samples) - mean) < SIGMAS * sd / sqrt(n)
    kurtosis = float(np.mean((samples - np.mean(samples)) ** 4) / np.var(samples) ** 2)
    assert abs(np.std(samples) - sd) < SIGMAS * sd * sqrt((kurtosis - 1) / (4 * n))


@pytest.mark.parametrize(
    "number, mean, sd",
    [
        (stated(2.0, "s", low=1.0, high=4.0, distribution="uniform"), 2.5, 3 / sqrt(12)),
        (stated(2.0, "s", low=1.0, high=4.0), 7 / 3, sqrt((1 + 4 + 16 - 2 - 4 - 8) / 18)),  # triangular
        (stated(1.0, "s", low=1.0, high=1.28), 1 + 0.28 / 3, 0.28 / sqrt(18)),  # a right angle
        (stated(5.0, "s", sd=0.5), 5.0, 0.5),
        (stated(2.0, "s", sd=0.3, distribution="lognormal"), 2 * exp(0.045), 2 * exp(0.045) * sqrt(exp(0.09) - 1)),
    ],
)
def test_distributions(number: Stated, mean: float, sd: float) -> None:
    assert number.deviation == pytest.approx(sd)
    near(draw(number, "x", N, 0), mean, sd)


def test_draws_depend_on_seed_and_name_alone() -> None:
    number = stated(2.0, "s", low=1.0, high=4.0)
    first = draw(number, "a", 100, 1)
    assert (draw(number, "a", 100, 1) == first).all()
    assert (draw(number, "b", 100, 1) != first).any() and (draw(number, "a", 100, 2) != first).any()
    c = compared()
    one, two = (draws([c.dpu.image], c.stated, 50, 3), draws([c.dpu.image, c.gpus[0].image], c.stated, 50, 3))
    assert set(one) < set(two) and all((two[k] == v).all() for k, v in one.items())
    assert monte_carlo(c, 500, 7) == monte_carlo(c, 500, 7) != monte_carlo(c, 500, 8)


def lognormal_rent() -> Comparison:
    """Only the rents of two devices are uncertain, both lognormal: costs and their ratio are lognormal too."""
    place = scenario("scenario_a")
    free = stated(0.0, "USD/GB"), stated(0.0, "USD/h")
    place = place.model_copy(
        update={
            "utilisation": stated(0.5, "1"),
            "ownership": certain(place.ownership),
            "rented": certain(place.rented, network=free[0], storage=free[1]),
            "asic": certain(place.asic),
            "loading": certain(place.loading),
        }
    )
    from dpu.ir.arch import load_arch
    from dpu.simulator.economics.compare import compare
    from dpu.simulator.economics.inputs import accelerator, card_for, silicon

    from tests.economics.shared import cycles_of

    def rent(device: str, kind: str, sd: float) -> object:
        a = accelerator(device, kind)
        assert a.rental.on_demand is not None
        price = a.rental.on_demand.model_copy(update={"distribution": "lognormal", "sd": sd})
        return a.model_copy(update={"rental": a.rental.model_copy(update={"on_demand": price})})

    arch = load_arch("dpu_f2")
    cycles = cycles_of(arch, 1.5).model_copy(update={"error": stated(1.0, "1")})
    assert card_for("dpu_f2") is not None
    gpu, card = rent("rtx_pro_6000", "gpu", 0.4), rent("f2_6xlarge", "card", 0.3)
    return compare(place, arch, cycles, [gpu], silicon(), card=card)  # type: ignore[list-item, arg-type]


def test_monte_carlo_against_the_closed_form() -> None:
    c = lognormal_rent()
    dpu = 1.98 * 1.5 / 3600 / 0.5
    gpu = 3.3631 / 3600 / 1.36 / 0.5
    assert c.dpu.image.value == pytest.approx(dpu) and c.gpus[0].image.value == pytest.approx(gpu)
    u = monte_carlo(c, N, seed=11)
    assert u.dpu.mean == pytest.approx(dpu * exp(0.045), abs=SIGMAS * u.dpu.sd / sqrt(N))
    ratio, sd = gpu / dpu, sqrt(0.4**2 + 0.3**2)
    found = u.advantages[0]
    for p, z in ((5, -1.6449), (25, -0.6745), (50, 0.0), (75, 0.6745), (95, 1.6449)):
        # the error of a quantile is sqrt(p (1 - p) / n) over the density there
        density = exp(-z * z / 2) / sqrt(2 * np.pi) / (ratio * exp(sd * z) * sd)
        error = sqrt(p / 100 * (1 - p / 100) / N) / density
        assert found.spread.percentiles[p] == pytest.approx(ratio * exp(sd * z), abs=SIGMAS * error + 1e-4)
    for threshold, chance in found.probability.items():
        expected = 0.5 * (1 - erf(log(threshold / ratio) / sd / sqrt(2)))
        assert chance == pytest.approx(expected, abs=SIGMAS * sqrt(expected * (1 - expected) / N) + 1 / N)
    assert found.break_even_devices == {} and found.never == 0.0  # a card has no NRE


def test_first_order_uncertainty_is_that_of_small_distributions() -> None:
    """With 1 % of spread in every input, the first-order standard deviation is the sampled one."""
    c = compared()
    small = {
        name: s.model_copy(update={"low": None, "high": None, "sd": 0.01 * s.value, "distribution": "normal"})
        for name, s in c.stated.items()
        if s.value
    }
    given = draws([c.dpu.image], small, N, 5)
    (values,) = evaluate([c.dpu.image], given)
    from dpu.evidence import leaves

    slopes = []
    for name in given:
        q = leaves(c.dpu.image)[name]
        (ends,) = evaluate([c.dpu.image], {name: np.array([q.value * 0.9999, q.value * 1.0001])})
        slopes.append((ends[1] - ends[0]) / 0.0002 * 0.01)
    first = sqrt(sum(s * s for s in slopes))
    assert np.std(values) == pytest.approx(first, rel=0.03)  # second order: 1 % of 1 %, times curvature; and 1/sqrt(2N)


def test_monte_carlo_of_a_chip_is_consistent() -> None:
    c = compared(seconds=1.0)
    u = monte_carlo(c, 4000, seed=1)
    for a in u.advantages:
        p = a.probability
        assert 1 >= p[1.0] >= p[2.0] >= p[5.0] >= 0
        ranks = list(a.spread.percentiles.values())
        assert ranks == sorted(ranks) and list(a.break_even_devices.values()) == sorted(a.break_even_devices.values())
    best = u.advantages[-1]
    assert best.gpu == "cheapest"
    assert all(best.probability[t] <= a.probability[t] for a in u.advantages for t in best.probability)
    # the volume at which the draws break even, against those in which the planned volume already does
    assert u.dpu.percentiles[5] < u.dpu.nominal < u.dpu.percentiles[95]


def test_never_breaking_even_is_infinite_and_counted() -> None:
    c = compared("dpu_32tops", "scenario_b", ("rtx_pro_6000",), seconds=30.0)
    assert c.versus[0].images is None
    (a, _) = monte_carlo(c, 500, seed=0).advantages
    assert a.never == 1.0 and a.break_even_devices[50] == float("inf")


def test_tornado() -> None:
    c = compared()
    output = c.versus[0].advantage
    bars = tornado(output, c.stated)
    assert [b.swing for b in bars] == sorted((b.swing for b in bars), reverse=True)
    assert {b.name for b in bars} >= {"scenario.asic.volume", "silicon.nodes.7.design", "dpu_asic.error"}
    widest = bars[0]
    (direct,) = evaluate([output], {widest.name: widest.high})
    assert float(direct) == widest.at_high
    assert not [b for b in bars if b.name == "h200.offline"]  # states no range


def test_surfaces() -> None:
    c = compared()
    first, second = break_even_surfaces(c, points=5)
    assert (first.x, first.y) == ("scenario.utilisation", "scenario.asic.volume")
    assert first.values.shape == (5, 5)
    assert (np.diff(first.values, axis=0) > 0).all()  # more cards share the NRE
    assert (second.x, second.y) == ("dpu_asic.images_per_second", "dpu_asic.hardware")
    assert (np.diff(second.values, axis=1) > 0).all() and (np.diff(second.values, axis=0) < 0).all()
    best = c.versus_cheapest.advantage
    one = surface(best, "scenario.utilisation", np.array([0.5]), "scenario.asic.volume", np.array([10_000.0]))
    assert one.values[0, 0] == pytest.approx(best.value, rel=1e-12)
    rented = break_even_surfaces(compared("dpu_f2", "scenario_a", seconds=46.9), points=3)
    assert [(s.x, s.y) for s in rented] == [("f2_6xlarge.images_per_second", "f2_6xlarge.rental.on_demand")]
