"""Against published figures: cost of an image on each MLPerf system, dies and yields, the arithmetic of break-even.

Sources: MLPerf Inference results (mlcommons/inference_results_v5.1 @965182b, v4.1 @198fc46, rates of a whole system),
AWS prices of us-east-1 on 2026-07-20 (aws/karpenter-provider-aws @1d92708), 3-year prices of the HF dataset
devidasmishra/ai-inference-hardware-economics-2026, TPU prices of neowin.net (2024-12).
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dpu.evidence import assumed
from dpu.ir.arch import load_arch
from dpu.simulator.dram.params import load_dram
from dpu.simulator.economics.chip import dies_per_wafer, interface_bits, murphy, negative_binomial, poisson
from dpu.simulator.economics.cost import Terms, cost, from_accelerator
from dpu.simulator.economics.inputs import accelerator, scenario, shipped, silicon

from tests.economics.shared import certain, compared, stated

ROOT = Path(__file__).parents[2]

# GPU, scenario of MLPerf, image/s of the system, accelerators in it, $/h of the offer, its accelerators, term
SYSTEMS = [
    ("b200", "offline", 32.5691, 8, 113.933, 8, "on_demand"),
    ("b200", "online", 28.70, 8, 113.933, 8, "on_demand"),
    ("b200", "offline", 32.5691, 8, 2.75, 1, "committed"),
    ("h200", "offline", 19.189, 8, 63.296, 8, "on_demand"),
    ("h200", "online", 18.42, 8, 63.296, 8, "on_demand"),
    ("h200", "offline", 19.189, 8, 1.85, 1, "committed"),
    ("h100", "offline", 8.31658, 4, 6.880, 1, "on_demand"),
    ("h100", "online", 16.06, 8, 6.880, 1, "on_demand"),
    ("h100", "offline", 8.31658, 4, 1.48, 1, "committed"),
    ("l40s", "offline", 5.52041, 8, 1.861, 1, "on_demand"),
    ("l40s", "online", 5.90, 8, 1.861, 1, "on_demand"),
    ("l4", "offline", 1.00634, 4, 0.8048, 1, "on_demand"),
    ("l4", "online", 0.88, 4, 0.8048, 1, "on_demand"),
    ("rtx_pro_6000", "offline", 11.0758, 8, 3.3631, 1, "on_demand"),
    ("rtx_pro_6000", "online", 10.88, 8, 3.3631, 1, "on_demand"),
    ("tpu_v6e", "offline", 5.439, 4, 2.70, 1, "on_demand"),
    ("tpu_v6e", "offline", 5.439, 4, 1.22, 1, "committed"),
]


@pytest.mark.parametrize("name, rate, system, count, price, share, term", SYSTEMS)
def test_cost_of_an_image_on_each_mlperf_system(
    name: str, rate: str, system: float, count: int, price: float, share: int, term: str
) -> None:
    """At full utilisation, rent alone: price / (3600 x rate), from the totals of the sources."""
    place = scenario("scenario_a").model_copy(update={"tenure": term, "rate": rate, "utilisation": stated(1.0, "1")})
    terms = Terms.of(place)
    c = cost(from_accelerator(accelerator(name), terms), terms)
    assert c.parts["rent"].value == pytest.approx((price / share) / (3600 * system / count), rel=1e-5)


def test_the_table_of_known_costs() -> None:
    """The same, against the rounded dollars of the project's reference table: $ an image, offline, on demand."""
    known = {"rtx_pro_6000": 0.000675, "l40s": 0.000749, "l4": 0.000889, "h100": 0.000919, "h200": 0.000916}
    known |= {"b200": 0.000972, "tpu_v6e": 0.000552}
    terms = Terms.of(scenario("scenario_a").model_copy(update={"rate": "offline", "utilisation": stated(1.0, "1")}))
    for name, dollars in known.items():
        c = cost(from_accelerator(accelerator(name), terms), terms)
        assert c.parts["rent"].value == pytest.approx(dollars, abs=0.6e-6), name  # rounded to 1e-6


