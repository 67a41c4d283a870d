"""The operator table: how each ONNX operator becomes an operation of the tensor dialect.

To add an operator: write a function of one `Node` that ends in `node.finish(...)`, and name it in `OPS`.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir
from xdsl.dialects.builtin import UnitAttr

from ..ir import tensor as t
from . import onnx_moves as moves
from .build import FLOATS, Importer, Node, Value, array_attr, axis_of, f32_attr, i64_attr, is_causal, tensor_type
from .onnx_quantised import dequantize_linear, quantize_linear, static_input

BOOL, INT64 = ir.DataType.BOOL, ir.DataType.INT64


def _unary(name: str) -> Importer:
    def run(node: Node) -> None:
        dtype = BOOL if name == "is_nan" else node.value(0).dtype
        node.finish(t.elementwise(name, node.ssa(), result=tensor_type(node.shape(), dtype)), [dtype])

    return run


def _binary(name: str) -> Importer:
    def run(node: Node) -> None:
        shape = t.broadcast(node.shape(0), node.shape(1))
        if shape is None:
            node.fail(f"inputs of shape {node.shape(0)} and {node.shape(1)} do not fit", hint="check the shapes given")
        other = _other_of_neutral(node, name)
        if other is not None:
            moves.rename(node, other)
            return
        dtype = BOOL if name == "equal" else node.value(0).dtype
        result = tensor_type(shape, dtype)
        node.finish(t.elementwise(name, node.ssa(0), node.ssa(1), result=result), [dtype])

    return run


def _other_of_neutral(node: Node, name: str) -> Value | None:
    """The other side, when one side is a scalar that changes nothing (x * 1, x / 1, x + 0)."""
    neutral = {"mul": 1.0, "div": 1.0, "pow": 1.0, "add": 0.0, "sub": 0.0}.get(name)
    for side, other in ((1, 0), (0, 1)) if name in ("mul", "add") else ((1, 0),):
        value, rest = node.value(side), node.value(other)
        if value.size == 1 and value.ssa is None and t.broadcast(value.shape, rest.shape) == rest.shape:
            array = node.builder.array(value)
            if array is not None and float(array.reshape(())) == neutral:
                return rest
    return None


def cast(node: Node) -> None:
    """Between float types the values stay what they are, so a stored parameter stays a parameter."""
    dtype = ir.DataType(int(node.attrs["to"])) if node.node.op_type == "Cast" else node.value(1).dtype
    value = node.value(0)
    name = str(node.node.outputs[0].name)
    if dtype == value.dtype or (value.weight and dtype in FLOATS and value.dtype in FLOATS):
        node.define(0, Value(name, value.shape, dtype, value.ssa if dtype == value.dtype else None, value.weight))
        return
    node.finish(t.elementwise("cast", node.ssa(), result=tensor_type(value.shape, dtype)), [dtype])


def gelu(node: Node) -> None:
    """The exact form only."""
    approximate = node.attrs.get("approximate", "none")
    if approximate != "none":
        node.fail(f"approximate = '{approximate}'", "SDXL uses the erf form", "export with GELU(approximate='none')")
    _unary("gelu")(node)


def matmul(node: Node) -> None:
    """Ranks of at least two."""
    a, b = node.shape(0), node.shape(1)
    if len(a) < 2 or len(b) < 2 or a[-1] != b[-2]:
        node.fail(f"inputs of shape {a} and {b}", "matrices must share their inner size", "check the shapes given")
    batch = t.broadcast(a[:-2], b[:-2])
    if batch is None:
        node.fail(f"inputs of shape {a} and {b} do not fit", hint="check the shapes given")
    result = node.type((*batch, a[-2], b[-1]))
    operands = [node.ssa(0, param=True), node.ssa(1, param=True)]
    node.finish(t.MatmulOp(operands=operands, properties={**static_input(node)}, result_types=[result]))


def gemm(node: Node) -> None:
    """`alpha`, `beta` of 1 are left out."""
    (m, k), (r, n) = node.shape(0), node.shape(1)
    trans_a, trans_b = bool(node.attrs.get("transA", 0)), bool(node.attrs.get("transB", 0))
    if (m if trans_a else k) != (n if trans_b else r):
        node.fail(f"inputs of shape {node.shape(0)} and {node.shape(1)} do not fit", hint="check the shapes given")
    scales = {k: float(node.attrs.get(k, 1.0)) for k in ("alpha", "beta")}
    op = t.GemmOp(
        operands=[node.ssa(0), node.ssa(1, param=True), node.ssa(2, param=True) if node.has(2) else None],
        properties={
            **{k: None if v == 1.0 else f32_attr(v) for k, v in scales.items()},
            "trans_a": UnitAttr() if trans_a else None,
            "trans_b": UnitAttr() if trans_b else None,
            **static_input(node),
        },
        result_types=[node.type((k if trans_a else m, r if trans_b else n))],
    )
    node.finish(op)


def conv(node: Node) -> None:
    """Two dimensions, one group, no dilation."""
    x, w = node.shape(0), node.shape(1)
    if len(x) != 4:
        node.fail(f"input of shape {x}", "the DPU convolves images (samples x channels x height x width)")
    if int(node.attrs.get("group", 1)) != 1 or any(d != 1 for d in node.attrs.get("dilations", (1, 1))):
        node.fail(
            f"group {node.attrs.get('group', 1)}, dilations {tuple(node.attrs.get('dilations', (1, 1)))}",
            "SDXL has neither, and the matrix array would be mostly idle",
            "use a model without grouped or dilated convolutions",
        )
    stride = [int(s) for s in node.attrs.get("strides", (1, 1))]
    if node.attrs.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        node.fail(f"auto_pad = '{node.attrs['auto_pad']}'", hint="export with explicit pads")
    pad = [int(p) for p in node.attrs.get("pads", (0, 0, 0, 0))]
    if x[1] != w[1]:
        node.fail(f"{x[1]} channels in, weights for {w[1]}", hint="check the shapes given")
    if node.has(2) and node.shape(2) != w[:1]:
        node.fail(f"a bias of shape {node.shape(2)} for {w[0]} channels", hint="check the model with onnx.checker")
    size = [(x[2 + i] + pad[i] + pad[2 + i] - w[2 + i]) // stride[i] + 1 for i in range(2)]
    op = t.ConvOp(
        operands=[node.ssa(0), node.ssa(1, param=True), node.ssa(2, param=True) if node.has(2) else None],
        properties={"stride": array_attr(stride), "pad": array_attr(pad), **static_input(node)},
        result_types=[node.type((x[0], w[0], *size))],
    )
    node.finish(op)


def instance_norm(node: Node) -> None:
    """As exporters use it for GroupNorm: with ones and zeros."""
    operands = [node.ssa(0), node.ssa(1), node.ssa(2)]
    eps = f32_attr(node.attrs.get("epsilon", 1e-5))
    node.finish(t.InstanceNormOp(operands=operands, properties={"eps": eps}, result_types=[node.type(node.shape())]))


def group_norm(node: Node) -> None:
    """One scale and bias a channel (opset 21); opset 18's one a group is refused."""
    groups, channels = int(node.attrs["num_groups"]), node.shape()[1]
    if node.shape(1) != (channels,):
        node.fail(
            f"{node.shape(1)[0]} scales for {channels} channels",
            "opset 18 to 20 scale whole groups, which no trained model means",
            "export with opset 20 or 21",
        )
    op = t.GroupNormOp(
        operands=[node.ssa(0), node.ssa(1, param=True), node.ssa(2, param=True)],
        properties={"groups": i64_attr(groups), "eps": f32_attr(node.attrs.get("epsilon", 1e-5))},
        result_types=[node.type(node.shape())],
    )
    node.finish(op)


