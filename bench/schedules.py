"""Run a program in a random legal order: every engine of every tile goes on as soon as its queue and tokens let it.

A word reads when it starts or as late as its engine's next word starts, its results appear when it ends, and what it
writes is poison in between. Several words of an engine may be under way; they end in order, and `DRAIN` waits until all
have. MM adds to what ACC and row maxima hold at its end. Which engine goes next, how deep the
queues are and how many words overlap is drawn from a seed. So an order that the semaphores allow but the program does
not mean gives other bits, a stop, or an illegal read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..codegen.verify.boxes import DRAM, boxes
from ..ir.arch import Arch
from ..ir.isa import ENGINE_OF, MAX_TOKENS, Buffer, Engine, Flag, Opcode, Words
from ..ir.numerics import GateTable
from ..simulator.decode import SEMAPHORES, Decoded, bits, decode, signal_ids, wait_ids
from ..simulator.load_store import load, store
from ..simulator.machine import Machine
from ..simulator.mxu import matrix
from ..simulator.state import Tally
from ..simulator.vpu import vector

POISON = 0xA5

Bytes = npt.NDArray[np.uint8]
Box = tuple[int, int, tuple[int, ...], tuple[int, ...]]
"""(space, first byte, shape, strides in bytes)."""


class Stuck(Exception):
    """No engine can go on, or tokens are left."""


@dataclass
class _Touch:
    """What one word touches; `own` if it reads what it writes."""

    reads: list[Box] = field(default_factory=list)
    writes: list[Box] = field(default_factory=list)
    late: bool = False
    own: bool = False


@dataclass
class _Flight:
    """A word under way: what it has read, or None if it still reads at its end."""

    index: int
    seen: list[Bytes] | None = None
    tables: list[GateTable | None] = field(default_factory=list)


@dataclass
class Prepared:
    """Streams decoded once for any number of runs."""

    arch: Arch
    words: list[list[Decoded]]
    touched: list[list[_Touch]]

    @classmethod
    def of(cls, arch: Arch, streams: Sequence[Words]) -> Prepared:
        unit = {Buffer[k.upper()]: n for k, n in arch.word_bytes.items()}
        touched = []
        for words in streams:
            b = boxes(words, arch)
            mine = [_Touch() for _ in words]
            loops = b.steps[b.shape], b.extents[b.shape]
            rows = zip(*(x.tolist() for x in (b.word, b.space, b.lo, *loops, b.read, b.write, b.late)), strict=True)
            for i, space, lo, strides, counts, read, write, late in rows:
                size = unit.get(space, 1)
                shape = (*reversed(counts[1:]), counts[0] * size)
                box = (space, lo * size, shape, (*(s * size for s in reversed(strides[1:])), 1))
                one = mine[i]
                one.late |= late
                if read and not late:
                    one.reads.append(box)
                if write and not late:
                    one.writes.append(box)
            for one in mine:
                one.own = any(_meet(r, w) for r in one.reads for w in one.writes)
            touched.append(mine)
        return cls(arch, [decode(w) for w in streams], touched)


def _meet(a: Box, b: Box) -> bool:
    def end(x: Box) -> int:
        return x[1] + sum((n - 1) * s for n, s in zip(x[2], x[3], strict=True)) + 1

    return a[0] == b[0] and a[1] < end(b) and b[1] < end(a)


class _Engine:
    """One engine's queue and what it has under way."""

    def __init__(self, depth: int, overlap: int, speed: float) -> None:
        self.depth, self.overlap, self.speed = depth, overlap, speed
        self.queue: deque[int] = deque()
        self.flight: deque[_Flight] = deque()


