"""A loaded program: where its words are, and which device memory they leave results in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...errors import DpuError
from ...ir.container import Base
from ...ir.isa import DTYPE, Opcode, Words
from ...simulator.decode import where
from ..registers import Placed


@dataclass(frozen=True)
class Loaded(Placed):
    """`stored`: by base register, the offsets between which the words store; `macs`: the multiplications they name."""

    stored: Mapping[int, tuple[int, int]]
    macs: int

    def refuse_constants(self) -> None:
        """Nothing keeps a STORE off the constants on a card, so a program that has one does not start.

        Raises:
            DpuError: E412, there is one.
        """
        if Base.CONST not in self.stored:
            return
        for tile, words in enumerate(self.streams):
            for i in np.flatnonzero(words["opcode"] == Opcode.STORE):
                if words[i : i + 1].view(DTYPE[Opcode.STORE])["base"][0] == Base.CONST:
                    place = where(self.entry, tile, int(i), words[i])
                    raise DpuError(place, "REGION: a STORE to constants", code="E412")


def stored(streams: Sequence[Words]) -> dict[int, tuple[int, int]]:
    """First offset that STOREs touch and the one behind the last, by base register."""
    found: dict[int, tuple[int, int]] = {}
    for words in streams:
        moves = np.ascontiguousarray(words[words["opcode"] == Opcode.STORE]).view(DTYPE[Opcode.STORE])
        moves = moves[moves["inner"] > 0]
        steps = (moves["n"].astype(np.int64) - 1).clip(0) * moves["dstride"].astype(np.int64)
        first = moves["offset"].astype(np.int64) + np.minimum(steps, 0).sum(1)
        end = moves["offset"].astype(np.int64) + np.maximum(steps, 0).sum(1) + moves["inner"]
        for base in np.unique(moves["base"]):
            own = moves["base"] == base
            low, high = int(first[own].min()), int(end[own].max())
            if int(base) in found:
                low, high = min(low, found[int(base)][0]), max(high, found[int(base)][1])
            found[int(base)] = low, high
    return found
