"""GEGLU: bias, split in halves, GELU of the second, product -> com.microsoft BiasSplitGelu.

The CUDA kernel is compiled for the widths of Stable Diffusion only; others stay as they are.
"""

from __future__ import annotations

import onnx_ir as ir

from .nodes import MS, Derived, attribute, dims, is_weight, make, only_reader, producer, replace, typed

WIDTHS = (2560, 5120, 10240)
"""Columns before the split that ONNX Runtime has a CUDA kernel for."""


def split_gelu(model: ir.Model, derived: Derived, limits: bool = True) -> int:
    """Rewrite the graph; returns how many gates changed. `limits`: only of `WIDTHS`."""
    graph, found = model.graph, 0
    for node in list(graph):
        if node.op_type != "Split" or node.domain or len(node.outputs) != 2:
            continue
        shape = dims(node.inputs[0])
        bias = producer(node.inputs[0], "Add")
        if len(shape) != 3 or attribute(node, "axis", 0) not in (2, -1) or bias is None:
            continue
        if (limits and shape[2] not in WIDTHS) or only_reader(bias.outputs[0]) is not node:
            continue
        weights = [v for v in bias.inputs if is_weight(v) and dims(v) == shape[2:]]
        rest = [v for v in bias.inputs if not is_weight(v)]
        gelu = only_reader(node.outputs[1])
        if len(weights) != 1 or len(rest) != 1 or gelu is None or gelu.op_type != "Gelu":
            continue
        product = only_reader(gelu.outputs[0])
        if attribute(gelu, "approximate", "none") != "none" or product is None or product.op_type != "Mul":
            continue
        if only_reader(node.outputs[0]) is not product:
            continue
        new = make("BiasSplitGelu", [rest[0], weights[0]], {}, f"{gelu.name}", domain=MS)
        new.outputs[0].name = f"{product.outputs[0].name}:fused"
        typed(new.outputs[0], product.outputs[0].dtype, dims(product.outputs[0]))
        graph.insert_before(bias, new)
        replace(product.outputs[0], new.outputs[0])
        found += 1
    return found