class Schedule:
    """One run from a seed, on `regions` in place."""

    def __init__(self, prepared: Prepared, regions: Mapping[int, Bytes], seed: int) -> None:
        self.p = prepared
        self.machine = Machine(prepared.arch, regions)
        for tile in self.machine.tiles:
            for memory in tile.memory.values():
                memory[...] = POISON
        self.rng = np.random.default_rng(seed)
        n = len(prepared.words)
        self.tokens = [[0] * SEMAPHORES for _ in range(n)]
        self.remote = [[0] * n for _ in range(n)]
        self.next = [0] * n
        depth, overlap = int(self.rng.choice([1, 2, 8, 64])), int(self.rng.choice([1, 2, 4, 4]))
        self.engines: list[dict[Engine, _Engine]] = [
            {e: _Engine(depth, overlap, float(self.rng.choice([0.05, 0.3, 1.0]))) for e in Engine if e != Engine.CTRL}
            for _ in range(n)
        ]

    def run(self) -> None:
        """To the end.

        Raises:
            Stuck: no engine can go on.
            Fault: a word is illegal on what it found.
        """
        sites = [(t, e) for t in range(len(self.p.words)) for e in self.engines[t]]
        while True:
            moved = False
            self.rng.shuffle(sites)
            for t, e in sites:
                moved |= self._dispatch(t)
                engine = self.engines[t][e]
                if self.rng.random() > engine.speed:
                    moved |= bool(engine.flight)
                    continue
                end_first = self.rng.random() < 0.5
                moved |= end_first and self._end(t, e)
                moved |= self._start(t, e)
                moved |= not end_first and self._end(t, e)
            if not moved:
                # Slow engines were left out above: try everything once before calling it stuck.
                moved = sum(self._dispatch(t) | self._start(t, e) | self._end(t, e) for t, e in sites) > 0
            if not moved:
                break
        left = sum(len(w) - at for w, at in zip(self.p.words, self.next, strict=True))
        left += sum(len(e.queue) + len(e.flight) for tile in self.engines for e in tile.values())
        if left or any(map(any, self.tokens)) or any(map(any, self.remote)):
            raise Stuck(f"{left} words left")

    def _dispatch(self, t: int) -> bool:
        words, moved = self.p.words[t], False
        while self.next[t] < len(words):
            opcode = words[self.next[t]][0]
            if opcode != Opcode.END:
                engine = self.engines[t][ENGINE_OF[opcode]]
                if len(engine.queue) >= engine.depth:
                    break
                engine.queue.append(self.next[t])
            self.next[t] += 1
            moved = True
        return moved

    def _view(self, t: int, box: Box) -> Bytes:
        space, first, shape, strides = box
        memory = self.machine.regions[space - DRAM] if space >= DRAM else self.machine.tiles[t].memory[space]
        return np.ndarray(shape, np.uint8, memory, first, strides)

    def _start(self, t: int, e: Engine) -> bool:
        engine = self.engines[t][e]
        if not engine.queue or len(engine.flight) >= engine.overlap:
            return False
        i = engine.queue[0]
        w, touch = self.p.words[t][i], self.p.touched[t][i]
        if w[1] & Flag.DRAIN and engine.flight:
            return False
        waits, tokens = wait_ids(w[3], e), self.tokens[t]
        sources = bits(w[5]) if e == Engine.LOAD else ()
        if not all(tokens[k] for k in waits) or not all(self.remote[t][s] for s in sources):
            return False
        for k in waits:
            tokens[k] -= 1
        for s in sources:
            self.remote[t][s] -= 1
        engine.queue.popleft()
        tile = self.machine.tiles[t]
        for earlier in engine.flight:  # an engine issues in order: those have read when this one starts
            self._read(t, earlier)
        engine.flight.append(_Flight(i))
        if touch.own or self.rng.random() < 0.7:
            self._read(t, engine.flight[-1])
        for b in touch.writes:
            if b[0] == Buffer.TABLE:
                tile.tables[b[1]] = None
            else:
                self._view(t, b)[...] = POISON
        return True

    def _read(self, t: int, flight: _Flight) -> None:
        """Let a word read, unless it has."""
        if flight.seen is None:
            touch = self.p.touched[t][flight.index]
            flight.seen = [self._view(t, b).copy() for b in touch.reads if b[0] != Buffer.TABLE]
            flight.tables = list(self.machine.tiles[t].tables)

    def _end(self, t: int, e: Engine) -> bool:
        engine = self.engines[t][e]
        if not engine.flight:
            return False
        flight = engine.flight[0]
        w, touch = self.p.words[t][flight.index], self.p.touched[t][flight.index]
        signals, tokens = signal_ids(w[4], e), self.tokens[t]
        targets = bits(w[5]) if e == Engine.STORE else ()
        if any(tokens[k] >= MAX_TOKENS for k in signals) or any(self.remote[s][t] >= MAX_TOKENS for s in targets):
            return False
        engine.flight.popleft()
        tile = self.machine.tiles[t]
        if flight.seen is None:
            self._execute(t, w)
        else:
            reads = [self._view(t, b) for b in touch.reads if b[0] != Buffer.TABLE]
            now = [v.copy() for v in reads]
            tables = list(tile.tables)
            for v, seen in zip(reads, flight.seen, strict=True):
                v[...] = seen
            if e == Engine.VPU:
                tile.tables[:] = flight.tables
            self._execute(t, w)
            if e == Engine.VPU:
                tile.tables[:] = tables
            writes = [self._view(t, b) for b in touch.writes if b[0] != Buffer.TABLE]
            results = [v.copy() for v in writes]
            for v, old in zip(reads, now, strict=True):
                v[...] = old
            for v, new in zip(writes, results, strict=True):
                v[...] = new
        for s in targets:
            self.remote[s][t] += 1
        for k in signals:
            tokens[k] += 1
        return True

    def _execute(self, t: int, w: Decoded) -> None:
        tile, regions, tally = self.machine.tiles[t], self.machine.regions, Tally()
        match w[0]:
            case Opcode.LOAD:
                load(tile, regions, w, tally)
            case Opcode.STORE:
                store(tile, regions, w, tally)
            case Opcode.MM:
                matrix(tile, w, tally)
            case Opcode.VEC:
                vector(tile, w, tally)
