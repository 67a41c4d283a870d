"""The whole way, on the tiny model: export, calibrate, compile, save, load, an image on the simulated device."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from dpu.codegen.driver import compile_folder
from dpu.errors import DpuError
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.generate import Summary, make_image
from dpu.runtime.pipeline import Request
from dpu.simulator.report import load_report


@pytest.fixture(scope="module")
def program(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny pipeline at 64x64, compiled from a short calibration."""
    folder = tmp_path_factory.mktemp("program")
    calibration, out = folder / "calib.safetensors", folder / "tiny.dpu"
    calibrate_folder(tiny_folder, calibration, prompts=2, steps=4, size=(64, 64))
    compile_folder(tiny_folder, arch="dpu_tiny", calibration=calibration, size=(64, 64), out=out)
    return out


@pytest.fixture(scope="module")
def summary(program: Path, tiny_folder: Path) -> Summary:
    request = Request("a red fox in the snow", seed=7, steps=2)
    folder = program.parent
    return make_image(
        program, "sim", request, folder / "out.png", folder / "trace.json", folder / "report", tiny_folder
    )


def test_every_forward_is_close_to_float32(summary: Summary) -> None:
    assert summary.comparison is not None
    # Two int8 operands of a product cost about 40 dB each and some 60 layers add up; below 20 dB something is broken.
    assert min(summary.comparison.teacher_forced) > 20
    assert summary.counters.nan == summary.counters.fp16_overflow == summary.input_overflows == 0


def test_the_summary_keeps_device_time_and_computer_time_apart(summary: Summary) -> None:
    # The comparison makes the image twice, and each image encodes its text and decodes its latent.
    assert summary.runs == {"time": 2, "unet": 2} | dict.fromkeys(
        ("context", "text_encoder", "text_encoder_2", "vae_decoder"), 1
    )
    assert summary.counters.runs == 2 * sum(summary.runs.values())
    assert 2 * summary.image_cycles == summary.counters.cycles  # the second image is not part of the first
    text = summary.text()
    assert "at 100 MHz, simulated)" in text
    assert "on the host      tokenizer" in text and "vae_decoder" in summary.cycles
    assert "0 float16 overflows, 0 NaN" in text


def test_trace_and_report_are_written(summary: Summary, program: Path) -> None:
    events = json.loads((program.parent / "trace.json").read_text())["traceEvents"]
    names = {e["name"] for e in events if e["ph"] == "X"}
    assert any("/conv_in/" in n for n in names)
    found = load_report(program.parent / "report")
    assert {e.entry: e.cycles for e in found.entries} == dict(summary.cycles)
    assert {p.name for p in (program.parent / "report").iterdir()} == {"report.json", "report.html", "roofline.png"}


def test_the_same_request_gives_the_same_bytes(summary: Summary, program: Path) -> None:
    assert summary.comparison is not None
    out = program.parent / "again.png"
    make_image(program, "sim", Request("a red fox in the snow", seed=7, steps=2, height=64, width=64), out)
    assert out.read_bytes() == (program.parent / "out.png").read_bytes()
    assert np.ptp(summary.comparison.found.pixels) > 50


def test_another_size_and_target_cpu_are_refused(program: Path, tmp_path: Path) -> None:
    with pytest.raises(DpuError, match="the program makes 64x64"):
        make_image(program, "sim", Request("x", height=128, width=128), tmp_path / "a.png")
    with pytest.raises(DpuError, match="holds no ONNX model of the UNet"):
        make_image(program, "cpu", Request("x"), tmp_path / "a.png")
