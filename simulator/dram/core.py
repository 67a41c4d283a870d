"""DRAM timing, one burst at a time in closed form: the algorithm of dram_model.hpp in Python, integer for integer.

Used where there is no C++ compiler, and to check the other. README.md of this folder states the rules.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, Protocol

from .params import Config

NEVER = 1 << 60
LONG_AGO = -(1 << 40)

_ISSUE, _PICK, _NOTE, _FILLED = range(4)
_L2 = -2  # in place of a port: a piece that fills a line


class Note(IntEnum):
    """What `step` reports."""

    NONE = 0
    FIRST = 1  # the first data of a read wait at their port
    LAST = 2  # a transfer's data have all passed the port
    RESPONSE = 3  # a written transfer is in DRAM
    DONE = 4  # a submitted burst is back


class Counters(NamedTuple):
    """What one channel has done. Times in DRAM clocks."""

    bytes_read: int = 0
    bytes_written: int = 0
    hits: int = 0  # column accesses that found their row open
    misses: int = 0  # activations of a closed bank
    conflicts: int = 0  # activations that first had to close another row
    refreshes: int = 0
    refresh_wait: int = 0  # clocks in which the next access waited for a refresh
    turnaround: int = 0  # clocks lost because the data bus turned round
    turns: int = 0
    last: int = 0  # clock in which the last data passed the pins


class L2Counters(NamedTuple):
    """What the shared L2 has done; of `hits`, `merged` and `misses`: look-ups, one a line that a burst touches."""

    hits: int = 0
    merged: int = 0  # the line was asked for and not yet there
    misses: int = 0
    bytes: int = 0  # that ports got, in whole beats

    @property
    def hit_rate(self) -> float:
        """Look-ups that read nothing from DRAM, of all."""
        lookups = self.hits + self.merged + self.misses
        return (self.hits + self.merged) / lookups if lookups else 0.0


class Core(Protocol):
    """A running model: this file's or the compiled one."""

    def request(
        self,
        cycle: int,
        port: int,
        write: bool,
        floor: int,
        address: int,
        inner: int,
        n: Sequence[int],
        stride: Sequence[int],
        cached: bool = False,
    ) -> int:
        """A port moves runs of `inner` bytes, in at least `floor` cycles. Returns `due`, as `open` and `submit` do.

        `cached`: a read through the L2, if there is one."""

    def open(self, cycle: int, port: int) -> int:
        """Let the data of the port's oldest read flow (after FIRST)."""

    def submit(self, cycle: int, address: int, size: int, write: bool, tag: int) -> int:
        """One burst past the ports; DONE with `tag` when it is back."""

    def step(self, limit: int) -> tuple[Note, int, int]:
        """Advance to cycle `limit` or the first thing to report: (what, cycle, port or tag)."""

    def due(self) -> int:
        """The first cycle at which `step` has something to do; NEVER when idle."""

    def counters(self) -> list[Counters]:
        """Of each channel."""

    def l2(self) -> L2Counters:
        """Of the L2."""


class _Burst:
    __slots__ = ("bytes", "end", "left", "tag", "transfer")

    def __init__(self, size: int, tag: int, transfer: _Transfer | None) -> None:
        self.bytes, self.tag, self.transfer = size, tag, transfer
        self.end = 0
        self.left = 0  # pieces not yet served (write, bench) or not yet delivered (read)


class _Fill(_Burst):
    """A line on its way from DRAM to the L2, and the pieces of ports that wait for it, in order."""

    __slots__ = ("line", "waiting")

    def __init__(self, tag: int, line: int, size: int) -> None:
        super().__init__(size, tag, None)
        self.line = line
        self.waiting: list[_Piece] = []


class _Piece:
    """What one channel serves in one go: part of one row."""

    __slots__ = ("arrival", "bank", "burst", "bytes", "count", "done", "first", "port", "row", "skipped", "write")

    def __init__(self, arrival: int, size: int, write: bool, burst: _Burst, port: int) -> None:
        self.arrival, self.bytes, self.write, self.burst, self.port = arrival, size, write, burst, port
        self.bank = self.row = self.first = self.count = self.skipped = 0
        self.done = -1


