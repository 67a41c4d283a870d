"""The error of a card that nothing helped: what was seen, what was tried, what to do."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import DpuError
from .card import CardFault, Fault

CODES = {
    Fault.BUS: "E434",
    Fault.IMAGE: "E434",
    Fault.POWER: "E440",
    Fault.HANG: "E435",
    Fault.TRANSFER: "E437",
}
_REMEDIES = {
    Fault.BUS: "stop and start the instance; if that does not help, take another one",
    Fault.IMAGE: "see that nobody else uses the slot (fpga-describe-local-image -S SLOT), then run again",
    Fault.POWER: "use an image with fewer tiles or a slower clock; fpga-describe-local-image -S SLOT -M has watts",
    Fault.HANG: "run dpuc verify on the program; if it is sound, the image or the card is not: try another slot",
    Fault.TRANSFER: "try another slot; if it stays, the image's timing is not met: build it again",
}


def lost(where: str, faults: Sequence[CardFault], resets: int, reloads: int) -> DpuError:
    """The last fault decides code and remedy."""
    seen = "; then ".join(dict.fromkeys(str(f) for f in faults))
    tried = [f"{n} {name}{'s' * (n > 1)}" for n, name in ((resets, "reset"), (reloads, "reload")) if n]
    why = f"after {' and '.join(tried)}" if tried else ""
    return DpuError(where, seen, why, _REMEDIES[faults[-1].fault], code=CODES[faults[-1].fault])
