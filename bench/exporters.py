"""One canonical graph for all exporters: the tiny pipeline from each of them, compared with the opset 23 export.

The exporters of torch run here; what Optimum, onnxslim and onnxsim made of the same model is kept in
`tests/data/optimum`, without weights but with the names of the seeded tensors that they were.
"""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
from pydantic import BaseModel, ConfigDict
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp

from ..errors import DpuError
from ..files import atomic_write
from ..frontend.compare import same_graph
from ..frontend.importer import import_onnx
from ..frontend.weights import Entry, WeightStore
from ..ir.graph import ParamOp
from ..passes.pipeline import FLOAT_PIPELINE, run_passes

DATA = Path(__file__).parent.parent / "tests" / "data" / "optimum"
ABSENT = "weights-absent"
"""The external data file that graphs without weights name; it does not exist."""
PARTS = ("unet", "vae_decoder", "text_encoder", "text_encoder_2")
SIDE, TOKENS = 8, 77
FIXED: dict[str, dict[str, tuple[int, ...]]] = {
    "unet": {
        "sample": (2, 4, SIDE, SIDE),
        "encoder_hidden_states": (2, TOKENS, 192),
        "text_embeds": (2, 128),
        "time_ids": (2, 6),
    },
    "vae_decoder": {"latent_sample": (1, 4, SIDE, SIDE)},
    "text_encoder": {"input_ids": (2, TOKENS)},
    "text_encoder_2": {"input_ids": (2, TOKENS)},
}
"""The shape of every input with open dimensions, by the names Optimum gives; `timestep` is a scalar."""
COMMITTED = {
    "Optimum": "",
    "Optimum, onnxslim": "onnxslim",
    "Optimum, onnxslim at fixed sizes": "onnxslim_fixed",
    "Optimum, onnxsim": "onnxsim",
    "Optimum, onnxsim at fixed sizes": "onnxsim_fixed",
}
"""Exporters whose graphs are kept: name -> folder below `DATA`."""
OPSETS = (23, 21, 20, 18)
Model = tuple[ModuleOp, WeightStore]
Progress = Callable[[str], None]


class ExporterRow(BaseModel):
    """One part from one exporter: ONNX nodes in, canonical operations out, differences from the reference."""

    model_config = ConfigDict(frozen=True)

    exporter: str
    part: str
    nodes: int
    operations: int
    differences: tuple[str, ...]


