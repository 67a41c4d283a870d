"""The Verilated tile as a device: programs and tensors in its DRAM, everything else through the host registers."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.container import Base
from ..ir.isa import BASE_REGISTERS, Engine, Words
from ..ir.regmap import ENGINES, ERRORS, MAGIC, register
from ..rtl.model import Model, Times
from ..simulator.decode import where
from ..simulator.timing_result import Timing
from .device import Bytes, Capability, Completion, DeviceCounters, Region, TagWork, Ticket
from .hosted_device import HostedDevice

_START, _RESET = 1, 2  # CTRL
_BUSY, _DONE, _ERROR = 1, 2, 4  # STATUS
_CHUNK = 200_000  # cycles between looks at `close`
_CODES = {
    "OPCODE": "E410",
    "FIELD": "E410",
    "SCRATCHPAD": "E411",
    "REGION": "E412",
    "FETCH": "E410",
    "NUMERIC": "E415",
    "DRAM": "E412",
    "WATCHDOG": "E414",
}


@dataclass(frozen=True)
class _Loaded:
    entry: str
    streams: list[Words]
    addresses: list[int]


class RtlDevice(HostedDevice[_Loaded]):
    """A DPU of `arch`, as its SystemVerilog computes it, cycle by cycle.

    `waves` is a VCD file of all that happens. `checked` runs the design's assertions. Every AXI channel pauses in
    `stall` of 256 cycles, at random by `seed`. `watchdog` is how many cycles may pass without progress (0: any number;
    None: as built). `extra` and `coverage`: as of `rtl.model.Model`.

    Completions have the cycles that hardware counted; of the work they have words, bytes and exceptions, counted by
    hardware too, and the multiplications that the words name. Which operation caused an exception is not known to
    hardware: there are no `tags`. `timings` has the measured times of each entry's latest run, in the form of the
    timing model's.
    """

    name = "rtl"

    def __init__(
        self,
        arch: Arch,
        waves: Path | None = None,
        checked: bool = False,
        stall: int = 0,
        seed: int = 1,
        watchdog: int | None = None,
        extra: tuple[Path, ...] = (),
        coverage: Path | None = None,
    ) -> None:
        super().__init__(arch)
        self.timings: dict[str, Timing] = {}
        self.watchdog = watchdog
        self._make = partial(Model, arch, waves, checked, stall, seed, extra, coverage)
        self._model = self._make()
        self._closing = threading.Event()
        self._worker.submit(self._check).result()

    @property
    def capability(self) -> Capability:
        """What the device says of itself in its registers."""
        return self._worker.submit(self._capability).result()

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes, cleared; the address."""
        self._drain()  # the model's memory map is the worker's while it runs
        return super().allocate(size)

    def load(self, entry: str, streams: Sequence[Words]) -> int:
        """Place the streams in DRAM; a handle for `submit`."""
        if len(streams) != self.arch.tiles:
            what = f"{len(streams)} streams for the {self.arch.tiles} tiles of arch '{self.arch.name}'"
            raise DpuError(f"entry '{entry}'", what, why="a program has one stream a tile", code="E410")
        addresses = []
        for words in streams:
            image = np.ascontiguousarray(words).view(np.uint8).reshape(-1).copy()
            image.flags.writeable = False
            addresses.append(self.allocate(len(image)))
            self.write(addresses[-1], image)
        self._programs.append(_Loaded(entry, list(streams), addresses))
        self.timings.pop(entry, None)
        return len(self._programs) - 1

    def submit(self, handle: int, bases: Mapping[int, Region]) -> Ticket:
        """Queue a run; returns at once."""
        program = self._program(handle)
        for base, region in bases.items():
            if not self._at(region.address, region.bytes).flags.writeable and base != Base.CONST:
                raise DpuError(f"entry '{program.entry}'", f"base {base} is bound to read-only memory", code="E425")
        return self._queue(program.entry, self._run, program, dict(bases))

    def reset(self) -> None:
        """Wait for all runs, then pull the reset pin and clear the counters. Scratchpads keep what they hold: no
        program reads what it did not write."""
        self._worker.submit(self._renew).result()
        self._counters = DeviceCounters()

    def close(self) -> None:
        """Stop after the running chunk of cycles, finish the waves and free the memory."""
        self._closing.set()
        super().close()
        self._model.close()

    # Memory

    def _place(self, address: int, data: Bytes) -> None:
        super()._place(address, data)
        if len(data):
            self._model.map(address, data)

    # Registers, on the worker's thread

    def _get(self, name: str, index: int = 0, *, wide: bool = False) -> int:
        if wide:
            return self._get(f"{name}_LO", index) | self._get(f"{name}_HI", index) << 32
        return self._model.read(register(name).address(index))

    def _set(self, name: str, value: int, index: int = 0, *, wide: bool = False) -> None:
        if wide:
            self._set(f"{name}_LO", value & 0xFFFFFFFF, index)
            self._set(f"{name}_HI", value >> 32, index)
        else:
            self._model.write(register(name).address(index), value)

    def _capability(self) -> Capability:
        a = self.arch
        digest = f"{self._get('ARCH_DIGEST', wide=True):016x}"
        return Capability("rtl", a.name, digest, self._get("ABI"), a.clock_hz, a.dram.bytes)

    def _check(self) -> None:
        """Whether what was built is what was meant."""
        shape = self.arch.tiles | self.arch.cols << 8 | self.arch.lanes << 16
        for name, want in (("ID", MAGIC), ("SHAPE", shape)):
            if (found := self._get(name)) != want:
                raise DpuError("rtl", f"register {name} is {found:#x}, must be {want:#x}", code="E416")

    def _renew(self) -> None:
        """A model in reset; a new one, since one that stopped over a broken rule cannot go on."""
        self._model.close()
        self._model = self._make()
        for address, data in self._memory.items():
            self._place(address, data)

    # Running, on the worker's thread

    def _run(self, program: _Loaded, bases: Mapping[int, Region]) -> Completion:
        begin = time.perf_counter()
        for base in range(BASE_REGISTERS):
            region = bases.get(base, Region(0, 0))
            self._set("BASE", region.address, base, wide=True)
            self._set("LIMIT", region.bytes, base, wide=True)
        for tile, address in enumerate(program.addresses):
            self._set("TILE_PROGRAM", address, tile, wide=True)
            self._set("TILE_PROGRAM_WORDS", len(program.streams[tile]), tile)
        if self.watchdog is not None:
            self._set("WATCHDOG", self.watchdog)
        self._protect(bases, writable=False)
        times = self._model.record({t: len(w) for t, w in enumerate(program.streams)})
        start = self._model.cycle
        try:
            self._set("CTRL", _START)
            while not self._model.wait(register("STATUS").address(), _BUSY, _CHUNK):
                if self._closing.is_set():
                    raise self._closed(program.entry)
            status = self._get("STATUS")
            if status & _ERROR or not status & _DONE:
                raise self._error(program, status)
        finally:
            self._protect(bases, writable=True)
        cycles = self._get("CYCLES", wide=True)
        work = self._work()
        timing, macs = self._timing(program, times, start, cycles)
        self.timings[program.entry] = timing
        total = TagWork(**{**work, "macs": macs})
        return Completion(program.entry, cycles, time.perf_counter() - begin, total)

    def _protect(self, bases: Mapping[int, Region], *, writable: bool) -> None:
        """Constants cannot be written in a run, whoever else may write their memory."""
        region = bases.get(Base.CONST)
        if region is None or region.address not in self._memory:
            return
        data = self._memory[region.address].view()
        if data.flags.writeable and len(data):
            data.flags.writeable = writable
            self._model.map(region.address, data)

    def _error(self, program: _Loaded, status: int) -> DpuError:
        """What the error registers say. The hardware is reset, so that the next run can start."""
        if not status & _ERROR:
            return DpuError(f"entry '{program.entry}'", f"STATUS is {status:#x}: neither done nor failed", code="E416")
        said, index = self._get("ERROR"), self._get("ERROR_WORD")
        address = self._get("ERROR_ADDRESS", wide=True)
        code, tile, engine = said & 0xFF, said >> 8 & 0xFF, said >> 16 & 0xFF
        name, meaning = ERRORS.get(code, (f"code {code}", "the register map does not know it"))
        stuck = self._stuck() if name == "WATCHDOG" else ""
        self._set("CTRL", _RESET)
        self._model.wait(register("STATUS").address(), _BUSY, _CHUNK)
        place = f"entry '{program.entry}' tile {tile}"
        if name not in ("FETCH", "WATCHDOG") and tile < len(program.streams) and index < len(program.streams[tile]):
            place = where(program.entry, tile, index, program.streams[tile][index])
        unit = Engine(engine).name if engine in [e.value for e in Engine] else f"engine {engine}"
        what = f"{name}: {meaning}" + (f"; {stuck}" if stuck else "")
        return DpuError(place, what, f"{unit}, address {address:#x}", code=_CODES.get(name, "E416"))

    def _stuck(self) -> str:
        """Where the engines of each tile stand."""
        tiles = [
            f"tile {t}: " + ", ".join(f"{e.name} at word {self._get(f'TILE_{e.name}_AT', t)}" for e in ENGINES)
            for t in range(self.arch.tiles)
        ]
        return "; ".join(tiles)

    def _work(self) -> dict[str, int]:
        found = dict.fromkeys(("words", "read", "written", "fp16_overflow", "nan"), 0)
        for t in range(self.arch.tiles):
            found["words"] += self._get("TILE_FETCHED", t)
            found["read"] += self._get("TILE_READ_BYTES", t, wide=True)
            found["written"] += self._get("TILE_WRITTEN_BYTES", t, wide=True)
            found["fp16_overflow"] += self._get("TILE_FP16_OVERFLOWS", t)
            found["nan"] += self._get("TILE_NANS", t)
        return found

    def _timing(
        self, program: _Loaded, times: Mapping[int, tuple[Times, Times]], start: int, cycles: int
    ) -> tuple[Timing, int]:
        from .rtl_timing import EngineCounters, measured

        counters: list[dict[Engine, EngineCounters]] = [
            {
                e: EngineCounters(
                    *(
                        self._get(f"TILE_{e.name}_{what}", t, wide=True)
                        for what in ("BUSY", "STALL_WAIT", "STALL_PORT", "STALL_EMPTY")
                    )
                )
                for e in ENGINES
            }
            for t in range(self.arch.tiles)
        ]
        timing = measured(self.arch, program.entry, program.streams, times, start, cycles, counters)
        return timing, timing.executed_macs
