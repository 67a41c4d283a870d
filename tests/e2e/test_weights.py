"""`dpuc compile --weights`: a safetensors file in place of the model's own weights; what is refused, word for word."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from dpu.codegen.dpufile import load
from dpu.codegen.driver import UNCALIBRATED, Compiled, compile_folder
from dpu.files import sha256
from dpu.ir.container import Program
from dpu.runtime.cli import dpuc
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import save_file

Tensors = dict[str, np.ndarray]
Compile = Callable[[str], tuple[int, str]]
K, H, N = 24, 16, 8  # channels in, between, out
SHAPES = {"up.weight": (H, K), "down.weight": (N, H)}
LAYOUTS = "  try: frontend/checkpoint.py lists the layouts"
AGAIN = "  try: copy or download the file again"


def floats() -> Tensors:
    rng = np.random.default_rng(1)
    return {name: (rng.standard_normal(shape) / 5).astype(np.float16) for name, shape in SHAPES.items()}


def int8(name: str = "up.weight", scales: int = H) -> Tensors:
    """Integers whose columns all reach 127, and a scale for each or for all."""
    q = np.random.default_rng(2).integers(-127, 128, SHAPES[name], np.int8)
    q[:, 0] = 127
    return {name: q, name.replace(".weight", ".scale"): np.linspace(0.01, 0.02, scales, dtype=np.float32)}


def int4() -> Tensors:
    packed = np.random.default_rng(3).integers(0, 256, (H, K // 2), np.uint8)
    return {"up.weight_packed": packed, "up.weight_scale": np.full((H, 2), 0.02, np.float16)}


def write_model(path: Path, weights: Tensors) -> None:
    """`down(up(x))`, the weights stored [out, in] in `weights.bin` and read through Transpose."""
    nodes = []
    for name, x, y in (("up", "x", "h"), ("down", "h", "y")):
        nodes.append(helper.make_node("Transpose", [f"{name}.weight"], [f"{name}.t"], perm=[1, 0], name=f"/{name}/T"))
        nodes.append(helper.make_node("MatMul", [x, f"{name}.t"], [y], name=f"/{name}/MatMul"))
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT16, (1, 5, c)) for n, c in (("x", K), ("y", N)))
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(w, n) for n, w in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)


@pytest.fixture
def compile_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Compile:
    """Compile `m.onnx` with more options in a folder of its own: (exit code, what was printed)."""
    monkeypatch.chdir(tmp_path)
    write_model(tmp_path / "m.onnx", floats())
    info = {"format": "dpu-calibration-1", "model": sha256(tmp_path / "m.onnx")}
    save_file({"unused": np.zeros(1, np.float32)}, "good.st", {"calibration": json.dumps(info)})

    def call(options: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["dpuc", "compile", "m.onnx", *shlex.split(options)])
        with pytest.raises(SystemExit) as stop:
            dpuc.main()
        out, err = capfd.readouterr()
        return int(stop.value.code or 0), out + err

    return call


def compiled(compile_with: Compile, options: str = "") -> Program:
    code, text = compile_with(f"--calibration good.st --check -o out.dpu {options}")
    assert code == 0 and "check: 2 of 2 operations equal bit for bit" in text, text
    return load(Path("out.dpu"))


def same(a: Program, b: Program) -> bool:
    words = ([s.tobytes() for s in p.words["unet"]] for p in (a, b))
    return a.constants.tobytes() == b.constants.tobytes() and len(set(map(tuple, words))) == 1


def test_the_same_weights_make_the_same_program(compile_with: Compile) -> None:
    save_file(floats(), "w.st")
    own, other = compiled(compile_with), compiled(compile_with, "--weights w.st")
    assert same(own, other)
    assert "checkpoint_sha256" not in own.info and other.info["checkpoint_sha256"] == sha256(Path("w.st"))


def test_what_the_file_has_replaces_and_the_rest_stays(compile_with: Compile) -> None:
    new = {"up.weight": floats()["up.weight"] * np.float16(2)}
    save_file(new, "w.st")
    part = compiled(compile_with, "--weights w.st")
    save_file(floats() | new, "whole.st")
    assert same(part, compiled(compile_with, "--weights whole.st")) and not same(part, compiled(compile_with))


def test_the_models_own_weights_may_be_absent(compile_with: Compile) -> None:
    save_file(floats(), "w.st")
    own = compiled(compile_with)
    Path("weights.bin").unlink()
    assert same(own, compiled(compile_with, "--weights w.st"))


@pytest.mark.parametrize("scales", [1, H])
def test_int8_weights_reach_the_program_as_they_are(compile_with: Compile, scales: int) -> None:
    tensors = int8(scales=scales)
    save_file(tensors, "w.st")
    program = compiled(compile_with, "--weights w.st")
    panels = tensors["up.weight"].T.reshape(K // 8, 8, H // 8, 8).transpose(2, 0, 1, 3)  # column tiles, then rows
    assert np.ascontiguousarray(panels).tobytes() in program.constants.tobytes()


def test_int4_weights_are_read_as_floats(compile_with: Compile) -> None:
    tensors = int4()
    save_file(tensors, "w.st")
    packed = tensors["up.weight_packed"]
    values = np.stack([packed & 15, packed >> 4], -1).reshape(H, K).astype(np.float32) - 8
    save_file({"up.weight": values * np.float32(np.float16(0.02))}, "f.st")
    assert same(compiled(compile_with, "--weights w.st"), compiled(compile_with, "--weights f.st"))


def damaged() -> dict[str, Tensors]:
    """Every way in which a checkpoint cannot be used, by file name."""
    up = SHAPES["up.weight"]
    nan = floats()
    nan["up.weight"][2, 3] = np.nan
    return {
        "other.st": {"elsewhere": np.zeros(3, np.float32)},
        "shape.st": {"up.weight": np.zeros((H, K + 1), np.float16)},
        "bare.st": {"up.weight": np.zeros(up, np.int8)},
        "scales.st": int8(scales=3),
        "zero.st": {**int8(), "up.weight_zero_point": np.ones(H, np.int8)},
        "nan.st": nan,
        "scale.st": {**int8(), "up.scale": np.full(H, np.inf, np.float32)},
        "packed.st": {"up.weight_packed": np.zeros((H, 10), np.uint8), "up.weight_scale": np.ones((H, 2), np.float16)},
        "f64.st": {**floats(), "up.weight": np.zeros(up, np.float64)},
    }


_FINITE = (
    "  why: a weight that is not finite makes every image black, and no scale can hold it\n"
    "  try: export again from a sound checkpoint (overflow of fp16 turns large weights into inf)"
)


@pytest.mark.parametrize(
    ("weights", "text"),
    [
        (
            "nosuch.st",
            "E112]: nosuch.st: not a readable safetensors file ([Errno 2] No such file or directory: 'nosuch.st')\n"
            f"{AGAIN}",
        ),
        (".", f"E112]: .: not a readable safetensors file ([Errno 21] Is a directory: '.')\n{AGAIN}"),
        ("short.st", f"E112]: short.st: not a readable safetensors file (its header is longer than the file)\n{AGAIN}"),
        ("cut.st", f"E112]: cut.st: not a readable safetensors file (tensor 'up.weight' is cut off)\n{AGAIN}"),
        (
            "other.st",
            "E113]: other.st: holds none of the parameters of 'unet'\n"
            "  try: give a checkpoint whose names are those of the exported model",
        ),
        ("shape.st", f"E113]: shape.st: 'up.weight': is 16x25, the graph wants 16x24\n{LAYOUTS}"),
        ("bare.st", f"E113]: bare.st: 'up.weight': is int8 without a scale\n{LAYOUTS}"),
        ("scales.st", f"E113]: scales.st: 'up.weight': is 16x24 with 3 scales, the graph wants 16x24\n{LAYOUTS}"),
        (
            "zero.st",
            "E113]: zero.st: 'up.weight': has zero points\n"
            f"  why: the array multiplies by symmetric weights\n{LAYOUTS}",
        ),
        (
            "packed.st",
            f"E113]: packed.st: 'up.weight': is 16x10 uint8 with scales 16x2 for a weight 16x24\n{LAYOUTS}",
        ),
        (
            "f64.st",
            "E113]: f64.st: 'up.weight': is F64\n"
            f"  why: weights are F16, BF16, F32, I8, or int4 packed into U8 or I32\n{LAYOUTS}",
        ),
        ("nan.st", f"E114]: nan.st: parameter 'unet::up.weight': element [2, 3] is nan\n{_FINITE}"),
        ("scale.st", f"E114]: scale.st: parameter 'unet::up.weight': element [0] is inf\n{_FINITE}"),
    ],
)
def test_a_checkpoint_that_cannot_be_used(compile_with: Compile, weights: str, text: str) -> None:
    for name, tensors in damaged().items():
        save_file(tensors, name)
    save_file(floats(), "cut.st")
    Path("cut.st").write_bytes(Path("cut.st").read_bytes()[:-100])
    Path("short.st").write_bytes(b"abc")
    assert compile_with(f"--calibration good.st -o out.dpu --weights {weights}") == (2, f"error[{text}\n")
    assert not Path("out.dpu").exists()


def test_an_estimate_reads_no_weights(compile_with: Compile) -> None:
    assert compile_with("--estimate --weights nosuch.st") == (
        2,
        "error[E501]: --weights: an estimate reads no weights\n  try: leave out one of the two\n",
    )


def test_an_uncalibrated_program_has_the_words_of_a_calibrated_one(
    compiled: Compiled, tiny_folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "x.dpu"
    made = compile_folder(tiny_folder, arch="dpu_tiny", size=(64, 64), uncalibrated=True, out=out)
    assert made.notes == ["not calibrated: every maximum is taken as 1; words and timing are real, images are not"]
    assert load(out).info["calibration"] == {"none": UNCALIBRATED}
    for entry, streams in compiled.program.words.items():
        for one, other in zip(streams, made.program.words[entry], strict=True):
            assert [len(one), one["opcode"].tolist()] == [len(other), other["opcode"].tolist()]
