"""What an entry would cost on an arch, from the shapes of its operations alone.

The words of one tile are written as segments that repeat (`estimate_words.py`), each distinct operation once, and a
compiled pass times them in the order of the program (`estimate_kernel.py`): engines, queues, scratchpads, semaphores
and the DRAM's latency and rate. The tile is the one that has most to do; the others are taken to run beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...ir import cost
from ...ir.arch import Arch
from ...ir.isa import Words
from ...ir.tile_program import uncollected
from ...simulator.dram.params import load_dram
from ..overlap_prologues import AT, begin
from ..tiling import cdiv, vector_bound
from . import estimate_kernel
from .estimate_attention import attention
from .estimate_dram import has_l2, l2_times, weights
from .estimate_linear import linear, linear_parts, linear_plan, prologue_cycles, rowwise
from .estimate_matrix import conv, conv_parts
from .estimate_shapes import AttentionShape, ConvShape, EntryShape, LinearShape, OpShape, RowwiseShape, Shape
from .estimate_weave import Part, before, behind
from .estimate_words import (
    ALL,
    CUT,
    LOAD,
    PART,
    ROWS,
    S_BLOCK,
    S_EXTRA,
    S_HI,
    S_LO,
    S_MARK,
    S_PROLOGUE,
    S_SAMPLE,
    S_UNIT,
    S_WINDOW,
    SPACES,
    STEP_FIELDS,
    STORE,
    Builder,
    Program,
    Unfit,
)

Ints = npt.NDArray[np.int64]

ROLES = 12  # tensors that an operation reads or writes, at most
HISTORY = 256
"""Words before an operation that decide how it overlaps with what was there: two fillings of all queues and more."""
VEC_COLUMNS = (
    *("scalars", "entry", "fetch", "lane", "gap", "more", "tail", "reads", "behind", "between", "drain", "ways"),
)


@dataclass(frozen=True)
class OpEstimate:
    """One operation on its slowest tile, of all tiles together: `executed` MACs and bytes. Each MAC of the graph is
    executed `passes` times, twice where an operand has 15 bits.

    `cycles`: from when all operations before it are done until it is, so that an entry's operations add up to it.
    """

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
    passes: float = 1

    @property
    def bound(self) -> str:
        """The engine that works longest."""
        by = {"mxu": self.mxu, "vpu": self.vpu, "memory": max(self.load, self.store)}
        return max(by, key=lambda k: by[k])


@dataclass(frozen=True)
class _Written:
    """A distinct operation: its steps in order, of which the first `head` are its first prologue, which may move ahead
    of the operation before, and the last `tail` its last block's main part."""

    number: int
    order: Ints
    head: int
    tail: int
    ahead: list[int]  # places in the tail before which parts of the next operation's first prologue come
    late: list[int]  # and if it reads what the block before the tail stores
    parts: list[int]  # where parts of the head begin, but for the first
    single: bool  # whether each unit is one block
    slots: int
    tokens: int  # rows of the tile
    tiles: float  # how many times this tile's traffic all tiles have
    rows: float  # and its rows
    words: int
    samples: int
    first_sample: int
    last_sample: int
    halves: bool  # one sample in two halves
    reads_all: frozenset[int]  # roles of which the head reads rows of other tiles


