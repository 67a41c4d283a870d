"""Devices by the name that `dpurun --target` takes."""

from __future__ import annotations

from pathlib import Path

from ..errors import DpuError
from ..ir.arch import Arch
from .device import Device

TARGETS = ("sim", "rtl", "cpu", "gpu")
DEVICES = ("cpu", "cuda")
"""Where target `sim` computes."""
_LATER = {
    "f2": "the AWS F2 card",
    "xrt": "the Alveo card",
}


def check_target(name: str) -> None:
    """Refuse a target that does not exist, in one sentence.

    Raises:
        DpuError: `name` is not in `TARGETS`.
    """
    if name in TARGETS:
        return
    what = f"{_LATER[name]} has no driver in this version" if name in _LATER else "no such target"
    raise DpuError(f"--target {name}", what, hint=f"one of {', '.join(TARGETS)}", code="E430")


def check_device(device: str, target: str) -> None:
    """Refuse a place to compute that does not exist, or that the target does not know.

    Raises:
        DpuError: `device` is not in `DEVICES`, or the target is not `sim`.
    """
    if device not in DEVICES:
        raise DpuError(f"--device {device}", "no such device", hint=f"one of {', '.join(DEVICES)}", code="E430")
    if device != "cpu" and target != "sim":
        raise DpuError(f"--device {device}", f"target {target} has none", hint="--target sim", code="E501")


def open_device(name: str, arch: Arch, waves: Path | None = None, device: str = "cpu", timed: bool = True) -> Device:
    """A device of this arch. `waves` is a VCD file that `rtl` writes; `device` is where `sim` computes; `timed` says
    whether it simulates cycles.

    Raises:
        DpuError: there is no such device; `cpu` and `gpu` are none, they run the model. E428, `rtl` cannot be built.
    """
    check_target(name)
    if name == "rtl":
        from .rtl_device import RtlDevice

        return RtlDevice(arch, waves)
    if name != "sim":
        raise DpuError(f"--target {name}", "runs the model, not a compiled program", code="E430")
    if device != "cpu":
        from .cuda_device import CudaDevice

        return CudaDevice(arch, timed, device)
    from .sim_device import SimDevice

    return SimDevice(arch, timed)
