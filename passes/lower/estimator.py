"""What an entry would cost, from its graph alone: the lowerings run, but their instructions are counted, not made.

Only the fullest tile is followed, and operations of one shape are counted once. An operation takes as long as its
busiest engine, since the two streams keep the engines overlapped; where they cannot, the estimate is too low.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Operation

from ...errors import DpuError
from ...ir import cost
from ...ir.arch import Arch
from ...ir.functions import GATES
from ...ir.graph import ParamOp, shape_of
from ...ir.isa import Opcode, records
from ...ir.locations import where
from ...ir.macs import macs
from ...ir.naming import op_names
from ...ir.signature import argument_names, result_names
from ...ir.tile_program import SPACES, Buf, Dram
from ..tiling import Unit
from .constants import ConstantPool
from .context import MOST_WORDS, Lowering, Template
from .emitter import Emitter
from .program import dtype_of, lower_op

COUNTED = (Opcode.LOAD, Opcode.MM, Opcode.VEC, Opcode.STORE)

Rows = dict[Opcode, list[Mapping[str, Any]]]


_BUFFERS = {space: Buf(space, 0) for space in SPACES}
"""Stand for all buffers: all that an emitter asks of one is its scratchpad."""


class CountingEmitter(Emitter):
    """An emitter that keeps the fields of instructions instead of making them."""

    def __init__(self, arch: Arch, rows: Rows) -> None:
        super().__init__(arch)
        self.rows = rows

    def alloc(self, space: str, words: int) -> Buf:
        return _BUFFERS[space]

    def add(self, opcode: Opcode, operands: dict[str, Buf | Dram], fields: dict[str, Any]) -> None:
        source = operands.get("src") if opcode == Opcode.LOAD else None
        fields["shared"] = isinstance(source, Dram) and source.kind == "const"
        self.rows[opcode].append(fields)


@dataclass
class EstimatorLowering(Lowering):
    """A lowering of tile 0 only, into counters."""

    rows: Rows = field(default_factory=dict)
    most_words: ClassVar[int] = 100 * MOST_WORDS

    def emitter(self) -> Emitter:
        return CountingEmitter(self.arch, self.rows)

    def run(self, groups: list[list[Unit]], template: Template) -> None:
        for group in groups:
            for unit in group:
                if unit.tile == 0:
                    for _ in template(unit):
                        pass


@dataclass(frozen=True)
class OpEstimate:
    """One operation on the fullest tile. Cycles of each engine, bytes and executed MACs of all tiles together."""

    name: str
    kind: str
    macs: int
    executed: int
    mxu: int
    vpu: int
    load: int
    store: int
    bytes: int
    words: int
    cycles: int

    @property
    def bound(self) -> str:
        """The engine that takes longest."""
        by = {"mxu": self.mxu, "vpu": self.vpu, "memory": max(self.load, self.store)}
        return max(by, key=lambda k: by[k])


def estimate_entry(
    f: FuncOp,
    arch: Arch,
    cache: dict[tuple[Any, ...], OpEstimate] | None = None,
    tell: Callable[[], None] | None = None,
) -> list[OpEstimate]:
    """One estimate for each operation of a quantised function. `cache` keeps distinct shapes between calls."""
    cache = {} if cache is None else cache
    names = op_names(f)
    low = EstimatorLowering(arch, ConstantPool(_no_weights), rows={})
    for arg, name in zip(f.body.block.args, argument_names(f), strict=True):
        low.tensors[arg] = low.declare(name, dtype_of(arg), _three(shape_of(arg)))
    last = f.body.block.last_op
    for value, name in zip(last.operands if last else (), result_names(f), strict=True):
        low.tensors[value] = low.declare(name, dtype_of(value), _three(shape_of(value)))
    low.tables = [dict.fromkeys(GATES, _BUFFERS["table"])] * arch.tiles
    found = []
    for op in f.body.block.ops:
        if isinstance(op, ParamOp | ReturnOp):
            continue
        low.source = names[op]
        key = (arch.digest, *_signature(op, low))
        known = cache.get(key)
        low.rows = {o: [] for o in COUNTED}
        lower_op(low, op, work=known is None)
        if known is None:
            known = cache[key] = _cost(op, arch, low.rows)
        found.append(OpEstimate(**{**known.__dict__, "name": names[op]}))
    return found


def _three(shape: tuple[int, ...]) -> tuple[int, int, int]:
    b, t, c = shape
    return b, t, c


def _no_weights(source: str, transform: tuple[str, ...]) -> Any:
    raise AssertionError(f"an estimate asked for the weight {source}")


def _signature(op: Operation, low: Lowering) -> tuple[Any, ...]:
    """What an operation's instruction counts depend on: everything but scales and names."""
    properties = tuple((k, str(v)) for k, v in sorted(op.properties.items()) if "scale" not in k)
    shapes = tuple(str(v.type) for v in [*op.operands, *op.results])
    parts = tuple(str(low.tensors[v].shape) for v in op.operands if v in low.tensors)
    return (op.name, properties, shapes, parts)


def _cost(op: Operation, arch: Arch, rows: Rows) -> OpEstimate:
    try:
        made = {o: records(o, r) for o, r in rows.items()}
    except ValueError as e:
        raise DpuError(
            where(op),
            f"{e}, on arch '{arch.name}'",
            why="a tensor or block is larger than an instruction can address",
            hint="estimate on an arch with a larger array: --arch dpu_f2",
            code="E324",
        ) from e
    mm, vec = made[Opcode.MM], made[Opcode.VEC]
    mxu = int(cost.mm_occupancy(arch, mm).sum())
    vpu = int(cost.vec_occupancy(arch, vec).sum())
    moved = [cost.dma(arch, made[o]) for o in (Opcode.LOAD, Opcode.STORE)]
    data = sum(int(m.bytes.sum()) for m in moved)
    # Each port carries its own bytes; the DRAM carries those of all tiles.
    load, store = (
        max(int(np.ceil(m.bytes.sum() / arch.dram.port_bytes_per_cycle)), int(cost.dma_floor(m).sum())) for m in moved
    )
    total = data * arch.tiles
    if arch.l2_bytes:
        constants = np.array([bool(r["shared"]) for r in rows[Opcode.LOAD]], np.bool_)
        total -= int(moved[0].bytes[constants].sum()) * (arch.tiles - 1)
    bus = int(np.ceil(total / arch.dram.bytes_per_cycle))
    fill = cost.pipeline(arch)
    busiest = max(mxu, vpu, load, store, bus)
    return OpEstimate(
        name="",
        kind=op.name,
        macs=macs(op),
        executed=int(cost.mm_macs(arch, mm).sum()) * arch.tiles,
        mxu=mxu,
        vpu=vpu,
        load=max(load, bus),
        store=store,
        bytes=total,
        words=sum(len(r) for r in rows.values()),
        cycles=busiest + (fill if busiest < 4 * fill else 0),
    )
