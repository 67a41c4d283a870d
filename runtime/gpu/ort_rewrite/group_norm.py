"""GroupNormalization, and the SiLU behind it -> com.microsoft GroupNorm.

The operator takes its scale and bias in float32 whatever the activations are. It runs with the channels last only:
`nhwc` moves the layout; here the node says `channels_last = 0`, which no provider runs.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import MS, Derived, add_weight, attribute, dims, is_weight, make, only_reader, replace, typed, uses

GROUPS = 32
"""What the CUDA kernel is made for, with an even number of channels in each."""


def group_norm(model: ir.Model, derived: Derived, limits: bool = True) -> int:
    """Rewrite the graph; returns how many normalisations changed. `limits`: only what the kernel is made for."""
    graph, found = model.graph, 0
    for node in list(graph):
        if node.op_type != "GroupNormalization" or node.domain:
            continue
        x, gamma, beta = node.inputs[:3]
        if x is None or len(dims(x)) != 4 or not is_weight(gamma) or not is_weight(beta):
            continue
        assert gamma is not None and beta is not None
        groups = int(attribute(node, "num_groups"))
        if limits and (groups != GROUPS or dims(x)[1] // groups % 2):
            continue
        silu = _silu(node.outputs[0])
        last = node.outputs[0] if silu is None else silu.outputs[0]
        new = make(
            "GroupNorm",
            [x, add_weight(graph, derived, gamma, "float32"), add_weight(graph, derived, beta, "float32")],
            {
                "groups": groups,
                "epsilon": float(attribute(node, "epsilon", 1e-5)),
                "activation": int(silu is not None),
                "channels_last": 0,
            },
            f"{node.name}",
            domain=MS,
        )
        new.outputs[0].name = f"{node.outputs[0].name}:fused"
        typed(new.outputs[0], last.dtype, dims(last))
        graph.insert_before(node, new)
        replace(last, new.outputs[0])
        found += 1
    return found


def _silu(value: ir.Value) -> ir.Node | None:
    """The Mul of `value` with its own Sigmoid, if nothing else reads either."""
    readers = uses(value)
    if len(readers) != 2 or value.is_graph_output():
        return None
    gate = next((n for n in readers if n.op_type == "Sigmoid"), None)
    product = next((n for n in readers if n.op_type == "Mul"), None)
    if gate is None or product is None or only_reader(gate.outputs[0]) is not product:
        return None
    return product
