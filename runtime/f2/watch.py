"""What a card does while it makes an image: one line now and then, for `dpurun --watch`.

Occupancy and bandwidth are differences of the run's own counters between two looks; watts are what management last
measured of VCCINT alone. F2 gives no temperature.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...errors import DpuError
from ...ir.f2_regmap import COUNT_HZ
from ...ir.regmap import register
from .card import CardFault

if TYPE_CHECKING:
    from .device import F2Device

SECONDS = 1.0


@dataclass(frozen=True)
class Sample:
    """Counters of the run under way: cycles so far, of the matrix arrays, and bytes to and from device memory."""

    cycles: int
    busy: int  # summed over tiles
    moved: int


def sample(device: F2Device) -> Sample:
    """A look at the counters.

    Raises:
        CardFault: the card does not answer.
    """
    bus = device.bus

    def total(name: str) -> int:
        return sum(bus.counter(register(f"TILE_{name}_LO").address(t)) for t in range(device.arch.tiles))

    with bus.lock:  # no reset in between
        cycles = bus.counter(register("CYCLES_LO").address())
        return Sample(cycles, total("MXU_BUSY"), total("READ_BYTES") + total("WRITTEN_BYTES"))


class Watch:
    """Prints through `say` every `seconds` until `stop`; `step` counts the steps done of `steps`."""

    def __init__(
        self,
        device: F2Device,
        steps: int,
        say: Callable[[str], None] | None = None,
        seconds: float = SECONDS,
    ) -> None:
        self._device, self._steps, self._done = device, steps, 0
        self._say = say or _to_stderr
        self._seconds = seconds
        self._began = time.monotonic()
        self._before: Sample | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="dpu-watch", daemon=True)
        self._thread.start()

    def step(self) -> None:
        """A denoising step is done."""
        self._done += 1

    def stop(self) -> None:
        """Print no more."""
        self._stopped.set()
        self._thread.join()

    def line(self) -> str:
        """What the card does now."""
        parts = [self._device.bus.card.where, self._progress(), self._work()]
        with self._device.bus.lock:
            info = self._device.bus.card.describe(metrics=True)
        if self._device.bus.card.simulated:
            parts.append("power not modelled")
        elif info.watts is None:
            parts.append("power not given")
        else:
            parts.append(f"{info.watts} W VCCINT, at most {info.max_watts} W")
        parts.append("temperature not given")
        if noise := self._device.bus.noise.text():
            parts.append(f"mended: {noise}")
        return ", ".join(parts)

    def _progress(self) -> str:
        left = self._steps - self._done
        text = f"step {self._done} of {self._steps}"
        if not self._done:
            return f"{text}, {left} left"
        seconds = (time.monotonic() - self._began) / self._done * left
        return f"{text}, {left} left in about {seconds:.3g} s"

    def _work(self) -> str:
        now, before = sample(self._device), self._before
        self._before = now
        arch = self._device.arch
        if before is None or now.cycles <= before.cycles:  # another run has started
            before = Sample(0, 0, 0)
        cycles = now.cycles - before.cycles
        if not cycles:
            return "idle"
        used = (now.busy - before.busy) / (cycles * arch.tiles)
        rate = (now.moved - before.moved) / cycles * COUNT_HZ
        return f"arrays {used:.0%}, memory {rate / 1e9:.3g} GB/s"

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._say(self.line())
            except (CardFault, DpuError) as e:  # the run itself deals with it
                self._say(f"{self._device.bus.card.where}: {e}".splitlines()[0])


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
