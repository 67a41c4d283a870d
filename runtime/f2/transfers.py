"""Device memory to and from this computer, in pieces, and never believed once.

What was written is read back and compared; what is read is read twice. While the card moves one piece, this computer
deals with the one before. A piece that is wrong is moved again, a few times.
"""

from __future__ import annotations

import threading

import numpy as np

from ...ir.f2_regmap import BEAT
from ..device import Bytes
from .bus import Bus
from .card import CardFault, Fault
from .readers import Reader

_TRIES = 4
_Pair = tuple[int, int, Bytes | None, Bytes | None]
"""A piece and two copies of it, None in place of one that failed."""


class Transfers:
    """Moves ranges of whole beats; one at a time, from any thread."""

    def __init__(self, bus: Bus, reader: Reader) -> None:
        self.reader = reader
        self.sent = self.received = 0  # bytes that callers asked for
        self._bus = bus
        self._lock = threading.RLock()
        self._fault = CardFault(Fault.TRANSFER, "no copy has failed")

    def read(self, address: int, size: int) -> Bytes:
        """A copy of device memory.

        Raises:
            CardFault: no two copies agree, or the card does not answer.
        """
        found = np.empty(size, np.uint8)
        wrong: list[tuple[int, int]] = []
        with self._lock:
            pending: _Pair | None = None
            for i, (at, n) in enumerate(self._pieces(size)):
                pair = i % 2 * 2
                self.reader.begin(address + at, n, pair)
                wrong += self._agree(found, pending)
                first = self._end()
                self.reader.begin(address + at, n, pair + 1)
                pending = at, n, first, self._end()
            wrong += self._agree(found, pending)
            for at, n in wrong:
                found[at : at + n] = self._reread(address + at, n)
            self.received += size
        return found

    def write(self, address: int, data: Bytes) -> None:
        """Write device memory and see that it is there.

        Raises:
            CardFault: it never is, or the card does not answer.
        """
        assert address % BEAT == 0 and len(data) % BEAT == 0
        wrong: list[tuple[int, int]] = []
        with self._lock:
            before: tuple[int, int] | None = None
            for i, (at, n) in enumerate(self._pieces(len(data))):
                self._bus.burst(address + at, data[at : at + n])  # while the piece before comes back
                self._bus.fence(address + at)
                wrong += self._compare(data, before)
                self.reader.begin(address + at, n, i % 2)
                before = at, n
            wrong += self._compare(data, before)
            for at, n in wrong:
                self._rewrite(address + at, data[at : at + n])
            self.sent += len(data)

    def _pieces(self, size: int) -> list[tuple[int, int]]:
        chunk = self.reader.chunk
        return [(at, min(chunk, size - at)) for at in range(0, size, chunk)]

    def _compare(self, data: Bytes, piece: tuple[int, int] | None) -> list[tuple[int, int]]:
        if piece is None:
            return []
        at, n = piece
        found = self._end()
        if found is not None and np.array_equal(found, data[at : at + n]):
            return []
        self._bus.noise.sent += found is not None
        return [piece]

    def _end(self) -> Bytes | None:
        """What the reader read; None if it says that it may be asked again."""
        try:
            return self.reader.end()
        except CardFault as e:
            if not e.again:
                raise
            self._bus.noise.copies += 1
            self._fault = e
            return None

    def _agree(self, found: Bytes, pending: _Pair | None) -> list[tuple[int, int]]:
        """Keep a piece of which both copies agree; else name it."""
        if pending is None:
            return []
        at, n, one, other = pending
        if one is None or other is None:
            return [(at, n)]
        if not np.array_equal(one, other):
            self._bus.noise.received += 1
            return [(at, n)]
        found[at : at + n] = one
        return []

    def _reread(self, address: int, size: int) -> Bytes:
        before: Bytes | None = None
        for i in range(_TRIES):
            self.reader.begin(address, size, i % 4)
            found = self._end()
            if found is not None and before is not None and np.array_equal(before, found):
                return found
            before = found
        if before is None:
            raise self._fault
        what = f"{size} bytes of device memory at {address:#x} read differently each time"
        raise CardFault(Fault.TRANSFER, what)

    def _rewrite(self, address: int, data: Bytes) -> None:
        for i in range(_TRIES):
            self._bus.burst(address, data)
            self._bus.fence(address)
            self.reader.begin(address, len(data), i % 4)
            found = self._end()
            if found is not None and np.array_equal(found, data):
                return
        if found is None:
            raise self._fault
        what = f"{len(data)} bytes of device memory at {address:#x} are not what was written"
        raise CardFault(Fault.TRANSFER, what)
