"""What `dpubench gpu` says of its experiment, held to the gate's own functions; repetitions, and earlier points."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from dpu.bench import gate, gate_conditions, gpu_context
from dpu.bench.evaluate import named
from dpu.bench.gate_evidence import EXPERIMENT, Evidence, read_evidence
from dpu.bench.gpu import measure, planned
from dpu.bench.gpu_context import Bench
from dpu.bench.gpu_experiment import policy, seed_text, stated
from dpu.bench.gpu_merge import merge, repetitions
from dpu.bench.gpu_table import table
from dpu.errors import DpuError
from dpu.frontend.onnx_load import weights_digest
from dpu.frontend.sdxl import export_tiny
from dpu.frontend.tiny import tiny_configs
from dpu.measurement import DeviceIdentity, Measurement, read_measurements, write_measurements
from dpu.runtime.workload import evaluation_prompts, prompts_sha256
from dpu.simulator.economics.inputs import accelerator
from dpu.simulator.economics.workload import Workload

from tests.economics.gate_evidence_set import F2
from tests.gpu.stand_in import board, tiny_bench

WORKLOAD = Workload.model_validate(
    {
        "model": "tiny",
        "resolution": 64,
        "steps": 20,
        "scheduler": "euler",
        "guidance": 8.0,
        "parts": [{"name": "unet", "macs": 1, "runs": 40}],
    }
)


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """images-20 three times and offline-2 once, on the CPU."""
    folder = tmp_path_factory.mktemp("points")
    bench = tiny_bench(folder, least=2)
    built: list[str] = []
    bench.say = built.append
    traces = [p.read_text() for p in folder.glob("*.failed.json")]
    assert measure(bench, planned("images-20x3,offline-2", 0.01, 0.01), budget=1e6) == (4, 0), traces
    assert [line for line in built if line.endswith("building")] == [
        "torch:regional batch 2: building",  # once for three repetitions
        "torch:regional batch 4: building",
    ]
    return folder


@pytest.fixture(scope="module")
def merged(points: Path) -> Path:
    out = points.parent / "merged" / "h200.json"
    out.parent.mkdir()
    merge(points, out)
    return out


@pytest.fixture(scope="module")
def single(points: Path) -> Path:
    """images-20 alone: of several batch sizes the gate takes the fastest, which is anyone's on a CPU."""
    folder = points.parent / "single"
    folder.mkdir()
    (folder / "images-20.json").write_bytes((points / "images-20.json").read_bytes())
    merge(folder, folder / "h200.json")
    return folder / "h200.json"


def evidence(path: Path) -> Evidence:
    """As `dpubench gate` reads a file of the GPU's: its rate of whole images states the experiment."""
    empty = gate.Request(Path(), (), (), gpu=(path,), fpga=(), simulated=(), quality=())
    return gate._read(empty, WORKLOAD, identities_of_tests=True).gpu[0]


def card(folder: Path, **changes: str) -> Evidence:
    """A card's record of the same images as `images-20` of the stand-in: the two first prompts."""
    conditions = {
        "model": "tiny",
        "model_sha256": tiny_digest(folder),
        "policy": "fp32",
        "prompts_sha256": prompts_sha256(evaluation_prompts()[:2]),
        "seeds": "0-1",
        "steps": "20",
        "guidance": "8",
        "scheduler": "euler",
        "resolution": "64",
        "binary_sha256": "b" * 64,
        **changes,
    }
    path = folder / "card.json"
    write_measurements(
        path, [Measurement.of("seconds_per_image", "s", [1.0], F2, command="a test", conditions=conditions)]
    )
    return read_evidence(path, identities_of_tests=True)


_EXPORTED: dict[str, str] = {}


def tiny_digest(folder: Path) -> str:
    """The digest of the exported tiny UNet's weights, which a `.dpu` carries under `calibration.weights`."""
    if not _EXPORTED:
        export_tiny(folder / "exported", size=64, precision="fp32", parts=("unet",))
        _EXPORTED["tiny"] = weights_digest(folder / "exported" / "unet" / "model.onnx")
    return _EXPORTED["tiny"]


