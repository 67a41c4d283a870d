"""What NVML says about a GPU: energy, clocks, temperature, what holds the clocks back.

Energy is the board's total-energy counter, in millijoules; it is read before and after a window of work.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

THROTTLE = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "software power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "hardware power brake",
    0x100: "display clocks",
}
"""Bits of nvmlDeviceGetCurrentClocksEventReasons (nvml.h)."""
_PERIOD = 0.2  # seconds between samples


@dataclass
class Window:
    """One window of work. `samples`: seconds since the start, W, MHz of the SMs, degrees C."""

    seconds: float = 0.0
    joules: float = 0.0
    samples: list[tuple[float, float, int, int]] = field(default_factory=list)
    throttle: dict[str, int] = field(default_factory=dict)  # reason: samples that showed it

    @property
    def watts(self) -> float:
        """Mean power, from the energy counter."""
        return self.joules / self.seconds if self.seconds else 0.0


class Board:
    """One GPU through NVML. `nvml` can be another module with the same functions, for tests."""

    def __init__(self, index: int = 0, nvml: Any = None) -> None:
        if nvml is None:
            nvml = import_module("pynvml")
        self.nvml = nvml
        nvml.nvmlInit()
        self.handle = nvml.nvmlDeviceGetHandleByIndex(index)

    @classmethod
    def of_torch(cls) -> Board:
        """The GPU that torch calls 0, which CUDA_VISIBLE_DEVICES may have chosen among others."""
        import torch

        pynvml: Any = import_module("pynvml")
        wanted = str(torch.cuda.get_device_properties(0).uuid)
        pynvml.nvmlInit()
        for index in range(pynvml.nvmlDeviceGetCount()):
            uuid = pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByIndex(index))
            text = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
            if text.removeprefix("GPU-") == wanted.removeprefix("GPU-"):
                return cls(index, pynvml)
        return cls(0, pynvml)

    def energy(self) -> float:
        """Joules since the driver was loaded."""
        return float(self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.handle)) / 1e3

    def watts(self) -> float:
        """Power now."""
        return float(self.nvml.nvmlDeviceGetPowerUsage(self.handle)) / 1e3

    def clock(self) -> int:
        """MHz of the SMs."""
        return int(self.nvml.nvmlDeviceGetClockInfo(self.handle, 1))

    def celsius(self) -> int:
        """Temperature of the GPU."""
        return int(self.nvml.nvmlDeviceGetTemperature(self.handle, 0))

    def throttle(self) -> list[str]:
        """What holds the clocks back now."""
        for name in ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"):
            read = getattr(self.nvml, name, None)
            if read is not None:
                bits = int(read(self.handle))
                return [text for bit, text in THROTTLE.items() if bits & bit]
        return []

    @contextmanager
    def window(self) -> Iterator[Window]:
        """Measure what runs inside; the caller synchronises the GPU before it leaves."""
        found, stop = Window(), threading.Event()
        start = time.perf_counter()

        def sample() -> None:
            while not stop.wait(_PERIOD):
                found.samples.append((time.perf_counter() - start, self.watts(), self.clock(), self.celsius()))
                for why in self.throttle():
                    found.throttle[why] = found.throttle.get(why, 0) + 1

        watcher = threading.Thread(target=sample, daemon=True)
        before, start = self.energy(), time.perf_counter()
        watcher.start()
        try:
            yield found
        finally:
            found.seconds, found.joules = time.perf_counter() - start, self.energy() - before
            stop.set()
            watcher.join()
