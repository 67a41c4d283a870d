"""The operator table, continued: operators that move, cut and join tensors without computing."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ..ir import tensor as t
from .build import Node, Value, array_attr, axis_of, i64_attr
from .fold import reshape_target, slices


def reshape(node: Node) -> None:
    """Reshape, Flatten, Squeeze, Unsqueeze: one operation, or a transform of a stored parameter."""
    x, kind = node.shape(), node.node.op_type
    if kind == "Reshape":
        shape = reshape_target(x, node.constant(1, "target shape"), bool(node.attrs.get("allowzero", 0)))
    elif kind == "Flatten":
        axis = int(node.attrs.get("axis", 1))
        shape = (math.prod(x[:axis]), math.prod(x[axis:]))
    elif kind == "Unsqueeze":
        axes = {int(a) % (len(x) + node.constant(1, "axes").size) for a in node.constant(1, "axes")}
        dims = iter(x)
        shape = tuple(1 if i in axes else next(dims) for i in range(len(x) + len(axes)))
    else:
        axes = {int(a) % len(x) for a in node.constant(1, "axes")} if node.has(1) else set(range(len(x)))
        shape = tuple(d for i, d in enumerate(x) if i not in axes or (d != 1 and not node.has(1)))
    if math.prod(shape) != math.prod(x):
        node.fail(f"{x} cannot become {shape}", hint="check the shapes given")
    name = str(node.node.outputs[0].name)
    stored = node.value(0).weight
    if stored and not (len(x) == 1 and not stored[1] and max(shape) == math.prod(shape)):  # a vector stays one
        node.define(0, node.builder.view(node.value(0), "reshape:" + ",".join(map(str, shape)), shape, name))
    elif shape == x:
        node.define(0, Value(name, x, node.value(0).dtype, node.ssa()))
    else:
        node.finish(t.ReshapeOp(operands=[node.ssa()], result_types=[node.type(shape)]))


def transpose(node: Node) -> None:
    """An operation, or a transform of a stored parameter."""
    x = node.shape()
    perm = [int(p) for p in node.attrs.get("perm", range(len(x) - 1, -1, -1))]
    shape = tuple(x[p] for p in perm)
    if node.value(0).weight:
        step = "transpose" if perm == [1, 0] else "transpose:" + ",".join(map(str, perm))
        node.define(0, node.builder.view(node.value(0), step, shape, str(node.node.outputs[0].name)))
        return
    properties = {"perm": array_attr(perm)}
    node.finish(t.TransposeOp(operands=[node.ssa()], properties=properties, result_types=[node.type(shape)]))


def identity(node: Node) -> None:
    """Another name for the same value."""
    rename(node, node.value(0))


def rename(node: Node, value: Value) -> None:
    """Output 0 of the node is `value`."""
    name = str(node.node.outputs[0].name)
    node.define(0, Value(name, value.shape, value.dtype, value.ssa, value.weight, value.folded))


def expand(node: Node) -> None:
    """Repeats dimensions of 1."""
    target = t.broadcast(node.shape(), [int(d) for d in node.constant(1, "target shape")])
    if target is None:
        node.fail(f"{node.shape()} does not expand to {tuple(node.constant(1, 'target shape'))}")
    if target == node.shape():
        identity(node)
    else:
        node.finish(t.ExpandOp(operands=[node.ssa()], result_types=[node.type(target)]))


def resize(node: Node) -> None:
    """Nearest neighbour by whole factors."""
    x = node.shape()
    if node.has(3):
        size = tuple(int(d) for d in node.constant(3, "size"))
    else:
        size = tuple(int(d * s) for d, s in zip(x, node.constant(2, "scales"), strict=True))
    mode, rounding = node.attrs.get("mode", "nearest"), node.attrs.get("nearest_mode", "round_prefer_floor")
    coordinates = node.attrs.get("coordinate_transformation_mode", "half_pixel")
    same_pixels = (("asymmetric", "floor"), ("half_pixel", "round_prefer_floor"))
    plain = mode == "nearest" and (coordinates, rounding) in same_pixels
    whole = len(x) == 4 and size[:2] == x[:2] and all(s % d == 0 for s, d in zip(size, x, strict=True))
    if not (plain and whole):
        node.fail(
            f"mode '{mode}', '{coordinates}', '{rounding}' from {x} to {size}",
            "only nearest-neighbour enlargement by whole factors is folded into the next convolution",
            "export with an image size that is a multiple of 32 pixels",
        )
    node.finish(t.ResizeOp(operands=[node.ssa()], result_types=[node.type(size)]))


def slice_(node: Node) -> None:
    """One dimension, step 1."""
    x = node.shape()
    bounds = [node.constant(i, "bounds") for i in (1, 2)]
    axes = node.constant(3, "axes") if node.has(3) else None
    steps = node.constant(4, "steps") if node.has(4) else None
    cuts = [(i, s.indices(x[i])) for i, s in enumerate(slices(len(x), bounds[0], bounds[1], axes, steps))]
    cuts = [(i, c) for i, c in cuts if c != (0, x[i], 1)]
    if not cuts:
        identity(node)
        return
    if len(cuts) > 1 or cuts[0][1][2] != 1:
        node.fail(f"slices {cuts} of {x}", "only one dimension with step 1 is understood")
    axis, (start, end, _) = cuts[0]
    shape = tuple(end - start if i == axis else d for i, d in enumerate(x))
    properties = {"axis": i64_attr(axis), "start": i64_attr(start), "end": i64_attr(end)}
    node.finish(t.SliceOp(operands=[node.ssa()], properties=properties, result_types=[node.type(shape)]))


def concat(node: Node) -> None:
    """Any number of inputs."""
    axis = axis_of(node, 0)
    xs = [node.shape(i) for i in range(len(node.inputs))]
    if len({x[:axis] + x[axis + 1 :] for x in xs}) != 1:
        node.fail(f"inputs of shapes {xs} along axis {axis}", hint="check the shapes given")
    shape = (*xs[0][:axis], sum(x[axis] for x in xs), *xs[0][axis + 1 :])
    operands = [[node.ssa(i) for i in range(len(xs))]]
    node.finish(t.ConcatOp(operands=operands, properties={"axis": i64_attr(axis)}, result_types=[node.type(shape)]))


def split(node: Node) -> None:
    """Into equal or given sizes."""
    x, axis, n = node.shape(), axis_of(node, 0), len(node.node.outputs)
    if node.has(1):
        sizes = [int(s) for s in node.constant(1, "sizes")]
    else:
        each = math.ceil(x[axis] / n)
        sizes = [min(each, x[axis] - i * each) for i in range(n)]
    types = [node.type((*x[:axis], s, *x[axis + 1 :])) for s in sizes]
    op = t.SplitOp(operands=[node.ssa()], properties={"axis": i64_attr(axis)}, result_types=[types])
    node.finish(op, [node.value(0).dtype] * n)


def shape_of_input(node: Node) -> None:
    """Shapes are static, so they are constants."""
    x = node.shape()
    array = np.array(x[node.attrs.get("start", 0) : node.attrs.get("end")], np.int64)
    node.define(0, Value(str(node.node.outputs[0].name), array.shape, ir.DataType.INT64, folded=array))
