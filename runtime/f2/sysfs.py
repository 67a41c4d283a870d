"""A card through the kernel alone: the resource files of its PCI function, mapped into this process.

`resource0` is BAR0, `resource4_wc` BAR4 with write combining (`resource4` where the kernel has no such file). Nothing
here can load an image or read power: that is management's, which the SDK reaches.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path

import numpy as np

from ...errors import DpuError
from ..device import Bytes
from .card import ImageInfo

AMAZON = 0x1D0F
_PAGE = 4096
_NO_LOAD = "load it with the SDK: fpga-load-local-image -S SLOT -I AGFI; or leave DPU_F2_ACCESS unset"


def translation(root: Path, address: str) -> str:
    """Why the device at a PCI address does not reach host memory by physical addresses; empty if it does.

    An IOMMU group whose type is `identity` translates nothing.
    """
    group = root / "bus" / "pci" / "devices" / address / "iommu_group"
    if not group.exists():
        return ""
    try:
        kind = (group / "type").read_text().strip()
    except OSError:
        kind = "unknown"
    return "" if kind == "identity" else f"an IOMMU translates its addresses (group type {kind})"


class SysfsCard:
    """The function at PCI address `address`, such as 0000:34:00.0, of the sysfs tree at `root`.

    Raises:
        DpuError: E432, there is no such function of Amazon's.
    """

    simulated = False

    def __init__(self, slot: int, address: str, root: Path = Path("/sys")) -> None:
        self.slot, self.where = slot, f"PCI device {address}"
        self._root, self._address = root, address
        self._folder = root / "bus" / "pci" / "devices" / address
        self._bars: dict[int, mmap.mmap] = {}
        self._registers: np.ndarray[tuple[int], np.dtype[np.uint32]] | None = None
        self._memory: Bytes | None = None
        vendor = self._number("vendor")
        if vendor != AMAZON:
            raise DpuError(self.where, f"vendor {vendor:#06x}, expected {AMAZON:#06x}", hint=_WHICH, code="E432")

    def describe(self, metrics: bool = False) -> ImageInfo:
        """Sysfs knows that the function is there, not which image it is: the registers say."""
        return ImageInfo("loaded" if self._folder.exists() else "pci-device-missing")

    def load(self, image: str) -> None:
        """Not possible here."""
        raise DpuError(self.where, "sysfs cannot load an image", hint=_NO_LOAD, code="E432")

    def clear(self) -> None:
        """Not possible here."""
        raise DpuError(self.where, "sysfs cannot clear an image", hint=_NO_LOAD, code="E432")

    def attach(self) -> None:
        """Map both BARs."""
        self.detach()
        wide = "resource4_wc" if (self._folder / "resource4_wc").exists() else "resource4"
        for bar, name in ((0, "resource0"), (4, wide)):
            try:
                handle = os.open(self._folder / name, os.O_RDWR | os.O_SYNC)
                try:
                    size = os.fstat(handle).st_size
                    self._bars[bar] = mmap.mmap(handle, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
                finally:
                    os.close(handle)
            except (OSError, ValueError) as e:
                what = f"{name} cannot be mapped ({e})"
                raise DpuError(self.where, what, hint="run as root; load the image first", code="E432") from e
        self._registers = np.frombuffer(self._bars[0], "<u4")
        self._memory = np.frombuffer(self._bars[4], np.uint8)

    def detach(self) -> None:
        """Unmap both."""
        self._registers = self._memory = None
        for bar in self._bars.values():
            bar.close()
        self._bars.clear()

    def peek(self, offset: int) -> int:
        """32 bits of BAR0."""
        assert self._registers is not None
        return int(self._registers[offset // 4])

    def poke(self, offset: int, value: int) -> None:
        """Set 32 bits of BAR0."""
        assert self._registers is not None
        self._registers[offset // 4] = value

    def burst(self, offset: int, data: Bytes) -> None:
        """Write to BAR4: the processor combines neighbouring stores."""
        assert self._memory is not None
        self._memory[offset : offset + len(data)] = data

    def loads(self, offset: int, size: int) -> Bytes:
        """Read BAR4."""
        assert self._memory is not None
        return self._memory[offset : offset + size].copy()

    def untranslated(self) -> str:
        """By the function's IOMMU group."""
        return translation(self._root, self._address)

    def close(self) -> None:
        """Unmap the BARs."""
        self.detach()

    def _number(self, name: str) -> int:
        try:
            return int((self._folder / name).read_text(), 0)
        except (OSError, ValueError) as e:
            raise DpuError(self.where, f"no such device ({e})", hint=_WHICH, code="E432") from e


_WHICH = "lspci -d 1d0f: lists the cards; give DPU_F2_DEVICES their addresses, slot by slot"
