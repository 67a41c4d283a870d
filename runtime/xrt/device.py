"""The DPU on an Alveo card as a device. Each run is one run of the kernel, with a list of commands."""

from __future__ import annotations

import bisect
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.cost import stream_macs
from ...ir.isa import Words
from ...ir.regmap import ENGINES
from ...measurement import DeviceIdentity
from ..device import Bytes, Capability, Completion, DeviceCounters, Region, TagWork, Ticket
from ..hosted_device import HostedDevice
from ..queued_device import closed
from ..registers import BUSY, DONE, ENGINE_COUNTERS, ERROR, RESET, START, Placed, Registers, run_settings
from .card import Buffer, Card
from .commands import Commands

_LIST = 1 << 16  # bytes of the buffer for commands, and of that for reports
_SLICE = 20  # milliseconds of a wait; between them `close` is looked at


@dataclass(frozen=True)
class _Loaded(Placed):
    macs: int


class XrtDevice(HostedDevice[_Loaded]):
    """A DPU of `arch` in the device binary `image` on card `card`, an index or a BDF.

    `watchdog` is how many cycles may pass without progress (0: any number; None: as built). A run that takes longer
    than `timeout` seconds is given up, and the device with it: the kernel may still write.

    Completions have cycles and work as hardware counted them; `registers` are those of the latest run.
    """

    name = "xrt"

    def __init__(
        self, arch: Arch, image: Path, card: str = "0", watchdog: int | None = None, timeout: float = 300.0
    ) -> None:
        super().__init__(arch)
        self.watchdog, self.timeout = watchdog, timeout
        self._card = Card(image, card)
        self.stand_in, self.opened = self._card.stand_in, self._card.opened
        self._buffers: dict[int, Buffer] = {}
        self._commands, self._report = self._card.buffer(_LIST), self._card.buffer(_LIST)
        self._used, self._serial, self._lost = 0, 0, ""
        self._closing = threading.Event()
        said = Commands()
        for name in ("ID", "ABI", "SHAPE"):
            said.read(name)
        said.read("ARCH_DIGEST", wide=True)
        self.registers = self._worker.submit(self._execute, "open", said).result()
        self.registers.check(self.name, arch)
        clock = float(self._card.info("max_clock_frequency_mhz")) * 1e6
        self._capability = replace(self.registers.capability(self.name, arch), clock_hz=clock)

    @property
    def capability(self) -> Capability:
        """What the hardware says of itself; the clock is the one that XRT says the kernel has."""
        return self._capability

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """What a summary says of the card: name and text."""
        return [("card", f"{self._card.info('name')}, kernel reached by {self.opened}")]

    @property
    def identity(self) -> DeviceIdentity:
        """The card, for records of measurements."""
        marks = {"xclbin_uuid": self._card.uuid, "bdf": self._card.info("bdf")}
        return DeviceIdentity(target="xrt", name=self._card.info("name"), marks=marks, stand_in=self.stand_in)

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes, cleared; the address."""
        self._drain()
        free = self.arch.dram.bytes - self._used
        if not 0 <= size <= free:
            raise DpuError(self.name, f"{size} bytes do not fit: {free} of device memory are free", code="E422")
        buffer = self._card.buffer(size)
        buffer.bytes[:] = 0
        buffer.push(len(buffer.bytes))
        self._used += len(buffer.bytes)
        self._buffers[buffer.address] = buffer
        self._place(buffer.address, buffer.bytes[:size])
        bisect.insort(self._starts, buffer.address)  # XRT gives addresses in any order
        return buffer.address

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to `address`."""
        self._drain()
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        self._at(address, len(data))[:] = data
        if len(data):
            buffer, offset = self._buffer(address)
            buffer.push(len(data), offset)

    def read(self, address: int, size: int) -> Bytes:
        """A copy of `size` bytes at `address`."""
        self._drain()
        found = self._at(address, size)
        if size:
            buffer, offset = self._buffer(address)
            buffer.pull(size, offset)
        return found.copy()

    def load(self, entry: str, streams: Sequence[Words]) -> int:
        """Place the streams in the card's memory; a handle for `submit`."""
        addresses = self._place_streams(entry, streams)
        self._programs.append(_Loaded(entry, tuple(streams), addresses, stream_macs(self.arch, streams)))
        return len(self._programs) - 1

    def submit(self, handle: int, bases: Mapping[int, Region]) -> Ticket:
        """Queue a run; returns at once."""
        program = self._program(handle)
        for region in bases.values():
            self._at(region.address, region.bytes)
        return self._queue(program.entry, self._run, program, dict(bases))

    def reset(self) -> None:
        """Wait for all runs, then reset the DPU and clear the counters. Memory keeps its contents."""
        self._worker.submit(self._reset).result()
        self._counters = DeviceCounters()

    def close(self) -> None:
        """Stop waiting for the running entry and free the card's memory."""
        self._closing.set()
        super().close()
        self._buffers.clear()

    def _buffer(self, address: int) -> tuple[Buffer, int]:
        start = self._starts[bisect.bisect_right(self._starts, address) - 1]
        return self._buffers[start], address - start

    # On the worker's thread

    def _execute(self, entry: str, commands: Commands) -> Registers:
        """Run the kernel once; the registers that it read."""
        if self._lost:
            raise DpuError(f"entry '{entry}'", "the card is not usable any more", self._lost, code="E439")
        self._serial += 1
        image = commands.image(self._serial)
        size = commands.report_bytes
        assert max(len(image), size) <= _LIST
        self._commands.bytes[: len(image)] = image
        self._commands.push(len(image))
        self._report.bytes[:size] = 0
        self._report.push(size)
        end = time.monotonic() + self.timeout
        self._card.start(self._commands.address, self._report.address)
        while not self._card.wait(_SLICE):
            if self._closing.is_set():
                self._lost = "it was closed while a run went on"
                raise closed(entry)
            if time.monotonic() > end:
                self._lost = f"a run of entry '{entry}' did not end within {self.timeout:g} s"
                raise DpuError(f"entry '{entry}'", f"no end within {self.timeout:g} s", "the card hangs", code="E439")
        self._report.pull(size)
        return commands.parse(self._report.bytes, self._serial)

    def _run(self, program: _Loaded, bases: Mapping[int, Region]) -> Completion:
        begin = time.perf_counter()
        self.registers = found = self._execute(program.entry, self._list(program, bases))
        status = found.get("STATUS")
        if status & ERROR or not status & DONE:
            error = found.failure(program.entry, program.streams, status)
            self._reset()
            raise error
        total = TagWork(**{**found.work(self.arch.tiles), "macs": program.macs})
        return Completion(program.entry, found.get("CYCLES", wide=True), time.perf_counter() - begin, total)

    def _list(self, program: _Loaded, bases: Mapping[int, Region]) -> Commands:
        commands = Commands()
        for s in run_settings(program, bases):
            commands.write(s.name, s.value, s.index, wide=s.wide)
        if self.watchdog is not None:
            commands.write("WATCHDOG", self.watchdog)
        commands.write("CTRL", START)
        commands.wait("STATUS", BUSY)
        for name in ("STATUS", "ERROR", "ERROR_WORD"):
            commands.read(name)
        for name in ("ERROR_ADDRESS", "CYCLES"):
            commands.read(name, wide=True)
        for tile in range(self.arch.tiles):
            for name in ("FETCHED", "FP16_OVERFLOWS", "NANS"):
                commands.read(f"TILE_{name}", tile)
            for name in ("READ_BYTES", "WRITTEN_BYTES"):
                commands.read(f"TILE_{name}", tile, wide=True)
            for engine in ENGINES:
                commands.read(f"TILE_{engine.name}_AT", tile)
                for name in ENGINE_COUNTERS:
                    commands.read(f"TILE_{engine.name}_{name}", tile, wide=True)
        return commands

    def _reset(self) -> None:
        commands = Commands()
        commands.write("CTRL", RESET)
        commands.wait("STATUS", BUSY)
        self._execute("reset", commands)