def test_the_gate_takes_it_for_the_same_experiment(single: Path, tmp_path: Path) -> None:
    e = evidence(single)
    found = gate_conditions.same_experiment([e], [card(tmp_path)], WORKLOAD)
    assert (found.status, found.said) == ("met", "h200.json and card.json")
    # A stand-in never counts as a measured GPU, whatever it states.
    assert not gate_conditions.counts(e, named(e.records, 20), "gpu")
    assert "simulated (the CPU)" in e.without_hardware()[0]


@pytest.mark.parametrize(
    ("key", "other", "said"),
    [
        ("prompts_sha256", prompts_sha256(evaluation_prompts()[1:3]), "prompts_sha256: '"),
        ("prompts_sha256", prompts_sha256(evaluation_prompts()[:2][::-1]), "prompts_sha256: '"),
        ("model_sha256", "d" * 64, "model_sha256: '"),
        ("policy", "w8a8", "policy: 'fp32' in h200.json, 'w8a8' in card.json"),
        ("seeds", "0-23", "seeds: '0-1' in h200.json, '0-23' in card.json"),
        ("guidance", "5", "card.json: guidance is '5', that of the workload '8.0'"),
    ],
)
def test_the_gate_refuses_another(single: Path, tmp_path: Path, key: str, other: str, said: str) -> None:
    found = gate_conditions.same_experiment([evidence(single)], [card(tmp_path, **{key: other})], WORKLOAD)
    assert found.status == "failed"
    assert found.said.startswith(said)


def test_every_record_of_images_states_the_experiment(points: Path, merged: Path) -> None:
    for path in points.glob("*.json"):
        for name, m in read_measurements(path).items():
            assert sorted(stated(m.conditions)) == sorted(EXPERIMENT), name
    two = read_measurements(merged)["images.torch:regional.n2.20steps.rate"]
    assert two.conditions["seeds"] == "0-3"
    assert two.conditions["prompts_sha256"] == prompts_sha256(evaluation_prompts()[:4])
    assert two.conditions["images a batch"] == "2"


def test_a_queue_states_it_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import dpu.bench.gpu_points as points

    monkeypatch.setattr(points, "STEPS", 1)
    assert measure(tiny_bench(tmp_path, least=2), planned("server-95", 0.01), budget=1e6) == (1, 0)
    (found,) = read_measurements(tmp_path / "server-95.json").values()
    said = stated(found.conditions)
    assert said["steps"] == "1"
    assert said["seeds"] == seed_text(range(len(found.samples)))
    assert found.conditions["load"] == "0.95"


def test_words_of_an_experiment() -> None:
    assert seed_text(range(24)) == seed_text([*range(24)] * 3) == "0-23"
    assert seed_text([7, 0, 1, 2, 9, 10]) == "0-2,7,9-10"
    assert policy("torch:regional", torch.float16) == policy("ort:all", torch.float16) == "fp16"
    assert policy("torch:regional:fp8", torch.float16) == "fp8 linears"
    assert policy("torch:regional", torch.float32) == "fp32"
    assert prompts_sha256(["a", "b"]) != prompts_sha256(["b", "a"])


def test_a_model_of_no_name_states_none(tmp_path: Path) -> None:
    bench = Bench(tmp_path, device="cpu", board=board(), configs=tiny_configs(), stand_in="the CPU")
    assert bench.model == ""
    assert Bench(tmp_path, device="cpu", board=board(), stand_in="the CPU").model == "sdxl-base-1.0"


