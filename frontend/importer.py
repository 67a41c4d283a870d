"""ONNX to the tensor dialect: one walk over the graph in order.

Shapes are static by then, so every chain that computes a shape folds away; weights become `dpu.param` operations and
stay on disk; every operation's location names its ONNX node.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region

from ..errors import DpuError, reason, refusing
from ..ir.dialects import verify
from ..ir.locations import name_hint, node_loc
from .build import ELEMENTS, Builder, Node, Value, tensor_type
from .checkpoint import use_checkpoint
from .fold import fold
from .onnx_load import Weights, load
from .onnx_ops import OPS
from .weights import WeightStore

NAME = "dpu.name"
"""The attribute of a function's argument or result that holds its ONNX name."""


def import_onnx(
    path: Path | str,
    *,
    shapes: Mapping[str, tuple[int, ...]] | None = None,
    part: str,
    weights: Weights = "required",
    checkpoint: Path | None = None,
) -> tuple[ModuleOp, WeightStore]:
    """Import one ONNX file as `func.func @<part>` in the tensor dialect.

    Args:
        path: the `.onnx` file; fp32 or fp16, opset 17 to 24, with or without external data.
        shapes: static shapes of inputs with open dimensions, such as `{"sample": (2, 4, 16, 16)}`.
        part: the function's name and the prefix of its parameters ("unet", "vae_decoder", ...).
        weights: "absent" accepts external data that is not there; reading it is then an error, shapes are not.
        checkpoint: a safetensors file with weights to use instead (`checkpoint.py`); those of the file may be absent.

    Raises:
        DpuError: the file, an operator or a shape cannot be accepted; the message names file and node.
    """
    hint = "check the model with onnx.checker, or export it again"
    with refusing(str(path), "cannot be imported", hint=hint, code="E104"):
        return _import(Path(path), shapes or {}, part, weights, checkpoint)


def _import(
    path: Path, shapes: Mapping[str, tuple[int, ...]], part: str, weights: Weights, checkpoint: Path | None
) -> tuple[ModuleOp, WeightStore]:
    loaded = load(path, shapes, part, weights if checkpoint is None else "absent")
    if checkpoint is not None:
        use_checkpoint(loaded.store, part, checkpoint)
    types = {}
    for value in loaded.graph.inputs:
        if value.name in loaded.inputs:
            types[str(value.name)] = tensor_type(loaded.inputs[str(value.name)], _dtype(value))
    block = Block(arg_types=list(types.values()))
    builder = Builder(loaded, block)
    for (name, kind), arg in zip(types.items(), block.args, strict=True):
        arg.name_hint = name_hint(name)
        arg.location = node_loc(loaded.file.name, name)
        dtype = next(_dtype(v) for v in loaded.graph.inputs if v.name == name)
        builder.values[name] = Value(name, kind.get_shape(), dtype, ssa=arg)
    for value in loaded.graph.initializers.values():
        source = loaded.source(str(value.name))
        assert value.const_value is not None
        shape = loaded.store.entry(source).shape
        builder.values[str(value.name)] = Value(str(value.name), shape, value.const_value.dtype, weight=(source, ()))
    for node in loaded.graph:
        _import_node(builder, node)
    results = [_result(builder, str(v.name)) for v in loaded.graph.outputs]
    block.add_op(ReturnOp(*results))
    func = FuncOp(
        part,
        FunctionType.from_lists(list(types.values()), [r.type for r in results]),
        Region(block),
        arg_attrs=ArrayAttr([DictionaryAttr({NAME: StringAttr(n)}) for n in types]),
        res_attrs=ArrayAttr([DictionaryAttr({NAME: StringAttr(str(v.name))}) for v in loaded.graph.outputs]),
    )
    func.location = node_loc(loaded.file.name, part)
    module = ModuleOp([func])
    verify(module, "import")
    return module, loaded.store


def _import_node(builder: Builder, onnx_node: ir.Node) -> None:
    inputs = [None if v is None or v.name == "" else builder.values.get(str(v.name)) for v in onnx_node.inputs]
    node = Node(builder, onnx_node, inputs, {k: _attribute(a) for k, a in onnx_node.attributes.items()})
    try:
        _dispatch(node, inputs)
    except DpuError:
        raise
    except Exception as e:
        shown = ", ".join("x".join(map(str, v.shape)) or "scalar" for v in inputs if v)
        node.fail(f"cannot be imported, inputs {shown} ({reason(e)})", hint="check the shapes given and the model")


def _dispatch(node: Node, inputs: list[Value | None]) -> None:
    onnx_node = node.node
    if onnx_node.op_type == "Constant":
        _constant(node)
        return
    if _fold(node):
        return
    importer = OPS.get(onnx_node.op_type) if onnx_node.domain in ("", "ai.onnx") else None
    if importer is None:
        domain = f" of domain '{onnx_node.domain}'" if onnx_node.domain else ""
        shown = ", ".join("x".join(map(str, v.shape)) or "scalar" for v in inputs if v)
        node.fail(
            f"unsupported operator{domain}, inputs {shown}",
            why="import knows the operators of diffusers' SDXL exports",
            hint="re-export with torch.onnx.export(dynamo=True, opset_version=20), or add the operator to "
            "frontend/onnx_ops.py",
        )
    importer(node)


def _fold(node: Node) -> bool:
    """Replace a node by its value when all inputs are known constants."""
    values = [v for v in node.inputs if v is not None]
    if not values or any(v.ssa is not None and v.folded is None and v.weight is None for v in values):
        return False
    moves = node.node.op_type in ("Transpose", "Reshape", "Unsqueeze", "Squeeze", "Flatten", "Cast", "CastLike")
    if node.value(0).weight and (moves or node.node.op_type in ("Identity", "Shape", "Gather")):
        return False  # the parameter stays a name
    arrays = [None if v is None else node.builder.array(v) for v in node.inputs]
    if any(a is None and v is not None for a, v in zip(arrays, node.inputs, strict=True)):
        return False
    results = fold(node.node.op_type, arrays, node.attrs, len(node.node.outputs))
    if results is None:
        return False
    for i, (out, array) in enumerate(zip(node.node.outputs, results, strict=False)):
        node.define(i, Value(str(out.name), array.shape, ir.DataType.from_numpy(array.dtype), folded=array))
    return True


def _constant(node: Node) -> None:
    (key, raw), *_ = node.attrs.items()
    if hasattr(raw, "numpy"):
        array = raw.numpy()
    else:
        array = np.array(raw, np.float32 if key.startswith("value_float") else np.int64)
    name = str(node.node.outputs[0].name)
    node.define(0, Value(name, array.shape, ir.DataType.from_numpy(array.dtype), folded=array))


def _result(builder: Builder, name: str) -> Any:
    value = builder.values.get(name)
    if value is None:
        what = f"output '{name}' is not computed by any node"
        raise DpuError(str(builder.loaded.file), what, hint="check the model with onnx.checker", code="E104")
    if value.ssa is None:
        raise DpuError(
            str(builder.loaded.file),
            f"output '{name}' does not depend on any input",
            hint="drop this output from the export",
            code="E104",
        )
    return value.ssa


def _attribute(attr: ir.Attr) -> Any:
    value = attr.value
    return value.decode() if isinstance(value, bytes) else value


def _dtype(value: ir.Value) -> ir.DataType:
    if value.dtype is None or value.dtype not in ELEMENTS:
        what = f"input '{value.name}' has type {value.dtype}"
        raise DpuError("graph", what, hint="export in float16 or float32", code="E104")
    return value.dtype
