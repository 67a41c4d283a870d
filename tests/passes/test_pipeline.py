"""The float pipeline as a whole: what is left, what it counts, what it dumps, and what errors name."""

from __future__ import annotations

import json
import time
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.frontend.importer import import_onnx
from dpu.ir.dialects import parse_module, print_module
from dpu.ir.locations import nodes_of
from dpu.ir.macs import total_macs
from dpu.passes.host_segments import segments
from dpu.passes.pipeline import FLOAT_PIPELINE, PASSES, describe, run_passes
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

SDXL = Path(__file__).parents[2] / "configs" / "workload" / "sdxl_base"

# Multiply-accumulates of one sample at 1024x1024, measured once with forward hooks on the diffusers and transformers
# modules (convolution B*Ho*Wo*N*C*k*k, linear M*K*N, attention QK^T + PV; the upsampled convolutions count the enlarged
# image). The pooled projection of the second text encoder runs on all 77 tokens here, on one there: see `cut_host.py`.
MACS = {
    "unet": 3_380_618_199_040,
    "vae_decoder": 5_235_196_297_216,
    "text_encoder_2": 48_931_553_280 + 76 * 1280 * 1280,
}
# Both encoders give the last layer but one: the last is not in the first encoder's graph.
MACS["text_encoder"] = 6_649_251_840 // 12 * 11
SHAPES = {
    "unet": {"sample": (2, 4, 128, 128)},
    "vae_decoder": {"latent": (1, 4, 128, 128)},
    "text_encoder": {"input_ids": (2, 77)},
    "text_encoder_2": {"input_ids": (2, 77)},
}
CANONICAL = {
    "builtin.module",
    "func.func",
    "func.return",
    *(f"dpu.{n}" for n in ("param", "conv", "linear", "group_norm", "layer_norm", "attention", "silu")),
}


@cache
def full_size(part: str) -> ModuleOp:
    """A part of SDXL base in canonical form, without weights."""
    module, _ = import_onnx(SDXL / f"{part}.onnx", shapes=SHAPES[part], part=part, weights="absent")
    run_passes(module, FLOAT_PIPELINE)
    return module


@pytest.mark.parametrize("part", sorted(MACS))
def test_full_size_parts_are_canonical_and_count_right(part: str) -> None:
    started = time.process_time()
    module = full_size(part)
    assert time.process_time() - started < 30
    assert {op.name for op in module.walk()} <= CANONICAL
    samples = 1 if part == "vae_decoder" else 2
    assert total_macs(module) == samples * MACS[part]


def test_what_the_full_size_unet_consists_of() -> None:
    module = full_size("unet")
    counts = Counter(op.name for op in module.walk())
    assert counts["dpu.attention"] == 140 and counts["dpu.conv"] == 51 and counts["dpu.group_norm"] == 46
    assert counts["dpu.layer_norm"] == 210 and counts["dpu.linear"] == 743 and counts["dpu.silu"] == 1
    functions = {f.sym_name.data: f for f in module.ops if isinstance(f, FuncOp)}
    assert list(functions) == ["time", "context", "unet"]
    assert len(functions["context"].function_type.outputs) == 140  # keys and values of 70 cross-attentions
    assert len(functions["time"].function_type.outputs) == 17  # one a residual block
    assert len(functions["unet"].function_type.inputs) == 1 + 140 + 17
    assert segments(module) == [
        {"kind": "sinusoid", "entry": "time", "input": "timestep", "output": "timestep.sinusoid", "half": 160},
        {"kind": "sinusoid", "entry": "time", "input": "time_ids", "output": "time_ids.sinusoid", "half": 128},
    ]


