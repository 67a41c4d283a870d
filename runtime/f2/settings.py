"""How the driver reaches cards and how patient it is: from the environment, DPU_F2_<NAME>."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ...errors import DpuError
from .host_memory import HUGE, PAGEMAP
from .sdk import LIBRARY

ACCESSES = ("sdk", "sysfs")
READS = ("copy", "loads")


@dataclass(frozen=True)
class Settings:
    """Defaults are those of an F2 instance. Seconds are the card's own where they measure its work."""

    access: str = "sdk"
    """`sdk`, or `sysfs`: mapped resource files alone, which cannot load an image."""
    library: str = LIBRARY
    devices: tuple[str, ...] = ()
    """PCI addresses by slot, for access `sysfs`."""
    sysfs: Path = Path("/sys")
    hugepages: Path = Path("/dev/hugepages")
    pagemap: Path = PAGEMAP
    events: str = "/dev/xdma{slot}_events_0"
    """File of user interrupt 0, `{slot}` in place of the number; the XDMA driver makes it. Without one: polling."""
    read: str = "copy"
    """`copy`: the copy engine writes results to host memory. `loads`: the slow way, which every summary names."""
    chunk: int = 1 << 20
    """Bytes that one copy moves; four such buffers are kept, and none crosses a huge page."""
    stall_seconds: float = 2.0
    """Of the card's time without any progress until a run counts as hung."""
    wall_seconds: float = 120.0
    """Of this computer's time without any progress, should the card's clock stand still."""
    cool_seconds: float = 30.0
    """Of the card's time that it may be paused over a power warning."""

    @staticmethod
    def of(environment: Mapping[str, str] = os.environ) -> Settings:
        """What the environment says.

        Raises:
            DpuError: E501, a value that cannot be.
        """
        given: dict[str, Any] = {}
        for f in fields(Settings):
            name = f"DPU_F2_{f.name.upper()}"
            if name in environment:
                given[f.name] = _value(name, environment[name], f.default)
        found = Settings(**given)
        for name, value, allowed in (("ACCESS", found.access, ACCESSES), ("READ", found.read, READS)):
            if value not in allowed:
                hint = f"one of {', '.join(allowed)}"
                raise DpuError(f"DPU_F2_{name}", f"'{value}' is no choice", hint=hint, code="E501")
        if found.chunk % 4096 or HUGE % found.chunk:
            what = f"{found.chunk} is no size of a buffer"
            raise DpuError("DPU_F2_CHUNK", what, hint="4096 times a power of two, up to 2097152", code="E501")
        return found


def _value(name: str, text: str, default: object) -> object:
    if isinstance(default, tuple):
        return tuple(t for t in text.split(",") if t)
    if isinstance(default, int | float):
        try:
            number = type(default)(text)
        except ValueError as e:
            raise DpuError(name, f"'{text}' is no number", code="E501") from e
        if number <= 0:
            raise DpuError(name, f"{text} is not positive", code="E501")
        return number
    return Path(text) if isinstance(default, Path) else text
