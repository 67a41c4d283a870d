"""What devices in this process share: memory that is host arrays."""

from __future__ import annotations

import bisect

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from .device import Bytes
from .queued_device import P, QueuedDevice

_ALIGN = 4096


class HostedDevice(QueuedDevice[P]):
    """Allocation and transfers of the `Device` protocol."""

    def __init__(self, arch: Arch) -> None:
        super().__init__(arch)
        self._memory: dict[int, Bytes] = {}
        self._starts: list[int] = []
        self._next = arch.dram.base
        self._end = self._next + arch.dram.bytes

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

    def close(self) -> None:
        """Stop the worker and free the memory."""
        self._worker.shutdown(wait=True, cancel_futures=True)
        self._memory.clear()

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
