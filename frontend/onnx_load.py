"""Opening an ONNX file: read it, inline its functions, bind its open dimensions, find its weights on disk."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import onnx_ir as ir
from onnx_ir.passes.common import InlinePass, RemoveUnusedNodesPass

from ..errors import DpuError, reason, refusing
from ..files import sha256
from . import interface
from .weights import Entry, WeightStore, missing, too_short

Weights = Literal["required", "absent"]
OPSETS = range(17, 25)


@dataclass(frozen=True)
class Loaded:
    """An ONNX graph that is ready to be walked: no functions, static inputs, weights named in a store."""

    file: Path
    part: str
    graph: ir.Graph
    opset: int
    inputs: dict[str, tuple[int, ...]]
    store: WeightStore

    def source(self, name: str) -> str:
        """The weight store's name of an initializer."""
        return f"{self.part}::{name}"


def load(path: Path, shapes: Mapping[str, tuple[int, ...]], part: str, weights: Weights) -> Loaded:
    """Open one ONNX file.

    Args:
        path: the `.onnx` file.
        shapes: static shapes of inputs that have open dimensions; a symbol bound by one input holds for all.
        part: the prefix of its parameters' names; of a part of SDXL, inputs and outputs get their canonical names.
        weights: "required" insists on every weight being there, "absent" takes shapes where there are no values.

    Raises:
        DpuError: no ONNX file, an opset that is not supported, an open dimension left, a weight file missing.
    """
    model = read(path)
    opset = model.opset_imports.get("", model.opset_imports.get("ai.onnx", 0))
    if opset not in OPSETS:
        raise DpuError(
            str(path),
            f"opset {opset} is not supported",
            why="operators changed their meaning between opsets",
            hint=f"export with an opset from {OPSETS[0]} to {OPSETS[-1]}",
            code="E103",
        )
    if model.functions:
        hint = "export again without functions of the model's own"
        with refusing(str(path), "its functions cannot be inlined", hint=hint, code="E102"):
            model = InlinePass()(model).model
    shapes = {interface.input_name(part, name): shape for name, shape in shapes.items()}
    _name_boundary(model, part)
    store = WeightStore()
    for value in model.graph.initializers.values():
        tensor = value.const_value
        assert value.name is not None and tensor is not None
        source = f"{part}::{value.name}"
        store.add(source, _entry(path, source, tensor, weights))
    return Loaded(path, part, model.graph, opset, _bind(path, model.graph, shapes), store)


def _name_boundary(model: ir.Model, part: str) -> None:
    """Give inputs and outputs their canonical names; leave out outputs that nobody wants and what only they need."""
    graph = model.graph
    wanted = interface.outputs(part, [str(v.name) for v in graph.outputs])
    if len(wanted) < len(graph.outputs):
        by_name = {str(v.name): v for v in graph.outputs}
        graph.outputs[:] = [by_name[name] for name in wanted]
        RemoveUnusedNodesPass()(model)
    names = {v: interface.input_name(part, str(v.name)) for v in graph.inputs}
    names |= {v: wanted[str(v.name)] for v in graph.outputs}
    names = {v: name for v, name in names.items() if v.name != name}
    for value in (v for node in graph for v in node.outputs) if names else ():
        if value not in names and value.name in names.values():
            value.name = f"{value.name}:inner"
    for value, name in names.items():
        value.name = name


def read(path: Path) -> ir.Model:
    """The model in a file, its weights not yet looked at.

    Raises:
        DpuError: there is no such file, or it is no ONNX model.
    """
    if path.is_dir():
        raise DpuError(str(path), "is a folder", hint="give the path of an .onnx file in it", code="E102")
    try:
        if path.stat().st_size == 0:
            raise ValueError("the file is empty")
        model = ir.load(path)
        if not model.graph.outputs:
            raise ValueError("it has no graph, or a graph without outputs")
        return model
    except FileNotFoundError as e:
        raise DpuError(str(path), "no such file", hint="give the path of an .onnx file", code="E106") from e
    except Exception as e:  # protobuf and onnx_ir raise classes of their own
        raise DpuError(
            str(path),
            f"not a readable ONNX model ({reason(e)})",
            why="the file is cut off, is no ONNX protobuf, or is a Git LFS pointer",
            hint="copy, download or export the file again",
            code="E102",
        ) from e


