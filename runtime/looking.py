"""What `dpurun` shows of a run from the inside: tensors, a breakpoint, the detail of the trace."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import DpuError
from ..ir.container import Program
from .device import Device

DETAILS = ("auto", "ops", "instructions")


class Quit(Exception):
    """The user ended the run from the stepper."""


@contextmanager
def quitting() -> Iterator[None]:
    """End the process in peace when the user quits."""
    try:
        yield
    except Quit:
        raise SystemExit(0) from None


@dataclass(frozen=True)
class Looking:
    """The options, checked by `check` before any work and put onto a simulated device by `attach`."""

    dump_tensors: tuple[str, ...] = ()
    dump_to: Path | None = None
    break_at: str | None = None
    break_commands: Path | None = None
    trace_detail: str = "auto"

    def check(self, target: str, device: str = "cpu") -> None:
        """Refuse options that go without others, with another target or another place to compute.

        Raises:
            DpuError: they do not fit.
        """
        if self.trace_detail not in DETAILS:
            what = f"'{self.trace_detail}' is no level of detail"
            raise DpuError("--trace-detail", what, hint=f"one of {', '.join(DETAILS)}", code="E501")
        if bool(self.dump_tensors) != (self.dump_to is not None):
            raise DpuError("--dump-tensors", "goes together with --dump-to DIR", hint="give both", code="E501")
        if self.break_commands is not None and self.break_at is None:
            raise DpuError("--break-commands", "there is no breakpoint", hint="give --break-at OP", code="E501")
        if self.break_commands is not None and not self.break_commands.is_file():
            raise DpuError(str(self.break_commands), "no such file", code="E106")
        for option, value in (("--dump-tensors", self.dump_tensors), ("--break-at", self.break_at)):
            if value and target != "sim":
                raise DpuError(option, f"target {target} has none", hint="--target sim", code="E501")
            if value and device != "cpu":
                raise DpuError(option, f"device {device} has none", hint="--device cpu", code="E501")

    def attach(self, device: Device, program: Program) -> None:
        """Look into the runs of `program` on `device`.

        Raises:
            DpuError: the device is not simulated, or a pattern matches nothing.
        """
        if not self.dump_tensors and self.break_at is None:
            return
        from ..simulator.machine import Machine
        from .breaks import Breakpoint
        from .dump import TensorDump
        from .sim_device import Runner, SimDevice

        if not isinstance(device, SimDevice):
            raise DpuError("device", "only the simulator can be looked into", hint="--target sim", code="E501")
        runner: Runner = Machine.run
        if self.break_at is not None:
            runner = Breakpoint(program, self.break_at, _lines(self.break_commands), _show).run
        if self.dump_to is not None:
            runner = TensorDump(program, self.dump_tensors, self.dump_to, runner).run
        device.runner = runner


def _show(line: str) -> None:
    print(line, flush=True)


def _lines(script: Path | None) -> Iterator[str]:
    """The commands of a file, shown as they are read, or of standard input."""
    if script is not None:
        for line in script.read_text(encoding="utf-8").splitlines():
            _show(f"> {line}")
            yield line
        return
    while True:
        if sys.stdin.isatty():
            print("> ", end="", flush=True)
        line = sys.stdin.readline()
        if not line:
            return
        yield line
