"""Each rewrite computes what the exporter's graph computes; what the CUDA kernels ask for is kept.

Operators that ONNX Runtime has no CPU kernel for are replaced by what they mean (`contrib.py`).
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from dpu.errors import DpuError
from dpu.frontend.sdxl import SDXL_CONFIGS
from dpu.frontend.tiny import tiny_configs
from dpu.runtime.gpu.graphs import part_graph, rebatch
from dpu.runtime.gpu.ort_rewrite import FUSIONS, chosen_fusions, rewrite
from dpu.runtime.gpu.ort_rewrite.nodes import MS, derive, dims
from dpu.runtime.gpu.ort_session import load_session
from dpu.runtime.gpu.weights import build, seeded

sys.path.insert(0, str(Path(__file__).parent))
from contrib import lower

LATENT = (8, 8)
BATCH = 2


@pytest.fixture(scope="module")
def state() -> dict[str, torch.Tensor]:
    return seeded("unet", tiny_configs()["unet"], torch.float32)


def graph(exported: bytes) -> ir.Model:
    import onnx

    return ir.from_proto(onnx.load_model_from_string(exported))


def inputs(batch: int = BATCH) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    width, pooled = 192, 128

    def draw(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(np.float32)

    return {
        "sample": draw(batch, 4, *LATENT),
        "timestep": np.array([501.0], np.float32),
        "encoder_hidden_states": draw(batch, 77, width),
        "text_embeds": draw(batch, pooled),
        "time_ids": np.tile(np.array([[64, 64, 0, 0, 64, 64]], np.float32), (batch, 1)),
    }


def run(model: ir.Model, state: dict[str, torch.Tensor], derived: dict, batch: int = BATCH) -> np.ndarray:
    arrays = {n: t.numpy() for n, t in state.items()}
    session = load_session(model, arrays, derived, ["CPUExecutionProvider"])
    return session.run(None, inputs(batch))[0]


def in_torch(state: dict[str, torch.Tensor], batch: int) -> np.ndarray:
    net = build("unet", tiny_configs()["unet"], state, torch.float32, "cpu")
    given = {k: torch.from_numpy(v) for k, v in inputs(batch).items()}
    with torch.no_grad():
        added = {"text_embeds": given["text_embeds"], "time_ids": given["time_ids"]}
        out = net(given["sample"], given["timestep"], given["encoder_hidden_states"], added_cond_kwargs=added)
    return out.sample.numpy()


@pytest.fixture(scope="module")
def expected(state: dict[str, torch.Tensor]) -> np.ndarray:
    return in_torch(state, BATCH)


def close(found: np.ndarray, expected: np.ndarray) -> None:
    assert found.shape == expected.shape
    error = np.linalg.norm(found - expected) / np.linalg.norm(expected)
    assert error < 1e-5, f"relative error {error:.2e}"  # float32 sums in another order


SETS = {
    "none": (),
    **{f"only {f}": (f,) for f in ("group_norm", "nhwc_conv")},  # each moves the layout in its own way
    **{f"without {f}": tuple(g for g in FUSIONS if g != f) for f in FUSIONS},
    "all": FUSIONS,
}


@pytest.mark.parametrize("name", SETS)
def test_a_rewritten_unet_computes_the_same(
    name: str, exported: bytes, state: dict[str, torch.Tensor], expected: np.ndarray
) -> None:
    made = rewrite(graph(exported), SETS[name], limits=False)
    close(run(lower(made.model), state, made.derived), expected)


def test_what_the_rewrites_leave(exported: bytes) -> None:
    made = rewrite(graph(exported), FUSIONS, limits=False)
    before = {n: sum(x.op_type == n for x in graph(exported).graph) for n in ("Attention", "Conv", "Gelu", "Split")}
    left = made.operators
    assert left["com.microsoft.MultiHeadAttention"] == before["Attention"]
    assert left["com.microsoft.NhwcConv"] == before["Conv"]
    assert left["com.microsoft.BiasSplitGelu"] == before["Gelu"] == before["Split"]
    assert left["Transpose"] == 2  # of the latent, at the input and at the output
    for gone in ("Attention", "Conv", "GroupNormalization", "Gelu", "Split", "MatMul", "Resize"):
        assert gone not in left
    assert made.model.opset_imports[""] == 18


def test_without_a_fusion_its_operators_stay(exported: bytes) -> None:
    kept = {
        "attention": "Attention",
        "group_norm": "GroupNormalization",
        "split_gelu": "Gelu",
        "nhwc_conv": "Conv",
        "skip_group_norm": "com.microsoft.GroupNorm",
        "skip_layer_norm": "LayerNormalization",
    }
    assert set(kept) == set(FUSIONS)
    full = rewrite(graph(exported), FUSIONS, limits=False).operators
    for name, operator in kept.items():
        left = rewrite(graph(exported), [f for f in FUSIONS if f != name], limits=False).operators
        assert left.get(operator, 0) > full.get(operator, 0), name


@pytest.mark.parametrize("batch", [1, 4])
def test_another_batch_computes_what_torch_does(batch: int, exported: bytes, state: dict[str, torch.Tensor]) -> None:
    model = graph(exported)
    rebatch(model, BATCH, batch)
    made = rewrite(model, FUSIONS, limits=False)
    close(run(lower(made.model), state, made.derived, batch), in_torch(state, batch))


@pytest.mark.parametrize("part", ["unet", "vae_decoder"])
def test_the_full_size_graphs_suit_the_cuda_kernels(part: str) -> None:
    """What onnxruntime/contrib_ops/cuda refuses at run time, and the types that ONNX Runtime checks when it loads."""
    made = rewrite(ir.load(SDXL_CONFIGS / f"{part}.onnx"))
    for node in made.model.graph:
        if node.domain != MS:
            continue
        x = dims(node.inputs[0])
        if node.op_type == "BiasSplitGelu":
            assert x[-1] in (2560, 5120, 10240)
        if node.op_type in ("GroupNorm", "SkipGroupNorm"):
            assert node.attributes["channels_last"].value == 1
            assert len(x) == 4
            assert all(v.dtype == ir.DataType.FLOAT for v in node.inputs[1:3])
            assert (x[3] // 32) % 2 == 0, "the kernel reads channels in pairs"
        if node.op_type == "SkipGroupNorm":
            assert dims(node.inputs[3]) in (x, (x[0], x[3]))
        if node.op_type == "NhwcConv":
            assert dims(node.inputs[1])[3] == x[3]
    if part == "unet":
        counts = {"attention": 140, "group_norm": 46, "split_gelu": 70, "skip_layer_norm": 199, "nhwc_conv": 51}
        assert made.counts | counts == made.counts
        assert made.operators["Transpose"] == 2
    assert "Failed to find kernel for com.microsoft." in refusal(made.model)


def refusal(model: ir.Model) -> str:
    """What ONNX Runtime's CPU provider says of a graph after it inferred and checked every type and shape."""
    graph = model.graph
    for name, value in list(graph.initializers.items()):
        if isinstance(value.const_value, ir.ExternalTensor):  # weights become inputs: nothing is allocated
            del graph.initializers[name]
            value.const_value = None
            graph.inputs.append(value)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    with pytest.raises(Exception) as refused:
        ort.InferenceSession(
            ir.to_proto(model).SerializeToString(), options, ["CPUExecutionProvider"], enable_fallback=0
        )
    return str(refused.value)


