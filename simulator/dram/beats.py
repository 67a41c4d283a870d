"""One channel, clock by clock and command by command: the judge of the closed form. Slow; for traces of some 1,000s.

Every clock it looks at every rule again: which PRE, ACT, REF, RD or WR may go on the command bus now. It knows more
than the closed form (each clock of the command bus, each column by itself) and follows the same policy: who enters the
window, activations and columns in window order, a refresh behind the pieces that entered before it was due, commands
for rows by age.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from .core import LONG_AGO
from .params import DramFile, config

Request = tuple[int, int, int, bool]
"""(clock of arrival, address, bytes, write)."""


@dataclass
class _Piece:
    arrival: int
    row: int
    banks: list[int]  # of each column access
    write: bool
    need: dict[int, bool] = field(default_factory=dict)  # bank: still to be activated
    at: int = 0  # column accesses done
    number: int = 0  # of pieces that entered the window before it
    skipped: int = 0


@dataclass
class _Refresh:
    number: int  # of pieces that entered the window before it
    banks: range


class Beats:
    """See the head of the file. The parameters must name one channel."""

    def __init__(self, file: DramFile) -> None:
        self.c = c = config(file, file.clock, 0)
        if c.channels != 1:
            raise ValueError(f"{c.channels} channels: this model has one")
        self.one_bus = file.number("command_buses") == 1
        self.act_clocks = file.number("act_clocks")
        self.row, self.projected = [-1] * c.banks, [-1] * c.banks
        self.act, self.pre = [LONG_AGO] * c.banks, [LONG_AGO] * c.banks
        self.blocked = [0] * c.banks  # by a refresh, until then
        self.read, self.written = [LONG_AGO] * c.banks, [LONG_AGO] * c.banks
        self.acts: deque[tuple[int, int]] = deque([(LONG_AGO, 0)] * 4, 4)  # (clock, bank)
        self.columns: deque[tuple[int, int, bool]] = deque(maxlen=64)  # (clock, bank, write), newest first
        self.last = [LONG_AGO, LONG_AGO]  # read, write
        self.window: list[_Piece] = []
        self.queues: tuple[deque[_Piece], deque[_Piece]] = (deque(), deque())
        self.way = self.run_length = 0
        self.next_refresh = c.refresh_interval or 1 << 60
        self.refreshes: list[_Refresh] = []
        self.refreshed: set[int] = set()
        self.last_refresh = LONG_AGO
        self.entered = 0  # pieces, into the window
        self.newest = 0  # the first bank of the last of them
        self.commands: list[tuple[int, str, int]] = []  # (clock, PRE, ACT, RD, WR or REF, the first bank)
        self.bus_until = 0  # data pins
        self.row_busy = 0  # command slots that a two-clock ACT still needs
        self.busy_for = 0  # the number of its piece

    def pieces(self, requests: Sequence[Request]) -> list[_Piece]:
        """Requests cut at row borders, in order of arrival."""
        c = self.c
        found = []
        step = min(c.interleave, c.stripe * c.page)
        for arrival, address, size, write in sorted(requests, key=lambda r: r[0]):
            stop = address + size
            while address < stop:
                end = min(stop, (address // step + 1) * step)
                units = range(address // c.access, -(-end // c.access))
                page, banks = address // (c.stripe * c.page), c.banks // c.stripe
                row, bank = (page % c.rows, page // c.rows % banks) if c.bank_major else divmod(page, banks)
                bank ^= row % banks if c.bank_xor else 0
                found.append(_Piece(arrival, row, [bank * c.stripe + u % c.stripe for u in units], write))
                address = end
        return found

    def run(self, requests: Sequence[Request]) -> int:
        """The clock after the last data."""
        waiting = deque(self.pieces(requests))
        clock = 0
        while waiting or self.window or any(self.queues):
            while waiting and waiting[0].arrival <= clock:
                piece = waiting.popleft()
                self.queues[piece.write].append(piece)
            if clock >= self.next_refresh:
                self.begin_refresh()
            self.fill()
            used = self.column(clock)
            self.fill()
            if not (used and self.one_bus):
                self.row_command(clock)
            clock += 1
        return self.bus_until

    def fill(self) -> None:
        while len(self.window) < self.c.window and self.enter():
            pass

    def enter(self) -> bool:
        """Let one waiting piece into the window."""
        c, have = self.c, [bool(q) for q in self.queues]
        if not any(have):
            return False
        way = self.way
        if not have[way] or (self.run_length >= c.batch and have[1 - way]):
            way = 1 - way
        self.run_length = self.run_length + 1 if way == self.way else 1
        self.way = way
        queue, at = self.queues[way], 0
        if queue[0].skipped < c.batch:
            for i, p in enumerate(list(queue)[: c.reorder]):
                if all(self.projected[b] == p.row for b in p.banks):
                    at = i
                    break
        if at:
            queue[0].skipped += 1
        piece = queue[at]
        del queue[at]
        for b in piece.banks:
            if b not in piece.need:
                piece.need[b] = self.projected[b] != piece.row
                self.projected[b] = piece.row
        piece.number, self.newest = self.entered, piece.banks[0]
        self.entered += 1
        self.window.append(piece)
        return True

    # Refresh

    def begin_refresh(self) -> None:
        """A refresh is due: choose its banks. Pieces that enter from now on find their rows closed."""
        c = self.c
        size = c.banks // c.refresh_groups
        own = self.newest // size
        order = [(own - i - 1) % c.refresh_groups for i in range(c.refresh_groups)]
        last_use = {p.banks[0] // size: i for i, p in enumerate(self.window)}
        group = min((g for g in order if g not in self.refreshed), key=lambda g: last_use.get(g, -1))
        self.refreshed.add(group)
        if len(self.refreshed) == c.refresh_groups:
            self.refreshed.clear()
        banks = range(group * size, group * size + size)
        for b in banks:
            self.projected[b] = -1
        self.refreshes.append(_Refresh(self.entered, banks))
        self.next_refresh += c.refresh_interval

    def stopped(self, bank: int, piece: _Piece) -> bool:
        """Whether a due refresh of the bank comes before the piece."""
        return any(bank in r.banks and r.number <= piece.number for r in self.refreshes)

    def may_precharge(self, b: int, clock: int) -> bool:
        c = self.c
        recovered = self.written[b] + c.wl + c.bl + c.wr
        return clock >= max(self.act[b] + c.ras, self.read[b] + c.rtp, recovered)

    def refresh_command(self, r: _Refresh, clock: int) -> bool:
        """PRE or REF of a due refresh."""
        c = self.c
        older = [p for p in self.window if p.number < r.number]
        free = [b for b in r.banks if not any(b in p.banks[p.at :] for p in older)]
        opened = [b for b in r.banks if self.row[b] >= 0]
        ready = [b for b in free if self.row[b] >= 0 and self.may_precharge(b, clock)]
        if ready and (c.refresh_groups > 1 or ready == opened):  # one command for all banks, or for one
            self.precharge(ready if c.refresh_groups == 1 else ready[:1], clock)
            return True
        if len(free) < len(r.banks) or clock < self.refresh_ready(r, older):
            return False
        for b in r.banks:
            self.blocked[b] = clock + c.rfc
        self.last_refresh = clock
        self.commands.append((clock, "REF", r.banks.start))
        self.refreshes.remove(r)
        return True

    def precharge(self, banks: list[int], clock: int) -> None:
        for b in banks:
            self.row[b], self.pre[b] = -1, clock
            self.commands.append((clock, "PRE", b))

    def refresh_ready(self, r: _Refresh, older: list[_Piece]) -> int:
        """The first clock of REF, as far as that is known: after those before it, and after older activations."""
        c = self.c
        if (
            r is not self.refreshes[0]
            or any(self.row[b] >= 0 for b in r.banks)
            or any(any(p.need.values()) for p in older)
        ):
            return 1 << 60
        idle = max(max(self.pre[b] + c.rp, self.blocked[b]) for b in r.banks)
        return max(idle, self.last_refresh + c.pbr2pbr, self.acts[0][0] + c.rrd_s)

    # Commands

    def row_command(self, clock: int) -> None:
        """At most one of PRE, ACT, REF: the oldest that may go."""
        if self.row_busy:  # ACT-2 of LPDDR5 may come some clocks after ACT-1; HBM2 has one command of two clocks
            between = [r for r in self.refreshes if self.one_bus and r.number <= self.busy_for]
            if not any(self.refresh_command(r, clock) for r in between):
                self.row_busy -= 1
            return
        claimed: set[int] = set()  # banks that an earlier piece still uses
        in_order = True
        refreshes = deque(self.refreshes)
        for piece in self.window:
            while refreshes and refreshes[0].number <= piece.number:
                if self.refresh_command(refreshes.popleft(), clock):
                    return
            for b in dict.fromkeys(piece.banks[piece.at :]):
                if piece.need[b] and not self.stopped(b, piece):
                    if self.row[b] >= 0:
                        if b not in claimed and self.may_precharge(b, clock):
                            self.precharge([b], clock)
                            return
                    elif in_order and b not in claimed and self.may_activate(b, piece, clock):
                        self.row[b], self.act[b] = piece.row, clock
                        self.acts.appendleft((clock, b))
                        self.commands.append((clock, "ACT", b))
                        piece.need[b] = False
                        self.row_busy, self.busy_for = self.act_clocks - 1, piece.number
                        return
                    in_order = False
                elif piece.need[b]:
                    in_order = False
                claimed.add(b)
        while refreshes:
            if self.refresh_command(refreshes.popleft(), clock):
                return

    def may_activate(self, b: int, piece: _Piece, clock: int) -> bool:
        c = self.c
        if clock < max(self.act[b] + c.rc, self.pre[b] + c.rp, self.blocked[b], self.acts[3][0] + c.faw):
            return False
        if clock < self.last_refresh + c.pbr2act:
            return False
        for r in self.refreshes:  # REF is about to go: an activation now would put it off
            if r.number <= piece.number and clock + c.rrd_s > self.refresh_ready(r, []):
                return False
        same = b % c.groups
        return all(clock >= at + (c.rrd_l if k % c.groups == same else c.rrd_s) for at, k in self.acts)

    def column(self, clock: int) -> bool:
        """The next column access of the oldest piece, if all rules allow it now."""
        if not self.window:
            return False
        c, piece = self.c, self.window[0]
        b = piece.banks[piece.at]
        rcd = c.rcd_write if piece.write else c.rcd_read
        if piece.need[b] or self.row[b] != piece.row or clock < self.act[b] + rcd:
            return False
        group = b % c.groups
        for at, k, write in self.columns:
            same = k % c.groups == group
            gap = c.ccd_l if same else c.ccd_s
            if write and not piece.write:
                gap = max(gap, c.wl + c.bl + (c.wtr_l if same else c.wtr_s))
            elif piece.write and not write:
                gap = max(gap, c.rtw)
            if clock < at + gap:
                return False
        data = clock + (c.wl if piece.write else c.rl)
        if data < self.bus_until:
            raise AssertionError(f"two bursts on the data pins at clock {data}")
        self.bus_until = data + c.bl
        self.columns.appendleft((clock, b, piece.write))
        self.commands.append((clock, "WR" if piece.write else "RD", b))
        (self.written if piece.write else self.read)[b] = clock
        piece.at += 1
        if piece.at == len(piece.banks):
            self.window.pop(0)
        return True
