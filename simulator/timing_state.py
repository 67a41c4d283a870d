"""What the timing model keeps of each engine and tile while it runs."""

from __future__ import annotations

from collections import deque

import numpy as np

from ..ir.arch import Arch
from .decode import SEMAPHORES
from .plan import ENGINES, Plan


class EngineState:
    """One engine of one tile: its queue, what it does, why it waits."""

    __slots__ = (
        "active",
        "arrived",
        "asked",
        "depth",
        "free",
        "held",
        "kind",
        "last",
        "left",
        "outstanding",
        "pending",
        "queue",
        "reason",
        "since",
        "stalls",
        "tile",
        "unanswered",
    )

    def __init__(self, tile: TileState, kind: int, depth: int, left: int) -> None:
        self.tile, self.kind, self.depth = tile, kind, depth
        self.left = left  # words not yet started
        self.queue: deque[tuple[int, int]] = deque()  # (word, cycle in which it enters)
        self.free = 0  # first cycle in which the next word may start
        self.last = 0  # when all started work is visible
        self.held = 0  # ports in use
        self.asked = -1  # since when the oldest word or data phase waits for a port
        self.pending: deque[tuple[int, int]] = deque()  # LOAD, STORE: started words (word, cycle of first data)
        self.active = -1  # LOAD, STORE: word in its data phase
        self.outstanding = 0
        self.arrived = False  # LOAD with a DRAM of bursts: data wait at the port
        self.unanswered: deque[int] = deque()  # STORE with a DRAM of bursts: words sent, but not known to be in DRAM
        self.reason = ""
        self.since = 0
        self.stalls: dict[str, int] = {}

    def wait(self, now: int, reason: str) -> None:
        """Book the time since the last look at this engine, and why it waits from now on."""
        if self.reason and now > self.since:
            self.stalls[self.reason] = self.stalls.get(self.reason, 0) + now - self.since
        self.reason, self.since = reason, now


class TileState:
    """One tile: its stream, engines, tokens and the record of every word."""

    def __init__(self, number: int, words: Plan, arch: Arch) -> None:
        self.number, self.plan = number, words
        q = arch.queues
        counts = np.bincount(words.engine, minlength=5).tolist()
        depths = (q.load, q.mxu, q.vpu, q.store)
        self.engines = [EngineState(self, e, max(1, depths[e]), counts[e]) for e in ENGINES]
        self.tokens = [0] * SEMAPHORES
        self.remote = [0] * arch.tiles
        self.at = 0  # next word that CTRL dispatches
        self.clock = 0  # when CTRL dispatched the last one
        self.blocked = -1  # engine whose queue is full
        self.ctrl_stalls: dict[str, int] = {}
        n = len(words)
        self.start, self.begin, self.issued, self.visible = [0] * n, [0] * n, [0] * n, [0] * n
        self.busy = [0] * 5
