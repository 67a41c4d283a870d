"""LayerNormalization of a residual sum -> com.microsoft SkipLayerNormalization, with the linear's bias inside.

It computes S = input + skip + bias and the LayerNorm of S; S is its fourth output where others read it.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import MS, Derived, attribute, dims, is_weight, make, only_reader, producer, replace, typed, uses


def skip_layer_norm(model: ir.Model, derived: Derived) -> int:
    """Rewrite the graph; returns how many normalisations changed."""
    graph, found = model.graph, 0
    for node in list(graph):
        if node.op_type != "LayerNormalization" or node.domain or len(node.outputs) != 1 or len(node.inputs) < 3:
            continue
        add = producer(node.inputs[0], "Add")
        shape = dims(node.inputs[0])
        if add is None or len(shape) != 3 or attribute(node, "axis", -1) not in (-1, 2):
            continue
        if any(n is not node and n.op_type == "SkipLayerNormalization" for n in uses(add.outputs[0])):
            continue
        a, b = add.inputs[0], add.inputs[1]
        if a is None or b is None or dims(a) != shape or dims(b) != shape:
            continue
        x, bias = _without_bias(a, shape)
        skip = b
        if bias is None:
            x, bias = _without_bias(b, shape)
            skip = a
        total = add.outputs[0]
        shared = len(uses(total)) > 1 or total.is_graph_output()
        new = make(
            "SkipLayerNormalization",
            [x, skip, node.inputs[1], node.inputs[2], *([bias] if bias is not None else [])],
            {"epsilon": float(attribute(node, "epsilon", 1e-5))},
            f"{node.name}",
            outputs=4 if shared else 1,
            domain=MS,
        )
        new.outputs[0].name = f"{node.outputs[0].name}:skip"
        typed(new.outputs[0], total.dtype, shape)
        graph.insert_before(add, new)
        replace(node.outputs[0], new.outputs[0])
        graph.remove(node, safe=True)
        if shared:
            new.outputs[1].name = new.outputs[2].name = ""  # mean and deviation: not asked for
            new.outputs[3].name = f"{total.name}:skip"
            typed(new.outputs[3], total.dtype, shape)
            replace(total, new.outputs[3])
        found += 1
    return found


def _without_bias(value: ir.Value, shape: tuple[int, ...]) -> tuple[ir.Value, ir.Value | None]:
    """(`value` before a bias of one a channel was added, that bias), if nothing else reads `value`."""
    add = producer(value, "Add")
    if add is None or only_reader(value) is None:
        return value, None
    a, b = add.inputs[0], add.inputs[1]
    for x, bias in ((a, b), (b, a)):
        if x is not None and bias is not None and is_weight(bias) and dims(bias) == shape[-1:] and dims(x) == shape:
            return x, bias
    return value, None
