"""The simulator as a device whose memories are on a GPU: the same bytes, counters and cycles as `sim_device.py`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.arch import Arch
from ..simulator.cuda.machine import CudaMachine
from .device import Bytes
from .sim_device import SimDevice


class CudaDevice(SimDevice):
    """A DPU of `arch`, simulated bit for bit on `device`; `cpu` runs the GPU's kernels on the CPU, for tests.

    Raises:
        DpuError: E430, there is no such device here.
    """

    def __init__(self, arch: Arch, timed: bool = True, device: str = "cuda") -> None:
        self.device = device
        super().__init__(arch, timed)

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to `address`."""
        import torch

        self._drain()
        flat = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        where: Any = self._at(address, len(flat))
        step = 1 << 28  # constants may be a read-only mapping of a file: a piece at a time is copied
        for at in range(0, len(flat), step):
            where[at : at + step].copy_(torch.from_numpy(flat[at : at + step].copy()))

    def read(self, address: int, size: int) -> Bytes:
        """A copy of `size` bytes at `address`."""
        self._drain()
        where: Any = self._at(address, size)
        found: Bytes = where.cpu().numpy()
        return found.copy() if self.device == "cpu" else found

    def _make_machine(self) -> CudaMachine:
        return CudaMachine(self.arch, {}, self.device)

    def _zeros(self, size: int) -> Any:
        import torch

        return torch.zeros(size, dtype=torch.uint8, device=self.device)

    def _read_only(self, region: Bytes) -> bool:
        return False
