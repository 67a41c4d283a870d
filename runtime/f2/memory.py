"""Device memory as this computer remembers it: what each allocation holds, for a card that lost it."""

from __future__ import annotations

import bisect
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.f2_regmap import BEAT
from ..device import Bytes

_ALIGN = 4096


@dataclass
class Allocation:
    """`size` bytes at `address`. `host` has the same bytes, in whole beats, unless runs used it as `scratch`."""

    address: int
    size: int
    host: Bytes
    scratch: bool = False

    @property
    def end(self) -> int:
        """Address behind it."""
        return self.address + self.size

    def beats(self, first: int, end: int) -> tuple[int, Bytes]:
        """Address and bytes of the beats that hold the addresses `first` to `end`."""
        low = (first - self.address) // BEAT * BEAT
        return self.address + low, self.host[low : -(-(end - self.address) // BEAT) * BEAT]


class DeviceMemory:
    """The allocations of one card, from address `arch.dram.base`. `name` is what messages call the card."""

    def __init__(self, arch: Arch, name: str) -> None:
        self._name = name
        self._next = arch.dram.base
        self._end = self._next + arch.dram.bytes
        self._starts: list[int] = []
        self._all: list[Allocation] = []

    def __iter__(self) -> Iterator[Allocation]:
        return iter(list(self._all))

    def allocate(self, size: int) -> Allocation:
        """Reserve `size` cleared bytes.

        Raises:
            DpuError: E422, they do not fit.
        """
        if size < 0 or self._next + size > self._end:
            what = f"{size} bytes do not fit: {self._end - self._next} of device memory are free"
            raise DpuError(self._name, what, code="E422")
        padded = -(-size // BEAT) * BEAT
        found = Allocation(self._next, size, np.zeros(padded, np.uint8))  # pages that nobody touches take no memory
        self._starts.append(found.address)
        self._all.append(found)
        self._next += max(_ALIGN, -(-size // _ALIGN) * _ALIGN)
        return found

    def at(self, address: int, size: int) -> Allocation:
        """The allocation that holds a range.

        Raises:
            DpuError: E425, there is none.
        """
        i = bisect.bisect_right(self._starts, address) - 1
        if i < 0 or address + size > self._all[i].end:
            what = f"bytes {address} to {address + size - 1} are in no allocation"
            raise DpuError(self._name, what, code="E425")
        return self._all[i]