def test_f2_cannot_tie() -> None:
    """f2.6xlarge at $1.98 against $0.000675: 0.815 image/s, 114.5 TMAC/s of 140.57 TMAC; dpu_f2 peaks at 3.07."""
    needed = 1.98 / 3600 / 0.000675
    assert needed == pytest.approx(0.815, abs=0.001) and needed * 140.57 == pytest.approx(114.5, abs=0.1)
    arch = load_arch("dpu_f2")
    peak = arch.peak_macs_per_cycle * arch.clock_hz / 1e12
    assert peak == pytest.approx(3.07, abs=0.01) and needed * 140.57 / peak > 37
    place = scenario("scenario_a").model_copy(update={"rate": "offline", "utilisation": stated(1.0, "1")})
    c = compared("dpu_f2", place, ("rtx_pro_6000", "l40s", "h200", "l4"), seconds=46.9)
    assert c.dpu.platform.name == "f2_6xlarge"
    assert c.dpu.parts["rent"].value == pytest.approx(1.98 * 46.9 / 3600, rel=1e-12)  # $0.0258
    assert c.decision().verdict == "NO-GO"


def test_energy_of_b200_at_the_wall() -> None:
    """299 J x PUE 1.54 x $0.09/kWh = $0.0000115 an image."""
    place = scenario("scenario_b")
    own = certain(place.ownership, pue=stated(1.54, "1"), electricity=stated(0.09, "USD/kWh"))
    terms = Terms.of(place.model_copy(update={"ownership": own, "utilisation": stated(1.0, "1")}))
    c = cost(from_accelerator(accelerator("b200"), terms), terms)
    assert c.busy_energy.value == pytest.approx(299.3) == c.energy.value
    assert c.parts["energy"].value == pytest.approx(0.0000115, abs=0.5e-7)


# -- silicon -----------------------------------------------------------------------------------------------------------


def dies(mm2: float, edge: float, scribe: float) -> float:
    units = ("mm2", "mm", "mm", "mm")
    return dies_per_wafer(
        *(assumed(v, u, "a test") for v, u in zip((mm2, 300, edge, scribe), units, strict=True))
    ).value


def test_yield_of_published_dies() -> None:
    """TSMC's N5 test chip (AnandTech 15219, 2019): 17.92 mm2 at 1.271/cm2 yields 80 %, a die of 100 mm2 32.0 %.

    Zen 2 (planet3dnow.de 45886, Die Yield Calculator): 79.8 mm2 yields 70.6 %, with an I/O part, 121.8 mm2, 59.3 %. The
    page does not name the density; 0.4490/cm2 gives the first, and must give the second. All by Murphy's model.
    """

    def at(mm2: float, density: float) -> float:
        return murphy(assumed(mm2, "mm2", "a test"), assumed(density, "1/cm2", "a test")).value

    assert at(17.92, 1.271) == pytest.approx(0.80, abs=0.0005)
    assert at(100, 1.271) == pytest.approx(0.320, abs=0.0005)
    assert at(79.8, 0.4490) == pytest.approx(0.706, abs=0.0005)
    assert at(121.8, 0.4490) == pytest.approx(0.593, abs=0.0005)


def test_the_models_agree_for_small_dies_and_order_for_large() -> None:
    """To first order all are 1 - A D; to second A D^2 / 2 (Poisson), 7/12 (Murphy), (1 + 1/alpha) / 2 (binomial)."""
    area, alpha = assumed(1.0, "mm2", "a test"), assumed(3.0, "1", "a test")
    for density, tolerance in ((0.1, 1e-5), (1.0, 1e-4)):
        d = assumed(density, "1/cm2", "a test")
        for y in (poisson(area, d).value, murphy(area, d).value, negative_binomial(area, d, alpha).value):
            assert abs(y - (1 - density / 100)) < tolerance
    large, d = assumed(800.0, "mm2", "a test"), assumed(0.1, "1/cm2", "a test")
    assert poisson(large, d).value < murphy(large, d).value < negative_binomial(large, d, alpha).value
    assert poisson(large, d).value == pytest.approx(0.449329, abs=1e-6)  # exp(-0.8)


@pytest.mark.parametrize(
    "mm2, published",
    [
        (79.8, 728),  # Zen 2, 7.6 x 10.5 mm: planet3dnow.de 45886 with the Die Per Wafer Calculator of CALY
        (121.8, 472),  # the same with an I/O part
        (50.0, 1278),  # a design study: hotelsabruzzo.com/what-is-die-per-wafer
    ],
)
def test_dies_of_a_wafer(mm2: float, published: int) -> None:
    """The sources do not name their margins: their counts lie between none and wide ones (5 mm rim, 0.2 mm lines)."""
    assert dies(mm2, edge=5.0, scribe=0.2) < published < dies(mm2, edge=0.0, scribe=0.0)


