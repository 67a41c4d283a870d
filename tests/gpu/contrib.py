"""What ONNX Runtime's CUDA-only operators mean, in standard ONNX, after their documentation (ContribOperators.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import onnx_ir as ir
from dpu.runtime.gpu.ort_rewrite.nodes import MS, dims

CUDA_ONLY = ("GroupNorm", "SkipGroupNorm", "BiasSplitGelu", "NhwcConv")


class _Builder:
    def __init__(self, node: ir.Node) -> None:
        self.node, self.graph, self.count = node, node.graph, 0

    def __call__(self, op: str, *inputs: ir.Value | None, **attributes: object) -> ir.Value:
        made = ir.node(op, list(inputs), attributes, name=f"{self.node.name}/ref{self.count}")
        made.outputs[0].name = f"{made.name}/out"
        self.count += 1
        self.graph.insert_before(self.node, made)
        return made.outputs[0]

    def ints(self, *values: int) -> ir.Value:
        return self._constant(np.array(values, np.int64))

    def floats(self, value: float) -> ir.Value:
        return self._constant(np.float32(value))

    def _constant(self, array: np.ndarray) -> ir.Value:
        name = f"{self.node.name}/const{self.count}"
        self.count += 1
        value = ir.Value(name=name, const_value=ir.tensor(array, name=name))
        self.graph.register_initializer(value)
        return value


def _group_norm(b: _Builder, node: ir.Node, x: ir.Value, shape: Sequence[int]) -> ir.Value:
    n, h, w, c = shape
    groups, epsilon = node.attributes["groups"].value, node.attributes["epsilon"].value
    assert node.attributes["channels_last"].value == 1
    grouped = b("Reshape", x, b.ints(n, h * w, groups, c // groups))
    centred = b("Sub", grouped, b("ReduceMean", grouped, b.ints(1, 3)))
    variance = b("ReduceMean", b("Mul", centred, centred), b.ints(1, 3))
    scaled = b("Div", centred, b("Sqrt", b("Add", variance, b.floats(epsilon))))
    y = b("Add", b("Mul", b("Reshape", scaled, b.ints(n, h, w, c)), node.inputs[1]), node.inputs[2])
    return b("Mul", y, b("Sigmoid", y)) if node.attributes["activation"].value else y


def _lower(node: ir.Node) -> list[ir.Value]:
    b = _Builder(node)
    x = node.inputs[0]
    if node.op_type == "GroupNorm":
        return [_group_norm(b, node, x, dims(x))]
    if node.op_type == "SkipGroupNorm":
        skip, shape = node.inputs[3], dims(x)
        if len(dims(skip)) == 2:
            skip = b("Reshape", skip, b.ints(shape[0], 1, 1, shape[3]))
        total = b("Add", x, skip)
        if len(node.inputs) > 4:
            total = b("Add", total, node.inputs[4])
        return [_group_norm(b, node, total, shape), total][: len(node.outputs)]
    if node.op_type == "BiasSplitGelu":
        half = dims(node.inputs[1])[0] // 2
        total = b("Add", x, node.inputs[1])
        left = b("Slice", total, b.ints(0), b.ints(half), b.ints(2))
        right = b("Slice", total, b.ints(half), b.ints(2 * half), b.ints(2))
        erf = b("Add", b("Erf", b("Mul", right, b.floats(2**-0.5))), b.floats(1.0))
        return [b("Mul", left, b("Mul", b("Mul", right, b.floats(0.5)), erf))]
    weight = b("Transpose", node.inputs[1], perm=(0, 3, 1, 2))
    image = b("Transpose", x, perm=(0, 3, 1, 2))
    given = {k: a.value for k, a in node.attributes.items()}
    y = b("Conv", image, weight, *node.inputs[2:3], **given)
    return [b("Transpose", y, perm=(0, 2, 3, 1))]


def lower(model: ir.Model, on_node: Callable[[ir.Node], None] = lambda _: None) -> ir.Model:
    """Replace the operators that have no CPU kernel."""
    for node in list(model.graph):
        if node.domain == MS and node.op_type in CUDA_ONLY:
            on_node(node)
            for old, new in zip(node.outputs, _lower(node), strict=True):
                new.shape = old.shape
                for user, index in list(old.uses()):
                    user.replace_input_with(index, new)
                for i, value in enumerate(model.graph.outputs):
                    if value is old:
                        model.graph.outputs[i] = new
            model.graph.remove(node, safe=True)
    return model
