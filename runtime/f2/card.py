"""What the driver needs of a card, whoever gives access to it: the SDK's library (`sdk.py`) or sysfs (`sysfs.py`)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from ..device import Bytes

POWER_VIOLATION = "afi-power-violation"


class Fault(Enum):
    """What can be wrong with a card; the value is how messages call it."""

    BUS = "the bus is dead"
    IMAGE = "the image is gone"
    POWER = "the shell has stopped the clocks over a power violation"
    HANG = "the card hangs"
    TRANSFER = "data changed on the way"


class CardFault(Exception):
    """Something that a reset or a reload of the card may mend; it never leaves this package.

    `again`: the same once more may do.
    """

    def __init__(self, fault: Fault, seen: str, again: bool = False) -> None:
        super().__init__(f"{fault.value}: {seen}")
        self.fault, self.seen, self.again = fault, seen, again


@dataclass(frozen=True)
class ImageInfo:
    """What management says of a slot. Watts are of VCCINT alone, whole numbers; None where nobody says."""

    state: str  # loaded, cleared, busy, not-programmed, load-failed
    reason: str = "ok"  # of the state
    image: str = ""  # id of what is loaded
    shell: int = 0  # version
    watts: int | None = None
    mean_watts: int | None = None
    max_watts: int | None = None

    @property
    def loaded(self) -> bool:
        """Whether there is an image whose clocks run."""
        return self.state == "loaded" and self.reason == "ok"

    def text(self) -> str:
        """For messages."""
        what = self.state + (f" ({self.reason})" if self.reason != "ok" else "")
        return f"{what}, image {self.image}" if self.image else what


class Card(Protocol):
    """One FPGA. Not thread safe: whoever shares it locks (`bus.Bus` does)."""

    slot: int
    where: str
    """How messages call it."""
    simulated: bool
    """Whether this is the stand-in."""

    def describe(self, metrics: bool = False) -> ImageInfo:
        """What management says; with `metrics` also of power.

        Raises:
            DpuError: E432, it says nothing.
        """
        ...

    def load(self, image: str) -> None:
        """Load an image and wait for it; attached BARs are void afterwards.

        Raises:
            DpuError: E433, management refuses it; E432, this access cannot load.
        """
        ...

    def clear(self) -> None:
        """Take the image away.

        Raises:
            DpuError: E432, management refuses.
        """
        ...

    def attach(self) -> None:
        """Map BAR0 and BAR4.

        Raises:
            DpuError: E432, no such function of the device, or no permission.
        """
        ...

    def detach(self) -> None:
        """Unmap them; without effect where nothing is mapped."""
        ...

    def peek(self, offset: int) -> int:
        """32 bits of BAR0."""
        ...

    def poke(self, offset: int, value: int) -> None:
        """Set 32 bits of BAR0."""
        ...

    def burst(self, offset: int, data: Bytes) -> None:
        """Write-combined writes to BAR4: `offset` and size are multiples of 64."""
        ...

    def loads(self, offset: int, size: int) -> Bytes:
        """Read BAR4 word by word, about 3 MB/s on a card."""
        ...

    def untranslated(self) -> str:
        """Why physical addresses do not reach host memory from this card; empty if they do."""
        ...

    def close(self) -> None:
        """Let go of it; the image stays."""
        ...
