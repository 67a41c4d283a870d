"""The event loop of the timing model in Python: the readable form, the judge of the compiled one, and what runs where
there is no C++ compiler. `timing.py` states the rules."""

from __future__ import annotations

import heapq
from collections.abc import Sequence

import numpy as np

from ..ir import cost
from ..ir.arch import Arch
from ..ir.cost import Ports
from ..ir.isa import WORD_BYTES, Engine
from .decode import bits, deadlock_error, semaphore_name, signal_ids, wait_ids
from .dram.core import NEVER, Note
from .memory import BurstMemory, memory
from .plan import Places, Plan, moves
from .timing_fetch import UNKNOWN
from .timing_result import Outcome, TileOutcome
from .timing_state import EngineState, TileState

_LOAD, _MXU, _VPU, _STORE, _CTRL = (int(e) for e in (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE, Engine.CTRL))

# Kinds of events; in one cycle, smaller numbers go first.
_MEMORY, _FILLED, _SIGNAL, _REMOTE, _DONE, _BEATS, _DATA, _START = range(8)

_MOVES = {_LOAD: (cost.ACT_WRITE, cost.VBUF_WRITE), _STORE: (cost.ACT_READ, cost.VBUF_READ)}
_FETCH = _MXU  # the port of a DRAM of bursts that instructions come through
END = 2  # cycles from the end of the last word, or the dispatch of END, to the end of the run