@dataclass(slots=True, eq=False)
class _Transfer:
    floor: int  # units
    start: int
    write: bool
    cached: bool
    opened: bool
    address: int
    run: int
    n: list[int]
    stride: list[int]
    at: list[int] = field(default_factory=lambda: [0, 0, 0])  # where issuing has come to
    offset: int = 0
    total: int = 0  # bytes
    moved: int = 0
    bursts: int = 0  # issued, not done (write)
    end: int = 0
    issued: bool = False
    announced: bool = False


class _Port:
    __slots__ = ("blocked", "bytes", "clock", "event", "flight", "free", "issuing", "moving", "pieces", "response")

    def __init__(self) -> None:
        self.issuing: deque[_Transfer] = deque()
        self.moving: deque[_Transfer] = deque()
        self.flight: deque[_Burst] = deque()
        self.pieces: deque[_Piece] = deque()
        self.bytes = self.clock = self.free = self.response = 0
        self.event = NEVER
        self.blocked = False


@dataclass(slots=True)
class _Refresh:
    """One that later commands can still meet."""

    banks: range
    floor: int  # not before, for what was there before
    precharges: list[int]  # clocks
    ready: int = 0
    sent: int = 0


class _Channel:
    def __init__(self, c: Config, number: int) -> None:
        self.queue: tuple[list[_Piece], list[_Piece]] = ([], [])  # reads, writes, by arrival
        self.row = [-1] * c.banks
        self.act, self.pre_ok = [LONG_AGO] * c.banks, [LONG_AGO] * c.banks
        self.ready = [0] * c.banks
        self.group_act, self.group_col = [LONG_AGO] * c.groups, [LONG_AGO] * c.groups
        self.group_write = [LONG_AGO] * c.groups
        self.acts, self.cols = [LONG_AGO] * 4, [0] * c.window
        self.act_at = self.col_at = 0
        self.last_act = self.last_col = self.last_read = self.last_write = LONG_AGO
        first = c.refresh_interval * (number + 1) // c.channels if c.stagger else c.refresh_interval
        self.next_refresh = first if c.refresh_groups else NEVER
        self.refreshed = 0  # groups of banks that have had their turn in this round, a bit each
        self.refs: list[_Refresh] = []
        self.last_ref = LONG_AGO
        self.used = [LONG_AGO] * c.banks  # the last column of the last piece in this bank
        self.newest = 0  # a bank of the piece that entered last
        self.bus, self.base = 0, 0  # taken slots of the bus that rows' commands go over, a bit a clock from `base` on
        self.event = NEVER
        self.run = 0
        self.write = 0
        self.bytes = [0, 0]
        self.hits = self.misses = self.conflicts = 0
        self.refreshes = self.refresh_wait = self.turnaround = self.turns = self.last = 0


