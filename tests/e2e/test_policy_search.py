"""`dpubench sensitivity` and `policy-search` on a whole pipeline: noises, costs, a policy that the compiler takes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.bench.quality import search_run, sensitivity, sensitivity_trials
from dpu.bench.quality.search_cost import Costs
from dpu.bench.quality.sensitivity_model import PARTS, FakePipeline, resolved
from dpu.bench.quality.sensitivity_trials import Place
from dpu.bench.quality.speed import time_policy
from dpu.codegen.driver import Compiled, compile_folder
from dpu.codegen.estimate import Workload
from dpu.codegen.precisions import layers as compiled_layers
from dpu.errors import DpuError
from dpu.files import sha256
from dpu.ir.arch import load_arch
from dpu.passes.policy import Policy, Precision, Rule, named_policy
from dpu.runtime.pipeline import Pipeline, Request
from dpu.runtime.pipeline_files import FolderFiles
from dpu.runtime.unets import OnnxUnet
from dpu.simulator.economics.workload import runs_of

from tests.e2e.conftest import SIZE

STEPS = 2
WHERE = ("a cat", STEPS, 0, 5.0)


@pytest.fixture(scope="module")
def pipeline(tiny_folder: Path, calibration: Path) -> FakePipeline:
    return FakePipeline(tiny_folder, calibration, SIZE[0])


def place(folder: Path, calibration: Path, *prompts: str) -> Place:
    return Place(
        export=str(folder),
        calibration=str(calibration),
        unet_sha256=sha256(folder / "unet" / "model.onnx"),
        calibration_sha256=sha256(calibration),
        size=SIZE[0],
        guidance=5,
        steps=STEPS,
        seed=0,
        prompts=prompts,
    )


def test_without_quantised_layers_the_picture_is_the_reference_s(pipeline: FakePipeline, tiny_folder: Path) -> None:
    files = FolderFiles(tiny_folder)
    wanted = Pipeline(files).generate(Request("a cat", steps=STEPS, height=SIZE[0], width=SIZE[1]), OnnxUnet(files))
    found, latents = pipeline.picture(*WHERE, {})
    assert np.abs(found - wanted.pixels / 255).max() < 0.51 / 255 + 1e-3
    assert np.allclose(latents, wanted.latents, atol=1e-3)


def test_only_what_is_asked_for_is_quantised_and_pictures_repeat(pipeline: FakePipeline) -> None:
    clean, latents = pipeline.picture(*WHERE, {})
    vae = {x.key: Precision() for x in pipeline.layers if x.part == "vae_decoder"}
    picture, same = pipeline.picture(*WHERE, vae)
    assert np.array_equal(latents, same) and not np.array_equal(clean, picture)
    everything = resolved(named_policy("w8a8"), pipeline.layers)
    coarse, noisy = pipeline.picture(*WHERE, everything)
    _, less = pipeline.picture(*WHERE, resolved(named_policy("w8a16"), pipeline.layers))
    assert np.sum((noisy - latents) ** 2) > np.sum((less - latents) ** 2) > 0
    again, _ = pipeline.picture(*WHERE, everything)
    assert np.array_equal(coarse, again)
    assert np.array_equal(pipeline.picture(*WHERE, {})[0], clean)


def test_layers_are_those_of_the_compiled_program(pipeline: FakePipeline, compiled: Compiled) -> None:
    """Linears that share an operation of the program are one unit."""
    for part in PARTS:
        units = {x.unit for x in pipeline.layers if x.part == part}
        assert len(units) == sum(x.part == part for x in compiled_layers(compiled.program)), part


def test_costs_are_the_estimate_s_and_units_add_up_to_them(pipeline: FakePipeline, tiny_folder: Path) -> None:
    arch = load_arch("dpu_tiny")
    costs = Costs(tiny_folder, arch, SIZE[0], 20, pipeline.layers)
    for name in ("w8a8", "w8a16"):
        policy = named_policy(name)
        entries = Workload(tiny_folder, SIZE, policy=policy).estimate(arch)
        wanted = sum(e.cycles * runs_of(e.entry, 20) for e in entries)
        assert costs.image(policy).cycles == wanted
        units = costs.by_unit(policy.default)
        assert sum(c.cycles for c in units.values()) == wanted
        assert sum(c.dram_bytes for c in units.values()) == costs.image(policy).dram_bytes
        assert set(units) == {(x.part, x.unit) for x in pipeline.layers}
    one = Policy(name="one", rules=(Rule(layers="/conv_in/Conv", activations=16),))
    more = costs.image(one).cycles - costs.image(named_policy("w8a8")).cycles
    added = (costs.by_unit(Precision(activations=16)), costs.by_unit(Precision()))
    unit = next(x.unit for x in pipeline.layers if "/conv_in/Conv" in x.names)
    alone = added[0]["unet", unit].cycles - added[1]["unet", unit].cycles
    assert more == pytest.approx(alone, rel=0.1)  # what follows starts a little earlier or later


def test_a_search_finds_a_policy_that_compiles(
    pipeline: FakePipeline, tiny_folder: Path, calibration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def opened(*_: Any) -> tuple[Place, FakePipeline]:
        return place(tiny_folder, calibration, "a cat"), pipeline

    class Seen:
        combination = None  # as "a cat" is no caption: every picture is right

    monkeypatch.setattr(search_run, "opened", opened)
    monkeypatch.setattr(search_run, "place_of", lambda *_: place(tiny_folder, calibration, "a cat"))
    monkeypatch.setattr(sensitivity_trials, "pipeline_of", lambda _: pipeline)
    monkeypatch.setattr("dpu.bench.quality.search_forward.pipeline_of", lambda _: pipeline)
    monkeypatch.setattr("dpu.bench.quality.search_forward.INPUTS", 1)
    monkeypatch.setattr(sensitivity_trials, "_judge", lambda _: None)
    monkeypatch.setattr("dpu.bench.train.judge.look", lambda *_: [Seen()])
    request = search_run.Request(
        tmp_path, tmp_path, "found", "a test", arch="dpu_f2", prompts=1, ranking=1, steps=STEPS
    )
    found, policy = search_run.search(request)
    base = next(t for t in found.uniform if t.name == "w8a8")
    best = found.found[0].tried
    assert best is not None and best.cycles <= base.cycles and best.right == 1
    timed = [time_policy(tiny_folder, p, "dpu_f2", SIZE[0]) for p in (named_policy("w8a8"), policy)]
    w8a8, own = (sum(e.cycles * runs_of(e.entry, STEPS) for e in t.entries) for t in timed)
    assert (base.simulated_cycles, best.simulated_cycles) == (w8a8, own) and own <= w8a8
    assert [t.place for t in found.tried] == sorted(t.place for t in found.tried)
    assert (policy.name, policy.digest, policy.description) == ("found", best.digest, "Found by: a test")
    assert found.found[0].beats_w8a8 is not True  # one prompt has no interval
    nearly = best.psnr_db or 0
    again, floor = search_run.search(
        search_run.Request(**{**request.__dict__, "floor_psnr": nearly - 3, "name": "floor"})
    )
    cheapest = again.found[0].tried
    assert cheapest is not None and (cheapest.psnr_db or 0) >= nearly - 3 and cheapest.cycles <= best.cycles
    with pytest.raises(DpuError) as e:
        search_run.search(search_run.Request(**{**request.__dict__, "floor_psnr": 99.0}))
    assert str(e.value) == (
        "error[E501]: policy-search: no policy that was tried is the cheapest above the floor\n"
        f"  why: the best of {again.path} on the greedy path is below it\n  try: lower the floor"
    )
    out = compile_folder(tiny_folder, arch="dpu_tiny", calibration=calibration, size=SIZE, precision=floor)
    wanted = resolved(floor, pipeline.layers)
    has = [x for x in compiled_layers(out.program) if x.kind == "conv"]
    assert has and all(x.activations == wanted[x.part, _name(pipeline, x.part, x.nodes)].activation_bits for x in has)


def _name(pipeline: FakePipeline, part: str, nodes: tuple[str, ...]) -> str:
    node = next(n for n in nodes if n.endswith("/Conv"))
    return next(x.name for x in pipeline.layers if x.part == part and node in x.names)


def test_sensitivity_ranks_a_whole_pipeline(
    pipeline: FakePipeline, tiny_folder: Path, calibration: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "opened", lambda *_: (place(tiny_folder, calibration, "a cat"), pipeline))
    monkeypatch.setattr(sensitivity_trials, "pipeline_of", lambda _: pipeline)
    found = sensitivity.measure(tmp_path, tmp_path, "a test", prompts=1, steps=STEPS)
    layers = found.of("layer")
    assert len(layers) == len(pipeline.layers)
    shares = [r.share or 0 for r in layers]
    assert shares == sorted(shares, reverse=True) and sum(shares) == pytest.approx(1, abs=1e-3)
    (everything,) = found.of("all")
    # Errors of single layers are nearly independent; 3 dB are for what they do to each other.
    assert everything.psnr_db == pytest.approx(found.sum_psnr_db, abs=3)
    out = tmp_path / "found.json"
    found.save(out)
    assert sensitivity.Sensitivity.model_validate_json(out.read_text()) == found