class Estimator:
    """Estimates on one arch; distinct operations are written once."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.builder = Builder(arch)
        self._written: dict[tuple[Shape, tuple[int, ...]], _Written] = {}
        self._offset = 0
        self._ends: list[tuple[str, tuple[int, int, int]]] = []  # of each operation, words so far
        self._steps: list[tuple[int, ...]] = []
        self._fresh: list[bool] = []  # of each step, whether constants come from DRAM even with an L2

    def estimate(self, entries: Sequence[EntryShape]) -> list[list[OpEstimate]]:
        """One estimate for each operation of each entry.

        Raises:
            DpuError: an operation does not fit the arch.
        """
        with uncollected():
            return self._estimate(entries)

    def _estimate(self, entries: Sequence[EntryShape]) -> list[list[OpEstimate]]:
        plans = [[self._write(op, parts) for op, parts in zip(e.ops, self._parts(e), strict=True)] for e in entries]
        columns = _Columns(self.builder, *self._records())
        steps = np.array(self._steps, np.int64).reshape(-1, len(STEP_FIELDS))
        return [self._time(e, plan, steps, columns) for e, plan in zip(entries, plans, strict=True)]

    def _parts(self, entry: EntryShape) -> list[tuple[int, ...]]:
        """Of each operation, the partials of the column statistics that it reads."""
        made: dict[int, int] = {}
        known: dict[Shape, int] = {}
        found = []
        for op in entry.ops:
            s = op.shape
            if isinstance(s, RowwiseShape) and s.kind in ("group_norm", "centre"):
                found.append(tuple(made.get(r, 1) for r in op.reads[2:4] if r >= 0))
            else:
                found.append(())
            if isinstance(s, ConvShape) and s.stats:
                if s not in known:
                    known[s] = conv_parts(s, op.where, self.arch)
                made[op.writes[1]] = known[s]
            elif isinstance(s, LinearShape) and any(p.stats == "column_pair" for p in s.sections):
                if s not in known:
                    rows = linear_plan(s, op.where, self.arch)[0].rows
                    known[s] = linear_parts(s, rows, self.arch.tiles)
                made.update(dict.fromkeys(op.writes[1::2], known[s]))
        return found

    def _write(self, op: OpShape, parts: tuple[int, ...]) -> _Written:
        key = (op.shape, parts)
        if key in self._written:
            return self._written[key]
        e, s = self.builder, op.shape
        e.program = Program()
        match s:
            case ConvShape():
                conv(e, s, op.where)
            case LinearShape():
                linear(e, s, op.where)
            case AttentionShape():
                attention(e, s, op.where)
            case RowwiseShape():
                rowwise(e, s, parts)
        rows = e.program.steps
        head, body, tail, single = _blocks(rows)
        reads_all = frozenset(
            role
            for n in head
            for role, mode, _ in e.dram[e.segment_at[rows[n][0]] : e.segment_at[rows[n][0] + 1]]
            if role >= 0 and mode == ALL
        )
        made = _Written(
            number=len(self._written),
            order=np.array([*head, *body, *tail], np.int64) + self._offset,
            head=len(head),
            tail=len(tail),
            ahead=_cuts([rows[n] for n in tail], 0),
            late=_cuts([rows[n] for n in tail], AT),
            parts=[i for i, n in enumerate(head) if rows[n][S_PROLOGUE] == PART],
            single=single,
            slots=e.program.slots,
            tokens=max(r[S_HI] for r in rows),
            tiles=e.program.tiles or min(self.arch.tiles, _rows(s)),
            rows=_rows(s) / max(r[S_HI] for r in rows if not _is_prologue(r)),
            words=sum(e.words[r[0]] * r[1] for r in rows),
            samples=max(r[S_SAMPLE] for r in rows) + 1,
            first_sample=rows[0][S_SAMPLE],
            last_sample=rows[-1][S_SAMPLE],
            halves=max(r[S_LO] for r in rows if not r[S_MARK]) > 0,
            reads_all=reads_all,
        )
        self._ends.append((op.where, (len(e.mm), len(e.vec_rows), len(e.dma))))
        self._offset += len(rows)
        self._steps += rows
        self._fresh += self._first_reads(rows)
        self._written[key] = made
        return made

    def _first_reads(self, rows: Sequence[tuple[int, ...]]) -> list[bool]:
        """Of each step, whether its constants come from DRAM, once for all tiles: those of the first block. Later ones
        find them in the L2, if those of a block fit there; else each block has pushed out what the next one reads."""
        e, blocks = self.builder, 0
        found = []
        before, size, weight = -1, 0.0, 1.0
        for r in rows:
            if r[S_MARK]:  # of repetitions between two marks some are left out
                weight = 1 + r[S_EXTRA] / r[S_WINDOW] if r[S_MARK] % 2 == 0 else 1
            if r[S_BLOCK] != before and not _is_prologue(r):
                blocks, before = blocks + 1, r[S_BLOCK]
            found.append(blocks <= 1)
            if blocks == 1 and not _is_prologue(r) and not r[S_MARK]:
                size += weight * r[1] * e.constants[r[0]]
        return found if size <= self.arch.l2_bytes else [True] * len(found)

    def _records(self) -> list[Words]:
        """The MM, VEC and DMA words.

        Raises:
            DpuError: E324, a value does not fit its field.
        """
        b = self.builder
        made = []
        for kind, make in enumerate((b.mm_records, b.vec_records, b.dma_records)):
            try:
                made.append(make())
            except Unfit as e:
                at = next(where for where, words in self._ends if e.word < words[kind])
                raise DpuError(
                    at,
                    f"{e}, on arch '{self.arch.name}'",
                    why="a tensor or block is larger than an instruction can address",
                    hint="estimate on an arch with a larger array: --arch dpu_f2",
                    code="E324",
                ) from e
        return made

    def _order(self, chosen: Sequence[int], entry: EntryShape, plan: Sequence[_Written]) -> Ints:
        """Steps in the order of the program, prologues ahead of the block before: [n, 2] operation and step."""
        found: list[tuple[int, Ints]] = []
        for i in chosen:
            w = plan[i]
            head, rest, tail = np.split(w.order, (w.head, len(w.order) - w.tail))
            follows = bool(found) and found[-1][0] == i - 1
            if follows and w.head and _movable(entry.ops[i - 1], plan[i - 1], entry.ops[i], w):
                (_, before), was = found.pop(), plan[i - 1]
                places = was.late if was.single and _shared(entry.ops[i - 1], entry.ops[i]) else was.ahead
                found += _woven((i - 1, before), (i, head), w.parts, places)
            else:
                found.append((i, head))
            found += [(i, rest), (i, tail)]
        numbers = np.repeat([i for i, _ in found], [len(n) for _, n in found])
        return np.stack([numbers, np.concatenate([n for _, n in found])], axis=1).astype(np.int64)

    def _time(self, entry: EntryShape, plan: Sequence[_Written], steps: Ints, columns: _Columns) -> list[OpEstimate]:
        arch = self.arch
        if not plan:
            return []
        tensors = max((t for op in entry.ops for t in (*op.reads, *op.writes)), default=-1) + 1
        reads, writes = (np.full((len(plan), ROLES), -1, np.int64) for _ in range(2))
        samples = np.ones(tensors + 2 * len(plan), np.int64)
        for i, (op, w) in enumerate(zip(entry.ops, plan, strict=True)):
            reads[i, : len(op.reads)] = op.reads
            writes[i, : len(op.writes)] = op.writes
            samples[[t for t in op.writes if t >= 0]] = w.samples
            if isinstance(op.shape, RowwiseShape):
                for k in (0, 1):  # GroupNorm's own small tensors
                    reads[i, 6 + k] = writes[i, 6 + k] = tensors + 2 * i + k
                    samples[tensors + 2 * i + k] = w.samples
        c = columns
        q = arch.queues
        chosen, stands = _distinct(entry, plan)
        banks = [getattr(arch.buffers, s).banks if s == "acc" else 1 for s in SPACES]
        sizes = np.array([[n, b] for n, b in zip(self.builder.size.values(), banks, strict=True)], np.int64)
        done, sums = estimate_kernel.run(
            self._order(chosen, entry, plan),
            steps,
            c.segments,
            c.engine,
            c.cost,
            c.dram,
            c.ref_at,
            c.refs,
            c.alloc_at,
            c.allocs,
            c.free_at,
            c.frees,
            c.mm,
            c.vec,
            c.dma,
            max(w.slots for w in plan),
            np.array([w.tokens for w in plan], np.float64),
            np.array([w.tiles for w in plan], np.float64),
            reads,
            writes,
            samples,
            sizes,
            np.array([arch.rows, cost.mxu_blocks(arch), cost.mxu_drain(arch)], np.int64),
            np.array([q.load, q.mxu, q.vpu, q.store], np.int64),
            dram_times(arch),
            l2_times(arch),
            np.array(self._fresh, np.int64),
            sum(plan[i].words for i in chosen),
        )
        until = np.maximum.accumulate(done[chosen])
        cycles = np.zeros(len(plan))
        cycles[chosen] = np.diff(until, prepend=0) + sums[chosen, 0]
        macs = arch.rows * arch.cols
        found = []
        for op, at in zip(entry.ops, stands, strict=True):
            n = [round(x) for x in sums[at].tolist()]
            found.append(
                OpEstimate(
                    name=op.name,
                    kind=op.kind,
                    macs=op.macs,
                    executed=round(n[6] * plan[at].rows) * macs,
                    mxu=n[2],
                    vpu=n[3],
                    load=n[1],
                    store=n[4],
                    bytes=round(n[7] * plan[at].tiles),
                    words=n[5],
                    cycles=round(cycles[at]),
                    passes=_passes(op.shape),
                )
            )
        return self._woven(entry, plan, found, columns)

    def _woven(
        self, entry: EntryShape, plan: Sequence[_Written], found: list[OpEstimate], columns: _Columns
    ) -> list[OpEstimate]:
        """The same with attention under the other stream's matrix work, where `weave_attention` puts it there."""
        more = [0.0] * len(found)
        for i, w in enumerate(plan):
            if not vector_bound(self.arch) or not isinstance(entry.ops[i].shape, AttentionShape) or w.samples < 2:
                continue
            attention = self._part(entry.ops[i], w, found[i], columns)
            j = i - 2 if i > 1 and found[i - 1].mxu == 0 else i - 1
            if j >= 0 and isinstance(entry.ops[j].shape, LinearShape) and plan[j].samples > 1:
                now = before(self.arch, self._part(entry.ops[j], plan[j], found[j], columns), attention)
                more[j], more[i] = more[j] + now[0], more[i] + now[1]
                if j < i - 1 and now[1]:
                    more[i - 1] -= found[i - 1].cycles / w.samples
            j = i + 1
            if j < len(found) and isinstance(entry.ops[j].shape, LinearShape) and plan[j].samples > 1:
                now = behind(self.arch, attention, self._part(entry.ops[j], plan[j], found[j], columns))
                more[i], more[j] = more[i] + now[0], more[j] + now[1]
        return [replace(o, cycles=max(0, round(o.cycles + m))) for o, m in zip(found, more, strict=True)]

    def _part(self, op: OpShape, w: _Written, found: OpEstimate, columns: _Columns) -> Part:
        """What a sample's last or first block takes."""
        blocks, prologue = w.samples, 0.0
        if isinstance(op.shape, LinearShape):
            blocks *= cdiv(w.tokens, linear_plan(op.shape, op.where, self.arch)[0].rows)
            prologue = w.samples * prologue_cycles(op.shape, w.tokens, self.arch)
        first = self._ends[w.number - 1][1][0] if w.number else 0
        words = columns.mm[first : self._ends[w.number][1][0]]
        acc, longest = (
            int(n.max(initial=0)) for n in (words[:, 3], words[:, 0] * np.maximum(words[:, 1], self.arch.rows))
        )
        return Part(found.mxu / blocks, (found.vpu - prologue) / blocks, acc, longest, prologue / blocks)


