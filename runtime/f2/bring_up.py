"""From a slot to custom logic that answers: image, BARs, identity, memory."""

from __future__ import annotations

import time

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.f2_regmap import CL_MAGIC, CL_VERSION, HBM_READY, SOFT_RESET, cl
from ...ir.isa import ABI_VERSION
from .bus import Bus
from .card import CardFault, Fault
from .patience import Patience
from .settings import Settings

_RESET_LOOKS = 1000
_MIB = 1 << 20


def bring_up(bus: Bus, arch: Arch, image: str, settings: Settings) -> str:
    """Make the card ready for programs of `arch`; the id of the image that is loaded now.

    With `image` that image is loaded if another one, or none, is; a card whose bus is dead gets its image anew.

    Raises:
        DpuError: E432, no access; E433, no image of this project; E420 to E422, it is for another arch.
        CardFault: it does not answer.
    """
    card = bus.card
    info = card.describe()
    wanted = image or info.image
    if not info.loaded or (image and info.image and info.image != image):
        if not wanted:
            hint = "give the id of an image that was built for this arch: --image agfi-0123456789abcdef0"
            raise DpuError(card.where, f"is {info.text()}", hint=hint, code="E433")
        card.load(wanted)
    attach(bus, arch, settings)
    return wanted


def attach(bus: Bus, arch: Arch, settings: Settings) -> None:
    """Map the BARs of a loaded image, and see that it is the right one and works.

    Raises:
        DpuError, CardFault: as of `bring_up`.
    """
    bus.card.attach()
    check_identity(bus, arch)
    bus.test()
    soft_reset(bus)
    patience = Patience(bus, settings.stall_seconds, settings.wall_seconds)
    while not bus.read(cl("CL_STATUS")) & HBM_READY:
        if stood := patience.over(None):
            raise CardFault(Fault.HANG, f"device memory is not ready after {stood}")


def check_identity(bus: Bus, arch: Arch) -> None:
    """Refuse an image that is not the one for `arch`; nothing has been written to it.

    Raises:
        DpuError: E433, E420, E421, E422.
        CardFault: the bus is dead.
    """
    where, load = bus.card.where, "load the image that was built for it: --image AGFI"
    magic = bus.read(cl("CL_ID"))
    if magic != CL_MAGIC:
        what = f"the image says {magic:#010x} where a DPU says {CL_MAGIC:#010x}"
        raise DpuError(where, what, f"the slot is {bus.card.describe().text()}", load, code="E433")
    version = bus.read(cl("CL_VERSION")) >> 16
    if version != CL_VERSION:
        what = f"the image's register map has version {version}, this driver knows {CL_VERSION}"
        raise DpuError(
            where, what, hint="build the image from this version, or use the driver of that one", code="E433"
        )
    digest = f"{bus.wide(cl('CL_ARCH_DIGEST_LO')):016x}"
    tiles = bus.read(cl("CL_TILES"))
    if digest != arch.digest or tiles != arch.tiles:
        what = f"the image is of an arch with {tiles} tiles and digest {digest}"
        why = f"the program is for '{arch.name}', {arch.tiles} tiles, {arch.digest}"
        raise DpuError(where, what, why, load, code="E420")
    abi = bus.dpu("ABI")
    if abi != ABI_VERSION:
        what = f"the image has ABI {abi}, this driver {ABI_VERSION}"
        raise DpuError(where, what, hint="build the image from this version", code="E421")
    memory = bus.read(cl("CL_MEMORY_MIB")) * _MIB
    if arch.dram.base + arch.dram.bytes > memory:
        what = f"has {memory} bytes of device memory, the arch names {arch.dram.base + arch.dram.bytes}"
        raise DpuError(where, what, code="E422")


def soft_reset(bus: Bus) -> None:
    """Reset DPU and copy engine; device memory keeps its bytes.

    Raises:
        CardFault: the reset does not end.
    """
    control = cl("CL_CONTROL")
    for _ in range(2):  # a write that is lost leaves no trace here
        bus.write(control, SOFT_RESET)
        for i in range(_RESET_LOOKS):
            if not bus.look(control) & SOFT_RESET and not bus.read(control) & SOFT_RESET:
                break
            time.sleep(min(i, 10) * 1e-4)
        else:
            raise CardFault(Fault.HANG, "the soft reset does not end")
    bus.set(control, 0)


def reload(bus: Bus, arch: Arch, image: str, settings: Settings) -> None:
    """Clear the slot, load the image again, and attach.

    Raises:
        DpuError: E434, it cannot be loaded from here; others as of `bring_up`.
        CardFault: it does not load, or does not answer after that, either.
    """
    card = bus.card
    card.detach()
    try:
        card.clear()
        card.load(image)
    except DpuError as e:
        if e.code == "E433":  # management tried, and may again
            raise CardFault(Fault.IMAGE, e.what) from e
        raise DpuError(card.where, "needs its image again, and does not get it", f"{e.where}: {e.what}", e.hint,
                       code="E434") from e  # fmt: skip
    attach(bus, arch, settings)
