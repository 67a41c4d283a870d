"""A run of the machine word by word, in the order in which `Machine.run` executes it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from itertools import islice

from ..ir.isa import Words
from .machine import Counters, Machine, OnStore, Stream, check_empty, deadlock, waits_for


class Stepper:
    """A started run that stands before the next word of tile `tile`.

    `states` has where each tile is and its semaphores; the machine's scratchpads and regions may be read between steps.

    Raises:
        DpuError: as `Machine.run` does, from the step that executes the word at fault.
    """

    def __init__(
        self, machine: Machine, streams: Sequence[Words], on_store: OnStore | None = None, entry: str = "program"
    ) -> None:
        self.machine, self.on_store, self.entry = machine, on_store, entry
        self.states: list[Stream] = machine.start(streams, entry)
        self.counters = Counters()
        self.tile, self.done = 0, False
        self._turn()

    def step(self, words: int = 1) -> int:
        """Execute at most so many words, all of one tile; the number executed, 0 at the end."""
        if self.done:
            return 0
        s = self.states[self.tile]
        before, rest = s.at, s.decoded
        s.decoded = islice(rest, words - 1)  # `advance` ends where the words do
        self.machine.advance(self.tile, self.states, self.counters, self.on_store, self.entry)
        if s.at - before == words:
            s.next = next(rest, None)
        s.decoded = rest
        self._turn()
        return s.at - before

    def until(self, stops: Sequence[Sequence[int]]) -> bool:
        """Execute up to the first word whose index is in its tile's sorted `stops`; whether there is one.

        It may be the next word: then nothing is executed.
        """
        while not self.done:
            at, stop = self.states[self.tile].at, stops[self.tile]
            i = bisect_left(stop, at)
            if i < len(stop) and stop[i] == at:
                return True
            self.step(stop[i] - at if i < len(stop) else self.states[self.tile].length - at)
        return False

    def finish(self) -> Counters:
        """Execute what is left."""
        self.until([()] * len(self.states))
        return self.counters

    def _turn(self) -> None:
        """To the next tile that can execute a word, in turn, if this one cannot."""
        n = len(self.states)
        running = [t for t in ((self.tile + i) % n for i in range(n)) if self.states[t].next is not None]
        if not running:
            self.done = True
            check_empty(self.entry, self.states)
            return
        ready = next((t for t in running if not waits_for(t, self.states)), None)
        if ready is None:
            raise deadlock(self.entry, sorted(running), self.states)
        self.tile = ready