def _blocks(steps: Sequence[tuple[int, ...]]) -> tuple[list[int], list[int], list[int], bool]:
    """An operation's steps as head, body and tail, each block's prologue within the block before, as
    `overlap_prologues` puts it; and whether each unit is one block."""
    groups: list[list[int]] = []
    before: tuple[int, bool] | None = None
    mains = {row[S_BLOCK] for row in steps if not _is_prologue(row)}
    single = len(mains) == len({(row[S_SAMPLE], row[S_UNIT]) for row in steps})
    for i, row in enumerate(steps):
        now = (row[S_BLOCK], _is_prologue(row))
        if now != before:
            groups.append([])
        groups[-1].append(i)
        before = now
    head = groups.pop(0) if _is_prologue(steps[0]) else []
    body: list[int] = []
    last: list[int] = []
    for group in groups:
        if last and _is_prologue(steps[group[0]]) and not _is_prologue(steps[last[0]]):
            places = _cuts([steps[n] for n in last], AT if single else 0)
            parts = [i for i, n in enumerate(group) if steps[n][S_PROLOGUE] == PART]
            woven = _woven((0, np.array(last)), (1, np.array(group)), parts, places)
            body, last = body + [int(n) for _, piece in woven for n in piece], []
        else:
            body, last = body + last, group
    return head, body, last, single


