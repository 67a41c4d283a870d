"""What the report gathers: draws, rooflines, frontier, the case of the details, numbers as text, places of labels."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dpu.bench import gate
from dpu.bench.report import roofs
from dpu.bench.report.draw import figure, log_axis, places, ticks
from dpu.bench.report.frontier import Frontier, Made, frontier, variants
from dpu.bench.report.gather import choose, gather
from dpu.bench.report.marks import digits, mark, money, percent, priced, short_commit, shown
from dpu.bench.report.missing import Missing
from dpu.bench.report.spread import drawn
from dpu.bench.report.words import of_number, wrapped
from dpu.bench.size_chip import Chip, Chips
from dpu.errors import DpuError
from dpu.evidence import Provenance, assumed
from dpu.measurement import DeviceIdentity, Measurement, write_measurements
from dpu.simulator.economics.sampling import PERCENTILES, draws, monte_carlo

from tests.bench.report_findings import ROOT, findings, request
from tests.economics.shared import compared

GPU = {"uuid": "GPU-01234567-89ab-cdef-0123-456789abcdef", "driver": "580.159.04"}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0494, "1.05"),
        (0.02341, "0.0234"),
        (25.0, "25"),
        (1604.54, "1,600"),
        (62e6, "62,000,000"),
        (9.999, "10.0"),
        (0.0, "0"),
        (-0.5, "-0.5"),
        (1e-7, "0.0000001"),
        (float("inf"), "never"),
    ],
)
def test_digits(value: float, text: str) -> None:
    assert digits(value) == text


def test_money_and_shares() -> None:
    assert [money(v) for v in (1.6462, 1604.54, 62e6, 7.05e9, 0.221, -3.0)] == [
        *("$1.65", "$1,605", "$62 million", "$7.05 billion", "$0.221", "-$3")
    ]
    assert [percent(v) for v in (0, 0.002, 0.26, 0.998, 1)] == ["0 %", "<0.5 %", "26 %", ">99.5 %", "100 %"]
    assert mark(Provenance.PUBLISHED, 'a "page" <1>') == (
        '<abbr class="mark published" title="published: a &quot;page&quot; &lt;1&gt;">P</abbr>'
    )


def test_a_changed_checkout_is_told_from_its_commit() -> None:
    assert short_commit("0123456789abcdef") == "0123456789ab"
    assert short_commit("0123456789abcdef+") == "0123456789ab+"


def test_names_of_inputs() -> None:
    assert of_number("silicon.nodes.7.design") == "design (NRE), 7 nm"
    assert of_number("scenario.asic.volume") == "cards that share the NRE"
    assert of_number("tpu_v6e.rental.on_demand") == "tpu_v6e: rental on demand"
    assert of_number("scenario.loading.rate") == "loading rate"
    assert wrapped("price of a card over its cost", 12) == "price of a<br>card over<br>its cost"


def test_draws_are_those_of_the_monte_carlo() -> None:
    c = compared("dpu_asic", "scenario_b")
    d, u = drawn(c, 700, 3), monte_carlo(c, 700, 3).advantages[-1]
    assert u.gpu == "cheapest" and d.probability == u.probability
    assert {p: d.rank(p) for p in PERCENTILES} == u.spread.percentiles
    outputs = [c.dpu.image, *(g.image for g in c.gpus)]
    assert d.inputs == len(draws(outputs, c.stated, 2, 0)) > len(c.dpu.parts)
    assert (d.before_nre > d.advantage).all() and d.samples == 700
    assert not np.array_equal(d.advantage, drawn(c, 700, 4).advantage)


# -- the case of the details -------------------------------------------------------------------------------------------


def test_a_chip_goes_before_a_card_and_where_it_does_best() -> None:
    decision = findings().decision
    assert (choose(decision).arch, choose(decision).scenario) == ("dpu_asic", "scenario_a")
    assert choose(decision, "scenario_b").scenario == "scenario_b"
    advantages = {c.scenario: c.advantage for c in decision.cases if c.arch == "dpu_asic"}
    assert advantages["scenario_a"] == max(advantages.values())  # type: ignore[type-var]
    card = gate.Decision(decision.request, decision.files, tuple(c for c in decision.cases if c.arch == "dpu_f2"), {})
    assert choose(card).arch == "dpu_f2"


def test_a_detail_that_is_no_scenario_is_refused() -> None:
    with pytest.raises(DpuError) as e:
        gather(request(detail="scenario_z"))
    assert e.value.text() == (
        "error[E501]: --detail scenario_z: no DPU has a cost in such a scenario\n  try: one of scenario_a, scenario_b"
    )
    with pytest.raises(DpuError) as e:
        gather(request(archs=("dpu_f2",), economics=("scenario_committed",)))
    assert e.value.text() == (
        "error[E525]: --arch: no DPU has a cost in any scenario: fpga f2_6xlarge: field 'rental.committed': is missing,"
        " allowed: 0 or more USD/h\n  try: see dpubench gate"
    )


def test_every_unmet_condition_is_in_what_is_missing() -> None:
    f = findings()
    said = " ".join(m.what for m in f.missing)
    for x in f.detail.conditions:
        if x.status == "missing":
            assert x.name.removesuffix(" of the chip") in said
    assert len({m.what for m in f.missing}) == len(f.missing)
    assert all(m.command for m in f.missing)


# -- rooflines ---------------------------------------------------------------------------------------------------------


def workload(folder: Path) -> Path:
    """A UNet of 1,000 MACs and 30 bytes (10 of them weights) a sample, in two samples a step; a VAE decoder."""
    part = {"runs": 2, "weight_bytes": 10, "classes": {"linear": {"macs": 1000, "bytes": 30}}}
    vae = {"runs": 1, "weight_bytes": 4, "classes": {"convolution": {"macs": 600, "bytes": 12}}}
    parts = [{"name": "unet", "macs": 1000, **part}, {"name": "vae_decoder", "macs": 600, **vae}]
    file = folder / "work.json"
    file.write_text(json.dumps({"steps": 20, "parts": parts}))
    return file


def measured(folder: Path, stand_in: str = "") -> Path:
    device = DeviceIdentity(target="gpu", name="a GPU", marks=GPU, stand_in=stand_in)
    found = {"step.ort:all.b2.latency": 4.0, "step.ort:none.b2.latency": 8.0}
    found["images.torch:regional.n1.20steps.vae_decoder"] = 3.0
    (folder / "gpu").mkdir()
    file = folder / "gpu" / "h200.json"
    write_measurements(file, [Measurement.of(k, "s", (v,), device, command="a test") for k, v in found.items()])
    return file


def test_points_of_the_gpu_by_hand(tmp_path: Path) -> None:
    r = roofs.gpu(measured(tmp_path), workload(tmp_path))
    assert isinstance(r, roofs.Roofline)
    (unet,) = r.series["ONNX Runtime"]
    # two samples: activations (30 - 10) twice, weights once; the faster of two engines
    assert (unet.x, unet.y, unet.provenance) == (2000 / 50, 2000 / 4.0, Provenance.MEASURED)
    (vae,) = r.series["torch.compile"]
    assert (vae.x, vae.y) == (600 / 12, 600 / 3.0)
    (whole,) = r.series["MLPerf's best, whole images"]
    assert whole.y == pytest.approx(2.398625 * (2 * 1000 + 600)) and whole.provenance is Provenance.PUBLISHED
    assert {(x.name, x.rate) for x in r.roofs} == {("fp16 peak", 494.5e12), ("fp8 peak", 989.5e12), ("memory", 4.8e12)}


def test_a_stand_in_measures_nothing(tmp_path: Path) -> None:
    r = roofs.gpu(measured(tmp_path, "the CPU"), workload(tmp_path))
    assert isinstance(r, roofs.Roofline)
    assert {p.provenance for k, v in r.series.items() if "MLPerf" not in k for p in v} == {Provenance.SIMULATED}


def test_layers_are_drawn_where_they_were_timed(tmp_path: Path) -> None:
    file, work = measured(tmp_path), workload(tmp_path)
    point = {"name": "conv_in", "kind": "convolution", "x": 5.0, "y": 7.0, "share": 1.0}
    content = {"device": "a GPU", "macs_per_second": {}, "bytes_per_second": 1.0, "points": [point]}
    (file.parent / "roofline.json").write_text(json.dumps(content))
    r = roofs.gpu(file, work)
    assert isinstance(r, roofs.Roofline) and [(p.name, p.x, p.y) for p in r.series[roofs.LAYERS]] == [("conv_in", 5, 7)]
    (file.parent / "roofline.json").write_text("{}")
    with pytest.raises(DpuError, match=r"roofline\.json: is no roofline of dpubench gpu"):
        roofs.gpu(file, work)


def test_no_point_of_a_dpu_is_above_its_roof() -> None:
    found = [r for r in findings().dpu_roofs if isinstance(r, roofs.Roofline)]
    assert [r.device for r in found] == ["dpu_f2", "dpu_asic"]
    for r in found:
        for p in r.points:
            for f in r.roofs:
                assert p.y <= 1.02 * (f.rate * p.x if f.slanted else f.rate), (r.device, p.name, f.name)


def test_tables_of_another_arch_file_are_not_drawn() -> None:
    tables = roofs.tables(ROOT / "results" / "sim" / "tables.json")
    assert not isinstance(tables, Missing)
    old = {"dpu_f2": tables["dpu_f2"].model_copy(update={"arch_digest": "0" * 16})}
    found = roofs.dpu("dpu_f2", old)
    assert isinstance(found, Missing) and found.why.startswith(
        "the arch file has changed since (0000000000000000, now "
    )
    assert isinstance(roofs.dpu("dpu_asic", old), Missing)


def test_a_gpu_without_peaks_is_named(tmp_path: Path) -> None:
    file = measured(tmp_path).rename(tmp_path / "gpu" / "l4.json")
    assert roofs.gpu(file, workload(tmp_path)) == Missing(
        "peak rates of l4", "the GPU's roofline has no roof", "write configs/peak/l4.json"
    )


# -- frontier ----------------------------------------------------------------------------------------------------------


def made(name: str, seconds: float, usd: float) -> Made:
    a = Provenance.ASSUMED
    return Made(name, name, "gpu", seconds, usd, a, a, "a test", None)


def test_the_front_is_what_nothing_beats() -> None:
    dots = (made("a", 1, 5), made("b", 2, 6), made("c", 2, 4), made("d", 3, 4), made("e", 9, 1))
    none = Missing("x", "y", "z")
    assert [m.name for m in Frontier("s", dots, none).front] == ["a", "c", "e"]
    assert [m.name for m in Frontier("s", dots[:2], (made("v", 0.5, 0.5),)).front] == ["v"]


def test_quality_is_what_was_shown() -> None:
    c = compared("dpu_asic", "scenario_a", gpus=("h200", "tpu_v6e"))
    found = {m.name: m.quality for m in frontier([c], None, ROOT / "nowhere", "dpu_asic").made}
    assert found == {"dpu_asic": None, "h200": True, "tpu_v6e": None}
    assert {m.quality for m in frontier([c], False, ROOT, "").made if m.name == "dpu_asic"} == {False}


def test_variants_of_a_sweep(tmp_path: Path) -> None:
    row = Chip(
        arch="x",
        tiles=8,
        bits=256,
        node="7",
        images_per_second=0.5,
        die_mm2=1,
        die_yield=1,
        card_usd=1,
        nre_usd=1,
        marginal_usd=0.001,
        image_usd=0.002,
    )
    file = tmp_path / "chips.json"
    Chips(provenance="assumed", base="dpu_asic", scenario="scenario_b", volume=1, rows=(row,)).save(file, "a command")
    (one,) = variants(file, "dpu_asic", "scenario_b")  # type: ignore[misc]
    assert (one.name, one.seconds, one.usd, one.source) == ("8 tiles, 256 bits, 7 nm", 2.0, 2.0, "a command")
    other = variants(file, "dpu_asic", "scenario_a")
    assert isinstance(other, Missing)
    assert other.what == "variants of dpu_asic in scenario_a (there are those of dpu_asic in scenario_b)"
    file.write_text('{"rows": 3}')
    with pytest.raises(DpuError, match="is no table of dpubench size-chip"):
        variants(file, "dpu_asic", "scenario_b")


# -- drawing -----------------------------------------------------------------------------------------------------------


def test_labels_do_not_cover_each_other() -> None:
    points = [(0.50, 0.5), (0.53, 0.5), (0.50, 0.53), (0.1, 0.9), (0.9, 0.1)]
    found = places(points, ["first", "second", "third", "left", "right"], (1.0, 1.0))
    assert len(set(found[:3])) == 3
    assert found[3] != "middle left" or found[4] != "middle right"  # not out of the figure where there is room
    blocked = places([(0.5, 0.5)], ["word"], (1.0, 1.0), avoid=[(270, 190, 330, 230)])
    assert blocked != ["top center"] and places([(0.5, 0.5)], ["word"], (1.0, 1.0)) == ["top center"]


def test_ticks_are_readable() -> None:
    assert ticks(0.15, 4.0) == [0.2, 0.5, 1, 2]
    assert ticks(3e10, 2e15) == [1e11, 1e12, 1e13, 1e14, 1e15]
    assert log_axis("x", 900, 3e6)["ticktext"] == ["1k", "10k", "100k", "1M"]
    assert "narrow" not in figure([], 100)


def test_quantities_are_marked_by_their_weakest_input() -> None:
    q = assumed(1234.5, "W", "a guess")
    assert shown(q).startswith(
        '<span class="number">1,230 W&nbsp;<abbr class="mark assumed" title="assumed: a guess">A<'
    )
    assert "$0.5&nbsp;" in priced(assumed(0.5, "USD", "a guess"))
