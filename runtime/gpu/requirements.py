"""What the GPU path needs on this machine, and which of it is missing."""

from __future__ import annotations

import ctypes
import importlib.util
from dataclasses import dataclass

from ...errors import DpuError

ENGINES = ("ort", "torch", "best")
"""What runs the UNet; `best` is the one that was measured to be faster, torch."""


@dataclass(frozen=True)
class Found:
    """What is there. `torch` and `ort` are versions, empty without the package."""

    driver: bool
    torch: str
    cuda_devices: int
    ort: str
    ort_cuda: bool
    nvml: bool


def probe() -> Found:
    """Look at this machine."""
    import torch

    driver = True
    try:
        ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        driver = False
    import onnxruntime as ort

    return Found(
        driver,
        torch.__version__,
        torch.cuda.device_count() if torch.cuda.is_available() else 0,
        ort.__version__,
        "CUDAExecutionProvider" in ort.get_available_providers(),
        importlib.util.find_spec("pynvml") is not None,
    )


def check_engine(engine: str) -> None:
    """Refuse an engine that does not exist.

    Raises:
        DpuError: `engine` is not in `ENGINES`.
    """
    if engine not in ENGINES:
        raise DpuError(f"--engine {engine}", "no such engine", hint=f"one of {', '.join(ENGINES)}", code="E430")


def require(where: str, engine: str, found: Found | None = None, power: bool = False) -> None:
    """Check that an engine can run here.

    Args:
        where: the option or command that asks, for the error.
        engine: one of `ENGINES`.
        found: what is there; default: look.
        power: energy is to be measured as well.

    Raises:
        DpuError: E431, something is missing; all of it is named.
    """
    check_engine(engine)
    found = found or probe()
    missing: list[tuple[str, str]] = []
    if not found.driver:
        missing.append(("an NVIDIA driver", "a machine with an NVIDIA GPU and its driver"))
    if not found.cuda_devices:
        missing.append((f"a CUDA device in torch {found.torch}", "a CUDA build of torch 2.11 or newer"))
    if engine == "ort" and not found.ort_cuda:
        missing.append(
            (
                f"the CUDA provider in onnxruntime {found.ort}",
                "pip uninstall onnxruntime, then pip install 'dpu[gpu]'",
            )
        )
    if power and not found.nvml:
        missing.append(("the package nvidia-ml-py", "pip install 'dpu[gpu]'"))
    if missing:
        raise DpuError(
            where,
            f"not here: {', '.join(what for what, _ in missing)}",
            why="the GPU path runs on an NVIDIA GPU only",
            hint="; ".join(dict.fromkeys(how for _, how in missing)) + "; --target cpu runs the reference anywhere",
            code="E431",
        )