def test_types_are_checked_before_kernels() -> None:
    """`refusal` would see a wrong type: here a bias in float32 among float16 operands."""
    made = rewrite(ir.load(SDXL_CONFIGS / "unet.onnx"))
    norm = next(n for n in made.model.graph if n.op_type == "SkipLayerNormalization")
    assert norm.inputs[4] is not None
    norm.inputs[4].dtype = ir.DataType.FLOAT
    assert "Type Error" in refusal(made.model)


def test_a_full_size_graph_of_another_batch_holds_together() -> None:
    config = json.loads((SDXL_CONFIGS / "unet.json").read_text())
    made = rewrite(part_graph("unet", config, 32, (128, 128)))
    for node in made.model.graph:
        if node.op_type == "Reshape":
            assert math.prod(dims(node.inputs[0])) == math.prod(dims(node.outputs[0])), node.name
    assert "Failed to find kernel for com.microsoft." in refusal(made.model)


def test_derived_weights() -> None:
    w = np.arange(2 * 3 * 2 * 2, dtype=np.float16).reshape(2, 3, 2, 2)
    assert derive(w, "ohwi").shape == (2, 2, 2, 3)
    assert derive(w, "ohwi")[1, 0, 1, 2] == w[1, 2, 0, 1]
    assert derive(w, "float32").dtype == np.float32


def test_names_of_fusions() -> None:
    assert chosen_fusions("all") == FUSIONS
    assert chosen_fusions("none") == ()
    assert chosen_fusions("all,-attention") == FUSIONS[1:]
    assert chosen_fusions("nhwc_conv,attention") == ("attention", "nhwc_conv")
    with pytest.raises(DpuError) as refused:
        chosen_fusions("all,-conv")
    assert refused.value.text() == (
        "error[E501]: --fusions: there is no 'conv'\n"
        "  try: all, none, or some of attention, group_norm, skip_group_norm, split_gelu, skip_layer_norm, nhwc_conv; "
        "-NAME leaves one out"
    )
