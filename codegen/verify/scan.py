"""The scan: every word once, in an order that the semaphores allow, with clocks and a shadow of all memory.

    clock of an engine    how many words of each engine (of all tiles) are complete before its next word starts
    token                 the clock of the signalling word, and that word itself: an engine completes in order, so a
                          token stands for all of its earlier words
    shadow                per cell the number of a node: (last writer, the readers since that are not ordered)

Words of a tile are taken in stream order; a tile whose LOAD waits for another tile lets the others go first. Semaphores
have one producer and one consumer, so the n-th wait takes the n-th token in every execution, and what is ordered here
is ordered in all of them. If no access is unordered, the last writers seen here are the last writers ever.

Each read must find exactly the writers that the record names (`provenance.py`), complete (RAW) and out of their
engine's pipeline (drain). Each write must come after the last write (WAW) and after all readers (WAR) of its cells.
"""

from __future__ import annotations

import gc
from collections import deque
from collections.abc import Callable, Sequence
from functools import cache

import numpy as np

from ...ir.arch import Arch
from ...ir.container import Base, Entry
from ...ir.isa import DMA, ENGINE_OF, MAX_TOKENS, Engine, Flag, Opcode, Words
from .boxes import DRAM, Boxes
from .cells import Cells, Place, distinct, fill, places, runs, uniform, view
from .provenance import HOST, NOBODY, Meaning, content
from .report import Reporter

LOCAL = 4  # engines with semaphores; engine e of tile t has the number 4 * t + e

Clock = list[int]
Read = tuple[Cells, Place, int, bool, int]  # cells, box, list of expected writers, late, row in the boxes
Write = tuple[Cells, Place, int]


@cache
def _bits(mask: int) -> tuple[int, ...]:
    return tuple(b for b in range(mask.bit_length()) if mask >> b & 1)


