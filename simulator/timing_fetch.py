"""Instruction fetch, for the timing model: bursts of a tile's stream, ahead of dispatch and ahead of LOAD's data."""

from __future__ import annotations

from bisect import bisect_right

from ..ir.cost import FETCH_BURST, FETCH_WORDS, LOAD_RING_BEATS

UNKNOWN = 1 << 62  # a cycle that is not known yet


class Fetch:
    """When bursts of words are asked for, and when they come: one word a cycle through the tile's read channel."""

    def __init__(self, words: int) -> None:
        self.words = words
        self.bursts = -(-words // FETCH_BURST)
        ahead = FETCH_WORDS // FETCH_BURST
        self.asks = [1 + k for k in range(min(ahead, self.bursts))]  # the tile starts in cycle 0
        self.arrives: list[int] = []  # first word of each burst

    def length(self, burst: int) -> int:
        """Words of a burst."""
        return min(FETCH_BURST, self.words - burst * FETCH_BURST)

    def dispatched(self, word: int, cycle: int) -> bool:
        """A word leaves the buffer. Whether a burst is asked for: room for one comes with the last word of another."""
        if (word + 1) % FETCH_BURST or len(self.asks) >= self.bursts:
            return False
        self.asks.append(max(self.asks[-1] + 1, cycle + 1))
        return True

    def arrive(self, cycle: int) -> None:
        """The first word of the next burst is here, or as soon as those before have passed."""
        self.arrives.append(max(cycle, self.arrives[-1] + FETCH_BURST) if self.arrives else cycle)

    def ready(self, word: int) -> int:
        """The first cycle in which the word can be dispatched."""
        burst, at = divmod(word, FETCH_BURST)
        return self.arrives[burst] + at + 1 if burst < len(self.arrives) else UNKNOWN

    def after(self, cycle: int) -> int:
        """The first cycle from this one on in which no instruction passes."""
        k = max(0, bisect_right(self.arrives, cycle) - 1)
        while k < len(self.arrives) and self.arrives[k] <= cycle:
            cycle = max(cycle, self.arrives[k] + self.length(k))
            k += 1
        return cycle

    def delay(self, begin: int, end: int, beats: int) -> int:
        """How much later a LOAD's data from `begin` to `end` are through, because instructions go first.

        Where the scratchpad is slower than the bus, LOAD's ring has data for a while.
        """
        spare = 0 if end - begin <= beats else LOAD_RING_BEATS * (end - begin) // beats
        k, late = bisect_right(self.arrives, begin), 0
        while k < len(self.arrives) and self.arrives[k] < end + late:
            if end + late - self.arrives[k] > spare:
                late += max(0, self.length(k) - spare)
            k += 1
        return late
