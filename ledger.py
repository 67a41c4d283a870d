"""Trees of numbers as JSON: every number once, inputs by index; whoever reads them computes each again.

{"nodes": [{"value": 2, "unit": "USD/h", "provenance": "published", "source": ..., "name": "price"},
           {"value": ..., "op": "divide", "inputs": [0, 1], ...}],
 "outputs": {"h200.cost_per_image": 7},
 "measurements": [...]}                        the records of its measured leaves
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isclose

from pydantic import BaseModel, ConfigDict, NonNegativeInt, ValidationError

from .errors import DpuError
from .evidence import FUNCTIONS, Provenance, Quantity, combine, is_operation, recomputed
from .measurement import Measurement


class Node(BaseModel):
    """One number: the fields of `Quantity`, inputs by index of earlier nodes."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    unit: str
    provenance: str
    source: str
    uncertainty: float | None = None
    name: str = ""
    op: str = ""
    constant: float | None = None
    record: str = ""
    inputs: tuple[NonNegativeInt, ...] = ()


class Ledger(BaseModel):
    """Named outputs and everything that they were made from."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nodes: tuple[Node, ...]
    outputs: dict[str, int]
    measurements: tuple[Measurement, ...] = ()

    @classmethod
    def of(cls, outputs: Mapping[str, Quantity], measurements: Iterable[Measurement] = ()) -> Ledger:
        """The ledger of outputs; records that no leaf refers to are left out."""
        nodes: list[Node] = []
        index: dict[int, int] = {}

        def add(q: Quantity) -> int:
            if id(q) not in index:
                inputs = tuple(add(i) for i in q.inputs)
                fields = q.model_dump(exclude={"inputs"})
                nodes.append(Node(**fields, inputs=inputs))
                index[id(q)] = len(nodes) - 1
            return index[id(q)]

        places = {name: add(q) for name, q in outputs.items()}
        used = {n.record for n in nodes}
        return cls(nodes=tuple(nodes), outputs=places, measurements=tuple(m for m in measurements if m.digest in used))

    def quantities(self, where: str) -> dict[str, Quantity]:
        """The outputs, every derived number computed again, every measured leaf found among the records.

        Raises:
            DpuError: a number does not follow from its inputs or its record; `where` is the file named.
        """
        records = {m.digest: m for m in self.measurements}
        made: list[Quantity] = []
        for i, node in enumerate(self.nodes):
            label = f"number {i}{f' ({node.name})' if node.name else ''}"
            try:
                made.append(_quantity(node, made, records))
            except (ValueError, TypeError, KeyError, IndexError) as e:
                text = e.errors()[0]["msg"].removeprefix("Value error, ") if isinstance(e, ValidationError) else str(e)
                raise DpuError(where, f"{label}: {text}", code="E523") from e
        if missing := [k for k, place in self.outputs.items() if not 0 <= place < len(made)]:
            raise DpuError(
                where, f"output '{missing[0]}': is number {self.outputs[missing[0]]} of {len(made)}", code="E523"
            )
        return {name: made[place] for name, place in self.outputs.items()}


def _quantity(node: Node, made: list[Quantity], records: Mapping[str, Measurement]) -> Quantity:
    inputs = tuple(made[i] for i in node.inputs)
    if node.op and not is_operation(node.op):
        raise ValueError(f"unknown operation '{node.op}'")
    if node.op in FUNCTIONS and len(inputs) != len(FUNCTIONS[node.op].units):
        raise ValueError(f"{node.op} takes {len(FUNCTIONS[node.op].units)} numbers, not {len(inputs)}")
    fields = node.model_dump(exclude={"inputs"})
    q = Quantity(**fields, inputs=inputs)
    if q.op:
        seen = recomputed(q)
        if not isclose(seen, q.value, rel_tol=1e-9):
            raise ValueError(f"{q.value:g} is not what its inputs give, {seen:g}")
        again = combine(q.op, q.unit, *inputs, constant=q.constant, source=q.source)
        if again.provenance != q.provenance:
            raise ValueError(f"{q.provenance.label} is not what its inputs give, {again.provenance.label}")
        return again.called(q.name)
    if q.provenance is Provenance.MEASURED and not q.inputs:
        record = records.get(q.record)
        if record is None or record.device.provenance is not Provenance.MEASURED:
            raise ValueError("is measured, but no record of a real device in the file says so")
        if not isclose(record.quantity().value, q.value, rel_tol=1e-12) or record.unit != q.unit:
            raise ValueError(f"{q.value:g} {q.unit} is not what its record says, {record.value:g} {record.unit}")
    return q
