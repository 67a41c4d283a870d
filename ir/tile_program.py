"""A tile program as plain objects: what lowering writes and planners, scheduler and encoder read, word by word.

A full-size model has a million instructions, so they are not operations of the text IR; `tile_text.py` turns a program
into `tile.program` text and back, for dumps, tests and `dpuc opt`.

The meaning of a program is the sequential execution of its sections, top to bottom. A section opens a group of
instructions: the tile they run on, the graph operation they belong to, the stream (the guidance image or row half), the
step and the phase. Sections are what the scheduler moves.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from .container import ROW_ALIGN
from .isa import Opcode

SPACES = ("act", "wgt", "acc", "vbuf", "param", "table")
ITEM_BYTES = {"f16": 2, "f32": 4, "i8": 1, "i32": 4}
DRAM_KINDS = ("const", "work", "state", "io")


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage collection within: a program is millions of objects without a cycle, and looking for one costs a
    quarter of a compilation."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


@dataclass(slots=True, eq=False)
class Dram:
    """A DRAM tensor samples x tokens x channels with its row pitch in bytes.

    `kind`: const (weights, parameters), work (dead after the entry), state (kept between entries), io (host).
    """

    name: str
    dtype: str
    shape: tuple[int, int, int]
    kind: str
    row_bytes: int

    @staticmethod
    def of(name: str, dtype: str, shape: Sequence[int], kind: str, row_bytes: int | None = None) -> Dram:
        """A tensor whose rows are as long as they must be, rounded up to the row alignment, if nothing is said."""
        samples, tokens, channels = (int(n) for n in shape)
        if row_bytes is None:
            row_bytes = -(-channels * ITEM_BYTES[dtype] // ROW_ALIGN) * ROW_ALIGN
        return Dram(name, dtype, (samples, tokens, channels), kind, row_bytes)


@dataclass(slots=True, eq=False)
class Buf:
    """`words` words of a scratchpad; `at`, once planned, is where they are. Dead after its last use."""

    space: str
    words: int
    at: int = -1  # -1: not planned yet


class Instr:
    """One instruction. `operands` by role; `fields` have the names of the instruction's fields (`isa.py`) and hold
    offsets relative to the operand of the same name. Fields left out are zero.

    A full-size program for 24 tiles has six million, and most say what another one says of other buffers. So names and
    values are tuples, and those that are equal are one object: a fifth of the memory of dictionaries. Nothing changes
    an instruction.
    """

    __slots__ = ("names", "opcode", "roles", "things", "values")

    opcode: Opcode
    roles: tuple[str, ...]
    things: tuple[Buf | Dram, ...]
    names: tuple[str, ...]
    values: tuple[Any, ...]

    def __init__(self, opcode: Opcode, operands: Mapping[str, Buf | Dram], fields: Mapping[str, Any]) -> None:
        self.opcode = opcode
        roles, names = tuple(operands), tuple(fields)
        self.roles = _NAMES.setdefault(roles, roles)
        self.things = tuple(operands.values())
        self.names = _NAMES.setdefault(names, names)
        self.values = _shared(tuple(fields.values()), "imm" in fields)

    @property
    def operands(self) -> dict[str, Buf | Dram]:
        """The operands by role."""
        return dict(zip(self.roles, self.things, strict=True))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields by name."""
        return dict(zip(self.names, self.values, strict=True))


_NAMES: dict[tuple[str, ...], tuple[str, ...]] = {}
_VALUES: dict[Any, tuple[Any, ...]] = {}
_MOST_VALUES = 1 << 16  # the table is emptied then: what is equal lies close together


def _shared(values: tuple[Any, ...], floats: bool) -> tuple[Any, ...]:
    """Equal values, as one object where they were seen before. With `floats`, 0.0 is not -0.0."""
    key = (values, repr(values)) if floats else values
    found = _VALUES.get(key)
    if found is None:
        if len(_VALUES) > _MOST_VALUES:
            _VALUES.clear()
        if not floats:
            values = tuple([_VALUES.setdefault(v, v) if type(v) is tuple else v for v in values])
        found = _VALUES[key] = values
    return found


@dataclass(slots=True, eq=False)
class Section:
    """Consecutive instructions of one tile; a buffer stands in `ops` where it begins to live."""

    tile: int
    tag: int  # of the graph operation
    stream: int
    step: int
    phase: str
    source: str  # name of the graph operation
    ops: list[Buf | Instr]


@dataclass(slots=True, eq=False)
class TileProgram:
    """One entry point, all tiles."""

    name: str
    drams: list[Dram] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)

    def instructions(self) -> Iterator[tuple[Section, Instr]]:
        """Every instruction in order, with its section."""
        for s in self.sections:
            for op in s.ops:
                if isinstance(op, Instr):
                    yield s, op
