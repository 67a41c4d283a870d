"""What the fuzzers found, each as the smallest input that showed it: now an error with its place and reason."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from dpu.bench.fuzz_subjects import Dpu, attention, convolutions
from dpu.bench.fuzz_subjects import _repair as repair
from dpu.codegen.dpufile import load
from dpu.codegen.verify.verify import verify_program
from dpu.errors import DpuError
from dpu.frontend.importer import import_onnx
from dpu.frontend.pipeline_folder import MANIFEST, PipelineFolder
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module
from dpu.passes.lower.program import lower_module
from dpu.passes.pipeline import FLOAT_PIPELINE, run_passes
from dpu.passes.quantise import quantise
from dpu.simulator.dram.params import load_dram
from onnx import helper


def refusal(run: Callable[[], object]) -> str:
    with pytest.raises(DpuError) as e:
        run()
    return str(e.value)


def no_output(m: onnx.ModelProto) -> None:
    del m.graph.node[-1]


def cast_to_nothing(m: onnx.ModelProto) -> None:
    m.graph.node[1].CopyFrom(helper.make_node("Cast", ["a"], ["b"], "/act/Cast"))


def no_outputs_no_name(m: onnx.ModelProto) -> None:
    m.graph.node.add(op_type="Nope", input=["sample"])


def empty_constant(m: onnx.ModelProto) -> None:
    m.graph.node.insert(0, helper.make_node("Constant", [], ["k"], "/Constant"))


def scalar_in_concat(m: onnx.ModelProto) -> None:
    for t in m.graph.initializer:
        if t.name == "two":
            t.CopyFrom(onnx.numpy_helper.from_array(np.array(2), "two"))


def recursive_function(m: onnx.ModelProto) -> None:
    node = m.graph.node[1]
    node.domain = "x"
    inner = helper.make_node(node.op_type, ["p"], ["q"], domain="x")
    m.functions.append(helper.make_function("x", node.op_type, ["p"], ["q"], [inner], [helper.make_opsetid("x", 1)]))
    m.opset_import.add(domain="x", version=1)


def no_elements(m: onnx.ModelProto) -> None:
    m.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 0


def bad_type(m: onnx.ModelProto) -> None:
    m.graph.initializer[0].data_type = 77


def long_bias(m: onnx.ModelProto) -> None:
    m.graph.initializer[1].dims[:] = (4, 2)


@pytest.mark.parametrize(
    ("model", "damage", "text"),
    [
        (convolutions, no_output, "error[E104]: FILE: output 'y' is not computed by any node"),
        (convolutions, cast_to_nothing, "error[E104]: FILE: node '/act/Cast': Cast: cannot be imported, inputs"),
        (convolutions, long_bias, "error[E104]: FILE: node '/conv_in/Conv': Conv: a bias of shape (4, 2)"),
        (convolutions, no_outputs_no_name, "error[E104]: FILE: node 'Nope': Nope: unsupported operator"),
        (convolutions, empty_constant, "error[E104]: FILE: node '/Constant': Constant: cannot be imported"),
        (attention, scalar_in_concat, "error[E104]: FILE: node '/Concat': Concat: cannot be imported, inputs"),
        (convolutions, recursive_function, "error[E102]: FILE: its functions cannot be inlined"),
        (convolutions, no_elements, "error[E104]: graph: a tensor of 0x4x4x4 has no elements"),
        (convolutions, bad_type, "error[E102]: FILE: not a readable ONNX model"),
    ],
    ids=lambda x: getattr(x, "__name__", None),
)  # fmt: skip
def test_onnx(
    tmp_path: Path, model: Callable[[], onnx.ModelProto], damage: Callable[[onnx.ModelProto], None], text: str
) -> None:
    made, path = model(), tmp_path / "m.onnx"
    damage(made)
    path.write_bytes(made.SerializeToString())
    found = refusal(lambda: import_onnx(path, part="unet"))
    assert found.replace(str(path), "FILE").startswith(text), found


def test_an_onnx_weight_shorter_than_its_shape(tmp_path: Path) -> None:
    model, path = convolutions(), tmp_path / "m.onnx"
    model.graph.initializer[1].raw_data = b"x"
    path.write_bytes(model.SerializeToString())
    _, store = import_onnx(path, part="unet")
    text = refusal(lambda: store.get("unet::b1"))
    assert text.startswith("error[E112]: parameter 'unet::b1': its data does not fit its type and shape (")


@pytest.fixture(scope="module")
def dpu(tmp_path_factory: pytest.TempPathFactory) -> Dpu:
    return Dpu(tmp_path_factory.mktemp("dpu"))


def damaged(dpu: Dpu, change: Callable[[dict[str, str]], None], mend: bool = True) -> str:
    header = json.loads(json.dumps(dpu.header))
    change(header["__metadata__"])
    if mend:
        repair(header, dpu.body)
    text = json.dumps(header, separators=(",", ":")).encode()
    dpu.path.write_bytes(len(text).to_bytes(8, "little") + text + dpu.body)
    return refusal(lambda: verify_program(load(dpu.path))).replace(str(dpu.path), "FILE")


def test_dpu_metadata(dpu: Dpu) -> None:
    text = damaged(dpu, lambda m: m.update(checksums=3))  # type: ignore[call-overload]
    assert text.startswith("error[E301]: FILE: not a DPU program (its metadata holds more than strings)")
    text = damaged(dpu, lambda m: m.update(info="[]"))
    assert text.startswith("error[E301]: FILE: not a DPU program (its metadata does not make a program: ")
    regions = json.loads(dpu.header["__metadata__"]["base_bytes"])
    text = damaged(dpu, lambda m: m.update(base_bytes=json.dumps(regions | {"1": 1 << 62})))
    assert text.startswith("error[E301]: FILE: not a DPU program (its metadata does not make a program: regions of ")
    entries = json.loads(dpu.header["__metadata__"]["entries"])
    entries[0]["outputs"][0]["base"] = 11
    text = damaged(dpu, lambda m: m.update(entries=json.dumps(entries)))
    assert text.startswith("error[E361]: entry 'unet': tensor 'y', ") and "of base register 11" in text


def test_dpu_record_of_words_that_do_not_exist(dpu: Dpu) -> None:
    entry = dpu.header["verify/unet/lists" if "verify/unet/lists" in dpu.header else "table/verify/unet/lists"]
    first, last = entry["data_offsets"]
    body = dpu.body
    try:
        dpu.body = body[:first] + b"\xff\xff\x00\x00" * ((last - first) // 4) + body[last:]
        text = damaged(dpu, lambda m: None)
    finally:
        dpu.body = body
    assert text.startswith("error[E360]: entry 'unet': no record of what its operands mean (the record of tile 0 names")


def test_json(tmp_path: Path) -> None:
    arch = load_arch("dpu_tiny").model_dump(mode="json")
    arch["buffers"]["act"]["banks"] = 1 << 40
    (tmp_path / "a.json").write_text(json.dumps(arch))
    text = refusal(lambda: load_arch(str(tmp_path / "a.json")))
    assert "act has 1099511627776 banks, but only" in text
    (tmp_path / "d.json").write_bytes(b"\xeb{}")
    assert "E502" in refusal(lambda: load_dram(str(tmp_path / "d.json")))
    dram = load_dram("lpddr5x_8533_128").model_dump(mode="json")
    for name, bad in (("tRL", "inf"), ("tRP", ""), ("banks", "x"), ("tBL", 0)):
        wrong = {**dram["parameters"], name: {**dram["parameters"][name], "value": bad}}
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps({**dram, "parameters": wrong}))
        assert f"{name} is " in refusal(lambda path=path: load_dram(str(path)))  # type: ignore[misc]
    (tmp_path / MANIFEST).write_text(json.dumps({"format": 1, "parts": {"unet": {"files": ""}}}))
    assert "the files of a part are no object" in refusal(lambda: PipelineFolder.load(tmp_path))


def module(body: str, shape: str = "1x8x16") -> str:
    return (
        f'func.func @net(%x: tensor<{shape}xf16> {{dpu.name = "x"}}) -> (tensor<{shape}xf16> {{dpu.name = "y"}}) {{\n'
        f"{body}\n  func.return %y : tensor<{shape}xf16>\n}}\n"
    )


def test_a_string_that_does_not_end_is_found_at_once() -> None:
    # The lexer of xDSL tries every way to cut what follows the quote: longer than the universe for sixty characters.
    text = refusal(lambda: parse_module('module attributes {a = "' + "x" * 60 + "\n}", "m.mlir"))
    assert text.startswith("error[E201]: m.mlir:1:24: not a module (a string does not end on its line")


def test_a_module_that_a_pass_cannot_handle_names_the_pass() -> None:
    silu = "  %y = dpu.silu %x : tensor<1x8x16xf16> -> tensor<1x8x16xf16>"
    quantised = parse_module(module(silu))
    run_passes(quantised, ["quantise{arch=dpu_tiny}"])
    from dpu.passes.stage import Stage

    text = refusal(lambda: run_passes(quantised, [Stage("broken", lambda m: {}["key"])]))
    assert text.startswith("error[E205]: pass 'broken': cannot handle this module (KeyError: 'key')\n  why: ")


def test_functions_of_other_ranks_have_no_program(tmp_path: Path) -> None:
    text = "func.func @net(%x: tensor<1x4x4x4xf16>) -> tensor<1x4x4x4xf16> { func.return %x : tensor<1x4x4x4xf16> }"
    found = refusal(lambda: run_passes(parse_module(text), ["lower-to-tile"]))
    assert found.startswith("error[E225]: function 'net': takes or returns tensor<1x4x4x4xf16>")


@pytest.mark.parametrize("shape", ["9223372036854775807x8x16", "1x9223372036854775807x16", "1099511627776x1x16"])
def test_sizes_beyond_all_bounds_are_refused_before_anything_is_made_of_them(shape: str) -> None:
    silu = module(f"  %y = dpu.silu %x : tensor<{shape}xf16> -> tensor<{shape}xf16>", shape)
    found = refusal(lambda: run_passes(parse_module(silu), ["quantise{arch=dpu_tiny}", "lower-to-tile"]))
    assert found.startswith("error[E206]: ") and "instruction words a tile" in found


def test_a_layer_too_large_for_an_arch_is_refused_with_an_estimate_of_its_words(tmp_path: Path) -> None:
    model, path = convolutions(), tmp_path / "m.onnx"
    for one in (model.graph.input[0], model.graph.output[0]):
        for i in (2, 3):
            one.type.tensor_type.shape.dim[i].dim_value = 800
    weights = {"w1": (4096, 4, 3, 3), "b1": (4096,), "w2": (4, 4096, 1, 1), "b2": (4,)}
    del model.graph.initializer[:]
    model.graph.initializer.extend(onnx.numpy_helper.from_array(np.zeros(s, np.float16), n) for n, s in weights.items())
    path.write_bytes(model.SerializeToString())
    graph, _ = import_onnx(path, part="unet")
    run_passes(graph, FLOAT_PIPELINE)
    arch = load_arch("dpu_tiny")
    quantise(graph, arch, None, {})
    found = refusal(lambda: lower_module(graph, arch, lambda source, transform: np.zeros(1)))
    assert found.startswith("error[E206]: /conv_in/Conv")
    words = int(found.partition("would take about ")[2].partition(" ")[0].replace(",", ""))
    # 640,000 pixels in blocks of at most 64, 512 column tiles: at least 10,000 blocks x 4 words
    assert words > 3_000_000
