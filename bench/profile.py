"""What one image of SDXL asks for: operations, multiply-accumulates and bytes, by part and class of operation.

`python -m dpu.bench.profile --output results/sdxl.json` or `dpubench profile`. Counted from the committed graphs
(`configs/workload/sdxl_base`), which have the shapes of 1024x1024; no weights and no GPU are needed. Other square sizes
are counted on graphs traced for them.

A layer is what a matrix product, a convolution or an attention of the graph is; its bytes are those of its operands and
its result in float16, each moved once: a fused program moves less, a program with too little on-chip memory more.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from ..errors import DpuError
from ..files import atomic_write, sha256

FORMAT: Literal["dpu.workload/1"] = "dpu.workload/1"
PARTS = ("text_encoder", "text_encoder_2", "unet", "vae_decoder")
LATENT_SCALE = 8  # pixels a latent, each way
_CLASSES = {
    "Conv": "convolution",
    "MatMul": "linear",
    "Gemm": "linear",
    "Attention": "attention",
    "GroupNormalization": "normalisation",
    "LayerNormalization": "normalisation",
    "Sigmoid": "activation",
    "Gelu": "activation",
    "Softmax": "activation",
    "Add": "element-wise",
    "Mul": "element-wise",
    "Resize": "data movement",
    "Concat": "data movement",
    "Transpose": "data movement",
    "Split": "data movement",
}
_FREE = ("Reshape", "Unsqueeze", "Identity", "Shape")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ClassWork(_Model):
    """All operations of one class in one run of a part, for one sample."""

    operations: int
    macs: int
    elements: int  # of results
    bytes: int  # read and written once each; weights are counted once a run


class Layer(_Model):
    """One product: the MACs and bytes of one sample; weights once."""

    name: str
    kind: str
    macs: int
    bytes: int
    weight_bytes: int


class Part(_Model):
    """One part: `macs` are those of one run for one sample, `runs` how often an image has it."""

    name: str
    macs: int
    runs: int
    weight_bytes: int
    graph_sha256: str
    classes: dict[str, ClassWork]
    layers: tuple[Layer, ...] = ()  # only where they were asked for: they are many


class Profile(_Model):
    """A workload file; `provenance` is counted: from the graphs, nothing ran."""

    format: Literal["dpu.workload/1"] = FORMAT
    provenance: Literal["counted"] = "counted"
    model: str = "sdxl-base-1.0"
    resolution: int
    steps: int
    scheduler: str = "euler"
    guidance: float
    command: str
    parts: tuple[Part, ...]

    @property
    def macs(self) -> int:
        """Of one image."""
        return sum(p.macs * p.runs for p in self.parts)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        text = self.model_dump_json(indent=1)
        with atomic_write(path) as temporary:
            temporary.write_text(text + "\n")

    def text(self) -> str:
        """The table that `dpubench profile` prints."""
        lines = [
            f"one image {self.resolution}x{self.resolution}, {self.steps} steps, guidance {self.guidance:g}:"
            f" {self.macs / 1e12:.2f} TMAC (counted from the graphs)",
            f"{'part':16}{'runs':>6}{'GMAC a run':>12}{'weights MB':>12}  by class: MAC, operations, MB moved a run",
        ]
        for p in self.parts:
            lines.append(f"{p.name:16}{p.runs:>6}{p.macs / 1e9:>12.1f}{p.weight_bytes / 1e6:>12.1f}")
            for name, work in p.classes.items():
                share = 100 * work.macs / p.macs if p.macs else 0.0
                lines.append(
                    f"    {name:18}{work.operations:>6}{work.macs / 1e9:>12.1f} GMAC {share:5.1f} % "
                    f"{work.bytes / 1e6:>10.1f} MB"
                )
        return "\n".join(lines)


def profile(
    resolution: int = 1024, steps: int = 20, guidance: float = 8.0, layers: bool = False, command: str = ""
) -> Profile:
    """Count one image; with `layers` also each product.

    Raises:
        DpuError: a size that the model cannot have, or no steps.
    """
    if resolution < 32 or resolution % 32:
        hint = "a multiple of 32, such as 1024"
        raise DpuError("--resolution", f"{resolution} is no size of SDXL", hint=hint, code="E501")
    if steps < 1:
        raise DpuError("--steps", f"{steps} is not 1 or more", code="E501")
    samples = 2 if guidance > 1 else 1
    runs = {"text_encoder": samples, "text_encoder_2": samples, "unet": samples * steps, "vae_decoder": 1}
    made = command or f"dpubench profile --resolution {resolution} --steps {steps} --guidance {guidance:g}"
    return Profile(
        resolution=resolution,
        steps=steps,
        guidance=guidance,
        command=made,
        parts=tuple(_part(p, runs[p], resolution // LATENT_SCALE, layers) for p in PARTS),
    )


def _graph(part: str, side: int) -> tuple[Any, str]:
    """(graph, digest of its file or none)."""
    import onnx_ir as ir

    from ..frontend.sdxl import SDXL_CONFIGS

    path = SDXL_CONFIGS / f"{part}.onnx"
    if side == 128 or part.startswith("text"):
        return ir.load(path), sha256(path)
    from ..frontend.export import ExportSpec, trace
    from ..frontend.onnx_graph import attach, name_nodes
    from ..frontend.pipeline_folder import read_json

    config = read_json(SDXL_CONFIGS / f"{'vae' if part == 'vae_decoder' else part}.json")
    model, weights = trace(part, config, ExportSpec(latent=(side, side), symbolic=False))
    attach(model, weights, None)
    name_nodes(model, "net.")
    return model, ""


def _part(part: str, runs: int, side: int, keep: bool) -> Part:
    import onnx_ir as ir

    model, digest = _graph(part, side)
    batch = int(model.graph.inputs[0].shape[0])
    weights = {v.name: v for v in model.graph.initializers.values() if isinstance(v.const_value, ir.ExternalTensor)}
    turned = {n.outputs[0]: n.inputs[0] for n in model.graph if n.op_type == "Transpose" and _is_weight(n.inputs[0])}
    classes: dict[str, list[int]] = {}
    layers = []
    for node in model.graph:
        if node.op_type in _FREE or node.outputs[0] in turned:
            continue
        kind = _CLASSES.get(node.op_type, "other")
        macs = macs_of(node)
        inputs = [v for v in node.inputs if v is not None]
        own = [turned.get(v, v) for v in inputs if _is_weight(turned.get(v, v))]
        held = 0 if node.op_type == "Gather" else sum(_bytes(v) for v in own)  # a look-up reads a few rows
        moved = sum(_bytes(v) for v in inputs if not _is_weight(turned.get(v, v))) + sum(map(_bytes, node.outputs))
        row = classes.setdefault(kind, [0, 0, 0, 0])
        for i, value in enumerate((1, macs // batch, sum(map(_size, node.outputs)) // batch, moved // batch + held)):
            row[i] += value
        if macs:
            layers.append(
                Layer(
                    name=layer_name(node.name or ""),
                    kind=kind,
                    macs=macs // batch,
                    bytes=moved // batch + held,
                    weight_bytes=held,
                )
            )
    order = sorted(classes, key=lambda k: (-classes[k][1], -classes[k][3]))
    return Part(
        name=part,
        macs=sum(x.macs for x in layers),
        runs=runs,
        weight_bytes=sum(map(_bytes, weights.values())),
        graph_sha256=digest,
        classes={
            k: ClassWork(operations=classes[k][0], macs=classes[k][1], elements=classes[k][2], bytes=classes[k][3])
            for k in order
        },
        layers=tuple(layers) if keep else (),
    )


def macs_of(node: Any) -> int:
    """Multiply-accumulates of one ONNX node: Conv, MatMul, Gemm and Attention (both of its products)."""
    out = _dims(node.outputs[0])
    if node.op_type == "Conv":
        weight = _dims(node.inputs[1])  # outputs x inputs of a group x height x width
        return prod(out) * prod(weight[1:])
    if node.op_type in ("MatMul", "Gemm"):
        return prod(out) * _dims(node.inputs[0])[-1]
    if node.op_type == "Attention":
        q, k, v = (_dims(x) for x in node.inputs[:3])
        return prod(q[:3]) * k[2] * (q[3] + v[3])
    return 0


def layer_name(node: str) -> str:
    """`/down_blocks.0/resnets.0/conv1/Conv` -> `down_blocks.0.resnets.0.conv1`."""
    return node.strip("/").replace("/", ".").rpartition(".")[0].removeprefix("text_model.")


def _dims(value: Any) -> tuple[int, ...]:
    return tuple(int(d) for d in value.shape) if value.shape is not None else ()


def _size(value: Any) -> int:
    return prod(_dims(value))


def _bytes(value: Any) -> int:
    return _size(value) * (int(value.dtype.itemsize) if value.dtype is not None else 2)


def _is_weight(value: Any) -> bool:
    return value is not None and bool(value.is_initializer())


def main(arguments: Iterable[str] | None = None) -> None:
    """`python -m dpu.bench.profile`: the verb `profile` of dpubench."""
    import sys

    from .cli.dpubench import main as dpubench

    given = list(sys.argv[1:] if arguments is None else arguments)
    sys.argv = ["dpubench", "profile", *given]
    dpubench()


if __name__ == "__main__":
    main()
