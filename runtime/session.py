"""A program on a device: regions allocated, constants written, host tensors in and out by name."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.container import Base, Entry, Program
from .device import Completion, Device, Region, Ticket, check_program
from .tensors import F32, host_input, pack, unpack


class Session:
    """Loads `program` onto `device` once; `run` executes one entry point.

    Regions live as long as the session: what one entry writes to STATE another reads.

    Raises:
        DpuError: the program is for another device or does not fit its memory.
    """

    def __init__(self, program: Program, device: Device) -> None:
        check_program(program, device.capability)
        self.program, self.device = program, device
        self.input_overflows = 0  # host values beyond float16, saturated on the way in
        self.completions: dict[str, Completion] = {}  # the latest run of each entry
        self.exceptions: dict[tuple[str, int], int] = {}  # (entry, tag) -> overflows and NaN so far
        self._bases: dict[int, Region] = {}
        sizes = {**program.base_bytes, int(Base.CONST): len(program.constants)}
        for base, size in sorted(sizes.items()):
            self._bases[base] = Region(device.allocate(size), size)
        if len(program.constants):
            device.write(self._bases[Base.CONST].address, program.constants)
        self._handles = {e.name: device.load(e.name, program.words[e.name]) for e in program.entries}

    @staticmethod
    def on(program: Program, device: Device) -> Session:
        """A session on a device that is closed if that fails.

        Raises:
            DpuError: as of `Session`.
        """
        try:
            return Session(program, device)
        except BaseException:
            device.close()
            raise

    def submit(self, name: str, inputs: Mapping[str, npt.ArrayLike]) -> Ticket:
        """Write the inputs of an entry and start it; inputs that it does not have are ignored.

        Raises:
            DpuError: no such entry, an input is missing, or its shape is wrong.
        """
        for slot in self._entry(name).inputs:
            if slot.base != Base.IO:
                continue  # another entry leaves it on the device
            data, overflows = pack(slot, host_input(slot.name, slot.shape, inputs, f"entry '{name}'"))
            self.input_overflows += overflows
            self.device.write(self._address(slot.base, slot.offset, len(data), name), data)
        return self.device.submit(self._handles[name], self._bases)

    def finish(self, ticket: Ticket) -> dict[str, F32]:
        """Wait for a run and read its outputs by name; outputs in STATE stay on the device."""
        done = self.device.wait(ticket)
        self.completions[done.entry] = done
        for tag, work in done.tags.items():
            if work.fp16_overflow or work.nan:
                key = done.entry, tag
                self.exceptions[key] = self.exceptions.get(key, 0) + work.fp16_overflow + work.nan
        outputs = [s for s in self._entry(done.entry).outputs if s.base == Base.IO]
        return {
            s.name: unpack(s, self.device.read(self._address(s.base, s.offset, s.bytes, done.entry), s.bytes))
            for s in outputs
        }

    def run(self, name: str, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, F32]:
        """Outputs by name of one run of entry `name`."""
        return self.finish(self.submit(name, inputs))

    def peek(self, base: int, offset: int, size: int) -> npt.NDArray[np.uint8]:
        """Bytes of a region, for comparing intermediate results."""
        return self.device.read(self._address(base, offset, size, "peek"), size)

    def close(self) -> None:
        """Free the device."""
        self.device.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def _entry(self, name: str) -> Entry:
        try:
            return self.program.entry(name)
        except KeyError:
            have = ", ".join(e.name for e in self.program.entries)
            raise DpuError(f"entry '{name}'", "not in the program", hint=f"one of {have}", code="E401") from None

    def _address(self, base: int, offset: int, size: int, what: str) -> int:
        region = self._bases.get(base)
        if region is None or offset + size > region.bytes:
            have = f"{region.bytes} bytes" if region else "none"
            raise DpuError(
                f"entry '{what}'", f"a slot ends at byte {offset + size} of base {base}, which has {have}", code="E426"
            )
        return region.address + offset
