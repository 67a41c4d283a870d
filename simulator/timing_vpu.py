"""The VPU, for the timing model: the pipeline of rtl/doc/dpu_vpu.md, a word at a time."""

from __future__ import annotations

from collections import deque

from ..ir.cost import (
    ACC_READ,
    ACT_WRITE,
    VBUF_READ,
    VBUF_WRITE,
    VPU_AHEAD,
    VPU_CHECK,
    VPU_COLUMNS,
    VPU_DRAIN,
    VPU_FETCH,
    VPU_READ,
    VPU_RESULT,
    VPU_ROWS,
    VPU_SUMS,
    VPU_WORDS,
)
from .timing_fetch import UNKNOWN
from .timing_plan import Listed
from .timing_ports import ParamWrites, SharedPort, Use

_WAYS = (VPU_RESULT, VPU_ROWS, VPU_COLUMNS)
_READ = VPU_FETCH - 1  # cycles from an operand's address to its beat
_WRITE = VPU_DRAIN - 2  # from a beat to its result at the port


class Vpu:
    """One tile's VPU. Where it reads ACC, the MXU may come between: the last beat is certain only when it is there."""

    def __init__(self, plan: Listed, ports: list[SharedPort], param: ParamWrites) -> None:
        self.plan, self.ports, self.param = plan, ports, param
        self.words: deque[tuple[int, int, int]] = deque()  # before their last beat: (word, start, offered to the fetch)
        # The oldest word: since when its operands are read, and PARAM; its beats, as far as is known; its use of ports.
        self.fetch = self.port = self.first = self.last = self.alone = -1
        self.uses: list[Use] = []
        # What words before it leave: last beat and the cycles behind it, operands and PARAM read, sums added up.
        self.ended = self.fetched = self.read = self.rows_free = self.columns_free = -1
        self.gap = 0
        self.done: deque[int] = deque(maxlen=VPU_WORDS)
        self.ways = dict.fromkeys(_WAYS, -1)  # when the last word that used each way to PARAM was done

    def start(self, i: int, now: int) -> int:
        """Word `i` starts; when the next one may. The operand fetch has room for two words."""
        offered = now + VPU_CHECK if len(self.words) < 2 else UNKNOWN
        self.words.append((i, now, offered))
        return offered

    def begin(self, now: int) -> int:
        """Decide the first beat of the oldest word; its last one, as far as is known."""
        i, _, offered = self.words[0]
        w = self.plan.vec[i]
        begin = max(offered + 1, self.ended)
        for way in _WAYS:
            if w.ways & ~way:
                begin = max(begin, self.ways[way] + 1)
        if len(self.done) == VPU_WORDS:
            begin = max(begin, self.done[0] + 1)
        fetch = offered + VPU_FETCH
        self.fetch, self.port = max(fetch, self.fetched), max(fetch, self.read)
        self.first = max(self.fetch + w.entry - 1, begin + 1, self.ended + 1 + self.gap)
        if w.scalars:
            self.first = max(self.first, self.port + w.scalars - 1)
        if w.ways & VPU_COLUMNS:
            self.first = max(self.first, self.columns_free)
        self.last = self._last(i)
        self.uses = []
        if w.vbuf and (spans := self.plan.ports[VBUF_READ].get(i)):
            begin, end = self.first - _READ, self.last + 1 - _READ
            self.uses.append(self.ports[VBUF_READ].use(now, begin, end, w.vbuf, spans))
        for port in (ACT_WRITE, VBUF_WRITE):
            if spans := self.plan.ports[port].get(i):
                begin, end = self.first + _WRITE, self.last + 1 + _WRITE
                self.uses.append(self.ports[port].use(now, begin, end, w.out, spans))
        if w.acc:
            self.ports[ACC_READ].working = self.first
        return self.last

    def _last(self, i: int) -> int:
        w = self.plan.vec[i]
        end = max(self.first + w.lane, self.fetch + w.fetch) + w.more
        if w.reads:
            end = max(end, self.port + w.reads)
        self.alone = end - self.first
        if w.acc:
            each = self.alone / w.acc
            room = max(0.0, VPU_AHEAD * each - VPU_READ)
            held = min(room, (self.first - self.fetch - w.entry + 1) * each)
            spans = self.plan.ports[ACC_READ][i]
            end = VPU_READ + self.ports[ACC_READ].finish(self.first - VPU_READ, self.alone, w.acc, spans, held, room)
        return end - 1

    def again(self) -> int:
        """The last beat of the oldest word, as it is known now."""
        last = self._last(self.words[0][0])
        for use in self.uses:
            use.end += last - self.last
        self.last = last
        return last

    def end(self) -> int:
        """The last beat of the oldest word was there; when the word is done, but for words before it."""
        i = self.words.popleft()[0]
        w, now = self.plan.vec[i], self.last
        self.ports[ACC_READ].working = -1
        self.ended, self.gap = now, w.gap
        self.read = max(self.read, self.port + w.reads)
        self.fetched = max(self.fetch + w.fetch, now + 1 - VPU_AHEAD)
        drain = w.drain
        if w.behind:
            added = max(self.rows_free, self.first) + w.behind
            self.rows_free = added + w.between
            drain += max(0, added - 1 - now)
        if w.ways & VPU_COLUMNS:
            self.columns_free = now + 1 + w.tail
        done = now + drain
        if w.fills:  # the last result is written in the cycle before the word is done
            first, room = (done - w.behind, VPU_SUMS) if w.behind else (self.first + w.drain - 1, w.fills)
            last, later = self.param.last(first, done - 1, w.fills, room)
            self.rows_free += later
            done = last + 1
        return done

    def left(self, i: int, done: int) -> None:
        """Word `i` is done in that cycle."""
        self.done.append(done)
        for way in _WAYS:
            if self.plan.vec[i].ways & way:
                self.ways[way] = done

    def offer(self) -> int:
        """A word that waited for room in the operand fetch gets it; when the next may start, or -1."""
        if len(self.words) < 2 or self.words[1][2] != UNKNOWN:
            return -1
        i, start, _ = self.words[1]
        self.words[1] = (i, start, max(start + VPU_CHECK, self.ended + 1))
        return self.words[1][2]
