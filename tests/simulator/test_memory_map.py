"""Lives of tensors, regions and high-water marks of a program whose timing is written by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from dpu.ir.container import Entry, Slot, SourceOp
from dpu.ir.isa import Buffer, Opcode, Words, word
from dpu.simulator.memory_map import Fill, Life, Region, memory_map
from dpu.simulator.timing_result import Timing

from .recorded import TINY, Times, tile


def move(opcode: Opcode, tag: int, offset: int, size: int, base: int = 1, **more: Any) -> Words:
    fields = {"tag": tag, "base": base, "buffer": Buffer.ACT, "offset": offset, "inner": size, "n": [1, 1, 1]} | more
    return word(opcode, **fields)


def test_lives() -> None:
    """Operation 1 stores a named tensor in two halves and something else; 2 reads it; 3 overwrites it, nobody reads."""
    sources = (
        SourceOp(
            tag=1,
            name="one",
            kind="",
            nodes=(),
            macs=0,
            outputs=(Slot(name="y", shape=(1, 4, 64), dtype="i8", base=1, offset=0, row_bytes=64),),
        ),
        SourceOp(tag=3, name="three", kind="", nodes=(), macs=0),
    )
    words = [
        move(Opcode.STORE, 1, 0, 128),
        move(Opcode.STORE, 1, 128, 128),
        move(Opcode.STORE, 1, 1024, 64),
        move(Opcode.LOAD, 2, 64, 64, sram=100),
        move(Opcode.STORE, 3, 192, 64),
        move(Opcode.LOAD, 3, 0, 640, base=0),
        word(Opcode.END),
    ]
    times: list[Times] = [
        (0, 10, 20, 30),
        (0, 20, 30, 40),
        (0, 30, 31, 41),
        (0, 50, 60, 70),
        (0, 80, 90, 95),
        (0, 90, 99, 99),
        (7, 7, 7, 7),
    ]
    timing = Timing(TINY, "unet", 100, [tile(words, times, [128, 128, 64, 64, 64, 640, 0])], [], ())
    entry = Entry(name="unet", inputs=(), outputs=(), sources=sources)
    m = memory_map(TINY, entry, [np.concatenate(words)], timing, {0: 640, 1: 4096, 2: 64})
    assert m.regions == (
        Region(name="CONST", bytes=640, touched=640, read=640, written=0),
        Region(name="WORK", bytes=4096, touched=1088, read=64, written=384),
        Region(name="STATE", bytes=64, touched=0, read=0, written=0),
    )
    assert m.lives == (
        Life(name="y", operation="one", region="WORK", offset=0, bytes=256, first=10, last=60, read=True),
        Life(name="one", operation="one", region="WORK", offset=1024, bytes=64, first=30, last=31, read=False),
        Life(name="three", operation="three", region="WORK", offset=192, bytes=64, first=80, last=90, read=False),
    )
    assert m.work_peak == 256 + 64
    # LOAD of 64 bytes: 8 words of ACT from 100 on. The longest operand: 640 bytes from 0.
    assert m.scratchpads[0] == Fill(buffer="ACT", bytes=65536, used=(100 + 8) * 8)
    assert [f.used for f in m.scratchpads[1:]] == [0, 0, 0, 0]


def test_regions_are_as_large_as_the_words_reach_without_a_program() -> None:
    words = [move(Opcode.LOAD, 0, 64, 64, base=5), word(Opcode.END)]
    timing = Timing(TINY, "x", 9, [tile(words, [(0, 0, 1, 1), (7, 7, 7, 7)], [64, 0])], [], ())
    entry = Entry(name="x", inputs=(), outputs=(), sources=())
    m = memory_map(TINY, entry, [np.concatenate(words)], timing)
    assert m.regions == (Region(name="base 5", bytes=128, touched=128, read=64, written=0),)
    assert (m.lives, m.work_peak) == ((), 0)
