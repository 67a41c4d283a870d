"""What devices in this process share: memory that is host arrays, and runs on a worker thread in submission order."""

from __future__ import annotations

import bisect
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import Any, ClassVar, Generic, TypeVar

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from .device import Bytes, Completion, DeviceCounters, Ticket

P = TypeVar("P")  # a loaded program
_ALIGN = 4096


class HostedDevice(Generic[P]):
    """Allocation, transfers and tickets of the `Device` protocol. `name` is what messages call the device."""

    name: ClassVar[str]

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self._memory: dict[int, Bytes] = {}
        self._starts: list[int] = []
        self._next = arch.dram.base
        self._end = self._next + arch.dram.bytes
        self._programs: list[P] = []
        self._tickets: dict[int, Future[Completion]] = {}
        self._count = 0
        self._counters = DeviceCounters()
        self._lock = threading.Lock()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix=f"dpu-{self.name}")

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes, cleared; the address."""
        address = self._next
        if size < 0 or address + size > self._end:
            what = f"{size} bytes do not fit: {self._end - address} of device memory are free"
            raise DpuError(self.name, what, code="E422")
        self._place(address, self._zeros(size))
        self._starts.append(address)
        self._next += max(_ALIGN, -(-size // _ALIGN) * _ALIGN)
        return address

    def skip(self, size: int) -> None:
        """Leave `size` bytes of addresses out: memory in pieces far apart, as large as before."""
        self._next += size
        self._end += size

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to `address`. A read-only array that fills a whole allocation is used in place instead."""
        self._drain()
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        whole = self._memory.get(address)
        if whole is not None and len(whole) == len(data) and not data.flags.writeable:
            self._place(address, data)  # gigabytes of constants stay one mapping of the file
            return
        self._at(address, len(data))[:] = data

    def read(self, address: int, size: int) -> Bytes:
        """A copy of `size` bytes at `address`."""
        self._drain()
        return self._at(address, size).copy()

    def wait(self, ticket: Ticket) -> Completion:
        """Block until the run has finished; raises what it raised. A ticket is good for one wait."""
        with self._lock:
            future = self._tickets.pop(ticket.number, None)
        if future is None:
            raise DpuError(self.name, f"ticket {ticket.number} is unknown or already waited for", code="E424")
        try:
            done = future.result()
        except CancelledError:
            raise self._closed(ticket.entry) from None
        self._counters.add(done)
        return done

    def counters(self) -> DeviceCounters:
        """Sums over the runs that were waited for since the last reset."""
        return self._counters

    def close(self) -> None:
        """Stop the worker and free the memory."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._memory.clear()

    def _program(self, handle: int) -> P:
        if not 0 <= handle < len(self._programs):
            raise DpuError(self.name, f"no program with handle {handle}", code="E423")
        return self._programs[handle]

    def _queue(self, entry: str, run: Callable[..., Completion], *args: Any) -> Ticket:
        """Submit a run to the worker."""
        with self._lock:
            self._count += 1
            ticket = Ticket(self._count, entry)
            self._tickets[ticket.number] = self._worker.submit(run, *args)
        return ticket

    def _zeros(self, size: int) -> Bytes:
        return np.zeros(size, np.uint8)

    def _place(self, address: int, data: Bytes) -> None:
        """Let `data` be the allocation at `address`."""
        self._memory[address] = data

    def _at(self, address: int, size: int) -> Bytes:
        i = bisect.bisect_right(self._starts, address) - 1
        start = self._starts[i] if i >= 0 else 0
        memory = self._memory.get(start) if i >= 0 else None
        if memory is None or address + size > start + len(memory):
            what = f"bytes {address} to {address + size - 1} are in no allocation"
            raise DpuError(self.name, what, code="E425")
        return memory[address - start : address - start + size]

    def _drain(self) -> None:
        # Submits run in order on one worker: when an empty task is done, all earlier ones are.
        self._worker.submit(lambda: None).result()

    @staticmethod
    def _closed(entry: str) -> DpuError:
        return DpuError(f"entry '{entry}'", "the device was closed before it ended", code="E424")