def test_the_formula_without_margins() -> None:
    """100 mm2: pi 150^2 / 100 - pi 300 / sqrt(200) = 640; 91.5 % good at 0.09/cm2; $6.8, $16, $29 a good die."""
    assert dies(100, 0, 0) == pytest.approx(640.2, abs=0.05)
    good = negative_binomial(*(assumed(v, u, "a test") for v, u in ((100, "mm2"), (0.09, "1/cm2"), (3, "1")))).value
    assert good == pytest.approx(0.915, abs=0.0005)
    for wafer, dollars in ((3984, 6.8), (9346, 16.0), (16988, 29.0)):
        assert wafer / (640.2 * good) == pytest.approx(dollars, abs=0.05)


@pytest.mark.parametrize("arch", ["dpu_32tops", "dpu_asic"])
def test_width_of_the_memory(arch: str) -> None:
    """Nominal rate of the interface x 85 % is the sustained rate of the arch file: 8.533 Gb/s a pin."""
    found = load_arch(arch)
    bits = interface_bits(found)
    assert bits == 16 * load_dram(found.dram.parameters).number("channels")
    assert bits * 8.533e9 / 8 * 0.85 == pytest.approx(found.dram.bytes_per_cycle * found.clock_hz, rel=0.01)


def test_break_even_arithmetic() -> None:
    """$30M of NRE at a saving of $0.0002 an image: 1.5e11 images, 2,264 cards of 0.7 image/s busy for three years.

    At a utilisation of 7 %, 1 / 0.07 = 14.3 times as many cards.
    """
    images = (assumed(30e6, "USD", "a test") / assumed(0.0002, "USD/image", "a test")).to("image")
    assert images.value == pytest.approx(1.5e11)
    life = (assumed(0.7, "image/s", "a test") * assumed(3, "year", "a test")).counted("1/device").to("image/device")
    assert (images / life).to("device").value == pytest.approx(1.5e11 / (0.7 * 3 * 8760 * 3600), rel=1e-12)
    assert (images / life).value == pytest.approx(2265, abs=1)


def test_break_even_of_a_comparison() -> None:
    """At the break-even volume, the chip's image costs what the GPU's does."""
    for gpu in ("h200", "rtx_pro_6000"):
        first = compared("dpu_asic", "scenario_b", (gpu,), seconds=1.0)
        (v,) = first.versus
        assert v.images is not None and v.devices is not None
        place = first.scenario
        plan = certain(place.asic, volume=stated(v.devices.value, "device"))
        again = compared("dpu_asic", place.model_copy(update={"asic": plan}), (gpu,), seconds=1.0)
        assert again.versus[0].advantage.value == pytest.approx(1.0, rel=1e-9)
        assert v.images.value / again.dpu.life.value == pytest.approx(v.devices.value, rel=1e-9)


def test_every_gpu_is_of_the_experiment() -> None:
    for name in shipped("gpu"):
        task = accelerator(name).task
        assert task is not None and task.text == "sdxl-base-1.0, 1024x1024, 20 euler steps, guided"


def test_a_lane_is_as_large_as_the_rtl_says() -> None:
    """`lane_macs`: gates of lanes and reductions a lane, over those of the array a MAC, of the smallest shape."""
    tiny = next(
        s for s in json.loads((ROOT / "results/rtl/size.json").read_text())["shapes"] if s["name"] == "dpu_tiny"
    )
    gates = {e["engine"]: e["gates"] for e in tiny["engines"]}
    mac = gates["MXU array"] / tiny["cols"] ** 2
    lanes = gates["VPU lanes"] / tiny["lanes"] / mac
    both = lanes + gates["VPU reductions"] / tiny["lanes"] / mac
    for node in silicon().nodes.values():
        assert (round(lanes), round(both)) == (node.lane_macs.low, node.lane_macs.value)
        assert round(both + gates["VPU control"] / tiny["lanes"] / mac) == node.lane_macs.high
