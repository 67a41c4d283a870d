"""Import: shapes fold, weights stay on disk, nodes keep their names, and bad files are refused in plain words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from dpu.errors import DpuError
from dpu.frontend.importer import import_onnx
from dpu.frontend.weights import Entry, WeightStore, compose
from dpu.ir.dialects import print_module
from dpu.ir.locations import nodes_of
from onnx import TensorProto, helper, numpy_helper
from xdsl.dialects.builtin import ModuleOp


def save(
    path: Path,
    nodes: list[onnx.NodeProto],
    inputs: dict[str, list[int | str]],
    output: str = "y",
    weights: dict[str, np.ndarray] | None = None,
    opset: int = 20,
    external: bool = False,
) -> Path:
    """A model of float32 inputs and one output; `external` puts its weights into `w.bin`."""
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in inputs.items()],
        [helper.make_tensor_value_info(output, TensorProto.FLOAT, None)],
        [numpy_helper.from_array(w, n) for n, w in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    more = {"save_as_external_data": True, "location": "w.bin", "size_threshold": 0} if external else {}
    onnx.save(model, path, **more)
    return path


def node(op: str, inputs: list[str], output: str = "y", name: str = "", **attrs: object) -> onnx.NodeProto:
    return helper.make_node(op, inputs, [output], name=name or f"/{op}", **attrs)


def linear(path: Path, w: np.ndarray | None = None, external: bool = True) -> Path:
    """`y = x w^T`, weights 4 x 8."""
    w = np.arange(32, dtype=np.float32).reshape(4, 8) if w is None else w
    nodes = [node("Transpose", ["w"], "t", perm=[1, 0]), node("MatMul", ["x", "t"], name="/proj/MatMul")]
    return save(path, nodes, {"x": ["batch", 3, 8]}, weights={"w": w}, external=external)


def body(module: ModuleOp) -> list[str]:
    return [op.name for op in module.walk() if op.name.startswith("dpu.")]


def refusal(path: Path, **kwargs: object) -> str:
    with pytest.raises(DpuError) as e:
        import_onnx(path, part="m", **kwargs)
    return str(e.value).replace(str(path.parent), "DIR")


def test_weights_stay_on_disk_and_keep_their_name(tmp_path: Path) -> None:
    module, store = import_onnx(linear(tmp_path / "m.onnx"), shapes={"x": (2, 3, 8)}, part="m")
    text = print_module(module, locations=True)
    assert body(module) == ["dpu.param", "dpu.t.matmul"]
    assert 'dpu.param "m::w" via ["transpose"] : tensor<8x4xf32>' in text
    assert 'loc("/proj/MatMul"("m.onnx":0:0))' in text
    assert '%x: tensor<2x3x8xf32> {dpu.name = "x"}' in text
    assert store.shape("m::w", ["transpose"]) == (8, 4)
    assert store.entry("m::w").file == tmp_path / "w.bin"
    assert store.get("m::w", ["transpose", "cols:1:3"]).tolist() == np.arange(32).reshape(4, 8).T[:, 1:3].tolist()
    assert not store.get("m::w").flags.owndata  # a view of the file


def test_a_chain_that_computes_a_shape_folds(tmp_path: Path) -> None:
    half = numpy_helper.from_array(np.array(2, np.int64))
    nodes = [
        node("Shape", ["x"], "s", name="/Shape"),
        node("Constant", [], "two", value=half),
        node("Constant", [], "one", value=numpy_helper.from_array(np.array(1, np.int64))),
        node("Constant", [], "axis", value=numpy_helper.from_array(np.array([0], np.int64))),
        node("Gather", ["s", "one"], "c", name="/Gather"),
        node("Div", ["c", "two"], "h", name="/Div"),
        node("Unsqueeze", ["h", "axis"], "hu", name="/Unsqueeze"),
        node("Constant", [], "rest", value=numpy_helper.from_array(np.array([0, -1], np.int64))),
        node("Slice", ["rest", "axis", "one1"], "zero", name="/Slice"),
        node("Constant", [], "minus", value=numpy_helper.from_array(np.array([-1], np.int64))),
        node("Concat", ["zero", "hu", "minus"], "t", name="/Concat", axis=0),
        node("Reshape", ["x", "t"], "y", name="/Reshape"),
    ]
    weights = {"one1": np.array([1], np.int64)}
    path = save(tmp_path / "m.onnx", nodes, {"x": ["b", "c", 6]}, weights=weights)
    module, _ = import_onnx(path, shapes={"x": (2, 8, 6)}, part="m")
    assert body(module) == ["dpu.t.reshape"]
    assert "tensor<2x8x6xf32> -> tensor<2x4x12xf32>" in print_module(module)


def test_one_shape_binds_its_symbols_for_all_inputs(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Add", ["x", "z"])], {"x": ["b", 4], "z": ["b", 4]})
    module, _ = import_onnx(path, shapes={"x": (3, 4)}, part="m")
    assert '(%x: tensor<3x4xf32> {dpu.name = "x"}, %z: tensor<3x4xf32>' in print_module(module)
    assert refusal(path) == (
        "error[E105]: DIR/m.onnx: input 'x' has the open dimension 'b' (b x 4)\n"
        "  why: programs have static shapes\n"
        "  try: give its shape, as in --shape x=1x4"
    )
    assert "input 'x' is b x 4, it cannot be 3x5" in refusal(path, shapes={"x": (3, 5)})
    assert "dimension 'b' is 3 in input 'x' and 2 in input 'z'" in refusal(path, shapes={"x": (3, 4), "z": (2, 4)})
    assert "has no input 'q'\n  try: name one of x, z" in refusal(path, shapes={"q": (3, 4)})


def test_arithmetic_that_changes_nothing_leaves_no_operation(tmp_path: Path) -> None:
    nodes = [
        node("Div", ["x", "one"], "a"),
        node("Identity", ["a"], "b"),
        node("Cast", ["b"], "c", to=TensorProto.FLOAT),
        node("Sigmoid", ["c"]),
    ]
    path = save(tmp_path / "m.onnx", nodes, {"x": [2, 4]}, weights={"one": np.array(1, np.float32)})
    module, _ = import_onnx(path, part="m")
    assert body(module) == ["dpu.t.sigmoid"]


def test_functions_are_inlined(tmp_path: Path) -> None:
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"])], [helper.make_opsetid("", 20)]
    )
    graph = helper.make_graph(
        [helper.make_node("Twice", ["x"], ["y"], domain="local", name="/twice")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])],
    )
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("local", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, functions=[function]), tmp_path / "m.onnx")
    module, _ = import_onnx(tmp_path / "m.onnx", part="m")
    assert body(module) == ["dpu.t.add"]


def test_every_operation_names_its_node(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Sin", ["x"], "a", "/one"), node("Cos", ["a"], "y", "/two")], {"x": [2]})
    module, _ = import_onnx(path, part="m")
    assert [nodes_of(op) for op in module.walk() if op.name.startswith("dpu.")] == [("/one",), ("/two",)]


def test_an_unsupported_operator_names_file_node_and_shape(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Hardmax", ["x"], name="/head/Hardmax")], {"x": [2, 4]})
    assert refusal(path) == (
        "error[E104]: DIR/m.onnx: node '/head/Hardmax': Hardmax: unsupported operator, inputs 2x4\n"
        "  why: import knows the operators of diffusers' SDXL exports\n"
        "  try: re-export with torch.onnx.export(dynamo=True, opset_version=20), or add the operator to "
        "frontend/onnx_ops.py"
    )


@pytest.mark.parametrize(
    ("operator", "shape", "attrs", "says"),
    [
        ("Softmax", [2, 4], {}, None),
        ("Conv", [1, 4, 8, 8], {"group": 2}, "Conv: group 2, dilations (1, 1)"),
        ("Gelu", [2, 4], {"approximate": "tanh"}, "Gelu: approximate = 'tanh'"),
        ("LayerNormalization", [2, 3, 4], {"axis": 1}, "LayerNormalization: axis 1 of a 3-D tensor"),
    ],
)
def test_what_an_operator_may_not_be(tmp_path: Path, operator: str, shape: list[int], attrs: dict, says: str) -> None:
    weights = {"Conv": {"w": np.zeros((4, 2, 3, 3), np.float32)}}.get(operator, {"w": np.zeros(4, np.float32)})
    inputs = ["x", "w"] if operator in ("Conv", "LayerNormalization") else ["x"]
    path = save(tmp_path / "m.onnx", [node(operator, inputs, **attrs)], {"x": shape}, weights=weights)
    if says is None:
        import_onnx(path, part="m")
    else:
        assert says in refusal(path)


def test_a_cut_off_file_is_refused(tmp_path: Path) -> None:
    path = linear(tmp_path / "m.onnx", external=False)
    path.write_bytes(path.read_bytes()[:-40])
    assert refusal(path, shapes={"x": (2, 3, 8)}).startswith("error[E102]: DIR/m.onnx: not a readable ONNX model (")
    assert "\n  try: copy, download or export the file again" in refusal(path)
    path.write_bytes(b"")
    assert "not a readable ONNX model (the file is empty)" in refusal(path)
    path.write_text("version https://git-lfs.github.com/spec/v1\n")
    assert "is a Git LFS pointer" in refusal(path)
    assert "no such file" in refusal(tmp_path / "other.onnx")


def test_an_unknown_opset_is_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "m.onnx", [node("Sin", ["x"])], {"x": [2]}, opset=13)
    assert refusal(path) == (
        "error[E103]: DIR/m.onnx: opset 13 is not supported\n"
        "  why: operators changed their meaning between opsets\n"
        "  try: export with an opset from 17 to 24"
    )


def test_missing_weights_are_named_and_may_be_absent(tmp_path: Path) -> None:
    path = linear(tmp_path / "m.onnx")
    (tmp_path / "w.bin").unlink()
    shapes = {"x": (2, 3, 8)}
    assert refusal(path, shapes=shapes) == (
        "error[E111]: DIR/w.bin: the file with the weights cannot be opened (no such file; parameter 'm::w' and maybe "
        "others are in it)\n"
        "  try: keep the weight files in the folder of the .onnx file, as they were exported"
    )
    module, store = import_onnx(path, shapes=shapes, part="m", weights="absent")
    assert "dpu.t.matmul" in body(module) and store.shape("m::w") == (4, 8) and not store.present("m::w")
    with pytest.raises(DpuError, match=r"error\[E113\]: m::w: has no value, only the shape 4x8"):
        store.get("m::w")


def test_a_short_weight_file_is_refused(tmp_path: Path) -> None:
    path = linear(tmp_path / "m.onnx")
    (tmp_path / "w.bin").write_bytes((tmp_path / "w.bin").read_bytes()[:100])
    assert refusal(path, shapes={"x": (2, 3, 8)}) == (
        "error[E112]: DIR/w.bin: parameter 'm::w' needs 128 bytes but the file has 100\n"
        "  why: the file was cut off, or belongs to another model\n"
        "  try: copy or download the file again"
    )


def test_weights_outside_the_folder_are_refused(tmp_path: Path) -> None:
    path = linear(tmp_path / "m.onnx")
    model = onnx.load(path, load_external_data=False)
    next(e for e in model.graph.initializer[0].external_data if e.key == "location").value = "../w.bin"
    path.write_bytes(model.SerializeToString())
    assert "is in '../w.bin', outside the model's folder" in refusal(path)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_weight_that_is_not_finite_is_refused_when_read(tmp_path: Path, bad: float) -> None:
    w = np.ones((4, 8), np.float32)
    w[2, 5] = bad
    _, store = import_onnx(linear(tmp_path / "m.onnx", w), shapes={"x": (2, 3, 8)}, part="m")
    with pytest.raises(DpuError) as e:
        store.get("m::w", ["transpose"])
    where = f"{tmp_path}/w.bin: parameter 'm::w'"
    assert str(e.value).startswith(f"error[E114]: {where}: element [2, 5] is {bad}\n  why: a weight that is not finite")


def test_transforms_that_cancel_out_are_left_out() -> None:
    assert compose((4, 8), ["transpose"], "transpose") == ()
    assert compose((8,), [], "reshape:8") == ()
    assert compose((8,), ["reshape:8,1,1"], "reshape:8") == ()
    assert compose((4, 8), ["transpose"], "reshape:2,16") == ("transpose", "reshape:2,16")


def test_a_store_knows_shapes_without_reading() -> None:
    store = WeightStore()

    def never() -> np.ndarray:
        raise AssertionError("read")

    store.add("m::w", Entry((6, 4), np.dtype(np.float32), read=never))
    assert store.shape("m::w", ["rows:1:3", "transpose"]) == (4, 2)
    with pytest.raises(DpuError, match="no such parameter"):
        store.shape("m::v")