class Loop:
    """The event loop; afterwards `outcome` says what came of it."""

    def __init__(self, arch: Arch, plans: Sequence[Plan], entry: str, places: Places | None = None) -> None:
        self.arch, self.entry = arch, entry
        ports = Ports(arch)
        self.tiles = [TileState(t, p, arch, ports) for t, p in enumerate(plans)]
        model = memory(arch)
        self.bursts = model if isinstance(model, BurstMemory) else None
        self.fluid = None if isinstance(model, BurstMemory) else model
        self.moves, self.streams = moves(arch, plans, places) if self.bursts else ([], [])
        self.memory_at = -1  # the one valid _MEMORY event
        self.heap: list[tuple[int, int, int, EngineState | TileState | None, int]] = []
        self.count = 0
        self.latency = max(1, arch.dram.latency)
        self.answer = max(1, arch.dram.response) + cost.STORE_ANSWER

    def push(self, time: int, kind: int, who: EngineState | TileState | None, what: int = 0) -> None:
        self.count += 1
        heapq.heappush(self.heap, (time, kind, self.count, who, what))

    def run(self) -> int:
        """Run to the end; returns the cycle in which everything is done and known to be."""
        for tile in self.tiles:
            for burst in range(len(tile.fetch.asks)):
                self.ask(tile, burst)
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
            elif kind == _BEATS:
                assert isinstance(who, EngineState)
                self.end_beats(who, now)
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
        return max(max(t.visible) for t in self.tiles) + END

    # CTRL

    def ask(self, tile: TileState, burst: int) -> None:
        """A burst of instructions is asked for."""
        at = tile.fetch.asks[burst] + cost.READ_ADDRESS
        if self.bursts is None:
            tile.fetch.arrive(at + self.latency)
            return
        words = tile.fetch.length(burst)
        address = self.streams[tile.number] + burst * cost.FETCH_BURST * WORD_BYTES
        move = (address, words * WORD_BYTES, (1, 1, 1), (0, 0, 0))
        self.bursts.start(at, tile.number * 4 + _FETCH, False, words, move)

    def dispatch(self, tile: TileState, now: int) -> None:
        """Put words into queues until one is full. Runs ahead of time: each word carries the cycle it may start in."""
        p, fetch = tile.plan, tile.fetch
        while tile.at < len(p):
            kind, i = p.engine[tile.at], tile.at
            here = fetch.ready(i)
            if here == UNKNOWN:
                tile.starved = True
                return
            ready = max(tile.clock + 1, here)
            if kind == _CTRL:  # END: the last word; the tile is done when all is visible
                self.dispatched(tile, ready, here)
                tile.start[i] = tile.begin[i] = tile.issued[i] = tile.visible[i] = ready
                return
            e = tile.engines[kind]
            if len(e.queue) >= e.depth:
                tile.blocked = kind
                return
            enters = ready
            if tile.blocked == kind:
                enters = max(ready, now + 1)
                name = f"queue-full {Engine(kind).name}"
                tile.ctrl_stalls[name] = tile.ctrl_stalls.get(name, 0) + enters - ready
                tile.blocked = -1
            e.queue.append((i, enters + 1))
            if len(e.queue) == 1:
                self.push(enters + 1, _START, e)
            self.dispatched(tile, enters, here)

    def dispatched(self, tile: TileState, cycle: int, here: int) -> None:
        """The next word goes to its queue in this cycle."""
        if here > tile.clock + 1:
            tile.ctrl_stalls["fetch"] = tile.ctrl_stalls.get("fetch", 0) + here - tile.clock - 1
        tile.clock = cycle
        if tile.fetch.dispatched(tile.at, cycle):
            self.ask(tile, len(tile.fetch.asks) - 1)
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
        if e.outstanding >= cost.WORDS_OUTSTANDING:
            return "memory"
        if p.drain[i] and (e.outstanding or e.last >= now or (e.kind == _VPU and tile.vpu.words)):
            if e.last >= now:
                self.push(e.last + 1, _START, e)
            return "drain"
        if p.wait[i]:
            for k in wait_ids(p.wait[i], e.kind):
                if not tile.tokens[k]:
                    return f"semaphore {Engine(k // 20).name}"
        if p.remote[i] and e.kind == _LOAD:
            for s in bits(p.remote[i]):
                if not tile.remote[s]:
                    return "semaphore remote"
        return ""

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
        if e.kind == _MXU:
            self.start_mm(e, i, now)
        elif e.kind == _VPU:
            self.start_vec(e, i, now)
        else:
            if e.kind == _LOAD:
                for s in bits(p.remote[i]):
                    tile.remote[s] -= 1
            self.start_move(e, i, now)
        if e.free < UNKNOWN:
            self.push(e.free, _START, e)
            if e.queue and e.queue[0][1] > e.free:
                self.push(e.queue[0][1], _START, e)
        if tile.blocked == e.kind:
            self.dispatch(tile, now)

    def complete(self, e: EngineState, i: int, done: int) -> None:
        """Word `i` is done in this cycle, a cycle after the one before it at the earliest."""
        tile = e.tile
        e.last = tile.visible[i] = max(e.last + 1, done)
        if tile.plan.signal[i] or (e.kind == _STORE and tile.plan.remote[i]):
            self.push(e.last + 1, _SIGNAL, e, i)

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

    # MXU and VPU

    def start_mm(self, e: EngineState, i: int, now: int) -> None:
        tile = e.tile
        times = tile.mxu.start(i, now)
        e.free = times.next
        tile.begin[i], tile.issued[i] = times.first, times.after
        tile.busy[_MXU] += tile.plan.mm[i].tiles * max(tile.plan.mm[i].rows, self.arch.rows)
        self.complete(e, i, times.done)

    def start_vec(self, e: EngineState, i: int, now: int) -> None:
        vpu = e.tile.vpu
        e.free = vpu.start(i, now)
        if len(vpu.words) == 1:
            self.push(vpu.begin(now), _BEATS, e)

    def end_beats(self, e: EngineState, now: int) -> None:
        """The oldest word has had its last beat, if the MXU has not come between."""
        tile, vpu = e.tile, e.tile.vpu
        if vpu.again() > now:
            self.push(vpu.last, _BEATS, e)
            return
        i = vpu.words[0][0]
        tile.begin[i], tile.issued[i] = vpu.first, now + 1
        tile.busy[_VPU] += vpu.alone
        e.book("port", now + 1 - vpu.first - vpu.alone)
        self.complete(e, i, vpu.end())
        vpu.left(i, e.last)
        if (free := vpu.offer()) >= 0:
            e.free = free
            self.push(free, _START, e)
        if vpu.words:
            self.push(vpu.begin(now), _BEATS, e)
        self.try_start(e, now)

    # LOAD and STORE

    def start_move(self, e: EngineState, i: int, now: int) -> None:
        tile = e.tile
        p = tile.plan
        e.outstanding += 1
        e.free = now + 1
        if e.kind == _STORE:
            ready = now + cost.STORE_READ
        elif not p.bytes[i]:
            ready = now + cost.DMA_CHECK
        else:
            ready = max(now + cost.DMA_ADDRESS + cost.READ_ADDRESS, e.address)
            e.address = ready + p.bursts[i]
            if self.bursts is None:  # padding before the first data is written while they are on their way
                ready = max(now + cost.DMA_CHECK, ready + self.latency - p.lead[i])
            else:
                move = self.moves[tile.number][i]
                self.bursts.start(ready, tile.number * 4 + _LOAD, False, p.alone[i], move, bool(p.cached[i]))
        e.pending.append((i, ready))
        self.begin_data(e, now)

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
        if e.kind == _LOAD and p.bytes[i]:
            here = ready if bursts is None else e.arrived
            if here < 0:
                return
            if (free := tile.fetch.after(here)) > now:
                self.push(free, _DATA, e)
                return
        e.pending.popleft()
        e.active, e.through = i, -1
        tile.begin[i] = now
        for port in _MOVES[e.kind]:
            if i in p.ports[port]:
                tile.ports[port].working = now
        if bursts is not None:
            key = tile.number * 4 + e.kind
            if e.kind == _LOAD:
                e.arrived = -1
                bursts.open(now, key, p.bytes[i])
            else:
                bursts.start(now, key, True, p.alone[i], self.moves[tile.number][i])
        elif p.bytes[i]:
            assert self.fluid is not None
            self.fluid.start(now, tile.number * 4 + e.kind, p.bytes[i], p.cap[i])
            self.next_memory()
        elif p.phase[i] or e.kind == _LOAD:
            self.push(now + max(1, p.phase[i]), _FILLED, e)
        else:
            self.end_data(e, now)

    def next_memory(self) -> None:
        assert self.fluid is not None
        time = self.fluid.next()
        if time is not None and time != self.memory_at:
            self.memory_at = time
            self.push(time, _MEMORY, None)

    def end_data(self, e: EngineState, now: int) -> None:
        """The data of the active word are through, if the ports have let them."""
        i, tile = e.active, e.tile
        p = tile.plan
        if e.through < 0:
            if e.kind == _LOAD and p.bytes[i] and e.late < 0:
                beats = p.bytes[i] // cost.BEAT_BYTES
                e.late = tile.fetch.delay(tile.begin[i], now, beats)
                if e.late:
                    self.push(now + e.late, _FILLED, e)
                    return
            e.late = -1
            e.through = now
        begin, took = tile.begin[i], e.through - tile.begin[i]
        for port in _MOVES[e.kind]:
            if spans := p.ports[port].get(i):
                steps = min(took, p.steps[i])
                early = cost.STORE_BEAT if e.kind == _STORE else 0
                end = early + tile.ports[port].finish(begin - early, took, steps, spans, 0.0, 0.0)
                if end > now:
                    self.push(end, _FILLED, e)
                    return
                tile.ports[port].working = -1
        e.active = -1
        tile.issued[i] = now
        alone = p.alone[i] if p.bytes[i] else took
        tile.busy[e.kind] += alone
        e.book("memory", took - alone)
        e.book("port", now - e.through)
        if e.kind == _LOAD:
            self.done(e, i, now + cost.LOAD_WRITE)
        elif self.bursts is not None and (p.bytes[i] or e.unanswered):
            e.unanswered.append(i)
            if e.early >= 0:
                lag, e.early = e.early, -1
                self.answered(e, now + lag)
        else:
            self.done(e, i, now + self.answer if p.bytes[i] else now)
        self.begin_data(e, now)

    def done(self, e: EngineState, i: int, cycle: int) -> None:
        self.complete(e, i, cycle)
        self.push(e.last + 1, _DONE, e)

    def burst(self, note: Note, now: int, key: int) -> None:
        """What a DRAM of bursts reports."""
        if note == Note.NONE:
            return
        tile = self.tiles[key // 4]
        if key % 4 == _FETCH:
            if note == Note.FIRST:
                assert self.bursts is not None
                words = tile.fetch.length(len(tile.fetch.arrives))
                self.bursts.open(now, key, words * WORD_BYTES)
                tile.fetch.arrive(now)
                if tile.starved:
                    tile.starved = False
                    self.dispatch(tile, now)
            return
        e = tile.engines[key % 4]
        if note == Note.FIRST:
            e.arrived = now
            self.begin_data(e, now)
        elif note == Note.LAST:
            self.end_data(e, now)
        else:
            self.answered(e, now)

    def answered(self, e: EngineState, now: int) -> None:
        """The oldest STORE is in DRAM, and with it the words behind it that store nothing."""
        p = e.tile.plan
        if not e.unanswered:  # the DRAM has it, but its reads had to wait
            e.early = now - e.through
            return
        while True:
            self.done(e, e.unanswered.popleft(), now + cost.STORE_ANSWER)
            if not e.unanswered or p.bytes[e.unanswered[0]]:
                return

    def outcome(self, cycles: int) -> Outcome:
        """The record of a run that took so many cycles."""
        tiles = []
        for t in self.tiles:
            stalls = {Engine(e.kind): e.stalls for e in t.engines} | {Engine.CTRL: t.ctrl_stalls}
            start, begin, issued, visible = (np.array(x, np.int64) for x in (t.start, t.begin, t.issued, t.visible))
            tiles.append(TileOutcome(start, begin, issued, visible, t.busy, stalls))
        model = self.fluid or self.bursts
        assert model is not None
        if self.bursts is None:
            return Outcome(cycles, tiles, model.log, None, None)
        return Outcome(cycles, tiles, model.log, self.bursts.counters(), self.bursts.l2())
