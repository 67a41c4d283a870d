"""Execute a program in another legal order: any engine of any tile may go next, as far as its semaphores let it.

`Machine` runs a tile's words in stream order. Here each engine of each tile has a queue of its own without a limit, and
a seed decides which of the engines that can go does. So an order that the semaphores allow but the program does not
mean gives other bits, a deadlock, or reads of what is not there yet.
"""

from __future__ import annotations

from collections import deque

import numpy as np
from dpu.ir.arch import Arch
from dpu.ir.isa import ENGINE_OF, Engine, Opcode, Words
from dpu.simulator.decode import SEMAPHORES, Decoded, bits, signal_ids, stream, wait_ids
from dpu.simulator.load_store import load, store
from dpu.simulator.machine import Machine
from dpu.simulator.mxu import matrix
from dpu.simulator.state import Tally
from dpu.simulator.vpu import vector

from .harness import Regions

Queue = tuple[int, Engine]


class Deadlock(Exception):
    """No engine can go on."""


class Interleaver:
    """One run. Engines have random priorities, redrawn now and then, so that some run far ahead of others."""

    def __init__(self, arch: Arch, regions: Regions, streams: list[Words], seed: int) -> None:
        self.machine = Machine(arch, regions)
        self.rng = np.random.default_rng(seed)
        self.tokens = [[0] * SEMAPHORES for _ in streams]
        self.remote = [[0] * len(streams) for _ in streams]
        self.queues: dict[Queue, deque[Decoded]] = {}
        for t, words in enumerate(streams):
            for w in stream(words):
                if w[0] != Opcode.END:
                    self.queues.setdefault((t, Engine(ENGINE_OF[w[0]])), deque()).append(w)

    def run(self) -> None:
        """To the end.

        Raises:
            Deadlock: every engine with work waits.
        """
        while self.queues:
            order = list(self.queues)
            self.rng.shuffle(order)
            for _ in range(int(self.rng.integers(1, 64))):
                if not any(self._go(q) for q in order if q in self.queues):
                    if self.queues:
                        raise Deadlock(f"{sum(map(len, self.queues.values()))} words left")
                    return

    def _go(self, queue: Queue) -> bool:
        """Execute the next word of a queue, if its tokens are there."""
        t, engine = queue
        opcode, _, _, wait, signal, remote = self.queues[queue][0][:6]
        waits, tokens = wait_ids(wait, engine), self.tokens[t]
        remote_waits = bits(remote) if opcode == Opcode.LOAD else ()
        if not all(tokens[k] for k in waits) or not all(self.remote[t][i] for i in remote_waits):
            return False
        for k in waits:
            tokens[k] -= 1
        for i in remote_waits:
            self.remote[t][i] -= 1
        self._execute(t, self.queues[queue].popleft())
        if opcode == Opcode.STORE:
            for i in bits(remote):
                self.remote[i][t] += 1
        for k in signal_ids(signal, engine):
            tokens[k] += 1
        if not self.queues[queue]:
            del self.queues[queue]
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
