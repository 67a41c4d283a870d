"""Memory of this process that the card can write: huge pages, with the physical address of each.

The copy engine writes to physical addresses, so a page must be in one piece and stay where it is: a page of a hugetlbfs
is both (2 MiB). Where it lies says `/proc/self/pagemap` (kernel documentation, admin-guide/mm/pagemap): one word of 64
bits for each 4 KiB, bit 63 "present", bits 54:0 the frame number, which the kernel gives as 0 to who may not know it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import numpy as np

from ...errors import DpuError
from ..device import Bytes

HUGE = 2 << 20
_SMALL = 4096
_PRESENT, _FRAME = 1 << 63, (1 << 55) - 1
_WHY = "the card writes results to host memory by physical address"
PAGEMAP = Path("/proc/self/pagemap")


class HostMemory:
    """`size` bytes, a multiple of 2 MiB, from the hugetlbfs at `folder`; `view` are its bytes.

    Another `pagemap` than the kernel's is believed whatever the file system is: whoever writes it vouches for it.

    Raises:
        DpuError: E436, no huge pages, or no right to know where they are.
    """

    def __init__(self, size: int, folder: Path, pagemap: Path = PAGEMAP, mounts: Path = Path("/proc/mounts")) -> None:
        assert size > 0 and size % HUGE == 0
        self._pagemap = pagemap
        if pagemap == PAGEMAP and _kind(folder, mounts) != "hugetlbfs":
            hint = "mount -t hugetlbfs none /dev/hugepages, or name the mount in DPU_F2_HUGEPAGES"
            raise DpuError(str(folder), "is no hugetlbfs", _WHY, hint, code="E436")
        try:
            handle, name = tempfile.mkstemp(prefix="dpu-", dir=folder)
            try:
                Path(name).unlink()
                os.ftruncate(handle, size)
                self._map = mmap.mmap(handle, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
            finally:
                os.close(handle)
        except OSError as e:
            what = f"has no {size >> 20} MiB of huge pages ({e.strerror})"
            hint = f"sysctl vm.nr_hugepages={size // HUGE + 8}, as root"
            raise DpuError(str(folder), what, _WHY, hint, code="E436") from e
        self.view: Bytes = np.frombuffer(self._map, np.uint8)
        self.view[::_SMALL] = 0  # a page that nobody touched has no frame
        ctypes.CDLL(None).mlock(ctypes.c_void_p(self.view.ctypes.data), ctypes.c_size_t(size))

    def physical(self, offset: int) -> int:
        """Physical address of a byte of a huge page; looked up anew, since the kernel may move pages.

        Raises:
            DpuError: E436, the page map is closed to this process, or the page is not in one piece.
        """
        page = offset // HUGE * HUGE
        frames = self._frames(page)
        if not frames[0] & _PRESENT or not frames[0] & _FRAME:
            what = "does not say where a page is"
            hint = "run as root, or with the capability CAP_SYS_ADMIN"
            raise DpuError(str(self._pagemap), what, _WHY, hint, code="E436")
        first = int(frames[0]) & _FRAME
        if not np.array_equal(frames & np.uint64(_FRAME), first + np.arange(len(frames), dtype=np.uint64)):
            what = "a huge page is not in one piece"
            raise DpuError(str(self._pagemap), what, _WHY, "give a hugetlbfs in DPU_F2_HUGEPAGES", code="E436")
        return first * _SMALL + offset - page

    def close(self) -> None:
        """Give the memory back."""
        self.view = np.zeros(0, np.uint8)
        with suppress(BufferError):  # an error under way still holds a part of it: then it goes with that
            self._map.close()

    def _frames(self, page: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        count = HUGE // _SMALL
        at = (self.view.ctypes.data + page) // _SMALL * 8
        try:
            with self._pagemap.open("rb", buffering=0) as f:
                data = os.pread(f.fileno(), 8 * count, at)
        except OSError as e:
            hint = "run as root, or with the capability CAP_SYS_ADMIN"
            raise DpuError(str(self._pagemap), f"cannot be read ({e.strerror})", _WHY, hint, code="E436") from e
        if len(data) != 8 * count:
            raise DpuError(str(self._pagemap), "ends before this process's memory", _WHY, code="E436")
        return np.frombuffer(data, "<u8")


def _kind(folder: Path, mounts: Path) -> str:
    """File system that holds `folder`: the longest mount point above it."""
    found, longest = "", -1
    place = folder.resolve()
    for line in mounts.read_text().splitlines():
        point, kind = line.split()[1:3]
        if place.is_relative_to(point) and len(point) > longest:
            found, longest = kind, len(point)
    return found
