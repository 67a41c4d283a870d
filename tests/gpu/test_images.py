"""`dpurun --target gpu`: the images of the reference, here with the engines on the CPU; and its refusals."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
import torch
from dpu.errors import DpuError
from dpu.frontend.sdxl import export_tiny
from dpu.frontend.tiny import build_tiny
from dpu.runtime.cli import dpurun
from dpu.runtime.gpu import images, ort_engine
from dpu.runtime.gpu.images import make_image_on_gpu, make_on_gpu
from dpu.runtime.gpu.requirements import Found
from dpu.runtime.gpu.weights import find, stored
from dpu.runtime.pipeline import Request
from dpu.runtime.pipeline_files import FolderFiles


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("gpu") / "tiny"
    export_tiny(out, size=64, parts=())  # weights and configs: target gpu reads no graph of the folder
    return out


@pytest.fixture(scope="module")
def expected(folder: Path) -> np.ndarray:
    """What diffusers makes of the stored float16 weights in float32."""
    pipeline = build_tiny()
    for name in ("text_encoder", "text_encoder_2", "unet", "vae"):
        module = getattr(pipeline, name)
        state = stored(folder, name)
        module.load_state_dict({n: find(state, n).float() for n in module.state_dict()})
    made = pipeline(
        prompt=REQUEST.prompt,
        num_inference_steps=REQUEST.steps,
        guidance_scale=REQUEST.guidance,
        height=64,
        width=64,
        generator=torch.Generator("cpu").manual_seed(REQUEST.seed),
        output_type="np",
    )
    return np.round(made.images[0] * 255).astype(int)


REQUEST = Request("a red fox in the snow", seed=7, steps=2, height=64, width=64)


@pytest.mark.parametrize("engine", ["torch", "ort"])
def test_images_are_those_of_the_reference(
    engine: str, folder: Path, expected: np.ndarray, exported: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = ir.from_proto(onnx.load_model_from_string(exported))
    monkeypatch.setattr(ort_engine, "part_graph", lambda *a: graph)
    found, label = make_on_gpu(FolderFiles(folder), REQUEST, engine, device="cpu")
    assert label.split()[0] == {"torch": "torch", "ort": "onnxruntime"}[engine]
    assert np.abs(found.pixels.astype(int) - expected).max() <= 1  # float32 sums in another order
    assert expected.std() > 10


def test_a_machine_without_a_gpu_is_refused(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(images, "require", lambda where, engine: _refuse(where, engine))
    with pytest.raises(DpuError) as refused:
        make_image_on_gpu(folder, REQUEST, tmp_path / "x.png", "torch")
    assert refused.value.text() == (
        "error[E431]: --target gpu: not here: an NVIDIA driver, a CUDA device in torch 2.13.0+cpu\n"
        "  why: the GPU path runs on an NVIDIA GPU only\n"
        "  try: a machine with an NVIDIA GPU and its driver; a CUDA build of torch 2.11 or newer; "
        "--target cpu runs the reference anywhere"
    )


def _refuse(where: str, engine: str) -> None:
    from dpu.runtime.gpu.requirements import require

    require(where, engine, Found(False, "2.13.0+cpu", 0, "1.32.0", False, True))


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ("--engine tvm", "error[E430]: --engine tvm: no such engine\n  try: one of ort, torch, best\n"),
        (
            "--trace x.json",
            "error[E501]: --trace: target gpu has none\n  why: it runs the model, not a compiled program\n"
            "  try: --target sim\n",
        ),
    ],
)
def test_refusals(
    options: str, text: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = ["dpurun", str(folder), "--target", "gpu", "--prompt", "x", *options.split()]
    monkeypatch.setattr(sys, "argv", line)
    with pytest.raises(SystemExit) as stop:
        dpurun.main()
    assert stop.value.code == 2
    assert capsys.readouterr().err == text


def test_a_program_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "x.dpu").write_bytes(b"x")
    with pytest.raises(DpuError) as refused:
        make_image_on_gpu(tmp_path / "x.dpu", REQUEST, tmp_path / "x.png", "torch", device="cpu")
    assert refused.value.code == "E405"
    assert refused.value.what == "is a compiled program, and target gpu runs the model"