def test_repetitions_stand_beside_the_first(points: Path, merged: Path) -> None:
    assert {p.name for p in points.iterdir()} == {
        *("images-20.json", "images-20.2.json", "images-20.3.json", "offline-2.json")
    }
    found = read_measurements(merged)
    name = "images.torch:regional.n1.20steps.rate"
    runs = repetitions(found, name)
    assert [m.name for m in runs] == [name, f"{name}.2", f"{name}.3"]
    assert [m.conditions["repetition"] for m in runs] == ["1", "2", "3"]
    # The gate and `dpubench evaluate` read first runs.
    assert named(found, 20)["images_per_second"].name in (name, "images.torch:regional.n2.20steps.rate")
    rates = [m.value for m in runs]
    page = table(merged, accelerator("h200"))
    spread = page.partition("## Spread over repetitions")[2]
    assert f"| 3 | {sum(rates) / 3:.4f} | {min(rates):.4f} to {max(rates):.4f} | " in spread
    assert f"| {sum(rates) / 3:.3f} | 3 | " in page.partition("## Whole images")[2]


def test_a_repetition_of_other_prompts_is_none(merged: Path) -> None:
    found = read_measurements(merged)
    name = "images.torch:regional.n1.20steps.rate"
    second = found[f"{name}.2"]
    found[second.name] = second.model_copy(update={"conditions": {**second.conditions, "seeds": "0-5"}})
    assert [m.name for m in repetitions(found, name)] == [name, f"{name}.3"]


def before(path: Path, device: DeviceIdentity) -> None:
    """A merged file of an earlier version: images-50 and images-20 without conditions of an experiment."""
    given: dict[str, Any] = {"command": "before", "conditions": {"images a batch": "1", "steps": "50"}}
    names = [f"images.torch:regional.n1.{n}steps.{what}" for n in (20, 50) for what in ("rate", "latency")]
    records = [Measurement.of(n, "image/s" if "rate" in n else "s", [0.5], device, **given) for n in names]
    info = {"details": {"seconds": 1.0}, "identity": {}}
    content = {
        "schema": "dpu.measurements/1",
        "manner": "as before",
        "note": "another board",
        "failed": {},
        "not run": [],
        "points": {"images-20": info, "images-50": info},
        "measurements": [m.model_dump(mode="json") for m in records],
    }
    path.write_text(json.dumps(content))


def test_earlier_points_stay_and_are_given_no_conditions(points: Path, tmp_path: Path) -> None:
    out = tmp_path / "h200.json"
    before(out, DeviceIdentity(target="gpu", name="none", stand_in="the CPU"))
    content = merge(points, out)
    found = read_measurements(out)
    assert content["note"] == "another board"
    assert content["points"]["images-50"]["experiment"] == "not stated"
    assert found["images.torch:regional.n1.50steps.rate"].conditions == {"images a batch": "1", "steps": "50"}
    assert content["points"]["images-20"]["experiment"]["seeds"] == "0-1"
    assert found["images.torch:regional.n1.20steps.rate"].command != "before"
    page = table(out, accelerator("h200"))
    assert "- `images-50`: measured before points stated it" in page
    assert "images-50" not in page.partition("## Not run")[2]
    again = merge(points, out)  # and once more, from the file that it wrote
    assert list(again["points"]) == list(content["points"])
    assert again["measurements"] == content["measurements"]


def test_points_of_another_gpu_are_not_mixed_in(points: Path, tmp_path: Path) -> None:
    out = tmp_path / "h200.json"
    before(out, DeviceIdentity(target="gpu", name="another", stand_in="the CPU"))
    with pytest.raises(DpuError) as refused:
        merge(points, out)
    assert str(refused.value).replace(str(tmp_path), "") == (
        "error[E522]: /h200.json: holds points of 'another', those here are of 'none'\n"
        "  why: one file is evidence of one kind of GPU\n"
        "  try: merge into another file"
    )


def test_the_digest_is_that_of_the_weights_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = tiny_bench(tmp_path, least=2)
    assert bench.experiment("torch:regional", [0], 20)["model_sha256"] == tiny_digest(tmp_path)
    from dpu.runtime.gpu import weights

    state = dict(bench.state("unet"))
    name = next(iter(state))
    state[name] = state[name] + 1
    assert weights.weights_sha256(state) != tiny_digest(tmp_path)
    assert gpu_context.GUIDANCE == 8.0
