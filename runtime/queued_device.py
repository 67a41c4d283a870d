"""What devices share whose runs happen on a worker thread in submission order: tickets, counters, loaded programs."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import Words
from .device import Bytes, Completion, DeviceCounters, Ticket

P = TypeVar("P")  # a loaded program


class QueuedDevice(ABC, Generic[P]):
    """Tickets and programs of the `Device` protocol. `name` is what messages call the device."""

    name: ClassVar[str]

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self._programs: list[P] = []
        self._tickets: dict[int, Future[Completion]] = {}
        self._count = 0
        self._counters = DeviceCounters()
        self._lock = threading.RLock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"dpu-{self.name}")

    @abstractmethod
    def allocate(self, size: int) -> int:
        """Reserve `size` bytes, cleared; the address."""

    @abstractmethod
    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to `address`."""

    def wait(self, ticket: Ticket) -> Completion:
        """Block until the run has finished; raises what it raised. A ticket is good for one wait."""
        with self._lock:
            future = self._tickets.pop(ticket.number, None)
        if future is None:
            raise DpuError(self.name, f"ticket {ticket.number} is unknown or already waited for", code="E424")
        try:
            done = future.result()
        except CancelledError:
            raise closed(ticket.entry) from None
        self._counters.add(done)
        return done

    def counters(self) -> DeviceCounters:
        """Sums over the runs that were waited for since the last reset."""
        return self._counters

    def _program(self, handle: int) -> P:
        if not 0 <= handle < len(self._programs):
            raise DpuError(self.name, f"no program with handle {handle}", code="E423")
        return self._programs[handle]

    def _place_streams(self, entry: str, streams: Sequence[Words]) -> tuple[int, ...]:
        """Put one instruction stream a tile into device memory; the addresses."""
        if len(streams) != self.arch.tiles:
            what = f"{len(streams)} streams for the {self.arch.tiles} tiles of arch '{self.arch.name}'"
            raise DpuError(f"entry '{entry}'", what, why="a program has one stream a tile", code="E410")
        addresses = []
        for words in streams:
            image = np.ascontiguousarray(words).view(np.uint8).reshape(-1).copy()
            image.flags.writeable = False
            addresses.append(self.allocate(len(image)))
            self.write(addresses[-1], image)
        return tuple(addresses)

    def _queue(self, entry: str, run: Callable[..., Completion], *args: Any) -> Ticket:
        """Submit a run to the worker."""
        with self._lock:
            self._count += 1
            ticket = Ticket(self._count, entry)
            self._tickets[ticket.number] = self._worker.submit(run, *args)
        return ticket

    def _drain(self) -> None:
        # Submits run in order on one worker: when an empty task is done, all earlier ones are.
        self._worker.submit(lambda: None).result()


def closed(entry: str) -> DpuError:
    """The error of a run that the end of the device cut off."""
    return DpuError(f"entry '{entry}'", "the device was closed before it ended", code="E424")
