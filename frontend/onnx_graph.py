"""What is done to a graph that `torch.onnx.export` gives: weights set aside, optimised, named, stripped, attached.

A graph is traced on the meta device, so its weights have shapes but no values. They become graph inputs while the
optimiser folds shapes and constants, and then external initialisers that point into a safetensors file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import onnx_ir as ir
import torch
from onnx_ir.passes.common import RemoveUnusedNodesPass, RemoveUnusedOpsetsPass
from onnxscript import optimizer

from ..errors import DpuError
from .weight_files import WeightRef

ABSENT = "weights-absent.safetensors"  # the location that weightless graphs name; no such file exists
_DTYPES = {torch.float16: ir.DataType.FLOAT16, torch.float32: ir.DataType.FLOAT}
_SCOPES = "pkg.torch.onnx.name_scopes"


def fold(model: ir.Model, prefix: str) -> list[str]:
    """Fold constants and shapes with every weight as an input; return the weights' state-dictionary names."""
    graph = model.graph
    weights = [v for v in graph.initializers.values() if v.name is not None and v.name.startswith(prefix)]
    for value in weights:
        assert value.name is not None
        del graph.initializers[value.name]
        value.const_value = None
        value.name = value.name.removeprefix(prefix)
        graph.inputs.append(value)
    optimizer.optimize_ir(model)
    RemoveUnusedNodesPass()(model)
    RemoveUnusedOpsetsPass()(model)
    for value in weights:
        if not value.uses():
            graph.inputs.remove(value)
    return [v.name for v in weights if v.name is not None and v.uses()]


def attach(model: ir.Model, weights: list[str], refs: Mapping[str, WeightRef] | None) -> None:
    """Turn the inputs named in `weights` into external initialisers: at `refs`, or absent when there are none.

    Raises:
        DpuError: a weight is not in the file, or has another shape or dtype there.
    """
    inputs = {v.name: v for v in model.graph.inputs}
    end = 0
    for name in weights:
        value = inputs[name]
        assert value.shape is not None and value.dtype is not None
        shape = value.shape.numpy()
        if refs is None:
            length = torch.Size(shape).numel() * value.dtype.itemsize
            location, offset = ABSENT, int(end)
            end += int(length)
        else:
            ref = _ref(refs, name)
            if ref.shape != shape or _DTYPES.get(ref.dtype) != value.dtype:
                raise DpuError(
                    f"{ref.file}: tensor '{name}'",
                    f"is {ref.dtype} {list(ref.shape)}, the graph needs {value.dtype} {list(shape)}",
                    hint="config.json and the weights must come from the same model",
                    code="E113",
                )
            location, offset, length = ref.file.name, ref.offset, ref.length
        value.const_value = ir.ExternalTensor(
            location, offset, int(length), value.dtype, shape=ir.Shape(shape), name=name, base_dir=""
        )
        model.graph.inputs.remove(value)
        model.graph.register_initializer(value)


def _ref(refs: Mapping[str, WeightRef], name: str) -> WeightRef:
    # Published CLIP files say `text_model.`; transformers 5 drops it from one of its two classes.
    for key in (name, f"text_model.{name}", name.removeprefix("text_model.")):
        if key in refs:
            return refs[key]
    file = next(iter(refs.values())).file if refs else Path("weights")
    raise DpuError(
        str(file),
        f"tensor '{name}' is missing",
        hint="config.json and the weights must come from the same model",
        code="E113",
    )


def rename_dims(model: ir.Model, names: Mapping[str, str]) -> None:
    """Replace the exporter's symbols (`s30`) by readable ones (`height`) in every shape."""
    if not names:
        return
    symbol = re.compile(r"\b(" + "|".join(map(re.escape, names)) + r")\b")
    values = [*model.graph.inputs, *model.graph.initializers.values()]
    values += [v for node in model.graph for v in node.outputs]
    for value in values:
        if value.shape is None or value.shape.is_static():
            continue
        dims: list[int | str | None] = []
        for dim in value.shape:
            text = dim if isinstance(dim, int) else dim.value
            dims.append(symbol.sub(lambda m: names[m[1]], text) if isinstance(text, str) else text)
        value.shape = ir.Shape(dims)


def name_nodes(model: ir.Model, prefix: str) -> None:
    """Name each node by its module's path and its operator, as in `/down_blocks.1/attentions.0/proj_in/MatMul`.

    A value is named after the node that makes it, a constant `const_N`; the exporter's own metadata is dropped.
    """
    graph = model.graph
    taken: dict[str, int] = {}
    kept = {id(v) for v in [*graph.inputs, *graph.outputs]}
    for node in graph:
        base = f"{module_path(node.metadata_props.get(_SCOPES, ''), prefix)}/{node.op_type}"
        count = taken.get(base, 0)
        taken[base] = count + 1
        node.name = base if count == 0 else f"{base}_{count}"
        node.metadata_props.clear()
        node.meta.clear()
        node.doc_string = None
        for i, value in enumerate(node.outputs):
            value.metadata_props.clear()
            if id(value) not in kept and value.name:
                value.name = f"{node.name}_output_{i}"
    for value in [*graph.inputs, *graph.outputs, *graph.initializers.values()]:
        value.metadata_props.clear()
        value.doc_string = None
    constants = [v for v in graph.initializers.values() if not isinstance(v.const_value, ir.ExternalTensor)]
    for i, value in enumerate(constants):
        value.name = f"const_{i}"
    for props in (graph.metadata_props, model.metadata_props):
        props.clear()
    graph.doc_string = model.doc_string = None


def module_path(scopes: str, prefix: str) -> str:
    """`"['', 'unet', 'unet.mid_block', 'unet.mid_block.attentions.0', 'view']"` -> `/mid_block/attentions.0`."""
    paths = [s for s in re.findall(r"'([^']*)'", scopes)[:-1] if s.startswith(prefix)]
    if not paths:
        return ""
    path = paths[-1].removeprefix(prefix)
    return "".join(f"/{part}" for part in re.findall(r"[^.]+(?:\.\d+)*", path))


def external_elements(model: ir.Model) -> int:
    """The number of weights that a graph names, present or absent."""
    tensors = [v.const_value for v in model.graph.initializers.values()]
    return sum(int(t.size) for t in tensors if isinstance(t, ir.ExternalTensor))
