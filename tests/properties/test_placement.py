"""Placement: no two work tensors that are alive together share a byte, no two live buffers a word.

Lifetimes are counted here once more, from the operations of the program: from the first (buffers: the `tile.alloc`) to
the last one that names the value.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from dpu.codegen.memory import ALIGN, MemoryPlan, dram_bytes
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Base
from dpu.ir.isa import Opcode
from dpu.ir.tile_program import Buf, Dram, Instr, Section, TileProgram
from dpu.passes.plan_scratchpad import plan
from hypothesis import given, settings
from hypothesis import strategies as st

from .harness import compile_net
from .strategies import SEEDS
from .test_interleaving import CASES, block

TINY = load_arch("dpu_tiny")


@dataclass(frozen=True)
class Span:
    """Where something lies, [lo, hi), and when it is alive, first to last operation."""

    lo: int
    hi: int
    first: int
    last: int

    def meets(self, other: Span) -> bool:
        together = self.first <= other.last and other.first <= self.last
        return together and self.lo < other.hi and other.lo < self.hi


def lives(program: TileProgram) -> dict[Buf | Dram, tuple[int, int]]:
    """First and last operation of each value: naming a buffer counts, the declaration of a tensor does not."""
    found: dict[Buf | Dram, tuple[int, int]] = {}
    for number, op in enumerate(op for s in program.sections for op in s.ops):
        for value in [op] if isinstance(op, Buf) else op.operands.values():
            found[value] = found.get(value, (number, number))[0], number
    return found


def check_disjoint(spans: list[Span]) -> None:
    for i, a in enumerate(spans):
        for b in spans[:i]:
            assert not a.meets(b), (a, b)


def check_tensors(program: TileProgram, memory: MemoryPlan, places: dict[Dram, tuple[int, int]]) -> None:
    alive = lives(program)
    spans: dict[int, list[Span]] = {}
    for dram in program.drams:
        if dram in alive:
            base, lo = places[dram]
            first, last = alive[dram] if base == Base.WORK else (0, 1 << 30)
            assert lo % ALIGN == 0
            assert lo + dram_bytes(dram) <= memory.base_bytes[base]
            spans.setdefault(base, []).append(Span(lo, lo + dram_bytes(dram), first, last))
    for one in spans.values():
        check_disjoint(one)


def check_buffers(program: TileProgram, arch: Arch) -> None:
    alive = lives(program)
    spans: dict[tuple[int, str], list[Span]] = {}
    for section in program.sections:
        for op in section.ops:
            if isinstance(op, Buf):
                assert op.at >= 0
                assert op.space == "table" or op.at + op.words <= arch.words[op.space]
                spans.setdefault((section.tile, op.space), []).append(Span(op.at, op.at + op.words, *alive[op]))
    for one in spans.values():
        check_disjoint(one)


def random_tensors(rng: np.random.Generator, count: int) -> TileProgram:
    """Tensors of random sizes, read at random places."""
    drams = [
        Dram.of(f"t{i}", "i8", (1, int(rng.integers(1, 40)), int(rng.integers(1, 300))), kind)
        for i, kind in enumerate(rng.choice(["work", "work", "work", "const", "io", "state"], count).tolist())
    ]
    buffer = Buf("act", 1)
    ops: list[Buf | Instr] = [buffer]
    for i in rng.integers(0, count, 3 * count).tolist():
        ops.append(Instr(Opcode.LOAD, {"dst": buffer, "src": drams[i]}, {"inner": 1, "n": (1, 1, 1)}))
    return TileProgram("f", drams, [Section(0, 1, 0, 0, "main", "/op", ops)])


@settings(max_examples=60)
@given(count=st.integers(1, 40), seed=SEEDS)
def test_work_tensors_alive_together_do_not_overlap(count: int, seed: int) -> None:
    program = random_tensors(np.random.default_rng(seed), count)
    memory = MemoryPlan()
    places = memory.plan(program)
    check_tensors(program, memory, places)
    work = [d for d in program.drams if d.kind == "work"]
    assert memory.base_bytes[Base.WORK] <= sum(map(dram_bytes, work))


@settings(max_examples=20)
@given(seed=SEEDS)
def test_entries_share_what_has_a_name(seed: int) -> None:
    """State and host tensors of two entries with one name are one tensor; work regions lie on each other."""
    memory = MemoryPlan()
    first, second = (random_tensors(np.random.default_rng(seed), 12) for _ in range(2))
    places = memory.plan(first)
    size = memory.base_bytes[Base.WORK]
    again = memory.plan(second)
    for a, b in zip(first.drams, second.drams, strict=True):
        if a.kind in ("state", "io"):
            assert places[a] == again[b]
    assert memory.base_bytes[Base.WORK] == size


def random_buffers(rng: np.random.Generator, count: int) -> TileProgram:
    """Buffers of random sizes on two tiles; each is used now and again until it dies."""
    sections: list[Section] = []
    alive: list[list[Buf]] = [[], []]
    for step in range(count):
        tile = int(rng.integers(2))
        space = str(rng.choice(["act", "wgt", "acc", "vbuf", "param"]))
        made = Buf(space, int(rng.integers(1, max(2, TINY.words[space] // 6))))
        ops: list[Buf | Instr] = [made]
        alive[tile] = [a for a in [*alive[tile], made] if rng.random() < 0.8]
        for a in alive[tile]:
            if a.space in ("act", "wgt"):
                ops.append(Instr(Opcode.LOAD, {"dst": a}, {"inner": 1, "n": (1, 1, 1)}))
            else:
                ops.append(Instr(Opcode.VEC, {"a": a}, {"rows": 1, "tiles": 1, "valid": 1}))
        sections.append(Section(tile, 1, 0, step, "main", "/op", ops))
    return TileProgram("f", [], sections)


@settings(max_examples=60)
@given(count=st.integers(1, 60), seed=SEEDS)
def test_live_buffers_do_not_overlap(count: int, seed: int) -> None:
    program = random_buffers(np.random.default_rng(seed), count)
    try:
        plan(program, TINY)
    except DpuError as e:
        assert e.code == "E233"
        check_refusal(program)
        return
    check_buffers(program, TINY)


def check_refusal(program: TileProgram) -> None:
    """The first buffer without a place fits no gap between those alive."""
    alive = lives(program)
    named = [(s.tile, op) for s in program.sections for op in s.ops if isinstance(op, Buf)]
    first = next(i for i, (_, b) in enumerate(named) if b.at < 0)
    tile, refused = named[first]
    now = alive[refused][0]
    held = sorted(
        (a.at, a.at + a.words) for t, a in named[:first] if (t, a.space) == (tile, refused.space) and alive[a][1] >= now
    )
    end = 0
    for lo, hi in [*held, (TINY.words[refused.space], 0)]:
        assert lo - end < refused.words
        end = max(end, hi)


@pytest.mark.parametrize("arch", CASES)
def test_a_compiled_program(arch: str) -> None:
    net, arrays = block(*CASES[arch])
    compiled = compile_net(net, arch, arrays)
    (entry,) = compiled.emitted.entries
    check_tensors(entry.program, compiled.emitted.memory, compiled.emitted.places)
    check_buffers(entry.program, compiled.arch)
