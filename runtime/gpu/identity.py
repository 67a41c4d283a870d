"""Which GPU, driver and libraries a measurement is of."""

from __future__ import annotations

import os
import platform
import subprocess
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = (
    "torch",
    "triton",
    "onnxruntime-gpu",
    "onnxruntime",
    "onnx",
    "onnx-ir",
    "diffusers",
    "transformers",
    "numpy",
)


def identity(board: Any = None) -> dict[str, Any]:
    """Names and versions; `board` is a `power.Board`, for the driver and the limits."""
    import torch

    cudnn: Any = torch.backends.cudnn
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "processors": len(_affinity()),
        "packages": versions(),
        "torch cuda": torch.version.cuda,
        "cudnn": cudnn.version() if cudnn.is_available() else None,
        "tensorrt": _version("tensorrt") or "no wheel: not measured",
        "commit": commit(),
    }
    if torch.cuda.is_available():
        properties: Any = torch.cuda.get_device_properties(0)
        found["gpu"] = {
            "name": properties.name,
            "memory bytes": properties.total_memory,
            "multiprocessors": properties.multi_processor_count,
            "compute capability": f"{properties.major}.{properties.minor}",
        }
    if board is not None:
        nvml = board.nvml
        found["driver"] = _text(nvml.nvmlSystemGetDriverVersion())
        with suppress(Exception):  # some boards do not say
            found["power limit W"] = nvml.nvmlDeviceGetEnforcedPowerLimit(board.handle) / 1e3
            found["largest SM clock MHz"] = nvml.nvmlDeviceGetMaxClockInfo(board.handle, 1)
    return found


def versions() -> dict[str, str]:
    """Of the packages that decide speed."""
    return {name: found for name in PACKAGES if (found := _version(name))}


def commit() -> str:
    """The commit of the checkout, with `+` if files differ from it; outside a checkout what DPU_COMMIT says."""
    root = Path(__file__).parents[2]
    try:
        at = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True).stdout
        changed = subprocess.run(
            ["git", "status", "--porcelain", "--untracked-files=no"],
            cwd=root,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        return os.environ.get("DPU_COMMIT", "").strip()
    return at.strip() + ("+" if changed.strip() else "")


def _affinity() -> set[int]:
    return set(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
