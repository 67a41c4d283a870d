"""Cycle-level timing of a program, event by event, from the same words that the functional machine executes.

Rules (docs in README.md; latencies and costs from `Arch` and `ir/cost.py`):

- CTRL puts one word every `latency.dispatch` cycles into its engine's queue, in stream order; a full queue stops it
  until that engine starts a word.
- An engine starts its oldest word when the word before it has issued, `drain` is met, all its tokens are there and
  (MXU, VPU) its bank ports are free. A token arrives when all earlier work of its producer is visible, a remote one
  `latency.remote_signal` later.
- MXU, VPU: the next word may start `occupancy` cycles later; results are visible `latency.mxu` or `latency.vpu` after.
- LOAD: requests go out one burst a cycle, data comes `dram.latency` after the start; data phases of a port follow each
  other in order, so latencies of up to 4 words overlap. Visible `latency.load` after the last data.
- STORE: the data phase begins at the start; the response is there `latency.store + dram.latency` after its end.
- The data phase runs at the rate that the DRAM model grants, at most one port's rate, one scratchpad word a cycle and
  one burst a cycle.
- With a DRAM of bursts (`hbm2`, `lpddr5x`; rules in dram/README.md) requests go to the channels at the start of the
  word; a LOAD's data phase begins when its first data are at the port; a STORE's response is there `latency.store`
  after its last data are in DRAM.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from math import ceil

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.cost import LOADS_OUTSTANDING, Ports
from ..ir.isa import Engine, Words
from .decode import bits, deadlock_error, semaphore_name, signal_ids, wait_ids
from .dram.core import NEVER, Note
from .memory import BurstMemory, memory
from .plan import ENGINES, Plan, moves, plan
from .timing_result import BURSTS_NOT_MODELLED, FLUID_NOT_MODELLED, NOT_MODELLED, DramTiming, TileTiming, Timing
from .timing_state import EngineState, TileState

_LOAD, _MXU, _STORE, _CTRL = int(Engine.LOAD), int(Engine.MXU), int(Engine.STORE), int(Engine.CTRL)

# Kinds of events; in one cycle, smaller numbers go first.
_MEMORY, _ISSUED, _FILLED, _SIGNAL, _REMOTE, _DONE, _DATA, _START = range(8)


class _Run:
    """The event loop."""

    def __init__(self, arch: Arch, plans: Sequence[Plan], entry: str) -> None:
        self.arch, self.entry = arch, entry
        self.tiles = [TileState(t, p, arch) for t, p in enumerate(plans)]
        model = memory(arch)
        self.bursts = model if isinstance(model, BurstMemory) else None
        self.fluid = None if isinstance(model, BurstMemory) else model
        self.moves = moves(arch, plans) if self.bursts else []
        self.memory_at = -1  # the one valid _MEMORY event
        self.heap: list[tuple[int, int, int, EngineState | TileState | None, int]] = []
        self.count = 0
        self.after = {int(Engine.MXU): arch.latency.mxu, int(Engine.VPU): arch.latency.vpu}
        self.after |= {_LOAD: arch.latency.load, _STORE: arch.latency.store + arch.dram.latency}

    def push(self, time: int, kind: int, who: EngineState | TileState | None, what: int = 0) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time, kind, self.count, who, what))

    def run(self) -> int:
        """Run to the end; returns the cycle in which everything is visible."""
        for tile in self.tiles:
            self.dispatch(tile, 0)
            for e in tile.engines:
                self.try_start(e, 0)
        bursts = self.bursts
        while True:
            if bursts is not None and bursts.due < NEVER and (not self.heap or bursts.due <= self.heap[0][0]):
                self.burst(*bursts.step(self.heap[0][0] if self.heap else NEVER))
                continue
            if not self.heap:
                break
            now, kind, _, who, what = heapq.heappop(self.heap)
            if kind == _START:
                assert isinstance(who, EngineState)
                self.try_start(who, now)
            elif kind == _ISSUED:
                assert isinstance(who, EngineState)
                who.held = 0
                self.try_start(who, now)
                self.released(who.tile, now)
            elif kind == _SIGNAL:
                assert isinstance(who, EngineState)
                self.signal(who, what, now)
            elif kind == _MEMORY:
                if now != self.memory_at:
                    continue  # replaced by an earlier one
                self.memory_at = -1
                assert self.fluid is not None
                for key in self.fluid.finish(now):
                    self.end_data(self.tiles[key // 4].engines[key % 4], now)
                self.next_memory()
            elif kind == _DATA:
                assert isinstance(who, EngineState)
                self.begin_data(who, now)
            elif kind == _FILLED:
                assert isinstance(who, EngineState)
                self.end_data(who, now)
            elif kind == _DONE:
                assert isinstance(who, EngineState)
                who.outstanding -= 1
                self.try_start(who, now)
            else:
                assert isinstance(who, TileState)
                who.remote[what] += 1
                self.try_start(who.engines[_LOAD], now)
        waiting = [
            (t.number, e.queue[0][0], t.plan.words[e.queue[0][0]], self.missing(e))
            for t in self.tiles
            for e in t.engines
            if e.queue
        ]
        if waiting:
            raise deadlock_error(self.entry, waiting)
        return max(max(t.visible) for t in self.tiles)

    # CTRL

    def dispatch(self, tile: TileState, now: int) -> None:
        """Put words into queues until one is full. Runs ahead of time: each word carries the cycle it enters."""
        p, step = tile.plan, self.arch.latency.dispatch
        while tile.at < len(p):
            kind, i = p.engine[tile.at], tile.at
            ready = tile.clock + step
            if kind == _CTRL:  # END: the last word; the tile is done when all is visible
                tile.at += 1
                tile.clock = ready
                tile.start[i] = tile.begin[i] = tile.issued[i] = tile.visible[i] = ready
                return
            e = tile.engines[kind]
            if len(e.queue) >= e.depth:
                tile.blocked = kind
                return
            enters = ready if tile.blocked != kind else max(ready, now)
            if tile.blocked == kind:
                name = f"queue-full {Engine(kind).name}"
                tile.ctrl_stalls[name] = tile.ctrl_stalls.get(name, 0) + enters - ready
                tile.blocked = -1
            e.queue.append((i, enters))
            if len(e.queue) == 1:
                self.push(enters, _START, e)
            tile.clock = enters
            tile.at += 1

    # Starting words

    def missing(self, e: EngineState) -> str:
        """The token that the oldest word lacks, in words; empty when it has all."""
        i, tile = e.queue[0][0], e.tile
        p = tile.plan
        for k in wait_ids(p.wait[i], e.kind):
            if not tile.tokens[k]:
                return f"a token of {semaphore_name(k)}"
        if e.kind == _LOAD:
            for s in bits(p.remote[i]):
                if not tile.remote[s]:
                    return f"a token of tile {s}"
        return ""

    def hindrance(self, e: EngineState, now: int) -> str:
        """Why the oldest word cannot start now; empty when it can."""
        tile = e.tile
        if not e.queue:
            return "dispatch" if e.left else ""
        i, enters = e.queue[0]
        p = tile.plan
        if enters > now:
            return "dispatch"
        if e.outstanding >= LOADS_OUTSTANDING:
            return "memory"
        if p.drain[i] and (e.outstanding or e.last > now):
            if e.last > now:
                self.push(e.last, _START, e)
            return "drain"
        if p.wait[i]:
            for k in wait_ids(p.wait[i], e.kind):
                if not tile.tokens[k]:
                    return f"semaphore {Engine(k // 20).name}"
        if p.remote[i] and e.kind == _LOAD:
            for s in bits(p.remote[i]):
                if not tile.remote[s]:
                    return "semaphore remote"
        if e.kind != _LOAD and e.kind != _STORE and self.conflict(e, p.ports[i]):
            if e.asked < 0:
                e.asked = now
            return "port"
        return ""

    def conflict(self, e: EngineState, mask: int) -> bool:
        return any(o.held & mask and o is not e for o in e.tile.engines)

    def try_start(self, e: EngineState, now: int) -> None:
        """Start the oldest word if it can start in this cycle."""
        if e.free > now:
            return
        reason = self.hindrance(e, now)
        e.wait(now, reason)
        if reason or not e.queue:
            return
        i, tile = e.queue.popleft()[0], e.tile
        p = tile.plan
        e.left -= 1
        for k in wait_ids(p.wait[i], e.kind):
            tile.tokens[k] -= 1
        tile.start[i] = now
        if e.kind == _LOAD or e.kind == _STORE:
            if e.kind == _LOAD:
                for s in bits(p.remote[i]):
                    tile.remote[s] -= 1
            e.outstanding += 1
            e.free = now + max(1, p.bursts[i])
            late = self.arch.dram.latency if e.kind == _LOAD and p.bytes[i] and self.bursts is None else 0
            e.pending.append((i, now + late))
            if e.kind == _LOAD and p.bytes[i] and self.bursts is not None:
                self.bursts.start(now, tile.number * 4 + _LOAD, False, self.alone(p, i), self.moves[tile.number][i])
            self.push(e.free, _START, e)
            self.begin_data(e, now)
        else:
            e.asked = -1
            e.held = p.ports[i]
            e.free = now + p.occupancy[i]
            tile.begin[i], tile.issued[i] = now, e.free
            tile.busy[e.kind] += p.occupancy[i]
            self.push(e.free, _ISSUED, e)
            self.complete(e, i, e.free + self.after[e.kind])
        if e.queue and e.queue[0][1] > e.free:
            self.push(e.queue[0][1], _START, e)
        if tile.blocked == e.kind:
            self.dispatch(tile, now)

    def released(self, tile: TileState, now: int) -> None:
        """Ports came free: who asked first gets them."""
        for e in sorted((e for e in tile.engines if e.asked >= 0), key=lambda e: e.asked):
            if e.kind == _LOAD or e.kind == _STORE:
                self.begin_data(e, now)
            else:
                self.try_start(e, now)

    def complete(self, e: EngineState, i: int, visible: int) -> None:
        """Work of word `i` is visible at `visible`, and not before that of earlier words."""
        tile = e.tile
        e.last = tile.visible[i] = max(e.last, visible)
        if tile.plan.signal[i] or (e.kind == _STORE and tile.plan.remote[i]):
            self.push(e.last, _SIGNAL, e, i)

    def signal(self, e: EngineState, i: int, now: int) -> None:
        tile = e.tile
        p = tile.plan
        consumers = set()
        for k in signal_ids(p.signal[i], e.kind):
            tile.tokens[k] += 1
            consumers.add(k // 4 % 5)
        for c in sorted(consumers):
            self.try_start(tile.engines[c], now)
        if e.kind == _STORE:
            for t in bits(p.remote[i]):
                self.push(now + self.arch.latency.remote_signal, _REMOTE, self.tiles[t], tile.number)

    # Data phases

    def begin_data(self, e: EngineState, now: int) -> None:
        """Begin the data phase of the oldest started word, if it can begin in this cycle."""
        if e.active >= 0 or not e.pending:
            return
        i, ready = e.pending[0]
        if ready > now:
            self.push(ready, _DATA, e)
            return
        tile = e.tile
        p = tile.plan
        bursts = self.bursts if p.bytes[i] else None
        if bursts is not None and e.kind == _LOAD and not e.arrived:
            return
        if self.conflict(e, p.ports[i]):
            if e.asked < 0:
                e.asked = now
            return
        if e.asked >= 0:
            e.stalls["port"] = e.stalls.get("port", 0) + now - e.asked
            e.asked = -1
        e.pending.popleft()
        e.active, e.held = i, p.ports[i]
        tile.begin[i] = now
        if bursts is not None:
            key = tile.number * 4 + e.kind
            if e.kind == _LOAD:
                e.arrived = False
                bursts.open(now, key, p.bytes[i])
            else:
                bursts.start(now, key, True, self.alone(p, i), self.moves[tile.number][i])
        elif p.bytes[i]:
            assert self.fluid is not None
            self.fluid.start(now, tile.number * 4 + e.kind, p.bytes[i], self.cap(p, i))
            self.next_memory()
        elif p.occupancy[i]:
            self.push(now + p.occupancy[i], _FILLED, e)
        else:
            self.end_data(e, now)

    def cap(self, p: Plan, i: int) -> float:
        """Bytes a cycle that the port and the scratchpad side take."""
        return min(self.arch.dram.port_bytes_per_cycle, p.bytes[i] / max(1, p.occupancy[i]))

    def alone(self, p: Plan, i: int) -> int:
        """Cycles of a data phase that never waits for DRAM."""
        return ceil(p.bytes[i] / self.cap(p, i) - 1e-6)

    def next_memory(self) -> None:
        assert self.fluid is not None
        time = self.fluid.next()
        if time is not None and time != self.memory_at:
            self.memory_at = time
            self.push(time, _MEMORY, None)

    def end_data(self, e: EngineState, now: int) -> None:
        i, tile = e.active, e.tile
        p = tile.plan
        e.active, e.held = -1, 0
        tile.issued[i] = now
        took = now - tile.begin[i]
        alone = self.alone(p, i) if p.bytes[i] else took
        tile.busy[e.kind] += alone
        if took > alone:
            e.stalls["memory"] = e.stalls.get("memory", 0) + took - alone
        if e.kind == _STORE and self.bursts is not None and (p.bytes[i] or e.unanswered):
            e.unanswered.append(i)
        else:
            self.complete(e, i, now + self.after[e.kind] if p.occupancy[i] else now)
            if e.kind == _STORE:
                self.push(e.last, _DONE, e)
            else:
                e.outstanding -= 1
        self.begin_data(e, now)
        self.released(tile, now)
        self.try_start(e, now)

    def burst(self, note: Note, now: int, key: int) -> None:
        """What a DRAM of bursts reports."""
        if note == Note.NONE:
            return
        e = self.tiles[key // 4].engines[key % 4]
        if note == Note.FIRST:
            e.arrived = True
            self.begin_data(e, now)
        elif note == Note.LAST:
            self.end_data(e, now)
        else:
            self.answered(e, now)

    def answered(self, e: EngineState, now: int) -> None:
        """The oldest STORE is in DRAM, and with it the words behind it that store nothing."""
        p = e.tile.plan
        visible = now + self.arch.latency.store
        while True:
            self.complete(e, e.unanswered.popleft(), visible)
            self.push(e.last, _DONE, e)
            if not e.unanswered or p.bytes[e.unanswered[0]]:
                return
            visible = now


def simulate(arch: Arch, streams: Sequence[Words], entry: str = "program") -> Timing:
    """Time one stream a tile.

    Raises:
        DpuError: E410 an illegal opcode, no END or a wrong number of streams, E414 a deadlock.
    """
    if len(streams) != arch.tiles:
        raise DpuError(
            f"entry '{entry}'", f"{len(streams)} streams for the {arch.tiles} tiles of arch '{arch.name}'", code="E410"
        )
    ports = Ports(arch)
    plans = [plan(arch, w, ports, entry, t) for t, w in enumerate(streams)]
    run = _Run(arch, plans, entry)
    cycles = run.run()
    tiles = []
    for t in run.tiles:
        p = t.plan
        engine = np.array(p.engine)
        stalls = {Engine(e.kind): e.stalls for e in t.engines} | {Engine.CTRL: t.ctrl_stalls}
        tiles.append(
            TileTiming(
                engine=engine,
                tag=p.words["tag"].astype(np.int64),
                start=np.array(t.start, np.int64),
                begin=np.array(t.begin, np.int64),
                issued=np.array(t.issued, np.int64),
                visible=np.array(t.visible, np.int64),
                macs=p.macs,
                payload=p.payload,
                bus=np.array(p.bytes, np.int64),
                busy={e: t.busy[e] for e in ENGINES},
                stalls=stalls,
            )
        )
    missing = NOT_MODELLED + (FLUID_NOT_MODELLED if run.bursts is None else BURSTS_NOT_MODELLED)
    missing += ("the shared L2 (l2_bytes): every read goes to DRAM",) if arch.l2_bytes else ()
    model = run.fluid or run.bursts
    assert model is not None
    return Timing(
        arch=arch,
        entry=entry,
        cycles=cycles,
        tiles=tiles,
        dram=model.log,
        not_modelled=missing,
        channels=None if run.bursts is None else DramTiming(run.bursts.file, run.bursts.counters()),
    )