class Exporters(BaseModel):
    """All parts from all exporters, and the versions of the packages that ran here."""

    model_config = ConfigDict(frozen=True)

    reference: str
    versions: dict[str, str]
    rows: tuple[ExporterRow, ...]

    def save(self, path: Path) -> None:
        """Write JSON atomically."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")

    def text(self) -> str:
        """A line an exporter: `nodes -> operations` of each part, and what differs."""
        lines = [f"{'exporter':<34}" + "".join(f"{part:>18}" for part in PARTS)]
        notes = []
        for exporter in dict.fromkeys(r.exporter for r in self.rows):
            rows = {r.part: r for r in self.rows if r.exporter == exporter}
            cells = []
            for part in PARTS:
                row = rows.get(part)
                sign = "" if row is None else " =" if not row.differences else " !"
                cells.append(f"{row.nodes} -> {row.operations}{sign}" if row else "not here")
                notes += [f"! {exporter}, {part}: {d}" for d in row.differences] if row else []
            lines.append(f"{exporter:<34}" + "".join(f"{c:>18}" for c in cells))
        return "\n".join([*lines, f"= the same graph and weights as {self.reference}", *notes])


def measure(say: Progress = lambda _: None) -> Exporters:
    """Export with everything that is here, read what is kept, compare.

    Raises:
        DpuError: an export that the compiler does not accept.
    """
    from ..frontend.sdxl import export_tiny, versions
    from ..frontend.tiny import build_tiny

    rows: list[ExporterRow] = []
    references: dict[str, Model] = {}

    def add(exporter: str, part: str, path: Path, model: Model) -> None:
        reference = references.setdefault(part, model)
        differences = same_graph(*reference, *model)
        nodes = len(ir.load(path).graph)
        rows.append(
            ExporterRow(
                exporter=exporter,
                part=part,
                nodes=nodes,
                operations=operations(model[0]),
                differences=tuple(differences),
            )
        )

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for opset, precision in [*((o, "fp16") for o in OPSETS), (OPSETS[0], "fp32")]:
            exporter = f"dynamo, opset {opset}" + (", float32" if precision == "fp32" else "")
            say(exporter)
            out = folder / f"{opset}-{precision}"
            export_tiny(out, opset=opset, precision=precision)  # type: ignore[arg-type]
            for part in PARTS:
                path = out / part / "model.onnx"
                add(exporter, part, path, canonical(path, part))
        say("TorchScript")
        pipe = build_tiny()
        for part in PARTS:
            path = folder / "torchscript" / part / "model.onnx"
            torchscript(pipe, part, path)
            one_file_a_tensor(path)
            add("TorchScript, one file a tensor", part, path, canonical(path, part))
        for exporter, place in COMMITTED.items():
            say(exporter)
            for part in PARTS:
                path = DATA / place / f"{part}.onnx"
                if path.is_file():
                    add(exporter, part, path, committed(path, part))
    return Exporters(reference=rows[0].exporter, versions=versions(), rows=tuple(rows))


def operations(module: ModuleOp) -> int:
    """The number of canonical operations, parameters not counted."""
    functions = [op for op in module.ops if isinstance(op, FuncOp)]
    return sum(1 for f in functions for op in f.body.block.ops if not isinstance(op, ParamOp)) - len(functions)


def canonical(path: Path, part: str, *, absent: bool = False) -> Model:
    """One ONNX file in canonical form, at the sizes of `FIXED`.

    Raises:
        DpuError: the compiler does not accept it.
    """
    first = {"sample", "latent", "latent_sample", "input_ids"} & {str(v.name) for v in ir.load(path).graph.inputs}
    shapes = {name: next(iter(FIXED[part].values())) for name in first}
    module, store = import_onnx(path, shapes=shapes, part=part, weights="absent" if absent else "required")
    run_passes(module, FLOAT_PIPELINE)
    return module, store


def committed(path: Path, part: str) -> Model:
    """A graph of `DATA` in canonical form, its weights made again from the seed.

    Raises:
        DpuError: the compiler does not accept it.
    """
    module, store = canonical(path, part, absent=True)
    for name, recipe in recipes(path).items():
        if (source := f"{part}::{name}") in store:
            shape = store.entry(source).shape

            def read(recipe: str = recipe, shape: tuple[int, ...] = shape) -> npt.NDArray[Any]:
                return _seeded(part, recipe).reshape(shape)

            store.add(source, Entry(shape, np.dtype(np.float32), read=read))
    return module, store


def fill(path: Path, part: str) -> ir.Model:
    """A graph of `DATA` with its weights."""
    model = ir.load(path)
    for name, recipe in recipes(path).items():
        value = model.graph.initializers[name]
        assert value.const_value is not None
        array = _seeded(part, recipe).astype(np.float32).reshape(value.const_value.shape.numpy())
        value.const_value = ir.Tensor(np.ascontiguousarray(array), name=name)
    return model


def recipes(path: Path) -> dict[str, str]:
    """Initialisers of a graph of `DATA` that stand for weights: name -> which seeded tensors they were."""
    found = {str(v.name): v.const_value for v in ir.load(path).graph.initializers.values()}
    return {name: str(t.doc_string) for name, t in found.items() if isinstance(t, ir.ExternalTensor)}


def _seeded(part: str, recipe: str) -> npt.NDArray[Any]:
    """The tensor of a recipe, `name[128,192]^T|other[...]`."""
    from ..frontend.seeded import seeded_tensor

    values = []
    for tensor in recipe.split("|"):
        found = re.fullmatch(r"(.+)\[([\d,]+)\](\^T)?", tensor)
        if found is None:
            raise DpuError(
                recipe, "no recipe of a weight", hint="make the data again: tests/data/optimum/make.py", code="E115"
            )
        shape = tuple(int(d) for d in found[2].split(","))
        value = seeded_tensor(0, "vae" if part == "vae_decoder" else part, found[1], shape).numpy()
        values.append(value.T if found[3] else value)
    return np.concatenate(values, -1)


def torchscript(pipe: Any, part: str, path: Path) -> None:
    """Export one part with the TorchScript exporter, the way Optimum does: opset 18, float32, sizes open."""
    import torch

    path.parent.mkdir(parents=True, exist_ok=True)
    net = pipe.vae if part == "vae_decoder" else getattr(pipe, part)
    inputs = {"latent" if n == "latent_sample" else n: torch.zeros(s) for n, s in FIXED[part].items()}
    outputs, forward = ["hidden_states"], net.forward
    if part == "unet":
        outputs = ["out_sample"]
        inputs = {"sample": inputs.pop("sample"), "timestep": torch.tensor(501.0), **inputs}

        def call(sample: Any, timestep: Any, encoder_hidden_states: Any, text_embeds: Any, time_ids: Any) -> Any:
            added = {"text_embeds": text_embeds, "time_ids": time_ids}
            return forward(sample, timestep, encoder_hidden_states, added_cond_kwargs=added, return_dict=False)[0]

    elif part == "vae_decoder":
        outputs = ["image"]

        def call(latent: Any) -> Any:  # type: ignore[misc]
            return net.decode(latent, return_dict=False)[0]

    else:
        outputs += ["text_embeds"] * (part == "text_encoder_2")
        inputs = {n: x.long() for n, x in inputs.items()}

        def call(input_ids: Any) -> Any:  # type: ignore[misc]
            out = forward(input_ids, output_hidden_states=True)
            return (out.hidden_states[-2], out.text_embeds) if part == "text_encoder_2" else out.hidden_states[-2]

    sides = {2: "height", 3: "width"}
    axes = {n: {0: "batch"} | (sides if x.ndim == 4 else {}) for n, x in inputs.items() if x.ndim}
    net.forward = call  # a wrapper would put its own name in front of every node's
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                net,
                tuple(inputs.values()),
                path,
                dynamo=False,
                opset_version=18,
                input_names=list(inputs),
                output_names=outputs,
                dynamic_axes=axes,
            )
    finally:
        del net.forward


def one_file_a_tensor(path: Path) -> None:
    """Write a model's weights beside it, as the TorchScript exporter does by itself above 2 GiB."""
    import onnx

    model = onnx.load(path)
    onnx.save(model, path, save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
