"""Calibration: right maxima, one file, and an interrupted run that continues."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from dpu.errors import DpuError
from dpu.ir.dialects import parse_module
from dpu.passes.calibration import FORMAT, load_calibration
from dpu.runtime.calibrate import (
    RECORDS,
    FewSteps,
    _save,
    calibrate,
    calibrate_folder,
    evenly,
    first_of,
    read_captions,
)
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.pipeline import Pipeline, Request
from dpu.runtime.pipeline_files import FolderFiles
from dpu.runtime.statistics import Statistics

ATTENTION = """builtin.module { func.func @unet(%q: tensor<2x3x4xf32>, %v: tensor<2x5x4xf32>) -> tensor<2x3x4xf32> {
  %y = dpu.attention %q, %v, %v heads 1 : i64 scale 0.5 : f64 key_block 64 : i64 prob_bits 8 : i64 :
    tensor<2x3x4xf32>, tensor<2x5x4xf32>, tensor<2x5x4xf32> -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32> } }"""

CONV = """builtin.module { func.func @unet(%x: tensor<2x64x4xf32> {dpu.name = "sample"}) ->
    (tensor<2x64x4xf32> {dpu.name = "out_sample"}) {
  %w = dpu.param "w" : tensor<4x4x3x3xf32>
  %y = dpu.conv %x, %w size 8 x 8 stride 1 {pad = array<i64: 1, 1, 1, 1>} :
    tensor<2x64x4xf32>, tensor<4x4x3x3xf32> -> tensor<2x64x4xf32>
  func.return %y : tensor<2x64x4xf32> } }"""


class Store:
    def get(self, source: str, transform: Sequence[str] = ()) -> np.ndarray:
        return np.full((4, 4, 3, 3), 0.01, np.float16)


def test_statistics_of_attention_over_two_runs() -> None:
    module = parse_module(ATTENTION)
    statistics, run = Statistics(module), FloatInterpreter(module, Store())
    rng = np.random.default_rng(0)
    qs, vs = rng.standard_normal((2, 2, 3, 4)), rng.standard_normal((2, 2, 5, 4)) + np.array([5, 0, -3, 0])
    outputs = []
    for q, v in zip(qs, vs, strict=True):
        feed = {"q": q, "v": v}
        outputs += run.run("unet", feed, statistics.results, statistics.operands).values()
    t = statistics.tensors
    key = "unet/dpu.attention"
    np.testing.assert_allclose(t[f"{key}:q:channel_absmax"], np.abs(qs).max((0, 1, 2)), rtol=1e-6)
    np.testing.assert_allclose(t[f"{key}:v:mean"], vs.mean((0, 1, 2)), rtol=1e-5)
    centred = np.abs(vs - vs.mean(2, keepdims=True)).max((0, 1, 2))
    np.testing.assert_allclose(t[f"{key}:v:centred_absmax"], centred, rtol=1e-5)
    assert t[f"{key}:y:absmax"] == pytest.approx(max(np.abs(y).max() for y in outputs))


LINEARS = """builtin.module { func.func @unet(%x: tensor<2x3x4xf32>, %z: tensor<2x3x2xf32>) -> tensor<2x3x4xf32> {
  %w = dpu.param "w" : tensor<4x4xf32>
  %m = dpu.param "m" : tensor<6x4xf32>
  %a = dpu.linear %x, %w : tensor<2x3x4xf32>, tensor<4x4xf32> -> tensor<2x3x4xf32>
  %b = dpu.linear %x, %w : tensor<2x3x4xf32>, tensor<4x4xf32> -> tensor<2x3x4xf32>
  %y = dpu.linear %x concat %z : tensor<2x3x2xf32>, %m : tensor<2x3x4xf32>, tensor<6x4xf32> -> tensor<2x3x4xf32>
  func.return %y : tensor<2x3x4xf32> } }"""


def test_gram_matrices_of_linears_over_two_runs(tmp_path: Path) -> None:
    """One for all linears that read the same, one over both sources; they are read from the file one by one."""

    class Ones:
        def get(self, source: str, transform: Sequence[str] = ()) -> np.ndarray:
            return np.ones((4, 4) if source == "w" else (6, 4), np.float16)

    module = parse_module(LINEARS)
    statistics, run = Statistics(module, grams=True), FloatInterpreter(module, Ones())
    rng = np.random.default_rng(0)
    xs, zs = rng.standard_normal((2, 2, 3, 4)), rng.standard_normal((2, 2, 3, 2))
    for x, z in zip(xs, zs, strict=True):
        run.run("unet", {"x": x, "z": z}, observe_inputs=statistics.operands)
    grams = {k: v for k, v in statistics.tensors.items() if k.endswith(":gram")}
    assert list(grams) == ["unet/dpu.linear:x:gram", "unet/dpu.linear#3:x:gram"]
    rows, both = xs.reshape(-1, 4), np.concatenate([xs, zs], axis=-1).reshape(-1, 6)
    np.testing.assert_allclose(grams["unet/dpu.linear:x:gram"], rows.T @ rows, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(grams["unet/dpu.linear#3:x:gram"], both.T @ both, rtol=1e-5, atol=1e-5)
    _save(tmp_path / "c.safetensors", statistics.tensors, {"format": FORMAT})
    found = load_calibration(tmp_path / "c.safetensors")
    assert not [k for k in found.tensors if k.endswith("gram")]
    read = found.gram("unet/dpu.linear:x")
    assert read is not None and np.array_equal(read(), grams["unet/dpu.linear:x:gram"])
    assert found.gram("unet/dpu.linear#2:x") is None
    assert not [k for k in Statistics(module).tensors if "gram" in k]


SQUARE = """builtin.module { func.func @unet(%x: tensor<2x64x4xf32> {dpu.name = "sample"}) ->
    (tensor<2x64x4xf32> {dpu.name = "out_sample"}) {
  %w = dpu.param "w" : tensor<4x4xf32>
  %y = dpu.linear %x, %w : tensor<2x64x4xf32>, tensor<4x4xf32> -> tensor<2x64x4xf32>
  func.return %y : tensor<2x64x4xf32> } }"""


def test_gram_matrices_survive_an_interruption(tiny_folder: Path, tmp_path: Path) -> None:
    class Small:
        def get(self, source: str, transform: Sequence[str] = ()) -> np.ndarray:
            return np.full((4, 4), 0.01, np.float16)

    def run(name: str, stop_after: int = 0) -> Path:
        def stop(done: int, total: int) -> None:
            if done == stop_after:
                raise KeyboardInterrupt

        files, out = FolderFiles(tiny_folder), tmp_path / name
        options: dict[str, Any] = {"size": (64, 64), "progress": stop, "grams": True}
        calibrate(Pipeline(files), parse_module(SQUARE), Small(), out, ["a cat"], 3, **options)
        return out

    whole = run("whole.safetensors")
    with pytest.raises(KeyboardInterrupt):
        run("cut.safetensors", stop_after=2)
    assert run("cut.safetensors").read_bytes() == whole.read_bytes()
    assert load_calibration(whole).gram("unet/dpu.linear:x") is not None


def test_an_interrupted_run_continues_and_gives_the_same_file(tiny_folder: Path, tmp_path: Path) -> None:
    pipeline, module, store = Pipeline(FolderFiles(tiny_folder)), parse_module(CONV), Store()
    options: dict[str, Any] = {"prompts": ["a cat", "a dog"], "steps": 2, "size": (64, 64), "model_digest": "abc"}
    calibrate(pipeline, module, store, tmp_path / "whole.safetensors", **options)

    def stop(done: int, total: int) -> None:
        assert total == 4
        if done == 3:
            raise KeyboardInterrupt

    out = tmp_path / "calib.safetensors"
    with pytest.raises(KeyboardInterrupt):
        calibrate(pipeline, module, store, out, **options, progress=stop)
    assert not out.exists()
    seen: list[int] = []
    calibrate(pipeline, module, store, out, **options, progress=lambda done, _: seen.append(done))
    assert seen == [4]  # the first prompt and one step of the second were kept
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    assert {p.name for p in tmp_path.iterdir()} == {"whole.safetensors", "calib.safetensors"}

    found = load_calibration(out)
    assert found.info["size"] == "64x64"
    assert found.info["model"] == "abc"
    assert found.absmax("unet/dpu.conv:x") == found.channel_absmax("unet/dpu.conv:x").max() > 1
    assert found.absmax("unet/dpu.conv:y") > 0
    assert "unet/dpu.conv:x" in found
    with pytest.raises(DpuError, match="no statistic 'channel_absmax' for 'nothing:x'"):
        found.channel_absmax("nothing:x")


def test_sums_of_what_runs_once_an_image_survive_an_interruption(tiny_folder: Path, tmp_path: Path) -> None:
    """Continued inside a prompt, the function of the conditioning runs again and is not counted again."""
    files = FolderFiles(tiny_folder)
    text = Pipeline(files).encode(Request("a cat", steps=3, height=64, width=64)).inputs()["encoder_hidden_states"]
    b, t, c = text.shape
    both = (
        CONV.removesuffix(" }")
        + f"""
      func.func @context(%e: tensor<{b}x{t}x{c}xf32> {{dpu.name = "encoder_hidden_states"}}) ->
          (tensor<{b}x{t}x4xf32> {{dpu.name = "k"}}) {{
        %w = dpu.param "m" : tensor<{c}x4xf32>
        %k = dpu.linear %e, %w : tensor<{b}x{t}x{c}xf32>, tensor<{c}x4xf32> -> tensor<{b}x{t}x4xf32>
        func.return %k : tensor<{b}x{t}x4xf32> }} }}"""
    )

    class Two(Store):
        def get(self, source: str, transform: Sequence[str] = ()) -> np.ndarray:
            return np.ones((c, 4), np.float16) if source == "m" else super().get(source)

    def run(name: str, stop_after: int = 0) -> Path:
        def stop(done: int, total: int) -> None:
            if done == stop_after:
                raise KeyboardInterrupt

        out = tmp_path / name
        options: dict[str, Any] = {"size": (64, 64), "progress": stop, "grams": True}
        calibrate(Pipeline(files), parse_module(both), Two(), out, ["a cat", "a dog"], 3, **options)
        return out

    whole = run("whole.safetensors")
    for done in (2, 4):
        with pytest.raises(KeyboardInterrupt):
            run("cut.safetensors", stop_after=done)
    assert run("cut.safetensors").read_bytes() == whole.read_bytes()
    found = load_calibration(whole).tensors
    assert found["context/dpu.linear:x:counts"].sum() == 2 * text.size
    assert found["unet/dpu.conv:x:counts"].sum() == 6 * 2 * 64 * 4
    assert found["context/dpu.linear:x:channel_square.count"] == 2


def test_a_partial_file_of_another_version_is_not_continued(tiny_folder: Path, tmp_path: Path) -> None:
    pipeline, module, out = Pipeline(FolderFiles(tiny_folder)), parse_module(CONV), tmp_path / "c.safetensors"
    options: dict[str, Any] = {"prompts": ["a cat"], "steps": 2, "size": (64, 64)}

    def stop(done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrate(pipeline, module, Store(), out, **options, progress=stop)
    partial = tmp_path / ".c.safetensors.partial"
    kept = load_calibration(partial)
    assert kept.info["records"] == RECORDS
    _save(partial, kept.tensors, {k: v for k, v in kept.info.items() if k != "records"})
    seen: list[int] = []
    calibrate(pipeline, module, Store(), out, **options, progress=lambda done, _: seen.append(done))
    assert seen == [1, 2]
    assert "records" not in load_calibration(out).info  # programs carry it: equal statistics, equal programs


def test_captions_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "captions.txt"
    file.write_text("a red square\n\n  a blue circle \n", encoding="utf-8")
    assert read_captions(file) == ["a red square", "a blue circle"]
    assert first_of(read_captions(file), 1) == ["a red square"]
    with pytest.raises(DpuError) as e:
        first_of(read_captions(file), 3)
    assert e.value.text().splitlines()[0] == "error[E501]: --prompts: 3 is not between 1 and 2"
    file.write_text("\n")
    hint = "  try: one caption a line, as the model was trained on"
    with pytest.raises(DpuError) as e:
        read_captions(file)
    assert e.value.text().splitlines() == [f"error[E501]: --captions {file}: holds no caption", hint]
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(DpuError) as e:
        read_captions(file)
    assert e.value.text().splitlines() == [
        f"error[E501]: --captions {file}: not a readable text file (no UTF-8)",
        hint,
    ]


def test_bad_files_are_refused(tmp_path: Path) -> None:
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(b"no")
    with pytest.raises(DpuError, match="not a readable calibration file"):
        load_calibration(bad)
    with pytest.raises(DpuError, match="not a readable calibration file"):
        load_calibration(tmp_path / "absent")


def test_a_few_steps_are_timesteps_of_the_long_schedule(tiny_folder: Path) -> None:
    files = FolderFiles(tiny_folder)
    long, few = Pipeline(files).scheduler(20), FewSteps(files, 20).scheduler(5)
    chosen = [0, 5, 10, 14, 19]
    assert evenly(20, 5) == chosen
    assert few.timesteps.tolist() == [long.timesteps[i].item() for i in chosen]
    assert few.sigmas.tolist() == [*(long.sigmas[i].item() for i in chosen), 0.0]
    assert few.init_noise_sigma == long.init_noise_sigma
    assert Pipeline(files).scheduler(5).timesteps[0] < long.timesteps[0]  # why a schedule of 5 would not do
    assert evenly(20, 20) == list(range(20))
    assert evenly(20, 1) == [0]
    with pytest.raises(DpuError, match=r"--of-steps: 21 steps cannot be chosen from 20"):
        FewSteps(files, 20).scheduler(21)


def test_a_scheduler_without_chosen_timesteps_is_refused(tiny_folder: Path, tmp_path: Path) -> None:
    import json
    import shutil

    folder = tmp_path / "tiny"
    shutil.copytree(tiny_folder, folder)
    config = folder / "scheduler" / "scheduler_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "use_karras_sigmas": True}))
    with pytest.raises(DpuError, match="EulerDiscreteScheduler takes no chosen timesteps"):
        FewSteps(FolderFiles(folder), 20).scheduler(5)


def test_few_steps_continue_and_the_file_says_what_they_are_of(tiny_folder: Path, tmp_path: Path) -> None:
    def run(name: str, stop_after: int = 0) -> Path:
        def stop(done: int, total: int) -> None:
            if done == stop_after:
                raise KeyboardInterrupt

        calibrate(
            FewSteps(FolderFiles(tiny_folder), 20),
            parse_module(CONV),
            Store(),
            tmp_path / name,
            ["a cat"],
            3,
            size=(64, 64),
            of_steps=20,
            progress=stop,
        )
        return tmp_path / name

    whole = run("whole.safetensors")
    with pytest.raises(KeyboardInterrupt):
        run("cut.safetensors", stop_after=1)
    assert run("cut.safetensors").read_bytes() == whole.read_bytes()
    info = load_calibration(whole).info
    assert (info["steps"], info["of_steps"]) == ("3", "20")
    assert "device" not in info


def test_a_missing_gpu_is_named_before_the_work(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DpuError, match=r"--device: no device 'tpu'"):
        calibrate_folder(tiny_folder, tmp_path / "c.safetensors", device="tpu")
    with pytest.raises(DpuError, match=r"--of-steps: 20 steps cannot be chosen from 4"):
        calibrate_folder(tiny_folder, tmp_path / "c.safetensors", of_steps=4)
    if not torch.cuda.is_available():
        with pytest.raises(DpuError, match=r"--device cuda: PyTorch sees no CUDA GPU"):
            calibrate_folder(tiny_folder, tmp_path / "c.safetensors", device="cuda")
    assert not list(tmp_path.iterdir())
