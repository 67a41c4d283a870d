"""How long something may stand still: by the card's own clock, and by this computer's should that one stand still."""

from __future__ import annotations

import time

from ...ir.f2_regmap import COUNT_HZ, cl
from .bus import Bus


class Patience:
    """Sees progress, and says when there was none for `card_seconds` of the card's time or `wall_seconds` here."""

    def __init__(self, bus: Bus, card_seconds: float, wall_seconds: float) -> None:
        self._bus, self._limits = bus, (card_seconds, wall_seconds)
        self._seen: object = None
        self._since = self._now()

    def over(self, seen: object) -> str:
        """Empty while `seen` changes or time is left; else how long it did not.

        Raises:
            CardFault: the bus is dead.
        """
        now = self._now()
        if seen != self._seen:
            self._seen, self._since = seen, now
            return ""
        card, wall = (b - a for a, b in zip(self._since, now, strict=True))
        if card > self._limits[0]:
            return f"{card * 1e3:.3g} ms of the card's time"
        return f"{wall:.3g} s, in which the card's clock moved by {card * 1e3:.3g} ms" if wall > self._limits[1] else ""

    def _now(self) -> tuple[float, float]:
        return self._bus.counter(cl("CL_GLOBAL_COUNT_LO")) / COUNT_HZ, time.monotonic()
