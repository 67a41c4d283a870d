"""`dpubench gpu` and `dpubench profile` without a GPU: points on the CPU with a stand-in, tables, counts, refusals."""

from __future__ import annotations

import json
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from dpu.bench import gpu as bench_gpu
from dpu.bench.cli import dpubench
from dpu.bench.gpu import Run, expected, measure, planned
from dpu.bench.gpu_context import Bench, arrivals, percentile
from dpu.bench.gpu_merge import merge
from dpu.bench.gpu_points import POINTS, Found, Point
from dpu.bench.gpu_roofline import GpuRoofline, overlay_png, rates, roofline
from dpu.bench.gpu_table import table
from dpu.bench.profile import Profile, profile
from dpu.errors import DpuError
from dpu.measurement import read_measurements
from dpu.runtime.gpu.requirements import Found as Machine
from dpu.simulator.economics.inputs import accelerator

from tests.gpu.stand_in import board, tiny_bench


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return tiny_bench(tmp_path_factory.mktemp("points"), least=3)


RUN = ("idle", "step-torch", "images-20", "vae", "encoders", "server-50", "layers")


@pytest.fixture(scope="module")
def merged(bench: Bench) -> Path:
    # With one step instead of 20: the CPU stands in for a GPU.
    import dpu.bench.gpu_points as points

    points.STEPS = 1
    done, failed = measure(bench, planned(",".join(RUN), 0.01), budget=1e6)
    traces = [p.read_text() for p in bench.folder.glob("*.failed.json")]
    assert (done, failed) == (len(RUN), 0), traces
    out = bench.folder.parent / "merged.json"
    merge(bench.folder, out)
    return out


def test_points_are_kept_and_hold_their_samples(bench: Bench, merged: Path) -> None:
    assert measure(bench, planned(",".join(RUN), 0.01), budget=1e6) == (0, 0)
    found = read_measurements(merged)
    step = found["step.torch:regional.b2.latency"]
    assert len(step.samples) >= 3
    assert step.unit == "s"
    whole = found["images.torch:regional.n1.20steps.rate"]
    assert (whole.conditions["steps"], whole.conditions["resolution"]) == ("20", "64")
    assert found["idle.power"].unit == "W"
    content = json.loads(merged.read_text())
    assert content["points"]["step-torch"]["details"]["relative error to eager torch"] < 1e-5
    assert content["points"]["images-20"]["details"]["throttle reasons"].keys() <= {"software power cap"}
    assert set(content["not run"]) == {p.name for p in POINTS} - set(RUN)


def test_a_stand_in_measures_nothing(merged: Path) -> None:
    assert {m.quantity().provenance.label for m in read_measurements(merged).values()} == {"simulated"}


def test_the_page_says_what_was_found(merged: Path) -> None:
    page = table(merged, accelerator("h200"), 3.6)
    assert "Provenance of every number here: simulated on none" in page
    assert "USD an image at 3.6 USD an hour (--price-per-hour)" in page
    assert "2.399 image/s a GPU, published: MLPerf Inference v5.1" in page
    rate = read_measurements(merged)["images.torch:regional.n1.20steps.rate"].value
    assert f"| {2.398625 / rate:.2f} |" in page
    assert f"| {0.001 / rate:.6f} |" in page
    assert "- `step-ort`" in page.partition("## Not run")[2]


def test_a_point_that_fails_leaves_the_others(bench: Bench, tmp_path: Path) -> None:
    def fails(_: Bench) -> Found:
        raise RuntimeError("CUDA error: out of memory")

    good = Point("idle", "x", 1, lambda b: Found([b.record("idle.power", "W", [70.0])]))
    lines: list[str] = []
    other = Bench(tmp_path / "f", device="cpu", board=board(), stand_in="the CPU", say=lines.append)
    long = Point("encoders", "x", 1e9, fails, "torch:regional batch 2", 1.0)
    runs = [Run(p) for p in (Point("vae", "x", 1, fails), good, long)]
    assert measure(other, runs, budget=100) == (1, 1)
    assert lines[0] == "vae: FAILED: CUDA error: out of memory"
    assert lines[2].startswith("encoders: not begun, ")
    assert measure(other, runs, budget=100, skip_failed=True) == (0, 0)
    assert lines[3:5] == ["vae: failed before, left out", "idle: kept"]
    found = merge(tmp_path / "f", tmp_path / "m.json")
    assert found["failed"] == {"vae": "RuntimeError: CUDA error: out of memory"}
    assert "- `vae`: RuntimeError: CUDA error: out of memory" in table(tmp_path / "m.json", accelerator("h200"))


