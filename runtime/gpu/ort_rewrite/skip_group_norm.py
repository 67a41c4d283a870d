"""GroupNorm of a sum -> com.microsoft SkipGroupNorm: the residual, the time embedding and a convolution's bias inside.

It computes S = X + skip + bias and the GroupNorm of S, and gives S as well where others read it. A skip of shape
samples x channels is added to every pixel: the time embedding needs no Unsqueeze.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import MS, Derived, constant, dims, is_weight, make, only_reader, producer, replace, typed, uses


def skip_group_norm(model: ir.Model, derived: Derived) -> int:
    """Rewrite the graph; returns how many normalisations changed."""
    graph, found = model.graph, 0
    for node in list(graph):
        if node.op_type != "GroupNorm" or node.domain != MS:
            continue
        add = producer(node.inputs[0], "Add")
        if add is None or any(n is not node and n.op_type == "SkipGroupNorm" for n in uses(add.outputs[0])):
            continue
        operands = _operands(add)
        if operands is None:
            continue
        x, skip = operands
        total = add.outputs[0]
        shared = len(uses(total)) > 1 or total.is_graph_output()
        bias = _take_bias(x)
        # At the place of the Add: what else reads the sum may come before the normalisation.
        new = make(
            "SkipGroupNorm",
            [x, node.inputs[1], node.inputs[2], skip, *([bias] if bias is not None else [])],
            {name: a.value for name, a in node.attributes.items()},
            f"{node.name}",
            outputs=2 if shared else 1,
            domain=MS,
        )
        new.outputs[0].name = f"{node.outputs[0].name}:skip"
        typed(new.outputs[0], total.dtype, dims(total))
        graph.insert_before(add, new)
        replace(node.outputs[0], new.outputs[0])
        graph.remove(node, safe=True)
        if shared:
            new.outputs[1].name = f"{total.name}:skip"
            typed(new.outputs[1], total.dtype, dims(total))
            replace(total, new.outputs[1])
        found += 1
    return found


def _operands(add: ir.Node) -> tuple[ir.Value, ir.Value] | None:
    """(X, skip): X is a convolution's output where there is one, for its bias; skip is like X or one a channel."""
    a, b = add.inputs[0], add.inputs[1]
    shape = dims(add.outputs[0])
    if a is None or b is None or len(shape) != 4 or is_weight(a) or is_weight(b):
        return None
    for x, skip in ((a, b), (b, a)):
        if dims(x) == shape and dims(skip) == (*shape[:2], 1, 1):
            grown = producer(skip, "Unsqueeze")
            axes = constant(grown.inputs[1]) if grown is not None else None
            if grown is None or axes is None or list(axes) != [2, 3] or grown.inputs[0] is None:
                return None
            return x, grown.inputs[0]
    if dims(a) != shape or dims(b) != shape:
        return None
    return (a, b) if _own_conv(a) or not _own_conv(b) else (b, a)


def _own_conv(value: ir.Value) -> bool:
    return producer(value, "Conv") is not None and only_reader(value) is not None


def _take_bias(value: ir.Value) -> ir.Value | None:
    """Take the bias from the convolution that makes `value`, if nothing else reads that value."""
    conv = producer(value, "Conv")
    if conv is None or not _own_conv(value) or len(conv.inputs) < 3 or conv.inputs[2] is None:
        return None
    bias = conv.inputs[2]
    conv.replace_input_with(2, None)
    conv.resize_inputs(2)
    return bias
