"""The precision of each layer of a program, read from the quantised graphs that it carries."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from xdsl.ir import Operation

from ..ir.container import Program
from ..ir.dialects import parse_module
from ..ir.locations import nodes_of
from ..ir.naming import op_names
from ..ir.qgraph import QAttentionOp, QConvOp, QLinearOp, section_bits, weight_bits

GRAPHS = "quantised_graph/"
"""Prefix of the tables that hold the graphs; the part's name follows."""


@dataclass(frozen=True)
class Layer:
    """A layer as compiled. `weights`: bits of each weight, several where linears of one input are one operation.
    Attention's operands are int8 always; `activations` are bits of its probabilities. `nodes` are the ONNX nodes that
    became the layer: rules of a policy may name any of them."""

    part: str
    name: str
    nodes: tuple[str, ...]
    kind: str
    weights: tuple[int, ...]
    activations: int
    scale: str

    @property
    def text(self) -> str:
        """The precision without the layer's name."""
        if self.kind == "attention":
            return f"int8 q, k, v; {self.activations}-bit probabilities"
        weights = "/".join(f"w{b}" for b in sorted(set(self.weights)))
        return f"{weights} a{self.activations} {self.scale}"


def _layer(part: str, name: str, op: Operation) -> Layer | None:
    nodes = nodes_of(op)
    match op:
        case QLinearOp():
            scale = "static" if op.x_scale is not None else "dynamic"
            return Layer(part, name, nodes, "linear", tuple(section_bits(op)), 8 if op.planes == 1 else 15, scale)
        case QConvOp():
            return Layer(part, name, nodes, "conv", (weight_bits(op),), 8 if op.planes == 1 else 15, "static")
        case QAttentionOp():
            return Layer(part, name, nodes, "attention", (), op.prob_bits.value.data, "")
    return None


def layers(program: Program) -> list[Layer]:
    """Every layer in order; none for a program that carries no graph."""
    found: list[Layer] = []
    for table, content in program.tables.items():
        if table.startswith(GRAPHS):
            module = parse_module(content.tobytes().decode(), table)
            made = (_layer(table.removeprefix(GRAPHS), name, op) for op, name in op_names(module).items())
            found += [layer for layer in made if layer is not None]
    return found


def by_class(found: list[Layer]) -> dict[str, int]:
    """How many layers of each kind have which precision: `linear, w8 a8 dynamic` -> 12."""
    counts = Counter(f"{layer.kind}, {layer.text}" for layer in found)
    return dict(sorted(counts.items()))


def as_json(found: list[Layer]) -> list[dict[str, Any]]:
    """The layers as JSON values."""
    return [asdict(layer) for layer in found]
