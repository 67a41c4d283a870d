"""Exported folders: they run, match torch, load in diffusers, and come out the same twice."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
import onnx_ir as ir
import onnxruntime as ort
import pytest
import torch
from diffusers import StableDiffusionXLPipeline
from dpu.errors import DpuError
from dpu.files import sha256
from dpu.frontend.export import PARTS, ExportSpec
from dpu.frontend.onnx_graph import external_elements, module_path
from dpu.frontend.pipeline_folder import PipelineFolder
from dpu.frontend.sdxl import SDXL_CONFIGS, _dims, export_sdxl, export_tiny
from dpu.frontend.seeded import fill
from dpu.frontend.tiny import build_tiny, build_tokenizer
from dpu.frontend.weight_files import read_header, write_weights

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny pipeline in fp16, every part, sizes open."""
    out = tmp_path_factory.mktemp("tiny") / "pipeline"
    export_tiny(out, seed=0)
    return out


@pytest.fixture(scope="module")
def pipeline(folder: Path) -> StableDiffusionXLPipeline:
    """The exported folder in diffusers: its fp16 weights, computed in fp32."""
    return StableDiffusionXLPipeline.from_pretrained(folder, torch_dtype=torch.float32)


def session(model: Path | bytes) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads, options.log_severity_level = 1, 3
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def as_float32(path: Path) -> bytes:
    """The fp16 graph with every fp16 tensor and type replaced by fp32."""
    model = ir.load(path)
    graph = model.graph
    for value in graph.initializers.values():
        if value.dtype == ir.DataType.FLOAT16:
            value.const_value = ir.tensor(value.const_value.numpy().astype(np.float32), name=value.name)
    for value in [*graph.inputs, *graph.outputs, *graph.initializers.values(), *(v for n in graph for v in n.outputs)]:
        if value.dtype == ir.DataType.FLOAT16:
            value.dtype = ir.DataType.FLOAT
    for node in graph:
        if node.op_type == "Cast" and node.attributes["to"].value == ir.DataType.FLOAT16:
            node.attributes["to"] = ir.AttrInt64("to", ir.DataType.FLOAT)
    return ir.to_proto(model).SerializeToString()


