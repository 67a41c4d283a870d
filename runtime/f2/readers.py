"""Ways out of device memory: the copy engine, which writes to host memory, and loads, which are slow."""

from __future__ import annotations

from typing import Protocol

from ...ir.f2_regmap import BEAT, COPY_ABORT, COPY_BUSY, COPY_DONE, COPY_ERROR, COPY_START, HBM_BASE, cl
from ..device import Bytes
from .bus import Bus
from .card import CardFault, Fault
from .host_memory import HUGE, HostMemory
from .patience import Patience
from .settings import Settings

BUFFERS = 4
_CODES = {
    1: "no bytes, or no multiple of 64",
    2: "an error of device memory, or an address outside it",
    3: "an error of the shell",
    4: "that the shell did not take or answer a write in time",
    5: "an abort",
    6: "that device memory did not answer in time",
    7: "that device memory is not ready",
}
"""COPY_STATUS.CODE, as `dpu_f2_pkg::copy_error_e` has it."""
_LATE = (4, 6)
_LOOKS = 16  # between looks at the clock


class Reader(Protocol):
    """Moves one piece of device memory at a time, into one of `BUFFERS` buffers of `chunk` bytes."""

    name: str
    chunk: int

    def begin(self, address: int, size: int, buffer: int) -> None:
        """Start: address and size are multiples of 64."""
        ...

    def end(self) -> Bytes:
        """Wait for it; the bytes, which stay until the buffer is used again.

        Raises:
            CardFault: it does not end, or ends in an error.
        """
        ...


class CopyEngine:
    """The custom logic's copy engine and the host memory that it writes."""

    name = "copy engine"

    def __init__(self, bus: Bus, settings: Settings, host: HostMemory) -> None:
        self.chunk = settings.chunk
        self._bus, self._settings, self._host = bus, settings, host
        self._size = self._at = 0

    @staticmethod
    def host_bytes(settings: Settings) -> int:
        """Of host memory that it needs: no buffer crosses a huge page."""
        return -(-BUFFERS * settings.chunk // HUGE) * HUGE

    def begin(self, address: int, size: int, buffer: int) -> None:
        """Start a copy. The buffer is filled with a pattern of its own first: what does not arrive is seen."""
        bus, self._size = self._bus, size
        self._at = buffer * self.chunk
        self._host.view[self._at : self._at + size] = 0x5A + buffer
        with bus.lock:
            bus.set_wide(cl("CL_COPY_SRC_LO"), address)
            bus.set_wide(cl("CL_COPY_DST_LO"), self._host.physical(self._at))
            bus.set(cl("CL_COPY_BYTES"), size)
            self._clear()
            bus.write(cl("CL_COPY_CONTROL"), COPY_START)

    def end(self) -> Bytes:
        """Wait for the copy; a start that had no effect is repeated once."""
        bus, started = self._bus, False
        patience = Patience(bus, self._settings.stall_seconds, self._settings.wall_seconds)
        looks = 0
        while True:
            status = bus.look(cl("CL_COPY_STATUS"))
            if not status & COPY_BUSY:
                status = bus.read(cl("CL_COPY_STATUS"))
                bus.noise.reads += bool(status & COPY_BUSY)
            if status & COPY_BUSY:
                looks += 1
                if looks % _LOOKS == 0 and (stood := patience.over(bus.look(cl("CL_COPY_DONE_BYTES")))):
                    self._stop()
                    raise CardFault(Fault.HANG, f"the copy engine stands still for {stood}")
                continue
            if status & COPY_ERROR:
                code = status >> 8 & 0xFF
                fault = Fault.HANG if code in _LATE else Fault.TRANSFER
                raise CardFault(fault, f"the copy engine reports {_CODES.get(code, f'error {code}')}", again=True)
            if status & COPY_DONE and (done := bus.read(cl("CL_COPY_DONE_BYTES"))) == self._size:
                return self._host.view[self._at : self._at + self._size]
            if status & COPY_DONE:
                raise CardFault(Fault.TRANSFER, f"the copy engine moved {done} of {self._size} bytes")
            if started:
                raise CardFault(Fault.HANG, "the copy engine does not start")
            started = True
            bus.noise.starts += 1
            bus.write(cl("CL_COPY_CONTROL"), COPY_START)

    def _clear(self) -> None:
        """Forget how the last copy ended."""
        bus, status = self._bus, cl("CL_COPY_STATUS")
        for _ in range(2):
            bus.write(status, COPY_DONE | COPY_ERROR)
            if not bus.read(status) & (COPY_BUSY | COPY_DONE | COPY_ERROR):
                return
        raise CardFault(Fault.HANG, f"the copy engine's status stays {bus.read(status):#x}")

    def _stop(self) -> None:
        self._bus.write(cl("CL_COPY_CONTROL"), COPY_ABORT)


class Loads:
    """Loads by the processor, one word after the other."""

    name = "loads"

    def __init__(self, bus: Bus, settings: Settings) -> None:
        self.chunk = settings.chunk
        self._bus = bus
        self._found: Bytes | None = None

    def begin(self, address: int, size: int, buffer: int) -> None:
        """Read at once."""
        with self._bus.lock:
            self._found = self._bus.card.loads(HBM_BASE + address, size)

    def end(self) -> Bytes:
        """What was read."""
        assert self._found is not None
        return self._found


def aligned(address: int, size: int) -> tuple[int, int]:
    """First address and size of the beats that hold a range."""
    first = address // BEAT * BEAT
    return first, -(-(address + size - first) // BEAT) * BEAT
