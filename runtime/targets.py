"""Devices by the name that `dpurun --target` takes."""

from __future__ import annotations

from pathlib import Path

from ..errors import DpuError
from ..ir.arch import Arch
from .device import Device

TARGETS = ("sim", "rtl", "f2", "xrt", "cpu", "gpu")
CARDS = ("f2", "xrt")
"""Those that have cards, and an image on them."""
DEVICES = ("cpu", "cuda")
"""Where target `sim` computes."""


def check_target(name: str) -> None:
    """Refuse a target that does not exist, in one sentence.

    Raises:
        DpuError: `name` is not in `TARGETS`.
    """
    if name in TARGETS:
        return
    raise DpuError(f"--target {name}", "no such target", hint=f"one of {', '.join(TARGETS)}", code="E430")


def check_device(device: str, target: str) -> None:
    """Refuse a place to compute that does not exist, or that the target does not know.

    Raises:
        DpuError: `device` is not in `DEVICES`, or the target is not `sim`.
    """
    if device not in DEVICES:
        raise DpuError(f"--device {device}", "no such device", hint=f"one of {', '.join(DEVICES)}", code="E430")
    if device != "cpu" and target != "sim":
        raise DpuError(f"--device {device}", f"target {target} has none", hint="--target sim", code="E501")


def check_card(target: str, image: str, card: str, watch: bool = False, images: int = 1) -> None:
    """Refuse what cards alone have without a card, and a card without an image.

    Raises:
        DpuError: the target has no cards, or none was given.
    """
    for option, value in (("--image", image), ("--card", card)):
        if value and target not in CARDS:
            raise DpuError(option, f"target {target} has none", hint=f"--target {' or '.join(CARDS)}", code="E501")
    for option, asked in (("--watch", watch), ("--images", images != 1)):
        if asked and target != "f2":
            raise DpuError(option, f"target {target} has none", hint="--target f2", code="E501")
    if target == "xrt" and not image:
        hint = "dpubench xrt-build makes a .xclbin; give it with --image"
        raise DpuError("--image", "target xrt needs a device binary", hint=hint, code="E501")


def open_device(
    name: str,
    arch: Arch,
    waves: Path | None = None,
    device: str = "cpu",
    timed: bool = True,
    image: str = "",
    card: str = "",
) -> Device:
    """A device of this arch. `waves` is a VCD file that `rtl` writes; `device` is where `sim` computes; `timed` says
    whether it simulates cycles; `image` is what a card is loaded with, `card` which one, the first if not given.

    Raises:
        DpuError: there is no such device; `cpu` and `gpu` are none, they run the model. E428, `rtl` cannot be built.
            E432 to E436, no such F2 card, or not with this image; E438, no XRT, no such Alveo card, or not with it.
    """
    check_target(name)
    if name == "rtl":
        from .rtl_device import RtlDevice

        return RtlDevice(arch, waves)
    if name == "f2":
        from .f2.opening import open_f2

        return open_f2(arch, image, card)
    if name == "xrt":
        from .xrt.device import XrtDevice

        check_card(name, image, card)
        return XrtDevice(arch, Path(image), card or "0")
    if name != "sim":
        raise DpuError(f"--target {name}", "runs the model, not a compiled program", code="E430")
    if device != "cpu":
        from .cuda_device import CudaDevice

        return CudaDevice(arch, timed, device)
    from .sim_device import SimDevice

    return SimDevice(arch, timed)
