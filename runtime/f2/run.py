"""One run of a program on the card: registers, start, wait, counters."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from ...ir.arch import Arch
from ...ir.f2_regmap import COUNT_HZ, IRQ_ALL, IRQ_DONE, IRQ_ERROR, PAUSE, cl
from ...ir.regmap import ENGINES, register
from ..device import Completion, Region, TagWork
from ..registers import BUSY, DONE, ERROR, RESET, START, Registers, run_settings
from .bus import Bus
from .card import CardFault, Fault
from .interrupts import Interrupts
from .patience import Patience
from .program import Loaded
from .settings import Settings

_IDLE_LOOKS = 200
_LOOKS = 8  # between looks at progress
_WATCHDOG, _DRAM = 8, 7  # codes of ERROR that a card's fault can cause as well as a program's
_MAX = (1 << 32) - 1


class Run:
    """A run of `program` with these regions. It starts from a reset: no end of an earlier run is taken for its own."""

    def __init__(
        self,
        bus: Bus,
        arch: Arch,
        settings: Settings,
        interrupts: Interrupts,
        program: Loaded,
        bases: Mapping[int, Region],
    ) -> None:
        self.program = program
        self._bus, self._arch, self._settings, self._interrupts = bus, arch, settings, interrupts
        self._bases = bases
        # Sooner than `Patience`: the DPU's own watchdog says which words wait.
        self._watchdog = min(int(settings.stall_seconds * COUNT_HZ / 2), _MAX)
        self._registers = Registers(bus.read)
        self._status = register("STATUS").address()

    def go(self, check: Callable[[], None], begin: float) -> Completion:
        """Run it; `check` is called over and over and raises what ends the run from outside.

        Raises:
            DpuError: the words are at fault.
            CardFault: the card is.
        """
        self._prepare()
        self._start()
        status = self._wait(check)
        if status & ERROR or not status & DONE:
            self._fail(status)
        bus, work = self._bus, self._registers.work(self._arch.tiles)
        cycles = bus.wide(register("CYCLES_LO").address())
        total = TagWork(**{**work, "macs": self.program.macs})
        return Completion(self.program.entry, cycles, time.perf_counter() - begin, total)

    def _prepare(self) -> None:
        bus = self._bus
        self._cool()
        self._reset()
        for s in run_settings(self.program, self._bases):
            if s.wide:
                bus.set_wide(register(f"{s.name}_LO").address(s.index), s.value)
            else:
                bus.set(register(s.name).address(s.index), s.value)
        bus.set(register("WATCHDOG").address(), self._watchdog)
        bus.write(cl("CL_IRQ_PENDING"), IRQ_ALL)
        bus.set(cl("CL_IRQ_ENABLE"), IRQ_DONE | IRQ_ERROR if self._interrupts.enabled else 0)
        self._interrupts.take()

    def _reset(self) -> None:
        """STATUS without the end of an earlier run."""
        for _ in range(2):
            self._bus.write(register("CTRL").address(), RESET)
            for _ in range(_IDLE_LOOKS):
                if not self._bus.read(self._status) & BUSY:
                    break
            if self._bus.read(self._status) == 0:
                return
        raise CardFault(Fault.HANG, f"STATUS stays {self._bus.read(self._status):#x} after a reset")

    def _start(self) -> None:
        """START, until the DPU is busy, or was."""
        for i in range(2):
            self._bus.write(register("CTRL").address(), START)
            if self._bus.read(self._status):
                return
            self._bus.noise.starts += not i
        raise CardFault(Fault.HANG, "the DPU does not start")

    def _wait(self, check: Callable[[], None]) -> int:
        """STATUS when it is busy no more."""
        bus, began = self._bus, time.monotonic()
        patience = Patience(bus, self._settings.stall_seconds, self._settings.wall_seconds)
        looks, came = 0, False
        while True:
            check()
            if not bus.look(self._status) & BUSY:
                status = bus.read(self._status)
                if not status & BUSY:
                    break
                bus.noise.reads += 1
            came |= self._interrupts.wait(began)
            looks += 1
            if looks % _LOOKS == 0:
                self._cool()
                if stood := patience.over(self.progress()):
                    raise CardFault(Fault.HANG, f"no progress for {stood}; {self._registers.stuck(self._arch.tiles)}")
        if self._interrupts.enabled and not came and not self._interrupts.wait(began):
            bus.noise.interrupts += 1
        return status

    def progress(self) -> tuple[int, ...]:
        """What moves while a run does."""
        return tuple(
            self._bus.look(register(f"TILE_{e.name}_WORDS").address(t))
            for t in range(self._arch.tiles)
            for e in ENGINES
        )

    def _cool(self) -> None:
        """Pause the tiles while the shell warns of power.

        Raises:
            CardFault: it does not stop warning.
        """
        bus = self._bus
        if not self._warned():
            return
        bus.noise.pauses += 1
        bus.set(register("WATCHDOG").address(), 0)  # it counts while tiles pause
        bus.set(cl("CL_CONTROL"), PAUSE)
        patience = Patience(bus, self._settings.cool_seconds, self._settings.wall_seconds)
        while self._warned():
            if stood := patience.over(None):
                raise CardFault(Fault.POWER, f"the shell warns of power, paused for {stood}")
            time.sleep(1e-4)
        bus.set(cl("CL_CONTROL"), 0)
        bus.set(register("WATCHDOG").address(), self._watchdog)

    def _warned(self) -> bool:
        return bool(self._bus.look(cl("CL_STATUS")) >> 8 & 3)

    def _fail(self, status: int) -> None:
        """Raise what the error registers say."""
        if not status & ERROR:
            raise CardFault(Fault.HANG, f"the run ended with STATUS {status:#x}: neither done nor failed")
        code = self._registers.get("ERROR") & 0xFF
        error = self._registers.failure(self.program.entry, self.program.streams, status)
        if code in (_WATCHDOG, _DRAM):
            raise CardFault(Fault.HANG, f"{error.where}: {error.what}")
        raise error
