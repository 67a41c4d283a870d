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

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.arch import Arch
from ...ir.container import Base, Entry
from ...ir.isa import DMA, ENGINE_OF, Flag, Opcode, Words
from ...ir.operands import capacities
from .boxes import DRAM, Boxes, Ints, tables
from .order import LOCAL, OVERWRITTEN, SOUND, STILL_READ, STUCK, UNDRAINED, UNWRITTEN_YET, WRONG, execute
from .provenance import HOST_FAR, NOBODY, Meaning
from .report import Reporter

BLOCK = 64  # bytes of DRAM that are one cell where no operand starts or ends within them


class Scan:
    """One entry whose `streams` passed `witness.check_program`. `boxes` are in granules of `size` bytes, and inside."""

    def __init__(
        self, arch: Arch, entry: Entry, streams: list[Words], boxes: list[Boxes], size: int, meaning: Meaning,
        regions: dict[int, int], report: Reporter,
    ) -> None:  # fmt: skip
        self.streams, self.boxes, self.meaning, self.report, self.size, self.entry = (
            streams, boxes, meaning, report, size, entry,
        )  # fmt: skip
        self.first = np.cumsum([0, *map(len, streams)])
        room = [n for _, n in sorted(capacities(arch).items())]  # scratchpads of a tile, by `Buffer`
        self.base = np.full((len(streams), DRAM + 8), -1, np.int64)  # where each space begins: a cell, or a granule
        end = 0
        for t in range(len(streams)):
            self.base[t, : len(room)] = end + np.cumsum([0, *room[:-1]])
            end += sum(room)
        self.per = BLOCK // size
        granules = 0
        for b, n in regions.items():
            if b != Base.CONST:
                self.base[:, DRAM + b] = granules
                granules += -(-n // BLOCK) * self.per
        self.blocks = end + np.cumsum(np.concatenate([[0], np.where(self._fine(granules), self.per, 1)]))
        # Node 0: nobody wrote it. Node 1: the host did.
        self.cells: npt.NDArray[np.int32] = np.zeros(int(self.blocks[-1]), np.int32)
        for slot in entry.inputs:
            if slot.base != Base.CONST:
                lo, hi = self._cells(slot.base, np.array([slot.offset]), slot.bytes)
                self.cells[lo[0] : hi[0]] = 1

    def _fine(self, granules: int) -> npt.NDArray[np.bool_]:
        """Which blocks of DRAM need a cell for each granule: those that an operand does not take as a whole.

        So the rows of an image are followed in blocks, though statistics of single rows lie elsewhere in the region.
        """
        edge = np.zeros(granules // self.per + 1, np.int64)
        for t, b in enumerate(self.boxes):
            steps = (b.steps[:, 1:] % self.per != 0) & (b.extents[:, 1:] > 1)
            rough = (b.extents[:, 0] % self.per != 0) | steps.any(1)
            partial = (b.lo % self.per != 0) | rough[b.shape]
            odd = np.flatnonzero((b.space >= DRAM) & partial)
            odd = odd[self.base[t][b.space[odd]] >= 0]
            home = self.base[t][b.space[odd]]
            np.add.at(edge, (home + b.lo[odd]) // self.per, 1)
            np.add.at(edge, (home + b.hi[odd] - 1) // self.per + 1, -1)
        return np.asarray(np.cumsum(edge)[:-1] > 0)

    def _cells(self, base: int, offsets: npt.NDArray[np.int64], size: int) -> tuple[Ints, Ints]:
        """First cells, and one past the last ones, of runs of `size` bytes in a region."""
        found = []
        for place in (offsets, offsets + size - 1):
            at = self.base[0][DRAM + base] + place // self.size
            cell = self.blocks[at // self.per]
            found.append(cell + np.where(self.blocks[at // self.per + 1] - cell > 1, at % self.per, 0))
        return found[0], found[1] + 1

    def run(self) -> None:
        """All words, then what the host reads.

        Raises:
            DpuError: E362 to E368.
        """
        of_opcode = np.zeros(256, np.int32)
        of_opcode[list(ENGINE_OF)] = list(ENGINE_OF.values())
        self.kind = np.concatenate([of_opcode[w["opcode"]] for w in self.streams])
        self.at = np.zeros(len(self.kind), np.int32)
        for a, z in zip(self.first, self.first[1:], strict=False):
            for e in range(LOCAL + 1):
                mine = np.flatnonzero(self.kind[a:z] == e)
                self.at[a + mine] = np.arange(len(mine))
        remote = [
            np.where(np.isin(w["opcode"], (int(Opcode.LOAD), int(Opcode.STORE))), w.view(DMA)["remote"], 0)
            for w in self.streams
        ]
        strides, counts, begins = tables(self.boxes)
        # Constants have no shadow: nothing writes them.
        self.row = [np.flatnonzero(self.base[t][b.space] >= 0).astype(np.int32) for t, b in enumerate(self.boxes)]
        self.start = np.cumsum([0, *(len(r) for r in self.row)])
        rows = np.concatenate(
            [
                np.searchsorted(b.word[k], np.arange(len(w))) + start
                for b, k, w, start in zip(self.boxes, self.row, self.streams, self.start, strict=False)
            ]
            + [self.start[-1:]]
        )

        def flat(of: Callable[[int, Boxes], npt.NDArray[Any]]) -> npt.NDArray[Any]:
            return np.concatenate([of(t, b)[k] for t, (b, k) in enumerate(zip(self.boxes, self.row, strict=True))])

        fault, found, writer = execute(
            len(self.streams),
            self.cells,
            self.first.astype(np.int64),
            self.kind,
            self.at,
            np.concatenate([w["wait"].astype(np.int32) for w in self.streams]),
            np.concatenate([w["signal"].astype(np.int32) for w in self.streams]),
            np.concatenate(remote).astype(np.int64),
            np.concatenate([w["flags"] & Flag.DRAIN != 0 for w in self.streams]),
            rows,
            flat(lambda t, b: self.base[t][b.space] + b.lo),
            flat(lambda t, b: (b.shape + begins[t]).astype(np.int32)),
            counts,
            strides,
            flat(lambda t, b: b.space >= DRAM),
            self.per,
            self.blocks,
            flat(lambda t, b: b.read),
            flat(lambda t, b: b.write),
            flat(lambda t, b: b.late),
            flat(lambda t, b: self.meaning.tiles[t].writers),
            np.array([d for one in self.meaning.lists for d in one], np.int32),
            np.cumsum([len(one) for one in self.meaning.lists], dtype=np.int64),
            HOST_FAR,
        )
        self.writer = writer
        if fault[0] != SOUND:
            self._report(fault, sorted(set(found.tolist())))
        self._outputs()

    def _outputs(self) -> None:
        """Each output of the entry is whole, and left by the words that are meant to leave it."""
        for slot, expected in zip(self.entry.outputs, self.meaning.outputs, strict=True):
            item = {"f16": 2, "f32": 4, "i8": 1, "i32": 4}[slot.dtype]
            rows = slot.offset + np.arange(slot.shape[0] * slot.shape[1]) * slot.row_bytes
            lo, hi = self._cells(slot.base, rows, slot.shape[2] * item)
            within = np.arange(int((hi - lo).sum())) - np.repeat(np.cumsum(hi - lo) - (hi - lo), hi - lo)
            nodes = np.unique(self.cells[np.repeat(lo, hi - lo) + within]).tolist()
            found = tuple(sorted({int(self.writer[n]) for n in nodes}))
            if found == tuple(sorted(expected)) and NOBODY not in found:
                continue
            raise self.report.output(slot.name, found, expected)

    # -- what to say when something is wrong ---------------------------------------------------------------------------

    def _report(self, fault: tuple[int, int, int, int, int], found: Sequence[int]) -> None:
        """Raise the error of a fault at a row of the operands that `execute` saw."""
        kind, t, row, other, index = (int(x) for x in fault)
        if kind == STUCK:
            raise AssertionError("the tiles wait for each other, though the witness found their tokens")
        j = int(self.row[t][row - self.start[t]])
        i = int(self.boxes[t].word[j])
        if kind == WRONG:
            self._wrong(
                t, i, j, found, self.meaning.expected(int(self.meaning.tiles[t].writers[j]), self._number(t, i))
            )
        elif kind == UNWRITTEN_YET:
            self._race("E363", t, i, j, other, "may be read before", "has written it")
        elif kind == UNDRAINED:
            self._undrained(t, i, j, other)
        elif kind == OVERWRITTEN:
            self._race("E365", t, i, j, other, "may be overwritten before", "has written it")
        elif kind == STILL_READ:
            self._race("E364", t, i, j, self._word(other, index), "may be overwritten before", "has read it")

    def _number(self, t: int, i: int) -> int:
        return int(self.first[t]) + i

    def _word(self, engine: int, k: int) -> int:
        """The number of word `k` of an engine."""
        tile = engine // LOCAL
        a, z = self.first[tile], self.first[tile + 1]
        own = np.minimum(self.kind[a:z], LOCAL - 1) == engine % LOCAL
        return int(a) + int(np.flatnonzero(own & (self.at[a:z] == k))[0])

    def _operand(self, t: int, i: int, j: int) -> str:
        b = self.boxes[t]
        scale = self.size if int(b.space[j]) >= DRAM else 1
        lo, hi = int(b.lo[j]) * scale, int(b.hi[j]) * scale
        return self.report.operand(self.report.opcode(t, i), int(b.rank[j]), int(b.space[j]), lo, hi)

    def _wrong(self, t: int, i: int, j: int, found: Sequence[int], expected: tuple[int, ...]) -> None:
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
