"""Scratchpads of a tile, views of them, and what the engines report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..ir.arch import Arch
from ..ir.isa import TABLE_SLOTS, Buffer
from ..ir.numerics import GateTable

Region = npt.NDArray[np.uint8]


class Fault(Exception):
    """An illegal or trapping word, before the machine adds entry, tile, word and tag."""

    def __init__(self, code: str, field: str, what: str, why: str = "") -> None:
        self.code, self.what, self.why = code, f"field '{field}': {what}", why
        super().__init__(self.what)


@dataclass
class Tally:
    """Executed work. Overflows and NaN are counted here and never silent."""

    words: int = 0
    macs: int = 0  # executed: padding included
    read: int = 0  # DRAM payload bytes
    written: int = 0
    fp16_overflow: int = 0  # results beyond float16, saturated
    nan: int = 0  # NaN turned into integers, as 0

    def add(self, other: Tally) -> None:
        for name in ("words", "macs", "read", "written", "fp16_overflow", "nan"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


class Tile:
    """The scratchpads of one tile, cleared. Each is bytes in `memory`, with typed arrays over the same bytes."""

    def __init__(self, arch: Arch) -> None:
        self.rows, self.cols = arch.rows, arch.cols
        self.words = {b: arch.words[b.name.lower()] for b in Buffer if b.name.lower() in arch.words}
        self.word_bytes = {b: arch.word_bytes[b.name.lower()] for b in self.words}
        self.memory: dict[int, Region] = {b: np.zeros(self.words[b] * self.word_bytes[b], np.uint8) for b in self.words}
        self.act = self.memory[Buffer.ACT].view(np.int8)
        self.wgt = self.memory[Buffer.WGT].view(np.int8)
        self.acc = self.memory[Buffer.ACC].view(np.int32).reshape(-1, arch.cols)
        self.vbuf = self.memory[Buffer.VBUF]
        self.param_f = self.memory[Buffer.PARAM].view(np.float32)
        self.param_i = self.memory[Buffer.PARAM].view(np.int32)
        self.tables: list[GateTable | None] = [None] * TABLE_SLOTS
        self.views: Any = None  # the scratchpads as `vpu.py` hands them to compiled code

    def check(self, buffer: int, field: str, low: int, high: int) -> None:
        """Words low .. high - 1 are inside the buffer, or a Fault."""
        size = self.words[Buffer(buffer)]
        if low < 0 or high > size:
            name = Buffer(buffer).name
            raise Fault("E411", field, f"words {low} to {high - 1} of {name}, which holds {size}")