def test_locations_survive_every_pass(tiny_folder: Path) -> None:
    path = tiny_folder / "unet" / "model.onnx"
    module, _ = import_onnx(path, shapes={"sample": (2, 4, 8, 8)}, part="unet")
    work = ("/Conv", "/MatMul", "/Gemm", "/Attention", "Normalization")
    before = {
        n for op in module.walk() for n in nodes_of(op) if n.rpartition("_")[0].endswith(work) or n.endswith(work)
    }
    run_passes(module, FLOAT_PIPELINE)
    after = {n for op in module.walk() for n in nodes_of(op)}
    assert len(before) > 100 and before <= after
    anonymous = [op.name for op in module.walk() if op.name.startswith("dpu.") and not nodes_of(op)]
    assert not anonymous


def test_the_text_of_every_stage_parses_back(tiny_folder: Path) -> None:
    path = tiny_folder / "text_encoder_2" / "model.onnx"
    module, _ = import_onnx(path, shapes={"input_ids": (2, 77)}, part="text_encoder_2")
    for name in FLOAT_PIPELINE:
        run_passes(module, [name])
        text = print_module(module, locations=True)
        assert print_module(parse_module(text), locations=True) == text, name
    unet, _ = import_onnx(tiny_folder / "unet" / "model.onnx", shapes={"sample": (2, 4, 8, 8)}, part="unet")
    run_passes(unet, FLOAT_PIPELINE)
    assert print_module(parse_module(print_module(unet))) == print_module(unet)


def test_dumps_are_numbered_and_summarised(tmp_path: Path) -> None:
    module = parse_module(
        "func.func @f(%x: tensor<2x1x8xf32>) -> tensor<2x1x8xf32> {\n"
        "  %a = dpu.silu %x : tensor<2x1x8xf32> -> tensor<2x1x8xf32>\n"
        "  %b = dpu.silu %x : tensor<2x1x8xf32> -> tensor<2x1x8xf32>\n"
        "  %c = dpu.add %a, %b : tensor<2x1x8xf32>, tensor<2x1x8xf32> -> tensor<2x1x8xf32>\n"
        "  func.return %c : tensor<2x1x8xf32>\n}"
    )
    records = run_passes(module, ["merge-duplicates", "fuse-concat"], tmp_path / "dumps")
    names = ["00-input.mlir", "01-merge-duplicates.mlir", "02-fuse-concat.mlir", "summary.json", "summary.txt"]
    assert sorted(p.name for p in (tmp_path / "dumps").iterdir()) == names
    assert records[0].changes == {"dpu.silu": -1} and records[0].ops_after == records[0].ops_before - 1
    text = (tmp_path / "dumps" / "summary.txt").read_text()
    assert "-1 dpu.silu" in text and "the same operations" in text
    assert [r["name"] for r in json.loads((tmp_path / "dumps" / "summary.json").read_text())] == [
        r.name for r in records
    ]


def test_a_broken_graph_names_node_and_pass() -> None:
    module = parse_module(
        "func.func @f(%x: tensor<2x1x8xf32>, %w: tensor<8x4xf32>, %v: tensor<7x4xf32>) -> tensor<2x1x4xf32> {\n"
        "  %y = dpu.linear %x, %w : tensor<2x1x8xf32>, tensor<8x4xf32> -> tensor<2x1x4xf32>"
        ' loc("/proj/MatMul"("m.onnx":0:0))\n'
        "  func.return %y : tensor<2x1x4xf32>\n}"
    )
    linear = next(op for op in module.walk() if op.name == "dpu.linear")
    assert linear.parent is not None
    linear.operands[1] = linear.parent.args[2]
    with pytest.raises(DpuError) as e:
        run_passes(module, ["fuse-concat"])
    assert str(e.value) == (
        "error[E204]: m.onnx: node '/proj/MatMul': after pass 'fuse-concat': "
        "dpu.linear: x has 8 channels but w reduces 7\n"
        "  try: a pass broke it: report it with the text before that pass"
    )


def test_every_pass_has_a_sentence() -> None:
    for name in FLOAT_PIPELINE:
        assert describe(name).endswith(".") and len(describe(name)) < 110, name
    with pytest.raises(DpuError, match="no such pass"):
        run_passes(parse_module("builtin.module {}"), ["no-such"])
    assert set(FLOAT_PIPELINE) <= set(PASSES)
