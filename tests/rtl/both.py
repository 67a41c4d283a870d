"""The simulator and the RTL side by side, as a test asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpu.bench import rtl_compare
from dpu.bench.rtl_shapes import card
from dpu.ir.isa import Words
from dpu.simulator.state import Tally


class Both(rtl_compare.Both):
    """A DPU of a named shape. In `stall` of 256 cycles each AXI channel pauses."""

    def __init__(self, name: str, stall: int = 0) -> None:
        super().__init__(card(name), stall)

    def check(self, streams: Sequence[Words], regions: Mapping[int, Any], text: object = "") -> Tally:
        """Both leave the same bytes and counts. `text` is what a failure shows of the program."""
        found, total = self.difference(streams, regions)
        assert not found, f"{found}\n{text}"
        return total
