"""Attention between transposed heads -> com.microsoft MultiHeadAttention, which reads tokens x channels as they are.

Removed are the four Reshape and Transpose pairs around each attention. The operator's `scale` is 1 / sqrt(head size)
unless given, as in ONNX Attention; masks and causal attention are left alone.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import MS, Derived, attribute, dims, make, only_reader, permutation, producer, replace, typed

HEADS = (0, 2, 1, 3)  # samples x tokens x heads x channels <-> samples x heads x tokens x channels


def attention(model: ir.Model, derived: Derived) -> int:
    """Rewrite the graph; returns how many attentions changed."""
    graph, found = model.graph, 0
    for node in list(graph):
        if node.op_type != "Attention" or node.domain:
            continue
        plain = len(node.outputs) == 1 and not any(v is not None for v in node.inputs[3:])
        if not plain or attribute(node, "is_causal", 0) or attribute(node, "softcap", 0.0):
            continue
        flat = [_tokens(v) for v in node.inputs[:3]]
        last = _joined(node.outputs[0])
        heads = dims(node.inputs[0])
        if any(v is None for v in flat) or last is None or len(heads) != 4:
            continue
        given = {"num_heads": heads[1]}
        scale = attribute(node, "scale")
        if scale is not None:
            given["scale"] = scale
        new = make("MultiHeadAttention", flat, given, f"{node.name}", domain=MS)
        new.outputs[0].name = f"{node.outputs[0].name}:fused"
        typed(new.outputs[0], last.dtype, dims(last))
        graph.insert_before(node, new)
        replace(last, new.outputs[0])
        found += 1
    return found


def _tokens(value: ir.Value | None) -> ir.Value | None:
    """Samples x tokens x channels that `value`, heads apart, was made from."""
    turn = producer(value, "Transpose")
    split = producer(turn.inputs[0], "Reshape") if turn is not None and permutation(turn) == HEADS else None
    if split is None or split.inputs[0] is None:
        return None
    return split.inputs[0] if len(dims(split.inputs[0])) == 3 else None


def _joined(value: ir.Value) -> ir.Value | None:
    """Samples x tokens x channels that is made from `value`, heads apart, and nothing else is."""
    turn = only_reader(value)
    if turn is None or turn.op_type != "Transpose" or permutation(turn) != HEADS:
        return None
    join = only_reader(turn.outputs[0])
    if join is None or join.op_type != "Reshape" or len(dims(join.outputs[0])) != 3:
        return None
    return join.outputs[0]
