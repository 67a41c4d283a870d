"""One part of an SDXL pipeline -> ONNX, traced on the meta device.

Nothing is computed and no weight is read: the trace needs a config only, takes the memory of the graph alone, and the
weights of the ONNX file are places in a safetensors file (or absent, for a graph that is only looked at).
"""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import onnx_ir as ir
import torch

from ..errors import DpuError
from ..files import atomic_write
from .onnx_graph import attach, fold, name_nodes, rename_dims
from .weight_files import WeightRef

Precision = Literal["fp16", "fp32"]
PARTS = ("unet", "vae_decoder", "text_encoder", "text_encoder_2")
OPSETS = range(18, 25)
_MODULE = "net"  # the attribute of each wrapper below: the prefix of every traced name


@dataclass(frozen=True)
class ExportSpec:
    """How to export: opset, type of weights and activations, and sizes that are fixed or only an example.

    `latent` is (height, width), `batch` that of UNet and text encoders; with `symbolic` the graph keeps both open (the
    VAE decoder's batch is always 1).
    """

    opset: int = 23
    precision: Precision = "fp16"
    batch: int = 2
    latent: tuple[int, int] = (16, 16)
    symbolic: bool = True

    def __post_init__(self) -> None:
        if self.opset not in OPSETS:
            raise DpuError(
                "--opset",
                f"opset {self.opset} is not supported",
                hint=f"choose one from {OPSETS[0]} to {OPSETS[-1]}; 23 has Attention and GroupNormalization",
                code="E501",
            )
        if self.precision not in ("fp16", "fp32"):
            raise DpuError(
                "--precision", f"'{self.precision}' is no type of weights", hint="choose fp16 or fp32", code="E501"
            )
        if any(side < 4 or side % 4 for side in self.latent):
            raise DpuError(
                "export",
                f"a latent of {self.latent[0]}x{self.latent[1]}",
                why="the UNet halves both sides twice and returns to the same size",
                hint="choose an image size that is a multiple of 32 pixels",
                code="E501",
            )

    @property
    def dtype(self) -> torch.dtype:
        """The torch type of weights and activations."""
        return torch.float16 if self.precision == "fp16" else torch.float32


class _Unet(torch.nn.Module):
    def __init__(self, net: torch.nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, sample: Any, timestep: Any, encoder_hidden_states: Any, text_embeds: Any, time_ids: Any) -> Any:
        # diffusers concatenates text_embeds with float32 time embeddings; torch promotes, the exporter does not.
        added = {"text_embeds": text_embeds.float(), "time_ids": time_ids}
        return self.net(sample, timestep, encoder_hidden_states, added_cond_kwargs=added, return_dict=False)[0]


class _VaeDecoder(torch.nn.Module):
    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, latent: Any) -> Any:
        return self.net.decode(latent, return_dict=False)[0]


class _TextEncoder(torch.nn.Module):
    def __init__(self, net: torch.nn.Module, pooled: bool) -> None:
        super().__init__()
        self.net, self.pooled = net, pooled

    def forward(self, input_ids: Any) -> Any:
        # Given here, the positions are a constant of the graph and not a buffer that has no value on meta.
        positions = torch.arange(input_ids.shape[1], device=input_ids.device)[None]
        out = self.net(input_ids, position_ids=positions, output_hidden_states=True)
        return (out.hidden_states[-2], out.text_embeds) if self.pooled else out.hidden_states[-2]


def build_module(component: str, config: Mapping[str, Any]) -> torch.nn.Module:
    """The torch module of "unet", "vae", "text_encoder" or "text_encoder_2", on the current default device."""
    import diffusers
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    if component in ("unet", "vae"):
        untyped: Any = diffusers
        cls = untyped.UNet2DConditionModel if component == "unet" else untyped.AutoencoderKL
        return cast(torch.nn.Module, cls.from_config(dict(config)))
    kind = CLIPTextModel if component == "text_encoder" else CLIPTextModelWithProjection
    return cast(torch.nn.Module, kind(CLIPTextConfig(**config)))


def meta_module(component: str, config: Mapping[str, Any], dtype: torch.dtype = torch.float32) -> torch.nn.Module:
    """The module with shapes but no values."""
    with torch.device("meta"):
        module = build_module(component, config)
    return torch.nn.Module.to(module, dtype).eval().requires_grad_(False)