def weights_digest(path: Path) -> str:
    """A SHA-256 over the external data files of a model, in the order of their names.

    Raises:
        DpuError: a file is missing.
    """
    tensors = [v.const_value for v in read(path).graph.initializers.values()]
    digest = hashlib.sha256()
    for name in sorted({str(t.location) for t in tensors if isinstance(t, ir.ExternalTensor)}):
        file = path.parent / name
        if not file.is_file():
            raise missing(file)
        digest.update(sha256(file).encode())
    return digest.hexdigest()


def _entry(path: Path, source: str, tensor: ir.TensorProtocol, weights: Weights) -> Entry:
    shape = tuple(int(d) for d in tensor.shape.numpy())
    dtype = tensor.dtype.numpy()
    if not isinstance(tensor, ir.ExternalTensor):
        return Entry(shape, dtype, read=tensor.numpy)
    file = path.parent / str(tensor.location)
    if Path(tensor.location).is_absolute() or ".." in Path(tensor.location).parts:
        raise DpuError(
            str(path),
            f"the data of '{source}' is in '{tensor.location}', outside the model's folder",
            why="a model may only read files beside it",
            hint="export again with its weights in the same folder",
            code="E111",
        )
    offset = tensor.offset or 0
    entry = Entry(shape, dtype, file, offset)
    if not file.is_file():
        if weights == "absent":
            return Entry(shape, dtype)
        raise missing(file, f"no such file; parameter '{source}' and maybe others are in it")
    if tensor.length is not None and tensor.length != entry.nbytes:
        raise DpuError(
            str(path),
            f"parameter '{source}' has {tensor.length:,} bytes of data",
            why=f"its type and shape {'x'.join(map(str, shape))} need {entry.nbytes:,}",
            hint="export the model again",
            code="E112",
        )
    if offset + entry.nbytes > file.stat().st_size:
        raise too_short(file, source, offset + entry.nbytes, file.stat().st_size)
    return entry


def _bind(path: Path, graph: ir.Graph, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, tuple[int, ...]]:
    """The static shape of every input."""
    inputs = {v.name: v for v in graph.inputs if v.name not in graph.initializers}
    for name in shapes:
        if name not in inputs:
            raise DpuError(
                str(path),
                f"has no input '{name}'",
                hint=f"name one of {', '.join(str(n) for n in inputs)}",
                code="E105",
            )
    symbols: dict[str, tuple[int, str]] = {}
    for name, given in shapes.items():
        dims = _dims(path, inputs[name])
        if len(dims) != len(given) or any(isinstance(d, int) and d != g for d, g in zip(dims, given, strict=False)):
            raise DpuError(
                str(path),
                f"input '{name}' is {_text(dims)}, it cannot be {_text(given)}",
                hint="change only its open dimensions, those with a name",
                code="E105",
            )
        for dim, size in zip(dims, given, strict=True):
            if isinstance(dim, str):
                bound, by = symbols.setdefault(dim, (size, name))
                if bound != size:
                    raise DpuError(
                        str(path),
                        f"dimension '{dim}' is {bound} in input '{by}' and {size} in input '{name}'",
                        hint="give both the same size",
                        code="E105",
                    )
    bound_inputs = {}
    for key, value in inputs.items():
        shape: list[int] = []
        for dim in shapes.get(str(key), _dims(path, value)):
            if isinstance(dim, str) and dim not in symbols and interface.open_tokens(str(key), len(shape)):
                dim = interface.TOKENS
            if isinstance(dim, str) and dim not in symbols:
                raise DpuError(
                    str(path),
                    f"input '{key}' has the open dimension '{dim}' ({_text(_dims(path, value))})",
                    why="programs have static shapes",
                    hint=f"give its shape, as in --shape {key}={_example(_dims(path, value))}",
                    code="E105",
                )
            shape.append(symbols[dim][0] if isinstance(dim, str) else dim)
        bound_inputs[str(key)] = tuple(shape)
    return bound_inputs


def _dims(path: Path, value: ir.Value) -> list[int | str]:
    if value.shape is None:
        raise DpuError(str(path), f"input '{value.name}' has no shape", hint="export the model again", code="E105")
    return [d if isinstance(d, int) else str(d.value or f"?{i}") for i, d in enumerate(value.shape)]


def _text(dims: list[int | str] | tuple[int, ...]) -> str:
    if not dims:
        return "a scalar"
    return ("x" if all(isinstance(d, int) for d in dims) else " x ").join(map(str, dims))


def _example(dims: list[int | str]) -> str:
    guess = {"batch": 2, "batch_size": 2, "height": 128, "width": 128}
    return "x".join(str(guess.get(re.sub(r"\W", "", d), 1) if isinstance(d, str) else d) for d in dims)
