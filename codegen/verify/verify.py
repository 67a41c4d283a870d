"""`verify_program`: proves a compiled program without running it. Which rule is where: see `README.md`."""

from __future__ import annotations

from dataclasses import dataclass

from ...errors import DpuError
from ...ir.container import Entry, Program
from ..witness import check_program
from .boxes import boxes, coarse, granule
from .objects import check_extents, check_objects, check_record
from .provenance import meaning
from .report import Reporter
from .scan import Scan


@dataclass(frozen=True)
class Proof:
    """What was verified of one entry."""

    entry: str
    words: int
    operands: int
    reads: int

    def __str__(self) -> str:
        return f"{self.entry}: {self.words:,} words, {self.operands:,} operands, {self.reads:,} reads"


def verify_entry(program: Program, entry: Entry) -> Proof:
    """All rules over the streams of one entry point, cheap rules first.

    Raises:
        DpuError: E310 to E323 by the witness, E360 to E368 by the rules of this folder.
    """
    streams, where = program.words[entry.name], f"entry '{entry.name}'"
    check_program(streams, program.arch, program.base_bytes, where)
    record = meaning(program, entry.name)
    report = Reporter(program, entry, record)
    check_objects(program, record, where)
    found = [boxes(words, program.arch) for words in streams]
    for tile, (words, b) in enumerate(zip(streams, found, strict=True)):
        check_record(report, record, tile, words, b)
        check_extents(report, record, tile, b)
    size = granule(found)
    coarser = [coarse(b, size) for b in found]
    Scan(program.arch, entry, streams, coarser, size, record, program.base_bytes, report).run()
    return Proof(entry.name, sum(map(len, streams)), sum(map(len, found)), sum(int(b.read.sum()) for b in found))


def verify_program(program: Program) -> list[Proof]:
    """All entries.

    Raises:
        DpuError: the first fault, see `verify_entry`.
    """
    for e in program.entries:
        _check_slots(program, e)
    try:
        return [verify_entry(program, e) for e in program.entries]
    except MemoryError as error:
        sizes = ", ".join(f"{n:,}" for n in program.base_bytes.values())
        what = f"regions of {sizes} bytes are too large to be followed"
        raise DpuError("program", what, hint="verify on a machine with more memory", code="E361") from error


def _check_slots(program: Program, entry: Entry) -> None:
    """Inputs and outputs lie inside their regions.

    Raises:
        DpuError: E361.
    """
    for slot in (*entry.inputs, *entry.outputs):
        room = program.base_bytes.get(slot.base, 0)
        if min(*slot.shape, slot.row_bytes) < 1 or slot.offset < 0 or slot.offset + slot.bytes > room:
            what = f"tensor '{slot.name}', {slot.bytes:,} bytes at {slot.offset:#x} of base register {slot.base}"
            why = f"that region has {room:,} bytes"
            raise DpuError(f"entry '{entry.name}'", what, why=why, hint="compile the model again", code="E361")
