"""Whole programs on the whole DPU: the bytes that the simulator leaves in DRAM, and its counts.

Programs are drawn word by word, so one that fails shrinks to few and simple words; they are printed as assembler text.
Every seed gives the same programs everywhere; nothing is remembered between runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
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
    pack,
)
from hypothesis import HealthCheck, Phase, given, seed, settings

from .both import Both
from .cards import card
from .programs import Piece, Program, lay_out, piece, programs, random_program


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    found = Both(*request.param)
    yield found
    found.close()


def check(both: Both, program: Program) -> None:
    both.check(program.streams, program.regions, program)


def campaign(both: Both, start: int, count: int) -> None:
    """`count` random programs of a seed."""
    failed: list[tuple[list[Piece | None], int]] = []

    @seed(start)
    @settings(
        max_examples=count,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(programs(both.arch))
    def run(drawn: tuple[list[Piece | None], int]) -> None:
        try:
            check(both, lay_out(both.arch, *drawn))
        except AssertionError:
            failed[:] = [drawn]
            raise

    try:
        run()
    except AssertionError as e:
        raise AssertionError(fewest(both, *failed[0])) from e


def fewest(both: Both, pieces: list[Piece | None], contents: int) -> str:
    """What a failing program says when no more words can be left out: hypothesis stops after five minutes."""

    def failure(some: list[Piece | None]) -> str:
        try:
            check(both, lay_out(both.arch, some, contents))
        except AssertionError as e:
            return str(e)
        return ""

    k = 0
    while k < len(pieces):
        less = pieces[:k] + pieces[k + 1 :]
        if failure(less):
            pieces, k = less, 0
        else:
            k += 1
    return failure(pieces) or "it failed once, not again"


def cards(*some: tuple[str, int]) -> pytest.MarkDecorator:
    """Shape, and in how many of 256 cycles each AXI channel pauses."""
    ids = [f"{name}-{stall}" for name, stall in some]
    return pytest.mark.parametrize("both", some, indirect=True, ids=ids, scope="module")


def test_every_form_of_every_instruction_is_drawn() -> None:
    a, rng = card("one"), np.random.default_rng(0)
    found = [p.word for p in (piece(rng, a) for _ in range(1200)) if p is not None]
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


@cards(("one", 40))
def test_some_random_programs(both: Both) -> None:
    campaign(both, 1, 30)


ALL = cards(("one", 0), ("one", 100), ("three", 0), ("three", 150), ("two", 60))


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("start", range(4))
def test_2000_random_programs(both: Both, start: int) -> None:
    """With the shapes, 5 x 4 x 100."""
    campaign(both, 1000 * (start + 1) + both.stall + both.arch.tiles, 100)


@pytest.mark.slow
@ALL
@pytest.mark.parametrize("start", range(2))
def test_long_random_programs(both: Both, start: int) -> None:
    """Full queues, hundreds of tokens."""
    check(both, random_program(both.arch, start, 600))
