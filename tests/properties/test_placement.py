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
from dpu.ir.tile import AllocOp, DramOp, LoadOp, ProgramOp, SectionOp, VecOp
from dpu.passes.plan_scratchpad import plan
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.ir import Block, Operation, Region, SSAValue

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


def lives(program: ProgramOp) -> dict[SSAValue, tuple[int, int]]:
    """First and last operation of each value: an allocation counts, the declaration of a tensor does not."""
    found: dict[SSAValue, tuple[int, int]] = {}
    for number, op in enumerate(program.body.block.ops):
        for value in (*op.operands, *(op.results if isinstance(op, AllocOp) else ())):
            found[value] = found.get(value, (number, number))[0], number
    return found


def check_disjoint(spans: list[Span]) -> None:
    for i, a in enumerate(spans):
        for b in spans[:i]:
            assert not a.meets(b), (a, b)


def check_tensors(program: ProgramOp, memory: MemoryPlan, places: dict[SSAValue, tuple[int, int]]) -> None:
    alive = lives(program)
    spans: dict[int, list[Span]] = {}
    for op in program.body.block.ops:
        if isinstance(op, DramOp) and op.tensor in alive:
            base, lo = places[op.tensor]
            first, last = alive[op.tensor] if base == Base.WORK else (0, 1 << 30)
            assert lo % ALIGN == 0
            assert lo + dram_bytes(op) <= memory.base_bytes[base]
            spans.setdefault(base, []).append(Span(lo, lo + dram_bytes(op), first, last))
    for one in spans.values():
        check_disjoint(one)


def check_buffers(program: ProgramOp, arch: Arch) -> None:
    alive = lives(program)
    spans: dict[tuple[int, str], list[Span]] = {}
    tile = 0
    for op in program.body.block.ops:
        if isinstance(op, SectionOp):
            tile = op.tile.value.data
        elif isinstance(op, AllocOp):
            lo, size = op.at.value.data, op.words.value.data
            assert lo >= 0
            assert op.space == "table" or lo + size <= arch.words[op.space]
            spans.setdefault((tile, op.space), []).append(Span(lo, lo + size, *alive[op.buffer]))
    for one in spans.values():
        check_disjoint(one)


def random_tensors(rng: np.random.Generator, count: int) -> ProgramOp:
    """Tensors of random sizes, read at random places."""
    drams = [
        DramOp(f"t{i}", "i8", (1, int(rng.integers(1, 40)), int(rng.integers(1, 300))), kind)
        for i, kind in enumerate(rng.choice(["work", "work", "work", "const", "io", "state"], count).tolist())
    ]
    ops: list[Operation] = [*drams, SectionOp(0, 1, 0, 0, "main", "/op")]
    buffer = AllocOp("act", 1)
    ops.append(buffer)
    for i in rng.integers(0, count, 3 * count).tolist():
        ops.append(LoadOp({"dst": buffer.buffer, "src": drams[i].tensor}, {"inner": 1, "n": (1, 1, 1)}))
    return ProgramOp("f", Region(Block(ops)))


@settings(max_examples=60)
@given(count=st.integers(1, 40), seed=SEEDS)
def test_work_tensors_alive_together_do_not_overlap(count: int, seed: int) -> None:
    program = random_tensors(np.random.default_rng(seed), count)
    memory = MemoryPlan()
    places = memory.plan(program)
    check_tensors(program, memory, places)
    work = [op for op in program.body.block.ops if isinstance(op, DramOp) and op.kind.data == "work"]
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
    for a, b in zip(first.body.block.ops, second.body.block.ops, strict=True):
        if isinstance(a, DramOp) and isinstance(b, DramOp) and a.kind.data in ("state", "io"):
            assert places[a.tensor] == again[b.tensor]
    assert memory.base_bytes[Base.WORK] == size


def random_buffers(rng: np.random.Generator, count: int) -> ProgramOp:
    """Buffers of random sizes on two tiles; each is used now and again until it dies."""
    ops: list[Operation] = []
    alive: list[list[AllocOp]] = [[], []]
    for step in range(count):
        tile = int(rng.integers(2))
        ops.append(SectionOp(tile, 1, 0, step, "main", "/op"))
        space = str(rng.choice(["act", "wgt", "acc", "vbuf", "param"]))
        made = AllocOp(space, int(rng.integers(1, max(2, TINY.words[space] // 6))))
        ops.append(made)
        alive[tile] = [a for a in [*alive[tile], made] if rng.random() < 0.8]
        for a in alive[tile]:
            if a.space in ("act", "wgt"):
                ops.append(LoadOp({"dst": a.buffer}, {"inner": 1, "n": (1, 1, 1)}))
            else:
                ops.append(VecOp({"a": a.buffer}, {"rows": 1, "tiles": 1, "valid": 1}))
    return ProgramOp("f", Region(Block(ops)))


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


def check_refusal(program: ProgramOp) -> None:
    """The first buffer without a place fits no gap between those alive."""
    alive = lives(program)
    tile = 0
    placed: list[tuple[int, AllocOp]] = []
    for op in program.body.block.ops:
        if isinstance(op, SectionOp):
            tile = op.tile.value.data
        elif isinstance(op, AllocOp):
            placed.append((tile, op))
            if op.at.value.data < 0:
                break
    tile, refused = placed.pop()
    now = alive[refused.buffer][0]
    held = sorted(
        (a.at.value.data, a.at.value.data + a.words.value.data)
        for t, a in placed
        if (t, a.space) == (tile, refused.space) and alive[a.buffer][1] >= now
    )
    end = 0
    for lo, hi in [*held, (TINY.words[refused.space], 0)]:
        assert lo - end < refused.words.value.data
        end = max(end, hi)


@pytest.mark.parametrize("arch", CASES)
def test_a_compiled_program(arch: str) -> None:
    net, arrays = block(*CASES[arch])
    compiled = compile_net(net, arch, arrays)
    (entry,) = compiled.emitted.entries
    check_tensors(entry.program, compiled.emitted.memory, compiled.emitted.places)
    check_buffers(entry.program, compiled.arch)