class PythonCore:
    """See `Core`."""

    def __init__(self, config: Config) -> None:
        self.config = c = config
        self.ports = [_Port() for _ in range(c.ports)]
        self.channels = [_Channel(c, i) for i in range(c.channels)]
        self.heap: list[tuple[int, int, int, int, int]] = []
        self.sequence = 0
        self.sets: list[dict[int, _Fill | None]] = [{} for _ in range(c.l2_sets)]
        # of each set its lines, the least recently used first; None: it is there
        self.fills: dict[int, _Fill] = {}
        self.fill_count = 0
        self.slices = [0] * c.l2_slices  # when each is free
        self.l2_hits = self.l2_merged = self.l2_misses = self.l2_bytes = 0

    def due(self) -> int:
        return -(-self.heap[0][0] // self.config.cycle) if self.heap else NEVER

    def counters(self) -> list[Counters]:
        return [
            Counters(
                x.bytes[0],
                x.bytes[1],
                x.hits,
                x.misses,
                x.conflicts,
                x.refreshes,
                x.refresh_wait,
                x.turnaround,
                x.turns,
                x.last,
            )
            for x in self.channels
        ]

    def l2(self) -> L2Counters:
        return L2Counters(self.l2_hits, self.l2_merged, self.l2_misses, self.l2_bytes)

    def _push(self, time: int, kind: int, who: int, note: int = 0) -> None:
        heapq.heappush(self.heap, (time, self.sequence, kind, who, note))
        self.sequence += 1

    def step(self, limit: int) -> tuple[Note, int, int]:
        cycle = self.config.cycle
        end = limit * cycle
        while self.heap and self.heap[0][0] <= end:
            time, _, kind, who, note = heapq.heappop(self.heap)
            if kind == _ISSUE:
                if time == self.ports[who].event:
                    self._issue(who, time)
            elif kind == _PICK:
                if time == self.channels[who].event:
                    self._pick(who, time)
            elif kind == _FILLED:
                self._filled(self.fills.pop(who), time)
            else:
                return Note(note), -(-time // cycle), who
        return Note.NONE, limit, 0

    # Ports

    def request(
        self,
        cycle: int,
        port: int,
        write: bool,
        floor: int,
        address: int,
        inner: int,
        n: Sequence[int],
        stride: Sequence[int],
        cached: bool = False,
    ) -> int:
        c = self.config
        cached = cached and not write and c.l2_sets > 0
        t = _Transfer(floor * c.cycle, cycle * c.cycle, write, cached, write, address, inner, list(n), list(stride))
        for d in range(3):  # runs without a gap are one
            if t.n[d] != 1 and t.stride[d] != t.run:
                break
            t.run *= t.n[d]
            t.n[d] = 1
        if address % c.beat == 0 and all(k == 1 or s % c.beat == 0 for k, s in zip(t.n, t.stride, strict=True)):
            t.total = t.n[0] * t.n[1] * t.n[2] * (-(-t.run // c.beat) * c.beat)
        else:
            t.total = 0
            for i3 in range(t.n[2]):
                for i2 in range(t.n[1]):
                    for i1 in range(t.n[0]):
                        a = address + i1 * t.stride[0] + i2 * t.stride[1] + i3 * t.stride[2]
                        t.total += -(-(a + t.run) // c.beat) * c.beat - a // c.beat * c.beat
        p = self.ports[port]
        p.issuing.append(t)
        p.moving.append(t)
        if not p.blocked:
            self._wake(port, max(t.start, p.clock))
        return self.due()

    def open(self, cycle: int, port: int) -> int:
        p = self.ports[port]
        p.moving[0].opened = True
        now = cycle * self.config.cycle
        p.free = max(p.free, now)
        self._deliver(port, now)
        return self.due()

    def submit(self, cycle: int, address: int, size: int, write: bool, tag: int) -> int:
        self._enqueue(
            cycle * self.config.cycle + self.config.request, address, size, write, _Burst(size, tag, None), -1
        )
        return self.due()

    def _wake(self, port: int, time: int) -> None:
        p = self.ports[port]
        if time < p.event:
            p.event = time
            self._push(time, _ISSUE, port)

    def _issue(self, port: int, now: int) -> None:
        """Send the next burst of the port, if its credits allow it now."""
        c, p = self.config, self.ports[port]
        p.event = NEVER
        if not p.issuing:
            return
        t = p.issuing[0]
        address = t.address + t.at[0] * t.stride[0] + t.at[1] * t.stride[1] + t.at[2] * t.stride[2]
        end = -(-(address + t.run) // c.beat) * c.beat
        address = address // c.beat * c.beat + t.offset
        size = min(end, (address // c.burst + 1) * c.burst) - address
        time = max(now, p.clock, t.start)
        while p.flight and (len(p.flight) >= c.outstanding or p.bytes + size > c.buffer):
            oldest = p.flight[0]
            if oldest.left:
                p.blocked = True  # until its end is known
                return
            time = max(time, oldest.end)
            p.bytes -= oldest.bytes
            p.flight.popleft()
        if time > now:
            self._wake(port, time)
            return
        t.offset += size
        if address + size == end:
            t.offset = 0
            for d in range(3):
                t.at[d] += 1
                if t.at[d] < t.n[d]:
                    break
                t.at[d] = 0
            else:
                t.issued = True
        burst = _Burst(size, 0, t)
        p.flight.append(burst)
        p.bytes += size
        t.bursts += 1
        if t.cached:
            self._look_up(port, burst, now, address, size)
        else:
            self._emit(port, burst, now, address, size)
        p.clock = max(now + c.cycle, p.free) if t.write else now + c.cycle
        if t.issued:
            p.issuing.popleft()
            if t.write:
                self._push(p.free, _NOTE, port, Note.LAST)
        if p.issuing:
            self._wake(port, p.clock)

    def _emit(self, port: int, burst: _Burst, now: int, address: int, size: int) -> None:
        """Split a burst where it changes channel or row."""
        c, p, t = self.config, self.ports[port], burst.transfer
        assert t is not None
        step = min(c.interleave, c.stripe * c.page)
        stop = address + size
        while address < stop:
            end = min(stop, (address // step + 1) * step)
            n = end - address
            if t.write:  # the data follow each other through the port
                p.free = max(p.free, now) + (t.moved + n) * t.floor // t.total - t.moved * t.floor // t.total
                t.moved += n
                self._enqueue(p.free + c.request, address, n, True, burst, port)
            else:
                self._enqueue(now + c.request, address, n, False, burst, port)
            address = end

    def _look_up(self, port: int, burst: _Burst, now: int, address: int, size: int) -> None:
        """Ask the L2 for a burst, line by line."""
        c = self.config
        stop = address + size
        while address < stop:
            line = address // c.l2_line
            end = min(stop, (line + 1) * c.l2_line)
            piece = _Piece(now, end - address, False, burst, port)
            self.ports[port].pieces.append(piece)
            burst.left += 1
            lines = self.sets[line % c.l2_sets]
            if line in lines:
                fill = lines[line] = lines.pop(line)  # now the most recently used
                if fill is None:
                    self.l2_hits += 1
                    self._slice(piece, line, now, c.l2_latency)
                else:
                    self.l2_merged += 1
                    fill.waiting.append(piece)
            else:
                self.l2_misses += 1
                if len(lines) == c.l2_ways:
                    del lines[next(iter(lines))]
                fill = lines[line] = self.fills[self.fill_count] = _Fill(self.fill_count, line, c.l2_line)
                self.fill_count += 1
                fill.waiting.append(piece)
                self._enqueue(now + c.request, line * c.l2_line, c.l2_line, False, fill, _L2)
            address = end
        self._deliver(port, now)

    def _slice(self, piece: _Piece, line: int, now: int, way: int) -> None:
        """A piece passes the slice of its line, first come, first served, and is at its port `way` later."""
        c, s = self.config, line % self.config.l2_slices
        self.slices[s] = max(now, self.slices[s]) - (-piece.bytes // c.l2_rate) * c.cycle
        piece.done = self.slices[s] + way
        self.l2_bytes += piece.bytes

    def _filled(self, fill: _Fill, now: int) -> None:
        """A line is there: it stays, unless another has taken its place, and goes to all who wait."""
        lines = self.sets[fill.line % self.config.l2_sets]
        if lines.get(fill.line) is fill:
            lines[fill.line] = None
        for piece in fill.waiting:
            self._slice(piece, fill.line, now, self.config.response)
            self._deliver(piece.port, now)

    def _deliver(self, port: int, now: int) -> None:
        """Pass read data through the port, in order, as far as their times are known."""
        p = self.ports[port]
        while p.pieces and p.pieces[0].done >= 0:
            t, piece = p.moving[0], p.pieces[0]
            if not t.opened:
                if not t.announced:
                    t.announced = True
                    self._push(max(piece.done, p.free), _NOTE, port, Note.FIRST)
                return
            p.free = max(p.free, piece.done)
            p.free += (t.moved + piece.bytes) * t.floor // t.total - t.moved * t.floor // t.total
            t.moved += piece.bytes
            p.pieces.popleft()
            burst = piece.burst
            burst.left -= 1
            if not burst.left:
                burst.end = p.free
                if p.blocked:
                    p.blocked = False
                    self._wake(port, now)
            if t.moved == t.total:
                self._push(p.free, _NOTE, port, Note.LAST)
                p.moving.popleft()

    def _served(self, piece: _Piece, done: int, now: int) -> None:
        c, burst = self.config, piece.burst
        if piece.port >= 0 and not piece.write:
            piece.done = done + c.response
            self._deliver(piece.port, now)
            return
        if piece.port == _L2:
            burst.end = max(burst.end, done)
            burst.left -= 1
            if not burst.left:
                self._push(burst.end, _FILLED, burst.tag)
            return
        burst.end = max(burst.end, done + c.response)
        burst.left -= 1
        if burst.left:
            return
        if piece.port < 0:
            self._push(burst.end, _NOTE, burst.tag, Note.DONE)
            return
        p, t = self.ports[piece.port], burst.transfer
        assert t is not None
        t.bursts -= 1
        t.end = max(t.end, burst.end)
        if p.blocked:
            p.blocked = False
            self._wake(piece.port, now)
        while p.moving and p.moving[0].issued and not p.moving[0].bursts:
            p.response = max(p.response, p.moving.popleft().end)
            self._push(p.response, _NOTE, piece.port, Note.RESPONSE)

    # Channels

    def _enqueue(self, arrival: int, address: int, size: int, write: bool, burst: _Burst, port: int) -> None:
        """Give the parts of [address, address + size) to their channels."""
        c = self.config
        step = min(c.interleave, c.stripe * c.page)
        stop = address + size
        while address < stop:
            end = min(stop, (address // step + 1) * step)
            piece = _Piece(arrival, end - address, write, burst, port)
            block, inside = divmod(address, c.interleave)
            above = block // c.channels
            number = block % c.channels
            if c.channel_hash and c.channels > 1:
                x = above
                while x:
                    number ^= x % c.channels
                    x //= c.channels
            local = above * c.interleave + inside
            first = local // c.access
            piece.first = first % c.stripe
            piece.count = -(-(local + piece.bytes) // c.access) - first
            page, banks = local // (c.stripe * c.page), c.banks // c.stripe
            if c.bank_major:
                piece.row, bank = page % c.rows, page // c.rows % banks
            else:
                piece.row, bank = page // banks, page % banks
            if c.bank_xor:
                bank ^= piece.row % banks
            piece.bank = bank * c.stripe
            burst.left += 1
            if port >= 0 and not write:
                self.ports[port].pieces.append(piece)
            channel = self.channels[number]
            queue = channel.queue[write]
            at = len(queue)
            while at and queue[at - 1].arrival > arrival:
                at -= 1
            queue.insert(at, piece)
            self._schedule(number, max(arrival, channel.cols[channel.col_at] * c.tick))
            address = end

    def _schedule(self, number: int, time: int) -> None:
        channel = self.channels[number]
        if time < channel.event:
            channel.event = time
            self._push(time, _PICK, number)

    def _pick(self, number: int, now: int) -> None:
        """Take the next piece into the window, serve it, and look when the next one may follow."""
        c, x = self.config, self.channels[number]
        x.event = NEVER
        reads, writes = x.queue
        have = (bool(reads) and reads[0].arrival <= now, bool(writes) and writes[0].arrival <= now)
        way = x.write
        if not have[way] or (x.run >= c.batch and have[1 - way]):
            way = 1 - way
        if have[way]:
            if way != x.write:
                x.write, x.run = way, 0
                x.turns += 1
            x.run += 1
            clock = -(-now // c.tick)
            self._forget(x, clock)
            if x.next_refresh <= clock:
                self._refresh(x, clock)
            queue, at = x.queue[way], 0
            if queue[0].skipped < c.batch:
                for i in range(min(c.reorder, len(queue))):
                    if queue[i].arrival > now:
                        break
                    if self._hit(x, queue[i]):
                        at = i
                        break
            if at:
                queue[0].skipped += 1
            piece = queue.pop(at)
            self._served(piece, self._serve(x, piece, clock) * c.tick, now)
        first = min(reads[0].arrival if reads else NEVER, writes[0].arrival if writes else NEVER)
        if first < NEVER:
            self._schedule(number, max(now, first, x.cols[x.col_at] * c.tick))

    def _hit(self, x: _Channel, piece: _Piece) -> bool:
        k = self.config.stripe
        return all(x.row[piece.bank + (piece.first + j) % k] == piece.row for j in range(min(k, piece.count)))

    def _forget(self, x: _Channel, now: int) -> None:
        """Drop what no command from clock `now` on, nor the next refresh, can meet."""
        base = min(now, x.next_refresh)
        x.bus >>= base - x.base
        x.base = base
        while x.refs and x.refs[0].sent + self.config.pbr2act <= now:
            x.refs.pop(0)

    @staticmethod
    def _free(x: _Channel, at: int) -> int:
        """The first free slot of the command bus from clock `at` on."""
        free = ~(x.bus >> at - x.base)
        return at + (free & -free).bit_length() - 1

    def _take(self, x: _Channel, at: int, slots: int = 1) -> int:
        """Take the first free slots of the command bus from clock `at` on; the clock of the first."""
        first = self._free(x, at)
        x.bus |= 1 << first - x.base
        at = first
        for _ in range(slots - 1):
            at = self._free(x, at + 1)
            x.bus |= 1 << at - x.base
        return first

    def _refresh(self, x: _Channel, now: int) -> None:
        """All refreshes that are due by clock `now`: after the pieces that entered before, before all later ones."""
        c = self.config
        around = c.refresh_groups * c.refresh_interval
        size = c.banks // c.refresh_groups
        while x.next_refresh <= now:
            if x.next_refresh > x.last_col and now - x.next_refresh >= 2 * around:
                rounds = (now - x.next_refresh) // around - 1  # an idle channel: whole rounds go by
                x.next_refresh += rounds * around
                x.refreshes += rounds * c.refresh_groups
                for b in range(c.banks):
                    if x.row[b] >= 0:
                        x.row[b] = -1
                        x.ready[b] = max(x.ready[b], x.pre_ok[b] + c.rp)
                self._forget(x, now)
            due, best, soonest = x.next_refresh, 0, NEVER
            group = x.newest // size
            for _ in range(c.refresh_groups):  # one that no piece needs, behind the stream first, else soonest free
                group = (group or c.refresh_groups) - 1
                until = max(due - 1, *x.used[group * size : (group + 1) * size])
                if not x.refreshed >> group & 1 and until < soonest:
                    best, soonest = group, until
            x.refreshed |= 1 << best
            if x.refreshed == (1 << c.refresh_groups) - 1:
                x.refreshed = 0
            banks = range(best * size, (best + 1) * size)
            opened = [b for b in banks if x.row[b] >= 0]
            floor = max(due, x.last_ref + c.pbr2pbr, x.last_act + c.rrd_s, *(x.ready[b] for b in banks))
            r = _Refresh(banks, floor, [])
            if opened and c.refresh_groups == 1:  # one command for all
                r.precharges.append(self._take(x, max(due, *(x.pre_ok[b] for b in opened))))
            else:
                r.precharges += [self._take(x, max(due, x.pre_ok[b])) for b in opened]
            x.refs.append(r)
            self._send(x, r)
            for b in banks:
                x.row[b] = -1
            x.next_refresh += c.refresh_interval
            x.refreshes += 1

    def _send(self, x: _Channel, r: _Refresh) -> None:
        """Find the slot of a refresh command."""
        r.ready = max(r.floor, *(at + self.config.rp for at in r.precharges)) if r.precharges else r.floor
        r.sent = x.last_ref = self._take(x, r.ready)
        for b in r.banks:
            x.ready[b] = r.sent + self.config.rfc

    def _columns(self, x: _Channel, cols: list[int]) -> None:
        """Columns take their slots of the one bus; commands for rows that wanted them go later."""
        met = []
        for col in cols:
            slot = 1 << col - x.base
            if x.bus & slot:
                met.append(col)
            x.bus |= slot
        for at in met:
            for i, r in enumerate(x.refs):
                if at in r.precharges:
                    r.precharges[r.precharges.index(at)] = self._take(x, at + 1)
                    x.bus &= ~(1 << r.sent - x.base)
                elif at != r.sent:
                    continue
                else:
                    r.floor = max(r.floor, at)
                self._send(x, r)
                for before, after in zip(x.refs[i:], x.refs[i + 1 :], strict=False):
                    x.bus &= ~(1 << after.sent - x.base)
                    after.floor = max(after.floor, before.sent + self.config.pbr2pbr)
                    self._send(x, after)
                break
            else:  # the second slot of the piece's own activation
                self._take(x, at + 1)

    def _activate(self, x: _Channel, at: int) -> int:
        """When an activation that is allowed from clock `at` on goes over the bus, clear of per-bank refreshes."""
        c = self.config
        at = self._free(x, at)
        for r in x.refs:
            if r.ready - c.rrd_s < at < r.sent + c.pbr2act:
                at = self._free(x, r.sent + c.pbr2act)
        return self._take(x, at, c.act_clocks)

    def _serve(self, x: _Channel, piece: _Piece, now: int) -> int:
        """Commands of one piece from clock `now` on; the clock after its last data."""
        c = self.config
        at = max(now, x.last_col + c.ccd_s)
        write, k = piece.write, c.stripe
        step = c.ccd_s if k > 1 else c.ccd_l
        banks = min(k, piece.count)
        rcd = c.rcd_write if write else c.rcd_read
        tail = c.wl + c.bl
        turn = x.last_read + c.rtw if write else x.last_write + tail + c.wtr_s
        col = plain = at - step  # the columns so far, and where they would be had the bus never turned round
        wait = 0
        cols = []
        for j in range(banks):
            b = piece.bank + (piece.first + j) % k
            g = b % c.groups
            if x.row[b] != piece.row:
                if x.row[b] >= 0:
                    act = self._take(x, max(now, x.pre_ok[b])) + c.rp
                    x.conflicts += 1
                else:
                    act = max(now, x.ready[b])
                    wait = max(wait, x.ready[b] - at)
                    x.misses += 1
                act = max(act, x.act[b] + c.rc, x.last_act + c.rrd_s, x.group_act[g] + c.rrd_l)
                act = self._activate(x, max(act, x.acts[x.act_at] + c.faw))
                x.row[b] = piece.row
                x.act[b] = x.last_act = x.group_act[g] = x.acts[x.act_at] = act
                x.act_at = (x.act_at + 1) % 4
                x.pre_ok[b] = act + c.ras
                x.hits -= 1
            first = max(x.act[b] + rcd, x.group_col[g] + c.ccd_l)
            plain = max(plain + step, first)
            col = max(col + step, first, turn)
            if not write:
                col = max(col, x.group_write[g] + tail + c.wtr_l)
            cols.append(col)
        x.refresh_wait += wait
        x.turnaround += col - plain
        x.hits += piece.count
        last = col + (piece.count - banks) * step
        if c.one_bus:
            self._columns(x, [*cols, *range(cols[-1] + step, last + 1, step)])
        recover = tail + c.wr if write else c.rtp
        for j in range(banks):
            b = piece.bank + (piece.first + j) % k
            g = b % c.groups
            at = j + (piece.count - 1 - j) // k * k  # the last column of this bank
            col = last - (piece.count - 1 - at) * step if at >= banks else cols[j]
            x.group_col[g] = col
            if write:
                x.group_write[g] = col
            x.pre_ok[b] = max(x.pre_ok[b], col + recover)
            x.used[b] = last
        x.newest = piece.bank
        x.last_col = last
        if write:
            x.last_write = last
        else:
            x.last_read = last
        x.cols[x.col_at] = last
        x.col_at = (x.col_at + 1) % c.window
        x.bytes[write] += piece.bytes
        done = last + (c.wl if write else c.rl) + c.bl
        x.last = max(x.last, done)
        return done
