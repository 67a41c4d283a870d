"""Devices by the name that `dpurun --target` takes."""

from __future__ import annotations

from pathlib import Path

from ..errors import DpuError
from ..ir.arch import Arch
from .device import Device

TARGETS = ("sim", "rtl", "cpu")
_LATER = {
    "f2": "the AWS F2 card",
    "xrt": "the Alveo card",
    "gpu": "the GPU path",
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


def open_device(name: str, arch: Arch, waves: Path | None = None) -> Device:
    """A device of this arch. `waves` is a VCD file that `rtl` writes.

    Raises:
        DpuError: there is no such device; `cpu` is none, it runs the model itself. E428, `rtl` cannot be built.
    """
    check_target(name)
    if name == "rtl":
        from .rtl_device import RtlDevice

        return RtlDevice(arch, waves)
    if name != "sim":
        raise DpuError(f"--target {name}", "runs the model, not a compiled program", code="E430")
    from .sim_device import SimDevice

    return SimDevice(arch)