def test_a_gpu_that_is_lost_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Bench) -> Found:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    def lost(_: Bench) -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    lines: list[str] = []
    bench = Bench(tmp_path, device="cpu", board=board(), stand_in="the CPU", say=lines.append)
    monkeypatch.setattr(Bench, "synchronise", lost)
    assert measure(bench, [Run(Point("vae", "x", 1, fails)), Run(Point("idle", "x", 1, fails))], budget=100) == (0, 1)
    assert lines[1:] == ["the GPU takes no more work in this process: start it again for the other points"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["vae.failed.json"]


def test_points_by_name() -> None:
    assert [r.point for r in planned("all")] == list(POINTS)
    assert [r.name for r in planned("server-*,idle")] == ["server-80", "server-50", "server-95", "idle"]
    assert len({p.name for p in POINTS}) == len(POINTS)
    with pytest.raises(DpuError, match="there is no 'nosuch'"):
        planned("idle,nosuch")
    with pytest.raises(DpuError, match="there is no 'idlex0'"):
        planned("idlex0")


def test_repetitions_and_windows_of_a_plan() -> None:
    runs = planned("offline-2x3,idle,server-*@40,offline-2", 60, 20)
    found = [(r.name, r.window) for r in runs]
    assert found[:3] == [("offline-2", 60), ("offline-2.2", 20), ("offline-2.3", 20)]
    assert found[3:] == [("idle", 60), ("server-80", 40), ("server-50", 40), ("server-95", 40)]
    first, second, third, *_ = expected(runs)
    point = runs[0].point
    assert point.least > 20  # seconds that all prompts take: no window is shorter
    assert first - second == pytest.approx(60 - point.least + point.build + 30)  # the engine is there, and the VAE
    assert second == third


def test_percentiles_and_arrivals() -> None:
    samples = [float(i) for i in range(1, 101)]
    assert [percentile(samples, p) for p in (50, 90, 99)] == [50.0, 90.0, 99.0]
    assert percentile([1.0], 99) == 1.0
    times = arrivals(10.0, 1000.0, seed=1)
    assert times == sorted(times) == arrivals(10.0, 1000.0, seed=1)
    assert len(times) == pytest.approx(10_000, rel=0.05)
    gaps = [b - a for a, b in pairwise(times)]
    assert sum(g > 0.1 for g in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.03)  # exp(-1), as of a Poisson process


def test_roofline(bench: Bench, merged: Path) -> None:
    seconds = json.loads(merged.read_text())["points"]["layers"]["details"]["layers"]
    assert seconds["conv_in"] > 0
    attained = {k: max(v) for k, (_, v) in rates(bench).items()}
    unet = profile(layers=True).parts[2]
    times = {layer.name: 1e-3 for layer in unet.layers}
    found = roofline("H200", attained, times, unet)
    assert len(found.points) == len(unet.layers)
    assert sum(p.share for p in found.points) == pytest.approx(1)
    first = next(p for p in found.points if p.name == "conv_in")
    layer = next(x for x in unet.layers if x.name == "conv_in")
    assert first.y == pytest.approx(2 * layer.macs / 1e-3)
    assert GpuRoofline.model_validate_json(found.model_dump_json()) == found
    assert overlay_png(found).startswith(b"\x89PNG")


def test_profile_counts_sdxl() -> None:
    found = profile(1024, 20)
    macs = {p.name: p.macs for p in found.parts}
    assert macs["unet"] == 3_380_618_199_040
    assert macs["vae_decoder"] == 5_235_196_297_216
    assert {p.name: p.runs for p in found.parts} == {
        "text_encoder": 2,
        "text_encoder_2": 2,
        "unet": 40,
        "vae_decoder": 1,
    }
    assert round(found.macs / 1e12, 2) == 140.57
    unet = found.parts[2]
    assert {k: unet.classes[k].operations for k in ("linear", "convolution", "attention")} == {
        "linear": 743,
        "convolution": 51,
        "attention": 140,
    }
    assert unet.weight_bytes == 2 * 2_567_463_684 + 0  # parameters of the published config, in float16
    assert unet.layers == ()
    assert sum(x.macs for x in profile(layers=True).parts[2].layers) == unet.macs
    assert Profile.model_validate_json(found.model_dump_json()) == found
    assert profile(1024, 30, 1.0).parts[2].runs == 30


def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *line: str) -> tuple[int, str, str]:
    monkeypatch.setattr(sys, "argv", ["dpubench", *line])
    with pytest.raises(SystemExit) as stop:
        dpubench.main()
    out, err = capsys.readouterr()
    return int(stop.value.code or 0), out, err


def test_without_a_gpu_the_command_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    import dpu.runtime.gpu.requirements as requirements

    monkeypatch.setattr(requirements, "probe", lambda: Machine(False, "2.13.0+cpu", 0, "1.32.0", False, False))
    code, _, err = run(monkeypatch, capsys, "gpu", "-o", str(tmp_path / "points"))
    assert code == 2
    assert err == (
        "error[E431]: dpubench gpu: not here: an NVIDIA driver, a CUDA device in torch 2.13.0+cpu, "
        "the package nvidia-ml-py\n"
        "  why: the GPU path runs on an NVIDIA GPU only\n"
        "  try: a machine with an NVIDIA GPU and its driver; a CUDA build of torch 2.11 or newer; "
        "pip install 'dpu[gpu]'; --target cpu runs the reference anywhere\n"
    )
    assert not (tmp_path / "points").exists()


def test_the_commands(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out = tmp_path / "sdxl.json"
    code, text, _ = run(monkeypatch, capsys, "profile", "--output", str(out))
    assert code == 0
    assert text.startswith("one image 1024x1024, 20 steps, guidance 8: 140.57 TMAC (counted from the graphs)\n")
    assert json.loads(out.read_text())["parts"][2]["macs"] == 3_380_618_199_040
    code, _, err = run(monkeypatch, capsys, "profile", "--resolution", "1000")
    assert code == 2
    assert err == "error[E501]: --resolution: 1000 is no size of SDXL\n  try: a multiple of 32, such as 1024\n"
    code, _, err = run(monkeypatch, capsys, "gpu", "-o", str(tmp_path), "--merge", str(tmp_path / "m.json"))
    assert code == 2
    assert err == f"error[E106]: {tmp_path}: holds no points\n  try: dpubench gpu --output DIR measures them\n"
    assert bench_gpu.MANNER.startswith("as MLPerf does")
