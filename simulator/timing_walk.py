"""Where an MM word reads in each cycle, for the timing model: the walk of rtl/doc/dpu_mxu.md, computed when asked."""

from __future__ import annotations

from dataclasses import dataclass

from .plan import MmWork


@dataclass
class Walk:
    """The reads of one MM word at the port of ACT or of ACC: an address a cycle, weight tile after weight tile.

    Reductions are walked innermost, over (ky, kx, c), then columns; a tile reads `rows` addresses, (y, x), and takes
    `each` cycles. ACC is read only for tiles that add to sums that are there.
    """

    begin: int  # cycle of the first tile's first address
    end: int  # cycle behind the last tile
    each: int
    low: int  # banks that the word touches
    high: int
    size: int  # words of a bank
    act: bool  # else ACC
    work: MmWork

    def touches(self, bank: int) -> bool:
        """Whether it may use this bank."""
        return self.low <= bank <= self.high

    def segment(self, t: float) -> tuple[int, float]:
        """The bank that is read in cycle `t`, or -1, and the cycle from which on that may be another one."""
        w = self.work
        start = self.end - w.tiles * self.each
        j = min(max(int(t) - start, 0) // self.each, w.tiles - 1)
        start += j * self.each
        row = max(int(t) - start, 0)
        n, k = j // w.k, j % w.k
        if not self.act and not w.adds and not k:
            return -1, start + self.each
        if row >= w.rows:
            return -1, start + self.each
        if self.low == self.high:
            if w.rows < self.each:
                return self.low, start + w.rows
            return self.low, self.end if self.act or w.adds else start + (w.k - k) * self.each
        if not self.act:
            first = w.first + n * w.an
            bank = (first + row) // self.size
            return bank, start + min(w.rows, (bank + 1) * self.size - first)
        c, rest = k % w.nc, k // w.nc
        base = w.act + c * w.sc + rest % w.nkx * w.skx + rest // w.nkx * w.sky
        y, x = row // w.nx, row % w.nx
        line, reach = base + y * w.sy, (w.nx - 1) * w.sx
        bank = (line + x * w.sx) // self.size
        limit = (bank + 1) * self.size
        if line + reach >= limit:  # the bank changes in this line
            return bank, start + row + -(-(limit - line - x * w.sx) // w.sx)
        if line < bank * self.size:  # it did
            return bank, start + (y + 1) * w.nx
        last = w.rows // w.nx - 1
        if w.sy:
            last = min(last, (limit - 1 - reach - base) // w.sy)
        return bank, start + (last + 1) * w.nx
