"""The canonical functions compute what the ONNX graph computes, and do not depend on its opset."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from dpu.frontend.importer import import_onnx
from dpu.frontend.tiny import build_tiny
from dpu.frontend.weights import WeightStore
from dpu.ir.dialects import print_module
from dpu.passes.host_segments import segments
from dpu.passes.pipeline import FLOAT_PIPELINE, run_passes
from dpu.runtime.float_interpreter import FloatInterpreter
from dpu.runtime.tensors import from_btc, sinusoid
from xdsl.dialects.builtin import ModuleOp

torch.set_num_threads(1)

# Both sides compute in float32 from the same float16 weights and differ in the order of their sums. A sum of K products
# is off by about sqrt(K) * 2**-24 of its size; some 250 layers with K up to 1,728 add up to
# sqrt(250 * 1728) * 2**-24 = 4e-5 of the result, in root mean square, if no error cancelled. (Seen: 2e-7 for the UNet,
# 1e-6 for the VAE, 1.3e-5 for the first text encoder, whose file has quick GELU's 1.702 rounded to half precision.)
RELATIVE = 4e-5

SHAPES = {
    "unet": {"sample": (2, 4, 8, 8)},
    "vae_decoder": {"latent": (1, 4, 8, 8)},
    "text_encoder": {"input_ids": (2, 77)},
    "text_encoder_2": {"input_ids": (2, 77)},
}


def canonical(path: Path, part: str, shapes: dict[str, tuple[int, ...]]) -> tuple[ModuleOp, WeightStore]:
    """One ONNX file in canonical form."""
    module, store = import_onnx(path, shapes=shapes, part=part)
    run_passes(module, FLOAT_PIPELINE)
    return module, store


def reference(path: Path, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """ONNX Runtime on the same graph and weights, all of it in float32."""
    model = ir.load(path)
    graph = model.graph
    for value in graph.initializers.values():
        tensor = value.const_value
        if isinstance(tensor, ir.ExternalTensor):  # onnx-ir refuses the hard link of the VAE's weights
            data = np.fromfile(path.parent / tensor.location, np.float16, tensor.size, offset=tensor.offset or 0)
            value.const_value = ir.tensor(data.astype(np.float32).reshape(tensor.shape.numpy()), name=value.name)
        elif value.dtype == ir.DataType.FLOAT16:
            value.const_value = ir.tensor(unrounded(tensor.numpy()), name=value.name)
    for value in [*graph.inputs, *graph.outputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]:
        if value.dtype == ir.DataType.FLOAT16:
            value.dtype = ir.DataType.FLOAT
    for node in graph:
        if node.op_type == "Cast" and node.attributes["to"].value == ir.DataType.FLOAT16:
            node.attributes["to"] = ir.AttrInt64("to", ir.DataType.FLOAT)
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    data = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return dict(zip((o.name for o in session.get_outputs()), session.run(None, inputs), strict=True))


def unrounded(x: np.ndarray) -> np.ndarray:
    """A float16 constant as float32; an attention scale of opset 20, the fourth root of 1/d, as it was before rounding.

    Canonical form has the exact scale at both opsets; the file's is 2e-4 off.
    """
    y = x.astype(np.float32)
    for d in (32, 64):
        if x.size == 1 and x == np.float16(d**-0.25):
            y[...] = d**-0.25
    return y


def error(y: np.ndarray, expected: np.ndarray) -> float:
    """Root mean square difference, relative to the expected value's."""
    return float(np.sqrt(np.mean((y - expected) ** 2) / np.mean(expected**2)))


def unet_inputs(side: int) -> dict[str, np.ndarray]:
    """Inputs of the tiny UNet by their ONNX names."""
    rng = np.random.default_rng(side)
    shapes = {"sample": (2, 4, side, side), "encoder_hidden_states": (2, 77, 192), "text_embeds": (2, 128)}
    inputs = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    inputs["time_ids"] = np.array([[8 * side, 8 * side, 0, 0, 8 * side, 8 * side]] * 2, np.float32)
    inputs["timestep"] = np.array([501], np.float32)
    return inputs


