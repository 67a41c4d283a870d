"""What the kernel is told and what it answers: a list of commands, and the report of registers that it read."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...ir.regmap import register
from ...rtl.xrt.kernel import BEAT, COMMAND, Op, command
from ..registers import Registers

Bytes = npt.NDArray[np.uint8]


class Commands:
    """A list under construction; registers by name, as in `docs/regmap.md`."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._reads: list[int] = []  # addresses, in the order of the report

    def write(self, name: str, value: int, index: int = 0, *, wide: bool = False) -> None:
        """Set a register; `wide`: of 64 bits."""
        if wide:
            self.write(f"{name}_LO", value & 0xFFFFFFFF, index)
            self.write(f"{name}_HI", value >> 32, index)
        else:
            self._words.append(command(Op.WRITE, register(name).address(index), value))

    def wait(self, name: str, mask: int) -> None:
        """Go on when the bits `mask` of a register are zero."""
        self._words.append(command(Op.WAIT, register(name).address(), mask))

    def read(self, name: str, index: int = 0, *, wide: bool = False) -> None:
        """Put a register into the report; `wide`: of 64 bits, LO first."""
        if wide:
            self.read(f"{name}_LO", index)
            self.read(f"{name}_HI", index)
        else:
            address = register(name).address(index)
            self._reads.append(address)
            self._words.append(command(Op.READ, address))

    def image(self, serial: int) -> Bytes:
        """The list as bytes, whole beats. The report will end with `serial`."""
        words = np.array([*self._words, command(Op.END, value=serial)], "<u8").view(np.uint8)
        return np.pad(words, (0, -len(words) % BEAT))

    @property
    def report_bytes(self) -> int:
        """Bytes of the report, whole beats."""
        return -(-4 * (len(self._reads) + 1) // BEAT) * BEAT

    def parse(self, report: Bytes, serial: int) -> Registers:
        """The registers that were read.

        Raises:
            DpuError: E439, the report does not end with `serial`: the kernel did not come to the end of the list.
        """
        words = report[: self.report_bytes].view("<u4")
        if (found := int(words[len(self._reads)])) != serial:
            raise DpuError(
                "xrt",
                f"the kernel's report ends with {found:#x}, run {serial:#x} was started",
                "the kernel could not read its commands or write its report: memory answered with an error",
                code="E439",
            )
        values = dict(zip(self._reads, map(int, words), strict=False))
        return Registers(lambda address: values[address])


assert COMMAND == 8