def layer_norm(node: Node) -> None:
    """Over the last dimension, with scale and bias."""
    rank = len(node.shape())
    if axis_of(node, -1) != rank - 1:
        axis = node.attrs.get("axis")
        node.fail(f"axis {axis} of a {rank}-D tensor", "the DPU normalises over channels, the last axis")
    if not node.has(2):
        node.fail("without a bias", hint="export LayerNorm with its bias")
    op = t.LayerNormOp(
        operands=[node.ssa(0), node.ssa(1, param=True), node.ssa(2, param=True)],
        properties={"eps": f32_attr(node.attrs.get("epsilon", 1e-5))},
        result_types=[node.type(node.shape())],
    )
    node.finish(op)


def softmax(node: Node) -> None:
    """Any axis; recognising attention needs the last."""
    axis = i64_attr(axis_of(node, -1))
    node.finish(t.SoftmaxOp(operands=[node.ssa()], properties={"axis": axis}, result_types=[node.type(node.shape())]))


def attention(node: Node) -> None:
    """Four dimensions, no cache, no soft cap; a mask must be the causal one."""
    q, v = node.shape(0), node.shape(2)
    used = [i for i in range(4, len(node.inputs)) if node.has(i)]
    extra = sum(1 for o in node.node.outputs[1:] if o.uses())
    if len(q) != 4 or used or extra or float(node.attrs.get("softcap", 0.0)) != 0.0:
        node.fail(
            f"query of shape {q}, {len(node.inputs)} inputs, softcap {node.attrs.get('softcap', 0.0)}",
            "only samples x heads x tokens x channels without cache and soft cap has a place on the DPU",
            "export the model's plain scaled_dot_product_attention",
        )
    causal = bool(node.attrs.get("is_causal", 0))
    if node.has(3):
        mask = node.builder.array(node.value(3))
        if mask is None or not is_causal(mask):
            node.fail(
                "a mask that is not the causal one", hint="export without an attention mask (padding is not masked)"
            )
        causal = True
    op = t.AttentionOp(
        operands=[node.ssa(0), node.ssa(1), node.ssa(2)],
        properties={
            "scale": f32_attr(node.attrs.get("scale") or 1 / math.sqrt(q[-1])),
            "causal": UnitAttr() if causal else None,
        },
        result_types=[node.type((*q[:3], v[-1]))],
    )
    node.finish(op)