def _is_prologue(row: tuple[int, ...]) -> bool:
    return row[S_PROLOGUE] in (1, PART)


def _cuts(main: Sequence[tuple[int, ...]], at: float) -> list[int]:
    """The steps of a main part before which parts of a prologue come: of its cuts those from a part `at` of it on that
    are in no window of repetitions; its first step if there is none."""
    cuts = [i for i, row in enumerate(main) if row[S_PROLOGUE] == CUT]
    before, opened = begin(len(cuts) + 1, at), 0
    found = []
    for i, row in enumerate(main):
        if row[S_MARK]:
            opened += 1 if row[S_MARK] % 2 == 0 else -1
        if row[S_PROLOGUE] == CUT:
            before -= 1
            if before <= 0 and not opened:
                found.append(i)
    return found or [0]


def _woven(
    main: tuple[int, Ints], prologue: tuple[int, Ints], parts: Sequence[int], places: Sequence[int]
) -> list[tuple[int, Ints]]:
    """A prologue, of which parts begin at `parts`, spread over the places of a main part; each with its number."""
    found: list[tuple[int, Ints]] = []
    pieces = np.split(prologue[1], parts)
    done = 0
    for n, piece in enumerate(pieces):
        place = places[n * len(places) // len(pieces)]
        found += [(main[0], main[1][done:place]), (prologue[0], piece)]
        done = place
    return [*found, (main[0], main[1][done:])]


def _shared(before: OpShape, op: OpShape) -> list[int]:
    """Roles of what an operation reads that the one before writes."""
    return [role for role, tensor in enumerate(op.reads) if tensor >= 0 and tensor in before.writes]


def _movable(before: OpShape, was: _Written, op: OpShape, w: _Written) -> bool:
    """Whether an operation's first prologue needs nothing that the last block before it stores."""
    shared = _shared(before, op)
    if not shared or was.last_sample != w.first_sample:
        return True
    return was.halves and not any(role in w.reads_all for role in shared)


def _distinct(entry: EntryShape, plan: Sequence[_Written]) -> tuple[list[int], list[int]]:
    """Operations that must be timed, and of each operation the one that is timed for it.

    An operation is timed once with the same ones before it, as far back as HISTORY words, and the same distances to
    what it reads; those before are timed with it, and the next one, whose first loads run under it.
    """
    made: dict[int, int] = {}
    seen: dict[tuple[object, ...], int] = {}
    stands: list[int] = []
    chosen: set[int] = set()
    for i, (op, w) in enumerate(zip(entry.ops, plan, strict=True)):
        first, words = i, 0
        while first > 0 and (i - first < 2 or words < HISTORY):
            first -= 1
            words += plan[first].words
        distances = tuple(min(i - made.get(t, -9), 9) for t in op.reads if t >= 0)
        moves = i + 1 < len(plan) and _movable(op, w, entry.ops[i + 1], plan[i + 1])
        key = (*(p.number for p in plan[first : i + 2]), first == 0, distances, moves)
        if key not in seen:
            seen[key] = i
            chosen.update(range(first, min(i + 2, len(plan))))
        stands.append(seen[key])
        made.update((t, i) for t in op.writes if t >= 0)
    return sorted(chosen), stands


class _Columns:
    """The builder's words as arrays, with their costs."""

    def __init__(self, b: Builder, mm: Words, vec: Words, dma: Words) -> None:
        arch = b.arch

        def table(rows: Sequence[Sequence[int]] | Sequence[int], width: int) -> Ints:
            return np.array(rows, np.int64).reshape(-1, width) if width > 1 else np.array(rows, np.int64)

        self.segments = table(b.segment_at, 1)
        self.engine, self.cost, self.dram = table(b.engine, 1), table(b.cost, 1), table(b.dram, 3)
        self.ref_at, self.refs = table(b.ref_at, 1), table(b.refs, 2)
        self.alloc_at, self.allocs = table(b.alloc_at, 1), table(b.allocs, 3)
        self.free_at, self.frees = table(b.free_at, 1), table(b.frees, 1)
        rows, tiles = cost.mm_rows(mm), mm["nn"].astype(np.int64) * cost.mm_k_tiles(mm)
        self.mm = np.stack([tiles, rows, mm["mode"].astype(np.int64), mm["nn"].astype(np.int64) * rows], axis=1)
        v = cost.vec(arch, vec)
        self.vec = np.stack([getattr(v, name) for name in VEC_COLUMNS], axis=1)
        moved = cost.dma(arch, dma)
        rows = table(b.dma, 13)
        words = np.flatnonzero((self.engine == LOAD) | (self.engine == STORE))
        writes, own = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
        at = self.cost[words]
        writes[at] = self.engine[words] == STORE
        own[at] = writes[at] | ((self.dram[words, 0] >= 0) & (self.dram[words, 1] == ROWS))
        cached = np.zeros(len(rows), np.bool_)
        cached[at] = has_l2(arch) & (self.engine[words] == LOAD) & (self.dram[words, 0] < 0)
        weight = weights(arch, rows[:, 2:9], writes, own, cached)
        phase, bursts = cost.dma_floor(moved), moved.bursts
        if arch.dram.model in ("hbm2", "lpddr5x"):
            phase, bursts = credits(arch, moved, phase)
        phase = np.maximum(phase, np.ceil(moved.bytes * weight[:, 1]))
        columns = [moved.bytes, moved.bytes * weight[:, 0], phase, moved.lead, bursts, cached]
        self.dma = np.stack(columns, axis=1).astype(np.float64)


def credits(arch: Arch, moved: cost.Dma, phase: Ints) -> tuple[Ints, Ints]:
    """Cycles of data phases and bursts of words, where a port has so many bursts and bytes under way and not more."""
    file = load_dram(arch.dram.parameters)
    trip = dram_times(arch)[0]
    burst = file.number("axi_burst_bytes")
    bursts = np.maximum(moved.bursts, -(-moved.bytes // burst))
    by_bursts = np.ceil(bursts * trip / file.number("outstanding"))
    by_bytes = np.ceil(moved.bytes * trip / file.number("buffer_bytes"))
    return np.maximum(phase, np.maximum(by_bursts, by_bytes).astype(np.int64)), bursts


def dram_times(arch: Arch) -> npt.NDArray[np.float64]:
    """Cycles to a read's first data and to a write's response, bytes a cycle of a port and of the DRAM, cycles of a
    remote signal."""
    d = arch.dram
    latency, response, rate = float(max(1, d.latency)), float(max(1, d.response)), float(d.bytes_per_cycle)
    if d.model == "ideal":
        rate = 1e9
    elif d.model in ("hbm2", "lpddr5x"):
        file = load_dram(d.parameters)

        def cycles(*names: str) -> float:
            return float(sum(file.clocks(n) for n in names) / file.clock * int(arch.clock_hz))

        way = cycles("request_path", "response_path")
        latency = way + cycles("tRCDRD", "tRL", "tBL")
        response = way + cycles("tRCDWR", "tWL", "tBL")
        rate = float(file.peak_bytes_per_second) / arch.clock_hz
    return np.array([latency, response, d.port_bytes_per_cycle, rate, arch.latency.remote_signal])


def _passes(s: Shape) -> float:
    """How often a MAC of the graph is executed: once for each int8 plane of the streamed operand, which in an attention
    with 15-bit probabilities one of two products has."""
    if isinstance(s, AttentionShape):
        return 1.5 if s.wide else 1
    return 1 if isinstance(s, RowwiseShape) else s.planes


def _rows(s: LinearShape | AttentionShape | RowwiseShape | ConvShape) -> int:
    """Rows of a sample, which are cut over tiles."""
    if isinstance(s, ConvShape):
        size = s.size if s.upsample else s.out
        return size[0] * size[1]
    return s.tokens
