"""A stream prepared for the timing model: one plain list a quantity, computed for all words at once by `ir/cost.py`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir import cost
from ..ir.arch import Arch
from ..ir.isa import DMA, ENGINE_OF, MM, VEC, WORD_BYTES, DmaFormat, Engine, Flag, MmMode, Opcode, RowMax, Words
from .decode import check_stream, where
from .memory import Move

Ints = npt.NDArray[np.int64]


class MmWork(NamedTuple):
    """What an MM word does with the array."""

    tiles: int  # weight tiles
    rows: int  # of each
    column: bool  # it starts from a column vector
    first: int  # ACC addresses of its first row and its last
    last: int
    accumulate: bool  # it reads sums or maxima that are there
    reading: float  # the part of its rows that add to sums in ACC
    lead: int  # tiles before the first that does


class VecWork(NamedTuple):
    """A VEC word's times, as in `cost.Vec`."""

    scalars: int
    entry: int
    fetch: int
    lane: int
    gap: int
    more: int
    tail: int
    reads: int
    behind: int
    between: int
    drain: int
    ways: int
    acc: int
    vbuf: int
    out: int
    beats: int


@dataclass
class Plan:
    """Per word of one tile's stream, END included."""

    words: Words
    engine: list[int]
    wait: list[int]
    signal: list[int]
    remote: list[int]
    drain: list[int]
    ports: list[dict[int, list[cost.Span]]]  # a shared port: word: addresses
    mm: dict[int, MmWork]
    vec: dict[int, VecWork]
    phase: list[int]  # LOAD, STORE: least cycles of the data phase
    steps: list[int]  # of them, those of the scratchpad port
    lead: list[int]  # and of these, those before the first data
    bytes: list[int]  # on the DRAM bus
    bursts: list[int]
    macs: Ints
    payload: Ints  # DRAM bytes named by the word
    move: Ints  # words that name DRAM bytes, ascending

    def __len__(self) -> int:
        return len(self.engine)


def _mm(arch: Arch, index: Ints, mm: Words) -> dict[int, MmWork]:
    rows, k = cost.mm_rows(mm), cost.mm_k_tiles(mm)
    nn = mm["nn"].astype(np.int64)
    acc = mm["acc"].astype(np.int64)
    adds = mm["mode"] == MmMode.ACCUMULATE
    again = adds | (mm["rowmax"] == RowMax.ACCUMULATE)
    one = nn == 1
    columns = (
        nn * k,
        rows,
        mm["mode"] == MmMode.COLUMN,
        acc,
        acc + (nn - 1) * mm["an"] + rows - 1,
        again,
        np.where(adds | (one & (k > 1)), 1.0, (k - 1) / np.maximum(k, 1)),
        np.where(one & ~adds, 1, 0),
    )
    return dict(zip(index.tolist(), map(MmWork, *(c.tolist() for c in columns)), strict=True))


def _vec(arch: Arch, index: Ints, vec: Words) -> dict[int, VecWork]:
    v = cost.vec(arch, vec)
    columns = (getattr(v, name).tolist() for name in VecWork._fields)
    return dict(zip(index.tolist(), map(VecWork, *columns), strict=True))


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
    phase, steps, lead, size, bursts, macs, payload, remote = (zero.copy() for _ in range(8))
    mm, vec = np.flatnonzero(opcode == Opcode.MM), np.flatnonzero(opcode == Opcode.VEC)
    macs[mm] = cost.mm_macs(arch, words[mm].view(MM))
    move = np.flatnonzero((opcode == Opcode.LOAD) | (opcode == Opcode.STORE))
    records = words[move].view(DMA)
    moved = cost.dma(arch, records)
    phase[move], steps[move], lead[move] = cost.dma_floor(moved), moved.steps, moved.lead
    size[move], bursts[move] = moved.bytes, moved.bursts
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
        ports=ports.spans(words),
        mm=_mm(arch, mm, words[mm].view(MM)),
        vec=_vec(arch, vec, words[vec].view(VEC)),
        phase=phase.tolist(),
        steps=steps.tolist(),
        lead=lead.tolist(),
        bytes=size.tolist(),
        bursts=bursts.tolist(),
        macs=macs,
        payload=payload,
        move=move,
    )


BASE_ALIGN = 4096  # bytes


def moves(arch: Arch, plans: Sequence[Plan]) -> tuple[list[dict[int, Move]], list[int]]:
    """Where the words of each stream move DRAM bytes, by word index, and where the streams lie.

    The regions of the base registers lie one after the other from `dram.base` on, each as large as the words reach,
    and behind them the streams.
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
    streams = []
    for p in plans:
        streams.append(at)
        at += -(-len(p) * WORD_BYTES // BASE_ALIGN) * BASE_ALIGN
    return out, streams


ENGINES = (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE)
