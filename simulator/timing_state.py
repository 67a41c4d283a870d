"""What the timing model keeps of each engine and tile while it runs."""

from __future__ import annotations

from collections import deque

import numpy as np

from ..ir.arch import Arch
from ..ir.cost import PORTS, Ports
from .decode import SEMAPHORES
from .plan import ENGINES, Plan
from .timing_fetch import Fetch
from .timing_mxu import Mxu
from .timing_plan import Listed
from .timing_ports import ParamWrites, SharedPort
from .timing_vpu import Vpu


class EngineState:
    """One engine of one tile: its queue, what it does, why it waits."""

    __slots__ = (
        "active",
        "address",
        "arrived",
        "depth",
        "early",
        "free",
        "kind",
        "last",
        "late",
        "left",
        "outstanding",
        "pending",
        "queue",
        "reason",
        "since",
        "stalls",
        "through",
        "tile",
        "unanswered",
    )

    def __init__(self, tile: TileState, kind: int, depth: int, left: int) -> None:
        self.tile, self.kind, self.depth = tile, kind, depth
        self.left = left  # words not yet started
        self.queue: deque[tuple[int, int]] = deque()  # (word, cycle from which it may start)
        self.free = 0  # first cycle in which the next word may start
        self.last = -1  # when all started work is done
        self.address = 0  # LOAD: first cycle in which the next address may go
        self.pending: deque[tuple[int, int]] = deque()  # LOAD, STORE: started words (word, cycle of first data)
        self.active = -1  # LOAD, STORE: word in its data phase
        self.through = -1  # when its data were through, but for waiting for ports
        self.late = -1  # how much of that was waiting for instructions to pass
        self.early = -1  # STORE: how long after its data the response was, if it came before their end here
        self.outstanding = 0  # LOAD, STORE: words between start and done
        self.arrived = -1  # LOAD with a DRAM of bursts: since when data wait at the port
        self.unanswered: deque[int] = deque()  # STORE with a DRAM of bursts: words sent, but not known to be in DRAM
        self.reason = ""
        self.since = 0
        self.stalls: dict[str, int] = {}

    def wait(self, now: int, reason: str) -> None:
        """Book the time since the last look at this engine, and why it waits from now on."""
        if self.reason and now > self.since:
            self.book(self.reason, now - self.since)
        self.reason, self.since = reason, now

    def book(self, reason: str, cycles: int) -> None:
        if cycles > 0:
            self.stalls[reason] = self.stalls.get(reason, 0) + cycles


class TileState:
    """One tile: its stream, engines, tokens and the record of every word."""

    def __init__(self, number: int, plan: Plan, arch: Arch, ports: Ports) -> None:
        words = Listed(plan)
        self.number, self.plan = number, words
        q = arch.queues
        counts = np.bincount(plan.engine, minlength=5).tolist()
        depths = (q.load, q.mxu, q.vpu, q.store)
        self.engines = [EngineState(self, e, max(1, depths[e]), counts[e]) for e in ENGINES]
        self.ports = [SharedPort(k, ports) for k in range(len(PORTS))]
        self.param = ParamWrites()
        self.mxu, self.vpu = Mxu(arch, words, self.ports, self.param), Vpu(words, self.ports, self.param)
        self.fetch = Fetch(len(words))
        self.tokens = [0] * SEMAPHORES
        self.remote = [0] * arch.tiles
        self.at = 0  # next word that CTRL dispatches
        self.clock = 0  # when CTRL dispatched the last one
        self.blocked = -1  # engine whose queue is full
        self.starved = False  # the next word is not here
        self.ctrl_stalls: dict[str, int] = {}
        n = len(words)
        self.start, self.begin, self.issued, self.visible = [0] * n, [0] * n, [0] * n, [0] * n
        self.busy = [0] * 5
