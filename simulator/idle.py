"""What engines wait for, by operation: every cycle of an engine is one in which it runs, or idle before some word.

Found from the record of the words alone, whatever the rules of the timing model. Before a word begins, its engine is
idle for the first of these that holds, and the cycles go to the word's operation:

- `memory`: four words of LOAD or STORE are outstanding; or the word has started and its data are not there
- `drain`: the word drains, and an earlier one of its engine is not done
- `semaphore P`, `semaphore remote`: the word whose token it takes is not done
- `dispatch`: nothing of this: its own dispatch, or the hand-over of a token
- `pipeline`: it has started; MXU and VPU fill

After an engine's last word it has `finished`. So of each engine, cycles that it runs, idle cycles of all operations and
finished cycles add up to tiles times cycles. The stalls that the timing model books itself (`Timing.stalls`) are a
different account: an engine that cannot take a word, whether or not an earlier one still runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from ..ir.arch import Arch
from ..ir.cost import WORDS_OUTSTANDING
from ..ir.isa import DMA, Engine, Flag, Opcode, Words
from .occupancy import running
from .plan import ENGINES
from .timing_result import Timing

Ints = npt.NDArray[np.int64]
Waits = dict[tuple[str, str], Ints]
"""(engine, reason) -> idle cycles before each word of a tile's stream."""

_PAIR_BITS = 16  # bits of `wait` and `signal`: 4 * engine + k


class Idle:
    """One tile's account. `ran` has the cycles of each word, `finished` those of each engine after its last word."""

    def __init__(self, arch: Arch, words: Sequence[Words], timing: Timing, number: int) -> None:
        self.arch, self.number, self.timing, self.all_words = arch, number, timing, words
        self.t = timing.tiles[number]
        self.words = words[number][: len(self.t.engine)]
        self.waits: Waits = {}
        self.ran = np.zeros(len(self.words), np.int64)
        self.finished: dict[str, int] = {}
        self.of = {e: np.flatnonzero(self.t.engine == int(e)) for e in ENGINES}
        for e in ENGINES:
            self._engine(e)

    def _engine(self, e: Engine) -> None:
        at = self.of[e]
        begin, end = running(self.t, e)
        self.ran[at] = end - begin
        past = np.maximum.accumulate(end) if len(at) else end
        self.finished[e.name] = self.timing.cycles - (int(past[-1]) if len(at) else 0)
        if not len(at):
            return
        now = np.concatenate([[0], past[:-1]])
        start = np.clip(self.t.start[at], now, np.maximum(begin, now))
        for reason, ready in self._conditions(e, at):
            ready = np.clip(ready, now, start)
            self._book(e, reason, at, ready - now)
            now = ready
        self._book(e, "dispatch", at, start - now)
        late = np.maximum(begin - start, 0)
        self._book(e, "memory" if e in (Engine.LOAD, Engine.STORE) else "pipeline", at, late)

    def _book(self, engine: Engine, reason: str, at: Ints, cycles: Ints) -> None:
        if cycles.any():
            into = self.waits.setdefault((engine.name, reason), np.zeros(len(self.words), np.int64))
            into[at] += cycles

    def _conditions(self, e: Engine, at: Ints) -> Iterator[tuple[str, Ints]]:
        """(reason, cycle in which it ends) of each word, in the order in which reasons are looked at."""
        done = self.t.visible[at]
        if e in (Engine.LOAD, Engine.STORE):
            ready = np.zeros(len(at), np.int64)
            ready[WORDS_OUTSTANDING:] = done[:-WORDS_OUTSTANDING]
            yield "memory", ready
        drains = self.words["flags"][at] & Flag.DRAIN != 0
        yield "drain", np.where(drains, np.concatenate([[0], np.maximum.accumulate(done)[:-1]]), 0)
        waits = self.words["wait"][at]
        for bit in range(_PAIR_BITS):
            waiting = np.flatnonzero(waits >> bit & 1)
            if len(waiting):
                producer = Engine(bit // 4)
                sent = self.of[producer]
                sent = sent[self.words["signal"][sent] >> (4 * int(e) + bit % 4) & 1 != 0]
                yield f"semaphore {producer.name}", _ready(len(at), waiting, self.t.visible[sent])
        if e == Engine.LOAD:
            masks = self.words[at].view(DMA)["remote"]
            for source, t in enumerate(self.timing.tiles):
                waiting = np.flatnonzero(masks >> source & 1)
                if len(waiting):
                    words = self.all_words[source][: len(t.engine)]
                    stores = np.flatnonzero(words["opcode"] == Opcode.STORE)
                    sent = stores[words[stores].view(DMA)["remote"] >> self.number & 1 != 0]
                    tokens = t.visible[sent] + self.arch.latency.remote_signal
                    yield "semaphore remote", _ready(len(at), waiting, tokens)


def _ready(words: int, waiting: Ints, tokens: Ints) -> Ints:
    """The n-th word that waits takes the n-th token."""
    ready = np.zeros(words, np.int64)
    n = min(len(waiting), len(tokens))
    ready[waiting[:n]] = tokens[:n]
    return ready
