"""Random programs on the whole DPU: the bytes that the simulator leaves in DRAM, its counts, its refusals.

`dpubench campaign` runs thousands of them; here are a few dozen, and what makes and shrinks them. Every seed gives the
same programs everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.bench import campaign
from dpu.bench.rtl_programs import Program, lay_out, piece
from dpu.bench.rtl_seeds import BLOCK, program
from dpu.bench.rtl_shapes import card
from dpu.errors import DpuError
from dpu.ir.isa import (
    DMA,
    MM,
    RED_ACCUMULATE,
    RED_COLUMNS,
    RED_INTEGER,
    VEC,
    Buffer,
    DmaFormat,
    Flag,
    Format,
    Function,
    MmMode,
    Op2,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    Words,
    pack,
)
from dpu.runtime.sim_device import SimDevice
from dpu.simulator.machine import Machine
from dpu.simulator.state import Tally


def test_every_form_of_every_instruction_is_drawn() -> None:
    a, rng = card("one"), np.random.default_rng(0)
    found = [p.word for p in (piece(rng, a) for _ in range(2500)) if p is not None]
    words = np.concatenate(found)
    load, store, mm, vec = (
        words[words["opcode"] == o].view(t)
        for o, t in ((Opcode.LOAD, DMA), (Opcode.STORE, DMA), (Opcode.MM, MM), (Opcode.VEC, VEC))
    )
    moving = load[load["inner"] > 0]
    raw = {(f, b) for f in (DmaFormat.RAW, DmaFormat.FILL) for b in Buffer if b not in (Buffer.ACC, Buffer.NONE)}
    weights = {(DmaFormat.INT4, Buffer.WGT), (DmaFormat.TRANSPOSE, Buffer.WGT)}
    assert both_of(moving, "format", "buffer") == raw - {(DmaFormat.FILL, Buffer.TABLE)} | weights
    assert set(store["buffer"]) == {Buffer.ACT, Buffer.VBUF, Buffer.PARAM, Buffer.NONE}
    for dma in (load, store):
        assert (dma["inner"] == 0).any()  # fences
        assert all((dma["n"][:, k] > 1).any() for k in range(3))
        assert all((np.sign(dma["dstride"][:, k]) == s).any() for k in range(3) for s in (-1, 0, 1))
    assert (load["pad"] > 0).any(0).all()
    assert both_of(mm, "mode", "rowmax") == {(m, r) for m in MmMode for r in RowMax}
    assert all((mm[n] > 1).any() for n in ("nx", "ny", "nc", "nkx", "nky", "nn"))
    elem = vec[(vec["op2"] >> 4 == Operand.ELEM) & (vec["op2"] & 15 > 0)]
    sources = {Buffer.ACC: [Format.I32], Buffer.VBUF: [Format.F16, Format.F32], Buffer.PARAM: [Format.F32]}
    operand = {pack(b, f) for b, formats in sources.items() for f in formats}
    assert set(vec["a_src"]) == operand | {pack(Buffer.PARAM, Format.I32)} and set(elem["b_src"]) == operand
    results = {Buffer.ACT: [Format.I8, Format.I8_OFFSET, Format.I15_SPLIT], Buffer.NONE: list(Format)}
    results |= {Buffer.VBUF: sources[Buffer.VBUF], Buffer.PARAM: [Format.F32]}
    assert set(vec["d_src"]) == {pack(b, f) for b, formats in results.items() for f in formats}
    scalars = {Operand.NONE, Operand.IMM0, Operand.IMM1, Operand.ROW, Operand.COL}
    assert set(vec["m1"]) == {pack(x, y) for x in scalars for y in scalars} and set(vec["rq"]) == scalars
    assert set(vec["m2"] & 15) == set(vec["m2"] >> 4) == scalars | {Operand.ELEM}
    assert set(vec["func"] & 15) == set(Function) and set(vec["sub"]) == {0, 1}
    seconds = {pack(o, x) for o in Op2 if o for x in (Operand.ELEM, Operand.IMM0, Operand.IMM1)}
    assert set(vec["op2"]) == seconds | {0}
    kinds = {r | axis | more for r in Reduce if r for axis in (0, RED_COLUMNS) for more in (0, RED_ACCUMULATE)}
    assert set(vec["red"] & ~np.uint8(RED_INTEGER)) == kinds | {0}
    integer = vec["red"][vec["red"] & RED_INTEGER > 0]
    assert {(int(r) & 15, bool(r & RED_COLUMNS)) for r in integer} == {(r, c) for r in (1, 2, 3) for c in (False, True)}
    assert set(words["flags"]) == {0, Flag.DRAIN, Flag.TRAP, Flag.DRAIN | Flag.TRAP}


def both_of(words: Any, one: str, other: str) -> set[tuple[int, int]]:
    return set(zip(words[one].tolist(), words[other].tolist(), strict=True))


def agree(shape: str, first: int, last: int) -> None:
    """Programs of consecutive blocks, each block in its memory and pauses."""
    for block in range(first, last, BLOCK):
        found = campaign.run_block(shape, block, min(last, block + BLOCK))
        assert not found, "\n".join(f"{text}\n{program(shape, seed)}" for seed, text in found)


def test_some_random_programs() -> None:
    """Two blocks far from those of the committed campaign: without pauses, and with many at high addresses."""
    agree("one", 1_000_020, 1_000_040)
    agree("one", 1_000_120, 1_000_140)


@pytest.mark.slow
@pytest.mark.parametrize("shape", campaign.SHAPES)
def test_random_programs_of_every_shape(shape: str) -> None:
    agree(shape, 2_000_000, 2_000_140)


def test_a_seed_is_the_same_program_again() -> None:
    one, again = program("two", 15), program("two", 15)
    assert all(np.array_equal(a, b) for a, b in zip(one.streams, again.streams, strict=True))
    assert all(np.array_equal(one.regions[b], again.regions[b]) for b in one.regions)
    assert not np.array_equal(one.streams[0], program("two", 31).streams[0])


@pytest.mark.parametrize("shape", campaign.SHAPES)
def test_the_simulator_takes_all_but_the_spoiled_programs(shape: str) -> None:
    for seed in range(16):
        p = program(shape, seed)
        assert (p.odd is not None) == (seed == 15)
        if p.odd is None:
            Machine(p.arch, p.copies()).run(p.streams)
        else:
            with pytest.raises(DpuError) as e:
                Machine(p.arch, p.copies()).run(p.streams)
            assert e.value.code in ("E410", "E411", "E412")
            assert f"word {p.odd[1]}" in e.value.where


class Broken:
    """Stands for hardware that is wrong wherever a MM word of several column tiles comes behind a STORE to region 2."""

    def __init__(self) -> None:
        self.asked = 0

    def difference(self, streams: Sequence[Words], regions: Mapping[int, Any]) -> tuple[str, Tally]:
        self.asked += 1
        bad = 0
        for words in streams:
            words = words[(words["tag"] >= 1) & (words["tag"] <= 0xFFFE)]
            store = np.flatnonzero((words["opcode"] == Opcode.STORE) & (words.view(DMA)["base"] == 2))
            wide = np.flatnonzero((words["opcode"] == Opcode.MM) & (words.view(MM)["nn"] > 1))
            bad += bool(len(store) and len(wide) and store[0] < wide[-1])
        return ("wrong bytes" if bad else ""), Tally()


def test_a_mismatch_shrinks_to_the_two_words_that_matter() -> None:
    a, rng = card("one"), np.random.default_rng(5)
    pieces = [piece(rng, a) for _ in range(300)]
    side = Broken()

    def make(some: Sequence[Any]) -> Program:
        return lay_out(a, some)

    found = campaign.shrink(side, make, pieces)
    assert (found.words, found.difference) == (2, "wrong bytes"), found.program
    assert "store" in found.program and "mxu.mm" in found.program
    assert side.asked < 150


def test_what_does_not_fail_again_says_so() -> None:
    found = campaign.shrink(Broken(), lambda some: lay_out(card("one"), some), [])
    assert (found.words, found.note) == (0, "it failed once, not again")


def test_a_campaign_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    out = tmp_path / "campaign.json"
    first = campaign.run(BLOCK, ["one"], out)
    lines: list[str] = []
    second = campaign.run(2 * BLOCK, ["one"], out, say=lines.append)
    assert (first.programs, second.programs, second.mismatches) == (BLOCK, 2 * BLOCK, 0)
    assert len(lines) == 1 and lines[0].startswith(f"one: {2 * BLOCK} of {2 * BLOCK}, 0 mismatches")
    straight = campaign.run(2 * BLOCK, ["one"], jobs=2)
    same = ("forms", "modes", "programs", "refused", "cycles")
    assert all(getattr(second.shapes["one"], n) == getattr(straight.shapes["one"], n) for n in same)
    assert campaign.run(2 * BLOCK, ["one"], out).programs == 2 * BLOCK  # nothing left to do


def test_a_campaign_of_another_design_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "campaign.json"
    old = campaign.Campaign(design="0" * 16, generator=campaign.generator())
    old.save(out)
    with pytest.raises(DpuError) as e:
        campaign.run(20, ["one"], out)
    assert e.value.text() == (
        f"error[E502]: {out}: a campaign of another design ('{'0' * 16}', now '{campaign.design()}')\n"
        "  why: its programs cannot be added to these\n"
        "  try: name another file, or remove this one"
    )
    with pytest.raises(DpuError) as e:
        campaign.run(20, ["four"])
    assert e.value.text() == (
        "error[E501]: --shapes four: no such shape\n  try: one of one, small, thin, three, two, full"
    )


def test_skipped_addresses_belong_to_nobody() -> None:
    """Regions of the campaign lie far apart, so that every bit of an address is used."""
    device = SimDevice(card("one"))
    device.skip(1 << 60)
    one = device.allocate(100)
    device.skip(1 << 58)
    two = device.allocate(100)
    assert (one, two) == (1 << 60, (1 << 60) + 4096 + (1 << 58))
    device.write(two, np.full(100, 7, np.uint8))
    assert device.read(two, 100).tolist() == [7] * 100 and not device.read(one, 100).any()
    with pytest.raises(DpuError) as e:
        device.read(one + 4096, 1)
    assert e.value.code == "E425"
    device.close()
