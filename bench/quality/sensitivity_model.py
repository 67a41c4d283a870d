"""The pipeline in float32 with chosen layers quantised: what a policy does to the final picture, in a second.

The layers are those of `runtime/fake_quantise.py`: the program's quantisers and scales around float32 arithmetic. It
stands in for the bit-exact simulator, which takes ten times as long and a compilation for each policy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy.typing as npt
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation

from ...ir import graph as g
from ...ir.locations import nodes_of
from ...ir.naming import op_names
from ...passes.calibration import load_calibration, statistic_name
from ...passes.policy import Policy, Precision
from ...passes.quantise_attention import attention_of
from ...runtime.fake_quantise import QUANTISED, FakeQuantiser
from ...runtime.pipeline import HalfWay, Image, Pipeline, Request
from ...runtime.pipeline_files import FolderFiles
from ...runtime.sensitivity import unet_inputs
from ...runtime.tensors import F32

if TYPE_CHECKING:
    from torch import Tensor
    from xdsl.dialects.builtin import ModuleOp

    from ...runtime.float_interpreter import Get, Weights
    from ...runtime.parts import Part

TEXT = ("text_encoder", "text_encoder_2")
PARTS = (*TEXT, "unet", "vae_decoder")
"""In the order in which a picture meets them."""

Key = tuple[str, str]
"""A layer: its part and its name."""
Precisions = Mapping[Key, Precision]
"""What is quantised, and how; the other layers stay float32."""


@dataclass(frozen=True)
class Layer:
    """A layer that a policy speaks of. `names` are all that a rule may call it; layers of one `unit` read the same
    values for one attention, and are one operation of the program as long as they are quantised alike."""

    part: str
    name: str
    kind: str  # linear, conv, attention
    names: tuple[str, ...]
    unit: str

    @property
    def key(self) -> Key:
        """Part and name."""
        return self.part, self.name


class FakePipeline:
    """An exported pipeline whose layers are float32, or quantised as each picture asks.

    Raises:
        DpuError: the folder is no exported pipeline, or the calibration is of another model.
    """

    def __init__(self, folder: Path, calibration: Path, size: int) -> None:
        from ...codegen.driver import check_calibration
        from ...frontend.part_shapes import part_shapes
        from ...runtime.calibrate import canonical_unet
        from ...runtime.parts import canonical_part, float_part
        from ...runtime.unets import FloatUnet

        statistics = load_calibration(calibration)
        check_calibration(statistics, folder / "unet" / "model.onnx")
        self.size, self.statistics = size, statistics
        self._ops: dict[Key, Operation] = {}
        self._precisions: dict[Operation, Precision] = {}
        self.layers: list[Layer] = []
        self._pipeline = Pipeline(FolderFiles(folder))
        latent = (size // self._pipeline.scale,) * 2
        made: dict[str, Part] = {}
        for part in PARTS:
            if part == "unet":
                module, weights = canonical_unet(folder, 2, latent)
                self._graph = module, weights
                self._unet = FloatUnet(module, weights)
                self._unet.override = self._quantiser(part, module)
            else:
                graph, store = canonical_part(folder, part, part_shapes(folder / part / "model.onnx", latent))
                made[part] = float_part(part, graph, store, override=self._quantiser(part, graph))
        self._pipeline.parts |= made
        self._encoded: dict[tuple[object, ...], HalfWay] = {}
        self._denoised: dict[tuple[object, ...], Image] = {}

    @property
    def unet(self) -> tuple[ModuleOp, Weights]:
        """The canonical UNet and its weights."""
        return self._graph

    def inputs(self, prompt: str, steps: int, seed: int, guidance: float, count: int) -> list[dict[str, npt.ArrayLike]]:
        """What the UNet sees in `count` steps of the float32 picture."""
        self._precisions.clear()
        request = Request(prompt, seed=seed, steps=steps, guidance=guidance, height=self.size, width=self.size)
        return unet_inputs(self._pipeline, request, *self._graph, count)

    def _quantiser(self, part: str, module: ModuleOp) -> _Override:
        """Records the layers of a part, and quantises those that `self._precisions` has."""
        names = op_names(module)
        for function in (f for f in module.ops if isinstance(f, FuncOp)):
            for op in function.body.block.ops:
                if isinstance(op, QUANTISED):
                    name = names[op]
                    every = (statistic_name(part, name), *nodes_of(op))
                    self.layers.append(Layer(part, name, op.name.removeprefix("dpu."), every, _unit(op, names)))
                    self._ops[part, name] = op
        return _Override(FakeQuantiser(module, self.statistics, part, keep=True), self._precisions)

    def op(self, key: Key) -> Operation:
        """The operation of a layer in its part's canonical graph."""
        return self._ops[key]

    @cached_property
    def of(self) -> dict[Key, Layer]:
        """The layers by part and name."""
        return {layer.key: layer for layer in self.layers}

    def picture(self, prompt: str, steps: int, seed: int, guidance: float, precisions: Precisions) -> tuple[F32, F32]:
        """The picture [height, width, 3] from 0 to 1, and the final latents, with these layers quantised; what comes
        before the first of them is made once.

        Raises:
            DpuError: the calibration has no statistics of a layer.
        """
        self._precisions.clear()
        self._precisions.update({self._ops[k]: p for k, p in precisions.items()})
        request = Request(prompt, seed=seed, steps=steps, guidance=guidance, height=self.size, width=self.size)
        text = tuple(sorted((k, str(p)) for k, p in precisions.items() if k[0] in TEXT))
        unet = tuple(sorted((k, str(p)) for k, p in precisions.items() if k[0] == "unet"))
        start = self._start(request, text)
        if unet or text:
            denoised = self._pipeline.generate(request, self._unet, decode=False, half_way=start)
        else:  # only the VAE, or nothing: one denoising in float32 serves all
            key = (prompt, steps, seed, guidance)
            if key not in self._denoised:
                self._denoised[key] = self._pipeline.generate(request, self._unet, decode=False, half_way=start)
            denoised = self._denoised[key]
        return self._pipeline.decode_floats(denoised.latents), denoised.latents

    def _start(self, request: Request, text: tuple[object, ...]) -> HalfWay:
        key = (request.prompt, request.seed, request.steps, request.guidance, text)
        if key not in self._encoded:
            if text:  # each is asked for by one precision; those of float32 text encoders by all others
                self._encoded = {k: v for k, v in self._encoded.items() if not k[-1]}
            noise = self._pipeline.noise(request, self._pipeline.scheduler(request.steps)).numpy()
            self._encoded[key] = HalfWay(0, noise, self._pipeline.encode(request))
        return self._encoded[key]