def trace(part: str, config: Mapping[str, Any], spec: ExportSpec) -> tuple[ir.Model, list[str]]:
    """Trace one part. Returns the folded, named graph, its weights still inputs, and the weights' names."""
    component = "vae" if part == "vae_decoder" else part
    module = meta_module(component, config, spec.dtype)
    wrapper, inputs, dims, outputs = _signature(part, module, config, spec)
    with warnings.catch_warnings(), _quiet("torch.onnx"):
        warnings.simplefilter("ignore")
        program = torch.onnx.export(
            wrapper.eval(),
            tuple(inputs.values()),
            dynamo=True,
            optimize=False,
            verbose=False,
            opset_version=spec.opset,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=dims if spec.symbolic else None,
        )
    assert program is not None
    model = program.model
    weights = fold(model, f"{_MODULE}.")
    _rename_sides(model, part, config)
    return model, weights


def export_part(
    part: str,
    config: Mapping[str, Any],
    out: Path,
    spec: ExportSpec,
    refs: Mapping[str, WeightRef] | None,
) -> ir.Model:
    """Write the ONNX file of one part to `out`; its weights stay where `refs` says, in the same folder as `out`."""
    model, weights = trace(part, config, spec)
    attach(model, weights, refs)
    name_nodes(model, f"{_MODULE}.")
    model.graph.name = part
    model.producer_name, model.producer_version = "dpu", None
    with atomic_write(out) as temporary:
        ir.save(model, temporary, format="protobuf")
    return model


def _signature(
    part: str, module: torch.nn.Module, config: Mapping[str, Any], spec: ExportSpec
) -> tuple[torch.nn.Module, dict[str, torch.Tensor], Any, list[str]]:
    """The wrapper, its named example inputs, their open dimensions and the names of the outputs."""
    side = torch.export.Dim.AUTO
    b, (h, w) = spec.batch, spec.latent

    def tensor(*shape: int, dtype: torch.dtype = spec.dtype) -> torch.Tensor:
        return torch.empty(shape, dtype=dtype, device="meta")

    if part == "unet":
        tokens, width = 77, config["cross_attention_dim"]
        pooled = config["projection_class_embeddings_input_dim"] - 6 * config["addition_time_embed_dim"]
        batch = torch.export.Dim("batch", max=63)  # diffusers' upsampling has a branch at 64
        inputs = {
            "sample": tensor(b, config["in_channels"], h, w),
            "timestep": tensor(1, dtype=torch.float32),
            "encoder_hidden_states": tensor(b, tokens, width),
            "text_embeds": tensor(b, pooled),
            "time_ids": tensor(b, 6),
        }
        dims = ({0: batch, 2: side, 3: side}, None, {0: batch}, {0: batch}, {0: batch})
        return _Unet(module), inputs, dims, ["out_sample"]
    if part == "vae_decoder":
        inputs = {"latent": tensor(1, config["latent_channels"], h, w)}
        return _VaeDecoder(module), inputs, ({2: side, 3: side},), ["image"]
    pooled_too = part == "text_encoder_2"
    inputs = {"input_ids": tensor(b, config["max_position_embeddings"], dtype=torch.int64)}
    names = ["hidden_states", "text_embeds"] if pooled_too else ["hidden_states"]
    return _TextEncoder(module, pooled_too), inputs, ({0: torch.export.Dim("batch")},), names


def _rename_sides(model: ir.Model, part: str, config: Mapping[str, Any]) -> None:
    first = model.graph.inputs[0]
    if part not in ("unet", "vae_decoder") or first.shape is None or len(first.shape) != 4:
        return
    symbols = [None if isinstance(d, int) else d.value for d in list(first.shape)[2:]]
    names = {s: n for s, n in zip(symbols, ("height", "width"), strict=True) if s is not None}
    rename_dims(model, names)
    if part == "unet" and names:  # the exporter's 4*((height-1)//4)+4 is height for every size the UNet takes
        sample = model.graph.inputs[0].shape
        assert sample is not None
        model.graph.outputs[0].shape = ir.Shape([sample[0], config["out_channels"], sample[2], sample[3]])


class _quiet:
    """Raise the level of a logger for a while: the exporter warns about packages that are not used."""

    def __init__(self, name: str) -> None:
        self.logger = logging.getLogger(name)

    def __enter__(self) -> None:
        self.level = self.logger.level
        self.logger.setLevel(logging.ERROR)

    def __exit__(self, *_: object) -> None:
        self.logger.setLevel(self.level)