def gather(node: Node) -> None:
    """Rows of a table; consecutive rows of a stored table are a transform of it."""
    x, i, axis = node.shape(0), node.shape(1), axis_of(node, 0)
    shape = x[:axis] + i + x[axis + 1 :]
    indices = node.builder.array(node.value(1)) if node.value(0).weight and axis == 0 else None
    if indices is not None and indices.size and np.all(np.diff(indices.reshape(-1)) == 1):
        first, name = int(indices.flat[0]), str(node.node.outputs[0].name)
        rows = node.value(0)
        if indices.size != x[0]:
            rows = node.builder.view(rows, f"rows:{first}:{first + indices.size}", (indices.size, *x[1:]), name)
        node.define(0, node.builder.view(rows, "reshape:" + ",".join(map(str, shape)), shape, name))
        return
    operands = [node.ssa(0, param=True), node.ssa(1)]
    node.finish(t.GatherOp(operands=operands, properties={"axis": i64_attr(axis)}, result_types=[node.type(shape)]))


def gather_nd(node: Node) -> None:
    """Without batch dimensions."""
    if int(node.attrs.get("batch_dims", 0)):
        node.fail(f"batch_dims = {node.attrs['batch_dims']}", hint="export the text encoder with transformers >= 5")
    shape = node.shape(1)[:-1] + node.shape(0)[node.shape(1)[-1] :]
    node.finish(t.GatherNdOp(operands=[node.ssa(0), node.ssa(1)], result_types=[node.type(shape)]))


def argmax(node: Node) -> None:
    """The first maximum."""
    axis = axis_of(node, 0)
    if int(node.attrs.get("select_last_index", 0)):
        node.fail("select_last_index = 1", hint="export the text encoder with transformers >= 5")
    keep = int(node.attrs.get("keepdims", 1))
    shape = node.shape()[:axis] + ((1,) if keep else ()) + node.shape()[axis + 1 :]
    result = tensor_type(shape, INT64)
    node.finish(t.ArgmaxOp(operands=[node.ssa()], properties={"axis": i64_attr(axis)}, result_types=[result]), [INT64])


def where(node: Node) -> None:
    """With broadcasting."""
    shape = t.broadcast(t.broadcast(node.shape(0), node.shape(1)) or (), node.shape(2))
    if shape is None:
        node.fail(f"inputs of shapes {[node.shape(i) for i in range(3)]} do not fit")
    op = t.WhereOp(operands=[node.ssa(0), node.ssa(1), node.ssa(2)], result_types=[node.type(shape, like=1)])
    node.finish(op, [node.value(1).dtype])


def reciprocal(node: Node) -> None:
    """Refused: it appears in SDXL only in constant chains."""
    node.fail(f"of computed data, shape {node.shape()}", hint="export with static shapes: then it is a constant")


OPS: dict[str, Importer] = {
    "Sigmoid": _unary("sigmoid"),
    "Erf": _unary("erf"),
    "Gelu": gelu,
    "Sin": _unary("sin"),
    "Cos": _unary("cos"),
    "Sqrt": _unary("sqrt"),
    "Exp": _unary("exp"),
    "Neg": _unary("neg"),
    "IsNaN": _unary("is_nan"),
    "Add": _binary("add"),
    "Sub": _binary("sub"),
    "Mul": _binary("mul"),
    "Div": _binary("div"),
    "Pow": _binary("pow"),
    "Equal": _binary("equal"),
    "Cast": cast,
    "CastLike": cast,
    "MatMul": matmul,
    "Gemm": gemm,
    "Conv": conv,
    "InstanceNormalization": instance_norm,
    "GroupNormalization": group_norm,
    "LayerNormalization": layer_norm,
    "Softmax": softmax,
    "Attention": attention,
    "Reshape": moves.reshape,
    "Flatten": moves.reshape,
    "Squeeze": moves.reshape,
    "Unsqueeze": moves.reshape,
    "Transpose": moves.transpose,
    "Identity": moves.identity,
    "Dropout": moves.identity,
    "Expand": moves.expand,
    "Resize": moves.resize,
    "Slice": moves.slice_,
    "Concat": moves.concat,
    "Split": moves.split,
    "Gather": gather,
    "GatherND": gather_nd,
    "ArgMax": argmax,
    "Where": where,
    "Shape": moves.shape_of_input,
    "Reciprocal": reciprocal,
    "QuantizeLinear": quantize_linear,
    "DequantizeLinear": dequantize_linear,
}
"""Every ONNX operator that import understands."""