class Scan:
    """One entry whose `streams` passed `witness.check_program`. `boxes` are in granules of `size` bytes, and inside."""

    def __init__(
        self, arch: Arch, entry: Entry, streams: list[Words], boxes: list[Boxes], size: int, meaning: Meaning,
        regions: dict[int, int], report: Reporter,
    ) -> None:  # fmt: skip
        self.streams, self.boxes, self.meaning, self.report, self.size, self.entry = (
            streams, boxes, meaning, report, size, entry,
        )  # fmt: skip
        self.tiles = len(streams)
        self.dram = {b: np.zeros(-(-n // size), np.int32) for b, n in regions.items() if b != Base.CONST}
        for slot in entry.inputs:
            if slot.base in self.dram:
                lo = slot.offset // size
                self.dram[slot.base][lo : lo + -(-slot.bytes // size)] = 1
        self.local = [_scratchpads(arch) for _ in streams]
        first = np.cumsum([0, *map(len, streams)]).tolist()
        self.first: list[int] = first
        # Node 0: nobody wrote it. Node 1: the host did.
        self.writer: list[int] = [NOBODY, HOST]
        self.readers: list[tuple[tuple[int, int], ...]] = [(), ()]
        engine_of = np.zeros(256, np.int64)
        engine_of[list(ENGINE_OF)] = list(ENGINE_OF.values())
        self.engine: list[int] = []  # of each word number, 4 * tile + engine
        self.at: list[int] = []  # of each word number, its index in its engine
        for t, words in enumerate(streams):
            mine = engine_of[words["opcode"]]
            index = np.zeros(len(words), np.int64)
            for e in range(LOCAL + 1):
                index[mine == e] = np.arange(int((mine == e).sum()))
            self.engine += (LOCAL * t + np.minimum(mine, LOCAL - 1)).tolist()
            self.at += index.tolist()

    def _accesses(self, t: int) -> tuple[list[list[Read]], list[list[Write]]]:
        b, n = self.boxes[t], len(self.streams[t])
        reads: list[list[Read]] = [[] for _ in range(n)]
        writes: list[list[Write]] = [[] for _ in range(n)]
        cells = dict(enumerate(self.local[t])) | {DRAM + s: c for s, c in self.dram.items()}
        columns = (b.word, b.space, b.read, b.write, b.late, self.meaning.tiles[t].writers)
        rows = zip(*(x.tolist() for x in columns), places(b), strict=True)
        for j, (i, space, read, write, late, which, place) in enumerate(rows):
            if space == DRAM + Base.CONST:
                continue
            c = cells[space]
            if read:
                reads[i].append((c, place, which, late, j))
            if write:
                writes[i].append((c, place, j))
        return reads, writes

    def run(self) -> None:
        """All words, then what the host reads.

        Raises:
            DpuError: E362 to E368.
        """
        count = self.tiles * LOCAL
        self.clocks: list[Clock] = [[0] * count for _ in range(count)]
        self.drained = [0] * count  # words of the engine before this index have left its pipeline
        self.tokens: list[list[deque[Clock]]] = [[deque() for _ in range(LOCAL * 16)] for _ in self.streams]
        self.between: list[list[deque[Clock]]] = [[deque() for _ in self.streams] for _ in self.streams]
        collecting = gc.isenabled()
        gc.disable()  # millions of tuples and no cycles: the collector would walk them again and again
        try:
            steps = [self._tile(t) for t in range(self.tiles)]
            running = list(range(self.tiles))
            while running:
                running = [t for t in running if not steps[t]()]
            self._outputs()
        finally:
            if collecting:
                gc.enable()

    def _tile(self, t: int) -> Callable[[], bool]:
        """A function that advances the tile as far as it gets, and says whether it is at its end."""
        words = self.streams[t]
        n = len(words) - 1  # without END
        opcodes, waits, signals = (words[k].tolist() for k in ("opcode", "wait", "signal"))
        drains = (words["flags"] & Flag.DRAIN).tolist()
        dma = np.isin(words["opcode"], (int(Opcode.LOAD), int(Opcode.STORE)))
        remotes = np.where(dma, words.view(DMA)["remote"], 0).tolist()
        reads, writes = self._accesses(t)
        engine_of = {int(o): int(e) for o, e in ENGINE_OF.items()}
        tokens, between, clocks, drained = self.tokens[t], self.between, self.clocks, self.drained
        first = self.first[t]
        at = self.at
        load, store = int(Opcode.LOAD), int(Opcode.STORE)
        position = 0

        def step() -> bool:
            nonlocal position
            while position < n:
                i = position
                opcode, remote = opcodes[i], remotes[i]
                if remote:
                    if opcode == load:
                        if not all(between[s][t] for s in _bits(remote)):
                            return False
                    elif any(len(between[t][s]) >= MAX_TOKENS for s in _bits(remote)):
                        return False
                e = engine_of[opcode]
                me = LOCAL * t + e
                clock = clocks[me]
                if waits[i] or (remote and opcode == load):
                    taken = [tokens[(b >> 2) * 16 + 4 * e + (b & 3)].popleft() for b in _bits(waits[i])]
                    if opcode == load:
                        taken += [between[s][t].popleft() for s in _bits(remote)]
                    for token in taken:
                        clock = [a if a > b else b for a, b in zip(clock, token, strict=True)]
                    clocks[me] = clock
                number = first + i
                clock[me] = at[number]
                if drains[i]:
                    drained[me] = at[number]
                if reads[i]:
                    self._reads(t, i, number, me, clock, reads[i], e == Engine.MXU or e == Engine.VPU)
                if writes[i]:
                    self._writes(t, i, number, clock, writes[i])
                if signals[i] or (remote and opcode == store):
                    token = list(clock)
                    token[me] += 1
                    for b in _bits(signals[i]):
                        tokens[e * 16 + b].append(token)
                    if opcode == store:
                        for s in _bits(remote):
                            between[t][s].append(token)
                position += 1
            return True

        return step

    def _reads(self, t: int, i: int, number: int, me: int, clock: Clock, reads: list[Read], pipelined: bool) -> None:
        writer, readers, engine, at = self.writer, self.readers, self.engine, self.at
        mark = (me, at[number])
        for cells, place, which, late, j in reads:
            v = view(cells, place)
            node = uniform(v)
            if node is not None:
                nodes: Sequence[int] = (node,)
            else:
                stretches, starts = runs(v)
                nodes = list(dict.fromkeys(stretches))
            expected = self.meaning.expected(which, number)
            for n in nodes:
                w = writer[n]
                if w not in expected:
                    self._wrong(t, i, j, nodes, expected)
                if w >= 0:
                    e = engine[w]
                    if at[w] >= clock[e]:
                        self._race("E363", t, i, j, w, "may be read before", "has written it")
                    if e == me and pipelined and not late and at[w] >= self.drained[me]:
                        self._undrained(t, i, j, w)
            if len(expected) > 1 and len({writer[n] for n in nodes}) != len(expected):
                self._wrong(t, i, j, nodes, expected)
            if node is not None:
                v[...] = len(writer)
                writer.append(w)
                readers.append(self._with(node, mark, clock))
                continue
            made: dict[tuple[int, tuple[tuple[int, int], ...]], int] = {}
            new: dict[int, int] = {}
            for n in nodes:
                key = (writer[n], self._with(n, mark, clock))
                if key not in made:
                    made[key] = len(writer)
                    writer.append(key[0])
                    readers.append(key[1])
                new[n] = made[key]
            if len(made) == 1:
                v[...] = len(writer) - 1
            else:
                fill(v, [new[n] for n in stretches], starts)

    def _with(self, node: int, mark: tuple[int, int], clock: Clock) -> tuple[tuple[int, int], ...]:
        """The readers of a node and one more; those that are complete before it need no mention any longer."""
        old = self.readers[node]
        if not old:
            return (mark,)
        return (*[r for r in old if r[1] >= clock[r[0]] and r[0] != mark[0]], mark)

    def _writes(self, t: int, i: int, number: int, clock: Clock, writes: list[Write]) -> None:
        writer, readers, engine, at = self.writer, self.readers, self.engine, self.at
        mine = len(writer)
        writer.append(number)
        readers.append(())
        mark = (engine[number], at[number])
        for cells, place, j in writes:
            v = view(cells, place)
            node = uniform(v)
            for n in (node,) if node is not None else dict.fromkeys(runs(v)[0]):
                w = writer[n]
                if w >= 0 and at[w] >= clock[engine[w]] and w != number:
                    self._race("E365", t, i, j, w, "may be overwritten before", "has written it")
                for reader in readers[n]:
                    if reader[1] >= clock[reader[0]] and reader != mark:
                        self._race("E364", t, i, j, self._word(*reader), "may be overwritten before", "has read it")
            v[...] = mine

    def _outputs(self) -> None:
        """Each output of the entry is whole, and left by the words that are meant to leave it."""
        for slot, expected in zip(self.entry.outputs, self.meaning.outputs, strict=True):
            nodes = distinct(view(self.dram[slot.base], content(slot, self.size)))
            found = tuple(sorted({self.writer[n] for n in nodes}))
            if found == tuple(sorted(expected)) and NOBODY not in found:
                continue
            raise self.report.output(slot.name, found, expected)

    # -- what to say when something is wrong ---------------------------------------------------------------------------

    def _word(self, engine: int, k: int) -> int:
        """The number of word `k` of an engine."""
        tile = engine // LOCAL
        own = range(self.first[tile], self.first[tile + 1])
        return next(n for n in own if (self.engine[n], self.at[n]) == (engine, k))

    def _operand(self, t: int, i: int, j: int) -> str:
        b = self.boxes[t]
        scale = self.size if int(b.space[j]) >= DRAM else 1
        lo, hi = int(b.lo[j]) * scale, int(b.hi[j]) * scale
        return self.report.operand(self.report.opcode(t, i), int(b.rank[j]), int(b.space[j]), lo, hi)

    def _wrong(self, t: int, i: int, j: int, nodes: Sequence[int], expected: tuple[int, ...]) -> None:
        found = sorted({self.writer[n] for n in nodes})
        r, operand = self.report, self._operand(t, i, j)
        if NOBODY in found and NOBODY not in expected:
            rest = [w for w in found if w != NOBODY]
            what = f"{operand} reads {'cells that' if rest else 'what'} nobody wrote; meant is {r.writers(expected)}"
            raise r.error("E362", t, i, what, "no word before this one in stream order writes there", expected)
        wrong = [w for w in found if w not in expected] or found
        missing = [w for w in expected if w not in found]
        what = f"{operand} reads what {r.writers(wrong)} wrote; meant is {r.writers(missing or expected)}"
        why = "the last writer in stream order is not the one that the compiler meant"
        raise r.error("E367", t, i, what, why, [*wrong[:2], *missing[:2]])

    def _race(self, code: str, t: int, i: int, j: int, other: int, does: str, done: str) -> None:
        r = self.report
        what = f"{self._operand(t, i, j)} {does} {r.who(other)} {done}"
        raise r.error(code, t, i, what, f"no chain of semaphores leads from {r.who(other)} to here", [other])

    def _undrained(self, t: int, i: int, j: int, other: int) -> None:
        r = self.report
        what = f"{self._operand(t, i, j)} reads what {r.who(other)} may still have in the pipeline"
        raise r.error("E366", t, i, what, "both run on one engine, and no word after the first drains it", [other])


def _scratchpads(arch: Arch) -> list[Cells]:
    """The shadow of each scratchpad of a tile, by `Buffer`."""
    from ...ir.operands import capacities

    return [np.zeros(n, np.int32) for _, n in sorted(capacities(arch).items())]
