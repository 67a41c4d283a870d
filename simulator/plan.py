"""A stream prepared for the timing model: one plain list a quantity, computed for all words at once by `ir/cost.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir import cost
from ..ir.arch import Arch
from ..ir.isa import DMA, ENGINE_OF, MM, VEC, DmaFormat, Engine, Flag, Opcode, Words
from .decode import check_stream, where
from .memory import Move

Ints = npt.NDArray[np.int64]


@dataclass
class Plan:
    """Per word of one tile's stream, END included."""

    words: Words
    engine: list[int]
    wait: list[int]
    signal: list[int]
    remote: list[int]
    drain: list[int]
    ports: list[int]
    occupancy: list[int]  # MXU, VPU: cycles until the next may start. LOAD, STORE: least cycles of the data phase
    bytes: list[int]  # on the DRAM bus
    bursts: list[int]
    macs: Ints
    payload: Ints  # DRAM bytes named by the word
    move: Ints  # words that name DRAM bytes, ascending

    def __len__(self) -> int:
        return len(self.engine)


def plan(arch: Arch, words: Words, ports: cost.Ports, entry: str, tile: int) -> Plan:
    """Prepare one stream.

    Raises:
        DpuError: E410, an illegal opcode or no END.
    """
    words = np.ascontiguousarray(words[: check_stream(words, entry, tile)])
    n = len(words)
    opcode = words["opcode"]
    engine_of = np.zeros(256, np.int64)
    for o, e in ENGINE_OF.items():
        engine_of[o] = e
    zero = np.zeros(n, np.int64)
    occupancy, size, bursts, macs, payload, remote = (zero.copy() for _ in range(6))
    mm, vec = np.flatnonzero(opcode == Opcode.MM), np.flatnonzero(opcode == Opcode.VEC)
    occupancy[mm] = cost.mm_occupancy(arch, words[mm].view(MM))
    macs[mm] = cost.mm_macs(arch, words[mm].view(MM))
    occupancy[vec] = cost.vec_occupancy(arch, words[vec].view(VEC))
    move = np.flatnonzero((opcode == Opcode.LOAD) | (opcode == Opcode.STORE))
    records = words[move].view(DMA)
    moved = cost.dma(arch, records)
    occupancy[move], size[move], bursts[move] = cost.dma_floor(moved), moved.bytes, moved.bursts
    payload[move], remote[move] = moved.payload, records["remote"]
    far = np.flatnonzero(remote >> arch.tiles)
    if len(far):
        raise DpuError(
            where(entry, tile, int(far[0]), words[far[0]]),
            f"field 'remote': names tile {int(remote[far[0]]).bit_length() - 1}, the arch has {arch.tiles}",
            code="E410",
        )
    size[move[records["format"] == DmaFormat.FILL]] = 0
    move = move[size[move] > 0]
    return Plan(
        words=words,
        engine=engine_of[opcode].tolist(),
        wait=words["wait"].tolist(),
        signal=words["signal"].tolist(),
        remote=remote.tolist(),
        drain=(words["flags"] & Flag.DRAIN).tolist(),
        ports=ports.masks(words).tolist(),
        occupancy=occupancy.tolist(),
        bytes=size.tolist(),
        bursts=bursts.tolist(),
        macs=macs,
        payload=payload,
        move=move,
    )


BASE_ALIGN = 4096  # bytes


def moves(arch: Arch, plans: Sequence[Plan]) -> list[dict[int, Move]]:
    """Where the words of each stream move DRAM bytes, by word index.

    The regions of the base registers lie one after the other from `dram.base` on, each as large as the words reach.
    """
    extent: dict[int, int] = {}
    found = []
    for p in plans:
        records = p.words[p.move].view(DMA)
        n, stride = records["n"].astype(np.int64), records["dstride"].astype(np.int64)
        high = records["offset"].astype(np.int64) + (np.maximum(stride, 0) * (n - 1)).sum(axis=1) + records["inner"]
        for base in np.unique(records["base"]).tolist():
            extent[base] = max(extent.get(base, 0), int(high[records["base"] == base].max()))
        found.append((records, n, stride))
    start = {}
    at = arch.dram.base
    for base in sorted(extent):
        start[base] = at
        at += -(-extent[base] // BASE_ALIGN) * BASE_ALIGN
    out: list[dict[int, Move]] = []
    for p, (records, n, stride) in zip(plans, found, strict=True):
        origin = np.array([start.get(b, 0) for b in range(256)], np.int64)
        address = origin[records["base"]] + records["offset"].astype(np.int64)
        columns = (p.move.tolist(), address.tolist(), records["inner"].tolist(), n.tolist(), stride.tolist())
        out.append({i: (a, inner, tuple(k), tuple(s)) for i, a, inner, k, s in zip(*columns, strict=True)})
    return out


ENGINES = (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE)
