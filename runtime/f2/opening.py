"""From `--card` to an open device: slots of this computer, or the stand-in's."""

from __future__ import annotations

from ...errors import DpuError
from ...ir.arch import Arch
from .card import Card
from .device import F2Device
from .sdk import SLOTS, SdkCard
from .settings import Settings
from .stand_in import NAME, Lease
from .sysfs import SysfsCard


def slots(text: str) -> tuple[bool, list[int]]:
    """Whether `--card` names the stand-in, and the slots: `0`, `0,1,2`, `stand-in`, `stand-in:0,1`; nothing is slot 0.

    Raises:
        DpuError: E501, it is none of these.
    """
    name, _, rest = text.partition(":")
    fake = name == NAME
    listed = (rest if fake else text) or "0"
    numbers = listed.split(",")
    if not all(n.isdecimal() and int(n) < SLOTS for n in numbers) or len(set(numbers)) < len(numbers):
        hint = f"a slot, 0 to {SLOTS - 1}; several as 0,1,2; {NAME} without a card"
        raise DpuError("--card", f"'{text}' names no slots", hint=hint, code="E501")
    return fake, [int(n) for n in numbers]


def open_f2(arch: Arch, image: str = "", card: str = "") -> F2Device:
    """The device in one slot. `image` is the agfi id to load; empty: what is loaded.

    Raises:
        DpuError: E501, several slots; else as of `F2Device`.
    """
    fake, numbers = slots(card)
    if len(numbers) > 1:
        what = f"{card} are {len(numbers)} slots, and one image is made in one"
        raise DpuError("--card", what, hint="give --images as well, or one slot", code="E501")
    lease = Lease(arch) if fake else None
    settings = lease.settings if lease else Settings.of()
    try:
        return F2Device(arch, _card(numbers[0], settings), settings, image, lease.release if lease else None)
    except BaseException:
        if lease:
            lease.release()
        raise


def _card(slot: int, settings: Settings) -> Card:
    if settings.access == "sdk":
        return SdkCard(slot, settings.library, settings.sysfs)
    if slot >= len(settings.devices):
        what = f"slot {slot} has no PCI address"
        raise DpuError(
            "DPU_F2_DEVICES", what, hint="lspci -d 1d0f: lists the cards; give them slot by slot", code="E501"
        )
    return SysfsCard(slot, settings.devices[slot], settings.sysfs)
