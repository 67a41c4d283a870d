"""Images with their channels last, as cuDNN's tensor-core convolutions and the GroupNorm kernel read them.

Walks the graph once. Convolution -> com.microsoft NhwcConv (weights: outputs x height x width x inputs); GroupNorm and
element-wise operations follow; a Transpose between images and tokens disappears. Where an operation needs the channels
second, one Transpose is put before it.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from .nodes import (
    MS,
    Derived,
    add_constant,
    add_weight,
    attribute,
    constant,
    dims,
    is_weight,
    make,
    permutation,
    replace,
    typed,
)

TO_LAST, TO_SECOND = (0, 2, 3, 1), (0, 3, 1, 2)
_ELEMENTWISE = ("Add", "Mul", "Sigmoid")


def nhwc(model: ir.Model, derived: Derived, convolutions: bool = True) -> int:
    """Rewrite the graph; returns how many convolutions changed. Without `convolutions` only the normalisations move."""
    return _Layout(model.graph, derived, convolutions).run()


class _Layout:
    def __init__(self, graph: ir.Graph, derived: Derived, convolutions: bool) -> None:
        self.graph, self.derived, self.convolutions = graph, derived, convolutions
        self.last: dict[ir.Value, ir.Value] = {}  # value with channels second: the same with channels last
        self.second: dict[ir.Value, ir.Value] = {}  # of values whose node is gone: made again by a Transpose
        self.found = 0

    def run(self) -> int:
        for node in list(self.graph):
            if not self._moved(node):
                for i, value in enumerate(node.inputs):
                    if value is not None and value in self.last and value.producer() is None:
                        node.replace_input_with(i, self._second(value, node))
        for i, value in enumerate(self.graph.outputs):
            if value in self.last and value.producer() is None:
                new, name = self._second(value, None), value.name
                value.name, new.name = f"{name}:last", name
                self.graph.outputs[i] = new
        return self.found

    def _moved(self, node: ir.Node) -> bool:
        """Move one node; False if it stays as it is."""
        if node.domain == MS and node.op_type in ("GroupNorm", "SkipGroupNorm"):
            return self._norm(node)
        if node.domain or any(len(dims(v)) != 4 for v in node.outputs):
            return False
        if node.op_type == "Conv" and self.convolutions:
            return self._conv(node)
        if node.op_type == "Transpose":
            return self._transpose(node)
        if node.op_type in _ELEMENTWISE:
            return self._elementwise(node)
        if node.op_type == "Concat" and attribute(node, "axis") in (1, -3):
            return self._concat(node)
        if node.op_type == "Resize":
            return self._resize(node)
        return False

    def _insert(self, node: ir.Node, before: ir.Node | None) -> ir.Node:
        self.graph.insert_before(before, node) if before is not None else self.graph.append(node)
        return node

    def _done(self, node: ir.Node, outputs: list[ir.Value]) -> bool:
        """`outputs` with channels last take the place of `node`."""
        for old, new in zip(node.outputs, outputs, strict=True):
            shape = dims(old)
            typed(new, old.dtype, [shape[i] for i in TO_LAST] if shape else ())
            new.name = f"{old.name}:last"
            self.last[old] = new
        # Readers that come later find what stands for the value in `last`; the node itself goes.
        for old in node.outputs:
            stand = typed(ir.Value(name=old.name), old.dtype, dims(old))
            self.last[stand] = self.last[old]
            for reader, index in list(old.uses()):
                reader.replace_input_with(index, stand)
            for i, value in enumerate(self.graph.outputs):
                if value is old:
                    self.graph.outputs[i] = stand
        self.graph.remove(node, safe=True)
        return True

    def _last(self, value: ir.Value, before: ir.Node) -> ir.Value:
        """`value` with channels last, made by a Transpose where it must be."""
        if value in self.last:
            return self.last[value]
        turn = make("Transpose", [value], {"perm": TO_LAST}, f"{value.name}/to_last")
        shape = dims(value)
        typed(turn.outputs[0], value.dtype, [shape[i] for i in TO_LAST])
        self._insert(turn, before)
        self.last[value] = turn.outputs[0]
        return turn.outputs[0]

    def _second(self, value: ir.Value, before: ir.Node | None) -> ir.Value:
        """`value` with channels second, once more."""
        if value not in self.second:
            turn = make("Transpose", [self.last[value]], {"perm": TO_SECOND}, f"{value.name}/to_second")
            typed(turn.outputs[0], value.dtype, dims(value))
            self._insert(turn, before)
            self.second[value] = turn.outputs[0]
        return self.second[value]

    def _conv(self, node: ir.Node) -> bool:
        x, w = node.inputs[0], node.inputs[1]
        if x is None or w is None or not is_weight(w) or attribute(node, "auto_pad", "NOTSET") != "NOTSET":
            return False
        bias = node.inputs[2] if len(node.inputs) > 2 else None
        kept = ("dilations", "group", "kernel_shape", "pads", "strides")
        new = make(
            "NhwcConv",
            [
                self._last(x, node),
                add_weight(self.graph, self.derived, w, "ohwi"),
                *([bias] if bias is not None else []),
            ],
            {k: attribute(node, k) for k in kept if attribute(node, k) is not None},
            f"{node.name}",
            domain=MS,
        )
        self._insert(new, node)
        self.found += 1
        return self._done(node, [new.outputs[0]])

    def _norm(self, node: ir.Node) -> bool:
        inputs: list[ir.Value | None] = list(node.inputs)
        assert inputs[0] is not None
        inputs[0] = self._last(inputs[0], node)
        if node.op_type == "SkipGroupNorm" and inputs[3] is not None and len(dims(inputs[3])) == 4:
            inputs[3] = self._last(inputs[3], node)
        given = {name: a.value for name, a in node.attributes.items()} | {"channels_last": 1}
        new = make(node.op_type, inputs, given, f"{node.name}", outputs=len(node.outputs), domain=MS)
        self._insert(new, node)
        return self._done(node, list(new.outputs))

    def _transpose(self, node: ir.Node) -> bool:
        x = node.inputs[0]
        assert x is not None
        if permutation(node) == TO_LAST and x in self.last:
            replace(node.outputs[0], self.last[x])
            self.graph.remove(node, safe=True)
            return True
        if permutation(node) == TO_SECOND:  # tokens to image: what it reads is the image with its channels last
            self.last[node.outputs[0]] = x
            return True
        return False

    def _elementwise(self, node: ir.Node) -> bool:
        if not any(v in self.last for v in node.inputs):
            return False
        inputs = []
        for v in node.inputs:
            if v is None or len(dims(v)) not in (0, 4) or (len(dims(v)) == 0 and not is_weight(v)):
                return False
        for v in node.inputs:
            assert v is not None
            inputs.append(self._last(v, node) if len(dims(v)) == 4 else v)
        new = make(node.op_type, inputs, {}, f"{node.name}")
        self._insert(new, node)
        return self._done(node, [new.outputs[0]])

    def _concat(self, node: ir.Node) -> bool:
        if not any(v in self.last for v in node.inputs):
            return False
        inputs = [self._last(v, node) for v in node.inputs if v is not None]
        new = make("Concat", inputs, {"axis": 3}, f"{node.name}")
        self._insert(new, node)
        return self._done(node, [new.outputs[0]])

    def _resize(self, node: ir.Node) -> bool:
        """Nearest upsampling by 2 -> Reshape, Expand, Reshape: a copy, whatever layouts a Resize kernel knows."""
        x = node.inputs[0]
        if x is None or x not in self.last:
            return False
        scales = constant(node.inputs[2]) if len(node.inputs) > 2 else None
        nearest = attribute(node, "mode") == "nearest" and attribute(node, "nearest_mode") == "floor"
        if scales is None or list(scales) != [1, 1, 2, 2] or not nearest:
            return False
        if attribute(node, "coordinate_transformation_mode") != "asymmetric":
            return False
        n, c, h, w = dims(x)
        graph, name, value = self.graph, node.name, self.last[x]
        for op, target in (
            ("Reshape", (n, h, 1, w, 1, c)),
            ("Expand", (n, h, 2, w, 2, c)),
            ("Reshape", (n, 2 * h, 2 * w, c)),
        ):
            shape = add_constant(graph, "shape_" + "x".join(map(str, target)), np.array(target, np.int64))
            step = make(op, [value, shape], {}, f"{name}/{op}_{len(target)}_{target[2]}")
            value = typed(self._insert(step, node).outputs[0], x.dtype, target)
        return self._done(node, [value])
