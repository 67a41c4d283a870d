"""The ONNX graph of a part at a fixed batch and size, its weights outside it by their names.

The committed graphs of SDXL base (1024x1024, two samples) are used where they fit: tracing the UNet takes a minute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx_ir as ir

from ...errors import DpuError
from .ort_rewrite.nodes import add_constant, attribute, dims, external

SDXL_LATENT = (128, 128)
_COMMITTED_BATCH = {"unet": 2, "vae_decoder": 1}


def part_graph(
    part: str, config: Mapping[str, Any], batch: int, latent: tuple[int, int], precision: str = "fp16"
) -> ir.Model:
    """The graph of "unet" or "vae_decoder" for `batch` samples of latents of `latent` (height, width).

    Its weights are external initialisers named as in the state dictionary; nothing else is symbolic.
    """
    if precision == "fp16" and latent == SDXL_LATENT and _is_base(part, config):
        from ...frontend.sdxl import SDXL_CONFIGS

        model = ir.load(SDXL_CONFIGS / f"{part}.onnx")
        rebatch(model, _COMMITTED_BATCH[part], batch)
    else:
        model = _trace(part, config, batch, latent, precision)
    for name, value in model.graph.initializers.items():
        if isinstance(value.const_value, ir.ExternalTensor) and value.dtype is not None:
            value.const_value = external(name, value.dtype, dims(value))
    return model


def _is_base(part: str, config: Mapping[str, Any]) -> bool:
    from ...frontend.pipeline_folder import read_json
    from ...frontend.sdxl import SDXL_CONFIGS

    base = read_json(SDXL_CONFIGS / f"{'vae' if part == 'vae_decoder' else part}.json")
    return _shape_of(base) == _shape_of(config)


def _shape_of(config: Mapping[str, Any]) -> dict[str, Any]:
    """What the graph depends on: everything but names, versions and sizes."""
    kept = {k: v for k, v in config.items() if not k.startswith("_") and k not in ("sample_size", "force_upcast")}
    return {k: list(v) if isinstance(v, tuple) else v for k, v in kept.items() if v is not None}


def _trace(part: str, config: Mapping[str, Any], batch: int, latent: tuple[int, int], precision: str) -> ir.Model:
    from typing import cast

    from ...frontend.export import ExportSpec, Precision, trace
    from ...frontend.onnx_graph import attach, name_nodes

    if part == "vae_decoder" and batch != 1:
        raise DpuError("gpu", f"a VAE decoder for {batch} images", hint="decode one image at a time", code="E501")
    spec = ExportSpec(precision=cast(Precision, precision), batch=batch, latent=latent, symbolic=False)
    model, weights = trace(part, config, spec)
    attach(model, weights, None)
    name_nodes(model, "net.")
    return model


def rebatch(model: ir.Model, before: int, after: int) -> None:
    """Change the batch of a graph with static shapes: of every value, and in the constants of Reshape and Expand.

    A first dimension that is a multiple of `before` scales; those of the exported parts are samples, or six numbers a
    sample, or weights, which stay.
    """
    graph = model.graph
    values = [v for v in graph.inputs if v.name != "timestep"]
    for node in graph:
        if node.op_type == "Transpose" and node.inputs[0] is not None and node.inputs[0].is_initializer():
            continue  # a weight
        values += node.outputs
    for value in values:
        shape = dims(value)
        if before != after and shape and shape[0] % before == 0:
            value.shape = ir.Shape([shape[0] // before * after, *shape[1:]])
    for node in graph:
        if node.op_type not in ("Reshape", "Expand"):
            continue
        target = np.array(dims(node.outputs[0]), np.int64)
        name = "shape_" + "x".join(map(str, target))
        node.replace_input_with(1, add_constant(graph, name, target))
        if node.op_type == "Reshape" and attribute(node, "allowzero", 0):
            del node.attributes["allowzero"]  # no dimension is zero
