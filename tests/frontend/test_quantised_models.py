"""Models that come quantised: ONNX with Q/DQ nodes keeps its integers and scales, int8 and int4 checkpoints load."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime as ort
import pytest
from dpu.codegen.driver import Compiled, compile_onnx
from dpu.errors import DpuError
from dpu.frontend.importer import import_onnx
from dpu.ir.arch import load_arch
from dpu.ir.container import Base
from dpu.passes.calibration import Calibration
from dpu.passes.weights import Fixed, fixed, quantised
from dpu.runtime.check.compare import check
from dpu.simulator.machine import Machine
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static
from safetensors.numpy import save_file

ARCH = load_arch("dpu_tiny")
SHAPE = (1, 8, 6, 6)


class _Samples(CalibrationDataReader):
    def __init__(self) -> None:
        rng = np.random.default_rng(3)
        self.left = [{"x": rng.standard_normal(SHAPE, np.float32)} for _ in range(4)]

    def get_next(self) -> dict[str, npt.NDArray[np.float32]] | None:
        return self.left.pop() if self.left else None


def _float_model(path: Path) -> Path:
    """conv 3x3, SiLU, conv 3x3 with stride 2, tokens, MatMul with bias."""
    rng = np.random.default_rng(0)
    arrays = {
        "w1": rng.standard_normal((16, 8, 3, 3)) / 8,
        "b1": rng.standard_normal(16) / 4,
        "w2": rng.standard_normal((12, 16, 3, 3)) / 12,
        "b2": rng.standard_normal(12) / 4,
        "w3": rng.standard_normal((12, 10)) / 3,
        "b3": rng.standard_normal(10) / 4,
    }
    tensors = [numpy_helper.from_array(a.astype(np.float32), n) for n, a in arrays.items()]
    tensors.append(numpy_helper.from_array(np.array([1, 12, 9], np.int64), "shape"))
    nodes = [
        helper.make_node("Conv", ["x", "w1", "b1"], ["h"], name="conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Sigmoid", ["h"], ["g"], name="sigmoid"),
        helper.make_node("Mul", ["h", "g"], ["s"], name="mul"),
        helper.make_node("Conv", ["s", "w2", "b2"], ["c"], name="conv2", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Reshape", ["c", "shape"], ["r"], name="reshape"),
        helper.make_node("Transpose", ["r"], ["t"], name="transpose", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["t", "w3"], ["m"], name="matmul"),
        helper.make_node("Add", ["m", "b3"], ["y"], name="add"),
    ]
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes, "g", [info("x", TensorProto.FLOAT, SHAPE)], [info("y", TensorProto.FLOAT, (1, 9, 10))], tensors
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


def _quantised(folder: Path, activations: QuantType, symmetric: bool) -> Path:
    out = folder / "model.onnx"
    quantize_static(
        _float_model(folder / "float.onnx"),
        out,
        _Samples(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=activations,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["Conv", "MatMul"],
        extra_options={"ActivationSymmetric": symmetric, "OpTypesToExcludeOutputQuantization": ["Conv", "MatMul"]},
    )
    return out


def _run(compiled: Compiled, x: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    program = compiled.program
    (entry,) = program.entries
    regions = {int(b): np.full(max(program.base_bytes.get(int(b), 0), 64), 0x55, np.uint8) for b in Base}
    regions[int(Base.CONST)][: len(program.constants)] = program.constants

    def rows(slot) -> npt.NDArray[np.uint8]:
        return regions[slot.base][slot.offset : slot.offset + slot.bytes].reshape(-1, slot.row_bytes)

    (given,) = entry.inputs
    tokens = x.reshape(*SHAPE[:2], -1).transpose(0, 2, 1).astype(np.float16)
    rows(given)[:, : 2 * SHAPE[1]] = np.ascontiguousarray(tokens).reshape(-1, SHAPE[1]).view(np.uint8)
    Machine(program.arch, regions).run(program.words[entry.name], entry=entry.name)
    (result,) = entry.outputs
    y = np.ascontiguousarray(rows(result)[:, : 2 * result.shape[2]]).view(np.float16)
    return y.reshape(result.shape).astype(np.float32)


def _sqnr(y: npt.NDArray[np.float32], reference: npt.NDArray[np.float32]) -> float:
    return float(10 * np.log10(np.sum(reference**2) / np.sum((y - reference) ** 2)))


@pytest.mark.parametrize(
    ("activations", "symmetric"),
    [(QuantType.QInt8, True), (QuantType.QInt8, False), (QuantType.QUInt8, False)],
    ids=["s8-symmetric", "s8", "u8"],
)
def test_a_qdq_model_keeps_integers_and_scales(tmp_path: Path, activations: QuantType, symmetric: bool) -> None:
    path = _quantised(tmp_path, activations, symmetric)
    compiled = compile_onnx(path, "model", ARCH, {}, Calibration({}, {}))
    x = np.random.default_rng(9).standard_normal(SHAPE, np.float32)
    tokens = x.reshape(*SHAPE[:2], -1).transpose(0, 2, 1)
    report = check(compiled.emitted, compiled.fetch, {"x": tokens})
    assert report.ok, report.text()
    session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    (reference,) = session.run(None, {"x": x.astype(np.float16).astype(np.float32)})
    found = _sqnr(_run(compiled, x), reference)
    assert found > 35
    _assert_integers(compiled, path)
    text = bytes(compiled.program.tables["quantised_graph/model"]).decode()
    assert ("zero" in text) is not symmetric


def _assert_integers(compiled: Compiled, path: Path) -> None:
    """The packed constants hold exactly the integers of the file, padding zero."""
    stored = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
    weights = [a for n, a in stored.items() if a.dtype == np.int8 and a.ndim > 1]
    assert len(weights) == 3
    image = compiled.program.constants
    for q in weights:
        if q.ndim == 4:
            q = np.pad(q, ((0, 0), (0, -q.shape[1] % ARCH.rows), (0, 0), (0, 0)))
            q = q.transpose(2, 3, 1, 0).reshape(-1, q.shape[0])
        q = np.pad(q, ((0, -q.shape[0] % ARCH.rows), (0, -q.shape[1] % ARCH.cols)))
        tiles = q.reshape(-1, ARCH.rows, q.shape[1] // ARCH.cols, ARCH.cols).transpose(2, 0, 1, 3)
        assert tiles.tobytes() in image.tobytes()


# -- checkpoints -------------------------------------------------------------------------------------------------------


def _linear_model(path: Path, w: npt.NDArray[np.float32]) -> Path:
    """One linear, its weight [n, k] read through a Transpose."""
    n, k = w.shape
    info = helper.make_tensor_value_info
    nodes = [
        helper.make_node("Transpose", ["proj.weight"], ["wt"], perm=[1, 0], name="t"),
        helper.make_node("MatMul", ["x", "wt"], ["y"], name="matmul"),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [info("x", TensorProto.FLOAT, (1, 5, k))],
        [info("y", TensorProto.FLOAT, (1, 5, n))],
        [numpy_helper.from_array(w, "proj.weight")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10), path)
    return path


@pytest.mark.parametrize("name", ["proj.weight_scale", "proj.weight.scale", "proj.scale"])
@pytest.mark.parametrize("shape", ["one", "column", "vector"])
def test_an_int8_checkpoint_keeps_its_integers(tmp_path: Path, name: str, shape: str) -> None:
    rng = np.random.default_rng(1)
    n, k = 12, 24
    q = rng.integers(-90, 91, (n, k), np.int8)  # no column reaches 127: its own scale would be another
    scale = rng.uniform(0.01, 0.02, 1 if shape == "one" else n).astype(np.float32)
    file = tmp_path / "w.safetensors"
    save_file({"proj.weight": q, name: scale.reshape(n, 1) if shape == "column" else scale}, file)
    onnx_file = _linear_model(tmp_path / "m.onnx", np.zeros((n, k), np.float32))
    _, store = import_onnx(onnx_file, part="model", checkpoint=file)
    value = store.get("model::proj.weight")
    assert value.dtype == np.float32 and np.array_equal(value, q.astype(np.float32) * scale.reshape(-1, 1))
    assert np.array_equal(store.get("model::proj.weight", ("integers", "transpose")), q.T)
    found, scales = quantised(fixed(store.get, "model::proj.weight", ("transpose",)))
    assert np.array_equal(found, q.T) and np.array_equal(scales, np.broadcast_to(scale, n))
    compiled = compile_onnx(onnx_file, "model", ARCH, {}, Calibration({}, {}), checkpoint=file)
    padded = np.pad(q.T, ((0, -k % ARCH.rows), (0, -n % ARCH.cols)))
    tiles = padded.reshape(-1, ARCH.rows, padded.shape[1] // ARCH.cols, ARCH.cols).transpose(2, 0, 1, 3)
    assert tiles.tobytes() in compiled.program.constants.tobytes()
    report = check(compiled.emitted, compiled.fetch, {"x": rng.standard_normal((1, 5, k))})
    assert report.ok, report.text()


@pytest.mark.parametrize("packing", [np.uint8, np.int32])
def test_an_int4_checkpoint_is_read_as_floats(tmp_path: Path, packing: type) -> None:
    rng = np.random.default_rng(2)
    n, k = 8, 256
    q = rng.integers(-8, 8, (n, k))
    scale = rng.uniform(0.01, 0.02, (n, k // 128)).astype(np.float16)
    nibbles = (q + 8).astype(np.uint8)
    packed = np.ascontiguousarray(nibbles[:, 0::2] | nibbles[:, 1::2] << 4).view(packing)
    file = tmp_path / "w.safetensors"
    save_file({"proj.weight_packed": packed, "proj.weight_scale": scale}, file)
    onnx_file = _linear_model(tmp_path / "m.onnx", np.zeros((n, k), np.float32))
    _, store = import_onnx(onnx_file, part="model", checkpoint=file)
    expected = (q.reshape(n, -1, 128) * scale.astype(np.float32)[..., None]).reshape(n, k).astype(np.float32)
    assert np.array_equal(store.get("model::proj.weight"), expected)
    compiled = compile_onnx(onnx_file, "model", ARCH, {}, Calibration({}, {}), checkpoint=file)
    assert check(compiled.emitted, compiled.fetch, {"x": rng.standard_normal((1, 5, k))}).ok


def test_a_column_with_minus_128_is_quantised_anew() -> None:
    q = np.array([[-128, 3], [64, 5]], np.int8)
    found, scale = quantised(Fixed(q, np.full((2, 2), 0.5, np.float32)))
    assert found[:, 1].tolist() == [3, 5] and scale[1] == 0.5
    assert found[0, 0] == -127 and abs(float(scale[0]) - 64 / 127) < 1e-6


@pytest.mark.parametrize(
    ("tensors", "what"),
    [
        ({"other": np.zeros(3, np.float32)}, "holds none of the parameters"),
        ({"proj.weight": np.zeros((4, 8), np.int8)}, "without a scale"),
        ({"proj.weight": np.zeros((4, 9), np.float32)}, "is 4x9, the graph wants 4x8"),
        ({"proj.weight": np.zeros((4, 8), np.int8), "proj.scale": np.ones(3, np.float32)}, "with 3 scales"),
        ({"proj.weight": np.zeros((4, 4), np.uint8), "proj.scale": np.ones(4, np.float32)}, "with scales 4"),
    ],
)
def test_a_wrong_checkpoint_is_refused(tmp_path: Path, tensors: dict, what: str) -> None:
    save_file(tensors, tmp_path / "w.safetensors")
    model = _linear_model(tmp_path / "m.onnx", np.zeros((4, 8), np.float32))
    with pytest.raises(DpuError, match=what):
        import_onnx(model, part="model", checkpoint=tmp_path / "w.safetensors")