def unet_inputs(side: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    pixels = side * 8
    shapes = {"sample": (2, 4, side, side), "encoder_hidden_states": (2, 77, 192), "text_embeds": (2, 128)}
    inputs = {name: rng.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()}
    inputs["time_ids"] = np.array([[pixels, pixels, 0, 0, pixels, pixels]] * 2, np.float32)
    inputs["timestep"] = np.array([500], np.float32)
    return inputs


def torch_unet(pipeline: StableDiffusionXLPipeline, inputs: dict[str, np.ndarray]) -> np.ndarray:
    t = {name: torch.from_numpy(value) for name, value in inputs.items()}
    added = {"text_embeds": t["text_embeds"], "time_ids": t["time_ids"]}
    with torch.no_grad():
        out = pipeline.unet(t["sample"], t["timestep"], t["encoder_hidden_states"], added_cond_kwargs=added)
    return out.sample.numpy()


def test_one_graph_serves_both_sizes_and_is_the_torch_unet(folder: Path, pipeline: StableDiffusionXLPipeline) -> None:
    unet = session(as_float32(folder / "unet" / "model.onnx"))
    for side in (8, 16):
        inputs = unet_inputs(side)
        got, want = unet.run(None, inputs)[0], torch_unet(pipeline, inputs)
        # The same float32 operations in another order. Values at the output reach 5, so one rounding is 5 * 2**-24;
        # a path of a few hundred roundings walks about twenty of them away.
        assert np.abs(got - want).max() < 20 * 5 * 2**-24


def test_fp16_graphs_run_and_differ_from_float32_by_fp16_rounding(
    folder: Path, pipeline: StableDiffusionXLPipeline
) -> None:
    # Each fp16 rounding is 2**-11 relative at most, 70 dB below the signal; a hundred on a path take 20 dB of it.
    def check(got: np.ndarray, want: np.ndarray) -> None:
        assert got.dtype == np.float16
        noise = ((got.astype(np.float64) - want) ** 2).mean()
        assert 10 * np.log10((want.astype(np.float64) ** 2).mean() / noise) > 50

    inputs = unet_inputs(8)
    half = {n: v if n == "timestep" else v.astype(np.float16) for n, v in inputs.items()}
    check(session(folder / "unet" / "model.onnx").run(None, half)[0], torch_unet(pipeline, inputs))
    ids = build_tokenizer()(["a red cat", ""], padding="max_length", return_tensors="pt").input_ids
    latent = 3 * torch.from_numpy(inputs["sample"][:1])
    with torch.no_grad():
        text = pipeline.text_encoder(ids, output_hidden_states=True)
        text_2 = pipeline.text_encoder_2(ids, output_hidden_states=True)
        image = pipeline.vae.decode(latent).sample
    check(
        session(folder / "text_encoder/model.onnx").run(None, {"input_ids": ids.numpy()})[0],
        text.hidden_states[-2].numpy(),
    )
    hidden, pooled = session(folder / "text_encoder_2" / "model.onnx").run(None, {"input_ids": ids.numpy()})
    check(hidden, text_2.hidden_states[-2].numpy())
    check(pooled, text_2.text_embeds.numpy())
    latent_16 = latent.numpy().astype(np.float16)
    check(session(folder / "vae_decoder" / "model.onnx").run(None, {"latent": latent_16})[0], image.numpy())


def test_the_folder_generates_an_image_in_diffusers(pipeline: StableDiffusionXLPipeline) -> None:
    pipeline.set_progress_bar_config(disable=True)
    generator = torch.Generator().manual_seed(0)
    latents = pipeline(
        "a red cat", height=64, width=64, num_inference_steps=20, generator=generator, output_type="latent"
    ).images
    assert latents.shape == (1, 4, 8, 8)
    assert 0.3 < float(latents.std()) < 6  # seeded weights must not explode over the 20 steps


def test_exported_weights_are_those_of_build_tiny(folder: Path) -> None:
    state = build_tiny(seed=0).unet.state_dict()
    refs = read_header(folder / "unet" / "diffusion_pytorch_model.safetensors")
    assert refs.keys() == state.keys()
    for name in ("conv_in.weight", "mid_block.attentions.0.transformer_blocks.1.ff.net.0.proj.weight"):
        assert torch.equal(refs[name].load(), state[name].half())


def test_onnx_weights_keep_their_names_and_nodes_their_module_path(folder: Path) -> None:
    model = ir.load(folder / "unet" / "model.onnx")
    refs = read_header(folder / "unet" / "diffusion_pytorch_model.safetensors")
    names = [node.name for node in model.graph]
    assert len(set(names)) == len(names) < 1000
    assert "/down_blocks.1/attentions.0/transformer_blocks.0/attn1/to_q/MatMul" in names
    external = {
        n: v.const_value for n, v in model.graph.initializers.items() if isinstance(v.const_value, ir.ExternalTensor)
    }
    assert external.keys() == refs.keys()
    assert all((t.offset, t.length) == (refs[n].offset, refs[n].length) for n, t in external.items())
    assert not any(node.metadata_props for node in model.graph)


def test_manifest_lists_what_is_there(folder: Path) -> None:
    pipeline = PipelineFolder.load(folder)
    pipeline.verify()
    assert sorted(pipeline.parts) == sorted(PARTS)
    assert pipeline.onnx("vae_decoder") == folder / "vae_decoder" / "model.onnx"
    assert pipeline.manifest["parts"]["unet"]["inputs"]["sample"]["shape"] == ["batch", 4, "height", "width"]
    assert str(folder.parent) not in (folder / "dpu_pipeline.json").read_text()


def test_a_second_run_keeps_finished_parts_and_repairs_damaged_ones(folder: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = (folder / "dpu_pipeline.json").read_text()
    with (copy / "text_encoder" / "model.onnx").open("ab") as f:
        f.write(b"damage")
    with pytest.raises(DpuError, match="SHA-256"):
        PipelineFolder.load(copy).verify()
    lines: list[str] = []
    export_tiny(copy, seed=0, progress=lines.append)
    assert [line for line in lines if "kept" not in line] == ["text_encoder: exporting", "text_encoder: tracing"]
    # Made again in the same environment it is the same file, byte for byte.
    assert (copy / "dpu_pipeline.json").read_text() == before
    assert not list(copy.glob(".*"))


def test_seeds_decide_weights(folder: Path) -> None:
    a, b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
    fill(a, seed=0, part="unet")
    fill(b, seed=0, part="unet")
    assert torch.equal(a.weight, b.weight) and torch.equal(a.bias, b.bias)
    fill(b, seed=1, part="unet")
    assert not torch.equal(a.weight, b.weight)


def test_a_local_folder_is_linked_or_converted(folder: Path, tmp_path: Path) -> None:
    export_sdxl(tmp_path / "same", source=folder, size=64, parts=["text_encoder"])
    linked = tmp_path / "same" / "unet" / "diffusion_pytorch_model.safetensors"
    assert sha256(linked) == sha256(folder / "unet" / "diffusion_pytorch_model.safetensors")
    static = ir.load(tmp_path / "same" / "text_encoder" / "model.onnx")
    assert _dims(static.graph.inputs[0].shape) == ["batch", 77]  # sizes are fixed, the number of prompts is not
    assert str(tmp_path) not in (tmp_path / "same" / "dpu_pipeline.json").read_text()
    export_sdxl(tmp_path / "wide", source=folder, size=64, precision="fp32", opset=20, parts=["text_encoder"])
    wide = tmp_path / "wide" / "text_encoder" / "model.onnx"
    ids = np.zeros((2, 77), np.int64)
    narrow = session(folder / "text_encoder" / "model.onnx").run(None, {"input_ids": ids})[0]
    assert np.abs(session(wide).run(None, {"input_ids": ids})[0] - narrow).max() < 0.02


@pytest.mark.parametrize(
    ("part", "weights", "nodes"),
    [
        ("unet", 2_567_463_684, 4_000),
        ("vae_decoder", 49_490_199, 200),
        ("text_encoder", 123_060_480 - 7_087_872 - 2 * 768, 400),  # neither the last layer nor the final norm
        ("text_encoder_2", 694_659_840, 1_100),
    ],
)
def test_weightless_sdxl_graphs_name_every_weight(part: str, weights: int, nodes: int) -> None:
    path = SDXL_CONFIGS / f"{part}.onnx"
    model = ir.load(path)
    assert external_elements(model) == weights
    assert model.graph.num_nodes() < nodes
    assert path.stat().st_size < 2_000_000
    assert all(v.shape is not None and v.shape.is_static() for v in [*model.graph.inputs, *model.graph.outputs])
    inline = [
        v.const_value for v in model.graph.initializers.values() if not isinstance(v.const_value, ir.ExternalTensor)
    ]
    assert all(t.nbytes <= 16_384 for t in inline)


def test_graph_only_needs_no_weights(tmp_path: Path) -> None:
    export_sdxl(tmp_path / "out", graph_only=True, parts=["vae_decoder"])
    made, kept = (ir.load(p) for p in (tmp_path / "out/vae_decoder/model.onnx", SDXL_CONFIGS / "vae_decoder.onnx"))
    assert [n.name for n in made.graph] == [n.name for n in kept.graph]  # else: regenerate configs/ (README)
    assert external_elements(made) == external_elements(kept)
    assert not list((tmp_path / "out").rglob("*.safetensors"))
    config = json.loads((tmp_path / "out" / "vae" / "config.json").read_text())  # sizes of the latent follow from it
    assert len(config["block_out_channels"]) == 4


def test_a_source_that_is_no_sdxl_folder_names_the_missing_file(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DpuError, match=r"model_index\.json: missing"):
        export_sdxl(tmp_path / "out", source=tmp_path / "nowhere")
    broken = tmp_path / "broken"
    shutil.copytree(folder, broken)
    (broken / "vae" / "config.json").unlink()
    with pytest.raises(DpuError, match=r"vae/config\.json: missing"):
        export_sdxl(tmp_path / "out", source=broken)
    index = json.loads((folder / "model_index.json").read_text())
    (broken / "model_index.json").write_text(json.dumps({**index, "_class_name": "FluxPipeline"}))
    shutil.copy(folder / "vae" / "config.json", broken / "vae")
    with pytest.raises(DpuError, match="FluxPipeline"):
        export_sdxl(tmp_path / "out", source=broken)


def test_other_bad_input_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DpuError, match="opset 9"):
        ExportSpec(opset=9)
    with pytest.raises(DpuError, match="100 pixels"):
        export_tiny(tmp_path / "out", size=100)
    with pytest.raises(DpuError, match="no part 'vae'"):
        export_tiny(tmp_path / "out", parts=["vae"])
    (tmp_path / "mine" / "unet").mkdir(parents=True)
    with pytest.raises(DpuError, match="no export wrote it"):
        export_tiny(tmp_path / "mine", parts=["unet"])
    cut = tmp_path / "cut.safetensors"
    write_weights(cut, {"a": (4,)}, torch.float32, lambda _: torch.zeros(4))
    cut.write_bytes(cut.read_bytes()[:-8])
    with pytest.raises(DpuError, match="tensor 'a' ends behind"):
        read_header(cut)
    with pytest.raises(DpuError, match="no readable pipeline manifest"):
        PipelineFolder.load(tmp_path)


def test_module_path_keeps_indices_with_their_list() -> None:
    scopes = "['', 'net', 'net.down_blocks.1', 'net.down_blocks.1.attentions.0', 'view']"
    assert module_path(scopes, "net.") == "/down_blocks.1/attentions.0"
    assert module_path("['', 'net', 'net.conv_in', 'conv2d']", "net.") == "/conv_in"
    assert module_path("", "net.") == ""
