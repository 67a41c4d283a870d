"""`dpubench gpu` without a GPU: a board that NVML would give, and the tiny pipeline on the CPU."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from types import SimpleNamespace

from dpu.bench.gpu_context import Bench
from dpu.frontend.tiny import SCHEDULER, tiny_configs
from dpu.runtime.gpu.power import Board


def board() -> Board:
    """A board of 100 W that has taken one joule more each time it is asked; software holds its power down."""
    millijoules = count(0, 1000)
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda i: i,
        nvmlDeviceGetTotalEnergyConsumption=lambda h: next(millijoules),
        nvmlDeviceGetPowerUsage=lambda h: 100_000,
        nvmlDeviceGetClockInfo=lambda h, kind: 1000,
        nvmlDeviceGetTemperature=lambda h, kind: 40,
        nvmlDeviceGetCurrentClocksEventReasons=lambda h: 0x4,
    )
    return Board(0, nvml)


def tiny_bench(folder: Path, least: int) -> Bench:
    """Measures the tiny pipeline, 64x64 images, at least `least` times."""
    return Bench(
        folder,
        least=least,
        device="cpu",
        board=board(),
        configs=tiny_configs(),
        scheduler={**SCHEDULER, "_class_name": "EulerDiscreteScheduler"},
        latent=(8, 8),
        model="tiny",
        stand_in="the CPU",
    )
