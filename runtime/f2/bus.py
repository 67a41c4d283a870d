"""Registers of an attached card, read so that a dead bus, a lost write and a flipped bit are seen.

What decides anything is read until two reads agree; what can be read back is, after each write. All ones is what a bus
answers that nobody drives, so it is believed only while the identity of the custom logic still reads right.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from ...ir.f2_regmap import ALL_ONES, CL_MAGIC, HBM_BASE, cl
from ...ir.regmap import register
from ..device import Bytes
from .card import POWER_VIOLATION, Card, CardFault, Fault

_TRIES = 4
_PATTERNS = (0x5555AAAA, 0xAAAA5555, 0x00FF13F7, 0)


@dataclass
class Noise:
    """What was seen and mended without anybody losing work."""

    reads: int = 0
    """Registers that read differently the second time."""
    writes: int = 0
    """Registers that did not keep what was written at first."""
    sent: int = 0
    """Pieces of memory that were not what was written at first."""
    received: int = 0
    """Pieces of memory of which two copies differed."""
    copies: int = 0
    """Copies that ended in an error at first."""
    starts: int = 0
    """Starts that had no effect at first."""
    interrupts: int = 0
    """Ends of runs that no interrupt announced."""
    pauses: int = 0
    """Times that the tiles paused over a power warning."""
    resets: int = 0
    reloads: int = 0

    def text(self) -> str:
        """Those that happened."""
        return ", ".join(f"{n} {name}" for name, n in vars(self).items() if n)


class Bus:
    """The registers of `card`; `lock` is held for each access, and may be held for several."""

    def __init__(self, card: Card) -> None:
        self.card, self.noise = card, Noise()
        self.lock = threading.RLock()

    def look(self, address: int) -> int:
        """A register, read once: for what changes all the time.

        Raises:
            CardFault: the bus is dead, or why.
        """
        with self.lock:
            value = self.card.peek(address)
            if value == ALL_ONES and self.card.peek(cl("CL_ID")) != CL_MAGIC:
                raise self.why(f"register {address:#x} reads as all ones")
            return value

    def read(self, address: int) -> int:
        """A register, read until two reads agree.

        Raises:
            CardFault: the bus is dead, or no two reads agree.
        """
        with self.lock:
            before = self.look(address)
            for i in range(_TRIES):
                value = self.look(address)
                if value == before:
                    return value
                self.noise.reads += not i
                before = value
        raise CardFault(Fault.TRANSFER, f"register {address:#x} reads differently each time")

    def write(self, address: int, value: int) -> None:
        """Set a register that cannot be read back."""
        with self.lock:
            self.card.poke(address, value)

    def set(self, address: int, value: int) -> None:
        """Set a register and read it back.

        Raises:
            CardFault: the bus is dead, or the register does not keep the value.
        """
        with self.lock:
            for i in range(_TRIES):
                self.card.poke(address, value)
                if (found := self.read(address)) == value:
                    return
                self.noise.writes += not i
        raise CardFault(Fault.TRANSFER, f"register {address:#x} is {found:#x} after writing {value:#x}")

    def set_wide(self, low: int, value: int) -> None:
        """Set a register of 64 bits, LO at `low`."""
        self.set(low, value & 0xFFFF_FFFF)
        self.set(low + 4, value >> 32)

    def wide(self, low: int) -> int:
        """A register of 64 bits that stands still."""
        return self.read(low) | self.read(low + 4) << 32

    def counter(self, low: int) -> int:
        """A counter of 64 bits; reading LO latches HI."""
        with self.lock:
            return self.look(low) | self.look(low + 4) << 32

    def dpu(self, name: str, index: int = 0) -> int:
        """A register of the DPU by name, read until two reads agree."""
        return self.read(register(name).address(index))

    def burst(self, address: int, data: Bytes) -> None:
        """Write device memory."""
        with self.lock:
            self.card.burst(HBM_BASE + address, data)

    def fence(self, address: int) -> None:
        """Wait until all that was written to device memory is there: a load does not overtake the stores before it."""
        with self.lock:
            self.card.loads(HBM_BASE + address, 8)

    def test(self) -> None:
        """Whether the bus keeps patterns.

        Raises:
            CardFault: it does not.
        """
        for pattern in _PATTERNS:
            self.set(cl("CL_SCRATCH"), pattern)

    def why(self, seen: str) -> CardFault:
        """The fault behind something that a working card does not show."""
        info = self.card.describe()
        if info.reason == POWER_VIOLATION:
            return CardFault(Fault.POWER, f"{seen}; the slot is {info.text()}")
        if not info.loaded:
            return CardFault(Fault.IMAGE, f"{seen}; the slot is {info.text()}")
        return CardFault(Fault.BUS, seen)
