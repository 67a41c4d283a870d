"""A card in Python, for tests of the driver alone: registers of the custom logic, a copy engine, tiles that the
functional simulator plays. The product's stand-in is another one: it runs over the Verilated custom logic."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
from dpu.errors import DpuError
from dpu.ir.arch import Arch
from dpu.ir.f2_regmap import ALL_ONES, CL_MAGIC, CL_VERSION, HBM_BASE, cl
from dpu.ir.isa import ABI_VERSION, BASE_REGISTERS, HEADER, WORD_BYTES
from dpu.ir.regmap import MAGIC, register
from dpu.runtime.f2.card import ImageInfo
from dpu.runtime.f2.host_memory import HUGE
from dpu.runtime.f2.settings import Settings
from dpu.simulator.machine import Machine

MEMORY = 8 << 20
_BUSY_LOOKS = 6


class Host:
    """A folder of pages and a page map of ours; `settings` for a driver that uses them."""

    def __init__(self, folder: Path) -> None:
        self.pages, self.pagemap = folder / "pages", folder / "pagemap"
        self.pages.mkdir()
        self.settings = Settings(
            hugepages=self.pages,
            pagemap=self.pagemap,
            events=str(folder / "events{slot}"),
            chunk=4096,
            stall_seconds=2e-4,
            wall_seconds=5.0,
            cool_seconds=1e-3,
        )
        self._places: dict[int, int] = {}

    def scan(self) -> None:
        """Write the page map of what this process has mapped from the folder."""
        self._places.clear()
        with self.pagemap.open("wb") as f:
            for line in Path("/proc/self/maps").read_text().splitlines():
                if f"{self.pages}/" not in line:
                    continue
                begin, end = (int(x, 16) for x in re.split("[- ]", line)[:2])
                for page in range(begin, end, HUGE):
                    frame = (1 << 20) + 512 * (7 * len(self._places) % 13)
                    self._places[frame * 4096] = page
                    entries = (1 << 63) | frame + np.arange(512, dtype=np.uint64)
                    os.pwrite(f.fileno(), entries.astype("<u8").tobytes(), page // 4096 * 8)

    def write(self, physical: int, data: np.ndarray) -> None:
        """What a card does."""
        import ctypes

        at = self._places[physical // HUGE * HUGE] + physical % HUGE
        ctypes.memmove(at, data.tobytes(), len(data))


class ModelCard:
    """`peeked` may change what a register reads as, `poked` may swallow a write, `sent` and `copied` change data."""

    def __init__(self, arch: Arch, host: Host, image: str = "agfi-model", slot: int = 0) -> None:
        self.arch, self.host = arch, host
        self.slot, self.where, self.simulated = slot, f"slot {slot}", True
        self.info = ImageInfo("loaded" if image else "cleared", image=image)
        self.peeked: Callable[[int, int], int] = lambda address, value: value
        self.poked: Callable[[int, int], bool] = lambda address, value: True
        self.sent: Callable[[np.ndarray], np.ndarray] = lambda data: data
        self.copied: Callable[[np.ndarray], np.ndarray] = lambda data: data
        self.hangs: Callable[[], bool] = lambda: False
        self.loads_of: list[str] = []
        self.resets = 0
        self.iommu = ""
        self._renew()

    def _renew(self) -> None:
        self.memory = np.zeros(MEMORY, np.uint8)
        self.registers: dict[int, int] = {}
        self.time = self._busy = self._copying = 0
        self.status = self.copy_status = 0
        fixed = {
            cl("CL_ID"): CL_MAGIC,
            cl("CL_VERSION"): CL_VERSION << 16,
            cl("CL_ARCH_DIGEST_LO"): int(self.arch.digest, 16) & 0xFFFFFFFF,
            cl("CL_ARCH_DIGEST_HI"): int(self.arch.digest, 16) >> 32,
            cl("CL_TILES"): self.arch.tiles,
            cl("CL_MEMORY_MIB"): 16384,
            cl("CL_STATUS"): 1,
            register("ID").address(): MAGIC,
            register("ABI").address(): ABI_VERSION,
            register("ARCH_DIGEST_LO").address(): int(self.arch.digest, 16) & 0xFFFFFFFF,
            register("ARCH_DIGEST_HI").address(): int(self.arch.digest, 16) >> 32,
        }
        self.registers |= fixed

    def describe(self, metrics: bool = False) -> ImageInfo:
        return self.info

    def load(self, image: str) -> None:
        self.loads_of.append(image)
        self.info = ImageInfo("loaded", image=image)
        self._renew()

    def clear(self) -> None:
        self.info = ImageInfo("cleared")

    def attach(self) -> None:
        self.host.scan()

    def detach(self) -> None:
        pass

    def close(self) -> None:
        pass

    def untranslated(self) -> str:
        return self.iommu

    def peek(self, offset: int) -> int:
        self.time += 250
        if not self.info.loaded:
            return ALL_ONES
        return self.peeked(offset, self._value(offset))

    def _value(self, offset: int) -> int:
        if offset == cl("CL_GLOBAL_COUNT_LO"):
            return self.time & 0xFFFFFFFF
        if offset == cl("CL_GLOBAL_COUNT_HI"):
            return self.time >> 32
        if offset == register("STATUS").address():
            if self._busy and not self.hangs():
                self._busy -= 1
                self.status = 1 if self._busy else 2
            return self.status
        if offset == cl("CL_COPY_STATUS"):
            return self.copy_status
        return self.registers.get(offset, 0)

    def poke(self, offset: int, value: int) -> None:
        if not self.info.loaded or not self.poked(offset, value):
            return
        if offset == register("CTRL").address():
            self._control(value)
        elif offset == cl("CL_CONTROL"):
            if value & 1:
                self.resets += 1
                self.status = self.copy_status = self._busy = 0
            self.registers[offset] = value & 2
        elif offset == cl("CL_COPY_CONTROL") and value & 1:
            self._copy()
        elif offset == cl("CL_COPY_STATUS"):
            self.copy_status &= ~value
        else:
            self.registers[offset] = value

    def burst(self, offset: int, data: np.ndarray) -> None:
        if self.info.loaded:
            kept = self.sent(data.copy())
            self.memory[offset - HBM_BASE :][: len(kept)] = kept

    def loads(self, offset: int, size: int) -> np.ndarray:
        return self.memory[offset - HBM_BASE :][:size].copy()

    def _wide(self, low: int) -> int:
        return self.registers.get(low, 0) | self.registers.get(low + 4, 0) << 32

    def _copy(self) -> None:
        source, to = self._wide(cl("CL_COPY_SRC_LO")), self._wide(cl("CL_COPY_DST_LO"))
        size = self.registers[cl("CL_COPY_BYTES")]
        self.host.write(to, self.copied(self.memory[source : source + size].copy()))
        self.registers[cl("CL_COPY_DONE_BYTES")] = size
        self.copy_status = 2

    def _control(self, value: int) -> None:
        if value & 2:
            self.status = self._busy = 0
        if not value & 1:
            return
        self.status, self._busy = 1, _BUSY_LOOKS
        machine = Machine(self.arch, {})
        for base in range(BASE_REGISTERS):
            size = self._wide(register("LIMIT_LO").address(base))
            at = self._wide(register("BASE_LO").address(base))
            machine.bind(base, self.memory[at : at + size])
        streams = []
        for tile in range(self.arch.tiles):
            at = self._wide(register("TILE_PROGRAM_LO").address(tile))
            words = self.registers[register("TILE_PROGRAM_WORDS").address(tile)]
            streams.append(self.memory[at : at + words * WORD_BYTES].copy().view(HEADER))
        try:
            machine.run(streams, None, "model")
        except DpuError:
            self.status, self._busy = 4, 0
            self.registers[register("ERROR").address()] = 1
            return
        self.registers[register("CYCLES_LO").address()] = 1000
        self.registers[register("TILE_FETCHED").address(0)] = len(streams[0])
