"""What `fpga-describe-local-image -M` says of a card, read from its text.

Lines and their order are those of aws-fpga's F2 tools (sdk/userspace/fpga_mgmt_tools/src/fpga_local_cmd.c,
print_f2_metrics; an example in docs "How to detect a shell timeout", both read 2026-12-01). Power is that of Vccint
alone, in whole watts: without HBM, block RAM, DDR and the rest of the card. How often it is refreshed is not published
for F2; on F1 it was once a minute.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from ...errors import DpuError


@dataclass(frozen=True)
class Described:
    """A card. Watts are none without `-M`; `counters` are the metrics by name, of DDR with `DDR0.` before it."""

    slot: int
    image: str  # agfi, or "none"
    status: str
    error: str
    shell: int
    power_last: int | None
    power_mean: int | None
    power_max: int | None
    counters: Mapping[str, int]

    @property
    def troubles(self) -> dict[str, int]:
        """Counters of timeouts and errors that are not zero."""
        return {k: v for k, v in self.counters.items() if v and re.search("timeout|error", k) and "addr" not in k}


_CARD = re.compile(r"^AFI\s+(\d+)\s+(\S+)\s+(\S+)\s+\d+\s+(\S+)\s+\d+\s+(0x[0-9a-fA-F]+)\s*$", re.M)
_POWER = re.compile(
    r"^\s*Power consumption \(Vccint\):\s*\n\s*Last measured: (\d+) watts\s*\n\s*Average: (\d+) watts\s*\n"
    r"\s*Max measured: (\d+) watts\s*$",
    re.M,
)
_COUNTER = re.compile(r"^\s*([A-Za-z][\w-]*)=(0x[0-9a-fA-F]+|\d+)\s*$")
_GROUP = re.compile(r"^\s*(DDR\d+)\s*$")


def parse(text: str) -> Described:
    """The card that a text describes.

    Raises:
        DpuError: E446, no card is in it, or metrics without power.
    """
    card = _CARD.search(text)
    if card is None:
        raise DpuError("fpga-describe-local-image", f"no line of an image in '{text.strip()[:200]}'", code="E446")
    counters: dict[str, int] = {}
    group = ""
    for line in text.splitlines():
        if found := _GROUP.match(line):
            group = f"{found[1]}."
        elif found := _COUNTER.match(line):
            counters[(group if found[1] in ("write-count", "read-count") else "") + found[1]] = int(found[2], 0)
    power = _POWER.search(text)
    if counters and power is None:
        raise DpuError("fpga-describe-local-image", "metrics without 'Power consumption (Vccint)'", code="E446")
    last, mean, most = (int(x) for x in power.groups()) if power else (None, None, None)
    return Described(int(card[1]), card[2], card[3], card[4], int(card[5], 16), last, mean, most, counters)