class _Override:
    """Quantises the layers that are asked for."""

    def __init__(self, quantiser: FakeQuantiser, precisions: Mapping[Operation, Precision]) -> None:
        self._quantiser = quantiser
        self._quantiser.precisions = precisions
        self._precisions = precisions

    def __call__(self, op: Operation, get: Get) -> Tensor | None:
        return self._quantiser(op, get) if op in self._precisions else None


def _unit(op: Operation, names: Mapping[Operation, str]) -> str:
    """The name of the first layer that shares an input and an attention with this one."""
    if not isinstance(op, g.LinearOp) or (attention := attention_of(op)) is None:
        return names[op]
    for role in ("q", "k", "v"):
        owner = getattr(attention, role).owner
        if isinstance(owner, g.LinearOp) and (owner.x, owner.x2) == (op.x, op.x2):
            return names[owner]
    return names[op]


def weight_node(layer: Layer) -> str:
    """The ONNX node that has the layer's weights, or its attention; else the layer's name."""
    kinds = ("MatMul", "Gemm", "Conv", "Attention")
    return next((n for n in layer.names[1:] if n.rsplit("/", 1)[-1] in kinds), layer.name)


def block_of(layer: Layer) -> str:
    """The part, and what the layer's node begins with: down to a resnet, an attention, a layer of a text encoder."""
    names = [n for n in weight_node(layer).split("/") if n]
    names = names[1:] if names[0] in ("decoder", "encoder") else names
    depth = 2 if "." in names[0] or names[0].endswith("_block") else 1
    return "/".join([layer.part, *names[: min(depth, len(names) - 1)]])


def resolved(policy: Policy, layers: Sequence[Layer]) -> dict[Key, Precision]:
    """The precision of every layer by a policy."""
    found = {}
    for layer in layers:
        rule = next((i for i, r in enumerate(policy.rules) if r.names(layer.part, layer.names)), None)
        found[layer.key] = policy.resolve(rule)
    return found
