"""MatMul of a transposed weight -> FusedMatMul that reads the weight as it is stored.

The exporter writes `x @ W.T` as Transpose and MatMul. cuBLAS reads a transposed operand at no cost, so nothing has to
be transposed when the model is loaded, and the weights are those of the file, bit by bit.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import MS, Derived, is_weight, make, permutation, producer, replace, typed


def weight_transpose(model: ir.Model, derived: Derived) -> int:
    """Rewrite the graph; returns how many products changed."""
    graph, found = model.graph, 0
    for node in list(graph):
        if node.op_type != "MatMul" or node.domain:
            continue
        turn = producer(node.inputs[1], "Transpose")
        if turn is None or permutation(turn) != (1, 0) or not is_weight(turn.inputs[0]):
            continue
        new = make("FusedMatMul", [node.inputs[0], turn.inputs[0]], {"transB": 1}, f"{node.name}", domain=MS)
        out = node.outputs[0]
        new.outputs[0].name = f"{out.name}:fused"
        typed(new.outputs[0], out.dtype, () if out.shape is None or not out.shape.is_static() else out.shape.numpy())
        graph.insert_before(node, new)
        replace(out, new.outputs[0])
        found += 1
    return found
