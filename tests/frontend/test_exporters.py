"""Every exporter's file becomes the same canonical graph, with the same weights and in the same order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import onnx
import pytest
import torch
from dpu.bench import exporters
from dpu.bench.exporters import COMMITTED, DATA, PARTS, Model, canonical, committed, one_file_a_tensor, torchscript
from dpu.frontend.compare import same_graph
from dpu.frontend.importer import import_onnx
from dpu.frontend.interface import outputs
from dpu.ir.dialects import print_module
from dpu.ir.signature import argument_names, result_names
from dpu.passes.host_segments import segments
from dpu.passes.pipeline import FLOAT_PIPELINE, run_passes
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

torch.set_num_threads(1)


@pytest.fixture(scope="session")
def reference(tiny_folder: Path) -> dict[str, Model]:
    """The opset 23 export."""
    return {part: canonical(tiny_folder / part / "model.onnx", part) for part in PARTS}


@pytest.fixture(scope="session")
def pipe() -> Any:
    from dpu.frontend.tiny import build_tiny

    return build_tiny()


def plain(module: ModuleOp) -> str:
    """The text without what an exporter chooses: names of parameters, their transforms, the width of floats."""
    text = re.sub(r'dpu\.param "[^"]*"( via \[[^]]*\])?', "dpu.param", print_module(module))
    text = re.sub(r'(table|position) = "[^"]*"', r"\1", text)
    return re.sub(r"\bxf(16|32)\b|xf(16|32)>", "xf>", text)


def check(model: Model, reference: Model) -> None:
    assert same_graph(*reference, *model) == []
    assert plain(model[0]) == plain(reference[0])


FOLDED_SCALE = ("Optimum, onnxslim at fixed sizes", "text_encoder")
"""With one head no transpose stands between to_q and its scale, and onnxslim multiplies the weights by it."""


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("exporter", COMMITTED)
def test_optimum_and_optimisers(reference: dict[str, Model], exporter: str, part: str) -> None:
    model = committed(DATA / COMMITTED[exporter] / f"{part}.onnx", part)
    if (exporter, part) != FOLDED_SCALE:
        check(model, reference[part])
        return
    found = same_graph(*reference[part], *model)
    assert len(found) == 2 and all("dpu.attention" in d and ": scale: " in d for d in found), found


@pytest.mark.parametrize("part", PARTS)
def test_torchscript_with_one_file_a_tensor(reference: dict[str, Model], pipe: Any, part: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    torchscript(pipe, part, path)
    one_file_a_tensor(path)
    assert len(list(tmp_path.iterdir())) > 20
    check(canonical(path, part), reference[part])


@pytest.mark.slow
@pytest.mark.parametrize(("opset", "precision"), [(18, "fp16"), (20, "fp16"), (21, "fp16"), (23, "fp32")])
def test_dynamo(reference: dict[str, Model], opset: int, precision: Any, tmp_path: Path) -> None:
    from dpu.frontend.sdxl import export_tiny

    export_tiny(tmp_path, opset=opset, precision=precision)
    for part in PARTS:
        check(canonical(tmp_path / part / "model.onnx", part), reference[part])


@pytest.mark.parametrize("part", ["text_encoder", "text_encoder_2"])
def test_text_encoders_are_stacks_of_dpu_operations(reference: dict[str, Model], part: str) -> None:
    module, _ = reference[part]
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    kinds = {op.name for op in function.body.block.ops}
    assert kinds == {"dpu.param", "dpu.linear", "dpu.layer_norm", "dpu.attention", "func.return"}
    text = print_module(module)
    layers = 2 if part == "text_encoder" else 3
    assert text.count(" causal ") == text.count("dpu.attention") == layers
    assert text.count(f'act "{"quick_gelu" if layers == 2 else "gelu"}"') == layers
    assert [s["kind"] for s in segments(module)] == ["embedding", "pick"][: layers - 1]


@pytest.mark.parametrize("samples", [1, 3])
@pytest.mark.parametrize("exporter", COMMITTED)
def test_the_pick_is_found_for_any_number_of_samples(exporter: str, samples: int) -> None:
    path, shapes = DATA / COMMITTED[exporter] / "text_encoder_2.onnx", {"input_ids": (samples, 77)}
    if exporter.endswith("fixed sizes"):
        pytest.skip("made for two samples")
    module, _ = import_onnx(path, shapes=shapes, part="text_encoder_2", weights="absent")
    run_passes(module, FLOAT_PIPELINE)
    assert [s["kind"] for s in segments(module)] == ["embedding", "pick"]


def test_optimum_names_become_ours() -> None:
    module, _ = import_onnx(
        DATA / "vae_decoder.onnx", shapes={"latent": (1, 4, 8, 8)}, part="vae_decoder", weights="absent"
    )
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    assert (argument_names(function), result_names(function)) == (["latent"], ["image"])
    path = DATA / "text_encoder_2.onnx"
    assert len(onnx.load(path, load_external_data=False).graph.output) == 6
    module, _ = import_onnx(path, shapes={"input_ids": (2, 77)}, part="text_encoder_2", weights="absent")
    (function,) = (op for op in module.ops if isinstance(op, FuncOp))
    assert result_names(function) == ["hidden_states", "text_embeds"]
    names = ["text_embeds", *(f"hidden_states.{i}" for i in range(13))]
    assert outputs("text_encoder_2", names) == {"hidden_states.11": "hidden_states", "text_embeds": "text_embeds"}
    assert outputs("unet", ["out_sample"]) == {"out_sample": "out_sample"}


def test_the_number_of_tokens_need_not_be_given() -> None:
    shapes = {"sample": (2, 4, 8, 8)}
    module, _ = import_onnx(DATA / "unet.onnx", shapes=shapes, part="unet", weights="absent")
    assert '%encoder_hidden_states: tensor<2x77x192xf32> {dpu.name = "encoder_hidden_states"}' in print_module(module)


def test_the_table_says_what_differs() -> None:
    rows = (
        exporters.ExporterRow(exporter="a", part="unet", nodes=9, operations=4, differences=()),
        exporters.ExporterRow(exporter="b", part="unet", nodes=8, operations=5, differences=("scale",)),
    )
    text = exporters.Exporters(reference="a", versions={}, rows=rows).text()
    assert "9 -> 4 =" in text and "8 -> 5 !" in text and "! b, unet: scale" in text and "not here" in text