def run_unet(module: ModuleOp, store: WeightStore, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The three functions of a UNet one after the other, sinusoids computed as the host does."""
    run = FloatInterpreter(module, store)
    values = dict(inputs)
    for s in segments(module):
        assert s["kind"] == "sinusoid" and s["entry"] == "time"
        scalars = inputs[str(s["input"])].reshape(-1, 1, 6 if s["input"] == "time_ids" else 1)
        values[str(s["output"])] = np.repeat(sinusoid(scalars, int(s["half"])), 2 // scalars.shape[0], axis=0)
    values |= run.run("time", values)
    values |= run.run("context", values)
    return from_btc(run.run("unet", values)["out_sample"], *inputs["sample"].shape[2:])


def run_text(module: ModuleOp, store: WeightStore, part: str, ids: np.ndarray) -> dict[str, np.ndarray]:
    """A text encoder, lookup and pick done as the host does."""
    lookup, *pick = segments(module)
    table, position = (np.asarray(store.get(str(lookup[k])), np.float32) for k in ("table", "position"))
    results = FloatInterpreter(module, store).run(part, {str(lookup["output"]): table[ids] + position})
    for s in pick:
        rows = np.argmax(ids == s["token"], axis=1)
        results[str(s["output"])] = results.pop(str(s["input"]))[[0, 1], rows]
    return results


def token_ids() -> np.ndarray:
    """Two prompts that end in different places."""
    ids = np.random.default_rng(0).integers(0, 600, (2, 77))
    ids[0, 20:] = ids[1, 76:] = 882  # the end-of-text token
    return ids


@pytest.mark.parametrize("side", [8, 16], ids=["64px", "128px"])
def test_unet_equals_onnx_runtime(folder: Path, side: int) -> None:
    inputs = unet_inputs(side)
    expected = reference(folder / "unet" / "model.onnx", inputs)["out_sample"]
    module, store = canonical(folder / "unet" / "model.onnx", "unet", {"sample": (2, 4, side, side)})
    assert error(run_unet(module, store, inputs), expected) < RELATIVE


def test_vae_decoder_equals_onnx_runtime(folder: Path) -> None:
    latent = np.random.default_rng(0).standard_normal((1, 4, 8, 8), dtype=np.float32)
    expected = reference(folder / "vae_decoder" / "model.onnx", {"latent": latent})["image"]
    module, store = canonical(folder / "vae_decoder" / "model.onnx", "vae_decoder", {"latent": (1, 4, 8, 8)})
    y = FloatInterpreter(module, store).run("vae_decoder", {"latent": latent})["image"]
    assert error(from_btc(y, 64, 64), expected) < RELATIVE


@pytest.mark.parametrize("part", ["text_encoder", "text_encoder_2"])
def test_text_encoders_equal_onnx_runtime(folder: Path, part: str) -> None:
    ids = token_ids()
    expected = reference(folder / part / "model.onnx", {"input_ids": ids})
    module, store = canonical(folder / part / "model.onnx", part, {"input_ids": (2, 77)})
    results = run_text(module, store, part, ids)
    assert results.keys() == expected.keys()
    for name, y in expected.items():
        assert error(results[name], y) < RELATIVE, name


class TorchScript(torch.nn.Module):
    """A part of the pipeline as Optimum traces it: plain inputs in the order of `names`."""

    def __init__(self, part: str, net: torch.nn.Module) -> None:
        super().__init__()
        self.part, self.net = part, net

    def forward(self, *xs: torch.Tensor) -> object:
        if self.part == "vae_decoder":
            return self.net.decode(xs[0], return_dict=False)[0]
        if self.part == "text_encoder_2":
            out = self.net(xs[0], output_hidden_states=True)
            return out.hidden_states[-2], out.text_embeds
        added = {"text_embeds": xs[3], "time_ids": xs[4]}
        return self.net(xs[0], xs[1], xs[2], added_cond_kwargs=added, return_dict=False)[0]

    def export(self, path: Path, inputs: dict[str, np.ndarray], outputs: list[str], open_dims: dict) -> None:
        """Trace with the TorchScript exporter, opset 18, float32, sizes open."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                self.eval(),
                tuple(torch.from_numpy(x) for x in inputs.values()),
                path,
                dynamo=False,
                opset_version=18,
                input_names=list(inputs),
                output_names=outputs,
                dynamic_axes=open_dims,
            )


def test_torchscript_exports_are_understood_too(tmp_path: Path) -> None:
    """13,000 nodes of shape arithmetic at full size, weights without names, GELU by erf, pooling by flat rows."""
    pipe = build_tiny()
    inputs = unet_inputs(8)
    inputs["timestep"] = np.array(501, np.float32)
    order = ("sample", "timestep", "encoder_hidden_states", "text_embeds", "time_ids")
    inputs = {name: inputs[name] for name in order}
    batch = {name: {0: "batch"} for name in inputs if name != "timestep"}
    batch["sample"] |= {2: "height", 3: "width"}
    TorchScript("unet", pipe.unet).export(tmp_path / "unet.onnx", inputs, ["out_sample"], batch)
    module, store = canonical(tmp_path / "unet.onnx", "unet", {"sample": (2, 4, 8, 8)})
    y = run_unet(module, store, inputs)
    assert error(y, reference(tmp_path / "unet.onnx", inputs)["out_sample"]) < RELATIVE

    latent = inputs["sample"][:1]
    sizes = {"latent": {2: "height", 3: "width"}}
    TorchScript("vae_decoder", pipe.vae).export(tmp_path / "vae.onnx", {"latent": latent}, ["image"], sizes)
    module, store = canonical(tmp_path / "vae.onnx", "vae_decoder", {"latent": (1, 4, 8, 8)})
    image = FloatInterpreter(module, store).run("vae_decoder", {"latent": latent})["image"]
    assert error(from_btc(image, 64, 64), reference(tmp_path / "vae.onnx", {"latent": latent})["image"]) < RELATIVE

    ids, names = token_ids(), ["hidden_states", "text_embeds"]
    text = TorchScript("text_encoder_2", pipe.text_encoder_2)
    text.export(tmp_path / "te.onnx", {"input_ids": ids}, names, {"input_ids": {0: "batch"}})
    module, store = canonical(tmp_path / "te.onnx", "text_encoder_2", {"input_ids": (2, 77)})
    results = run_text(module, store, "text_encoder_2", ids)
    for name, y in reference(tmp_path / "te.onnx", {"input_ids": ids}).items():
        assert error(results[name], y) < RELATIVE, name


@pytest.mark.parametrize("part", sorted(SHAPES))
def test_opset_20_and_23_give_the_same_text(part: str, tiny_folder: Path, tiny_folder_20: Path) -> None:
    texts, stores = [], []
    for folder in (tiny_folder_20, tiny_folder):
        module, store = canonical(folder / part / "model.onnx", part, SHAPES[part])
        texts.append(print_module(module))
        stores.append(store)
    assert texts[0] == texts[1]
    shared = [source for source in stores[0] if source.endswith((".weight", ".bias"))]
    assert len(shared) > 10
    for source in shared:  # same names; and the same content behind them
        assert np.array_equal(stores[0].get(source), stores[1].get(source)), source
