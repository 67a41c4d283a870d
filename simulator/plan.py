"""A stream prepared for the timing model: an array a quantity, computed for all words at once by `ir/cost.py`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir import cost
from ..ir.arch import Arch
from ..ir.container import Base
from ..ir.isa import DMA, ENGINE_OF, MM, VEC, WORD_BYTES, DmaFormat, Engine, Flag, MmMode, Opcode, RowMax, Words
from .decode import check_stream, where
from .memory import Move

Ints = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]

ENGINES = (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE)


class MmWork(NamedTuple):
    """What an MM word does with the array."""

    tiles: int  # weight tiles
    rows: int  # of each
    column: int  # it starts from a column vector
    first: int  # ACC addresses of its first row and its last
    last: int
    accumulate: int  # it reads sums or maxima that are there
    adds: int  # it reads sums that are there
    k: int  # weight tiles of each column of tiles
    maxima: int  # the last of these writes row maxima
    an: int  # from here on the fields of the word: where it reads ACC and ACT
    act: int
    nx: int
    sx: int
    sy: int
    nc: int
    sc: int
    nkx: int
    skx: int
    sky: int


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
    fills: int
    acc: int
    vbuf: int
    out: int
    beats: int


def _dtype(names: Sequence[str]) -> np.dtype[np.void]:
    return np.dtype([(n, "<f8" if n == "cap" else "<i8") for n in names])


MM_WORK, VEC_WORK = _dtype(MmWork._fields), _dtype(VecWork._fields)
_MOVE = ("address", "inner", "n1", "n2", "n3", "stride1", "stride2", "stride3")
DMA_WORK = _dtype(("phase", "steps", "lead", "bytes", "bursts", "alone", "cached", *_MOVE, "cap"))
"""LOAD, STORE: least cycles of the data phase, of them those of the scratchpad port, and of these those before the
first data; bytes on the DRAM bus; bursts; cycles of a data phase that never waits for DRAM; whether a shared L2 may
keep what it reads: constants, which nobody writes while a program runs; where in DRAM (`addresses`); and bytes a cycle
that the port and the scratchpad side take."""


@dataclass
class Plan:
    """Per word of one tile's stream, END included."""

    words: Words
    engine: Ints
    drain: npt.NDArray[np.uint8]
    wait: npt.NDArray[np.uint16]
    signal: npt.NDArray[np.uint16]
    remote: npt.NDArray[np.uint32]
    slot: npt.NDArray[np.int32]  # place in `mm`, `vec` or `dma`
    mm: Records  # MM_WORK of each MM word
    vec: Records  # VEC_WORK of each VEC word
    dma: Records  # DMA_WORK of each LOAD or STORE word
    span_at: npt.NDArray[np.int32]  # words + 1: where the spans of each word begin
    spans: Ints  # rows of (shared port, first address, one past the last)
    bytes: Ints  # on the DRAM bus
    macs: Ints
    payload: Ints  # DRAM bytes named by the word
    move: Ints  # words that name DRAM bytes, ascending

    def __len__(self) -> int:
        return len(self.engine)


def _mm(mm: Words) -> Records:
    rows, k = cost.mm_rows(mm), cost.mm_k_tiles(mm)
    nn = mm["nn"].astype(np.int64)
    acc = mm["acc"].astype(np.int64)
    adds = mm["mode"] == MmMode.ACCUMULATE
    work = np.empty(len(mm), MM_WORK)
    work["tiles"], work["rows"] = nn * k, rows
    work["column"] = mm["mode"] == MmMode.COLUMN
    work["first"], work["last"] = acc, acc + (nn - 1) * mm["an"] + rows - 1
    work["accumulate"] = adds | (mm["rowmax"] == RowMax.ACCUMULATE)
    work["adds"], work["k"] = adds, np.maximum(k, 1)
    work["maxima"] = mm["rowmax"] != RowMax.NONE
    for name in MmWork._fields[MmWork._fields.index("an") :]:
        work[name] = mm[name]
    return work


def _vec(arch: Arch, vec: Words) -> Records:
    v = cost.vec(arch, vec)
    work = np.empty(len(vec), VEC_WORK)
    for name in VecWork._fields:
        work[name] = getattr(v, name)
    return work


def _dma(arch: Arch, records: Words, moved: cost.Dma) -> Records:
    work = np.zeros(len(records), DMA_WORK)
    work["phase"], work["steps"], work["lead"] = cost.dma_floor(moved), moved.steps, moved.lead
    size = np.where(records["format"] == DmaFormat.FILL, 0, moved.bytes)
    cap = np.minimum(arch.dram.port_bytes_per_cycle, size / np.maximum(1, work["phase"]))
    some = size > 0
    work["bytes"], work["bursts"], work["cap"] = size, moved.bursts, cap
    work["alone"][some] = np.ceil(size[some] / cap[some] - 1e-6)
    work["cached"] = (records["opcode"] == Opcode.LOAD) & (records["base"] == Base.CONST) & some & (arch.l2_bytes > 0)
    work["inner"] = records["inner"]
    for d in range(3):
        work[f"n{d + 1}"], work[f"stride{d + 1}"] = records["n"][:, d], records["dstride"][:, d]
    return work


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
    size, macs, payload = (np.zeros(n, np.int64) for _ in range(3))
    remote, slot = np.zeros(n, np.uint32), np.zeros(n, np.int32)
    mm, vec = np.flatnonzero(opcode == Opcode.MM), np.flatnonzero(opcode == Opcode.VEC)
    move = np.flatnonzero((opcode == Opcode.LOAD) | (opcode == Opcode.STORE))
    for some in (mm, vec, move):
        slot[some] = np.arange(len(some))
    macs[mm] = cost.mm_macs(arch, words[mm].view(MM))
    records = words[move].view(DMA)
    moved = cost.dma(arch, records)
    payload[move], remote[move] = moved.payload, records["remote"]
    far = np.flatnonzero(remote.astype(np.int64) >> arch.tiles)
    if len(far):
        raise DpuError(
            where(entry, tile, int(far[0]), words[far[0]]),
            f"field 'remote': names tile {int(remote[far[0]]).bit_length() - 1}, the arch has {arch.tiles}",
            code="E410",
        )
    dma = _dma(arch, records, moved)
    size[move] = dma["bytes"]
    at, spans = ports.spans(words)
    return Plan(
        words=words,
        engine=engine_of[opcode],
        drain=(words["flags"] & Flag.DRAIN).astype(np.uint8),
        wait=np.ascontiguousarray(words["wait"]),
        signal=np.ascontiguousarray(words["signal"]),
        remote=remote,
        slot=slot,
        mm=_mm(words[mm].view(MM)),
        vec=_vec(arch, words[vec].view(VEC)),
        dma=dma,
        span_at=at.astype(np.int32),
        spans=spans,
        bytes=size,
        macs=macs,
        payload=payload,
        move=move[dma["bytes"] > 0],
    )


BASE_ALIGN = 4096  # bytes


class Places(NamedTuple):
    """Addresses in DRAM: of the base registers' regions, by base, and of each tile's stream."""

    regions: Mapping[int, int]
    streams: Sequence[int]


def addresses(arch: Arch, plans: Sequence[Plan], places: Places | None = None) -> list[int]:
    """Decide where in DRAM the words of each stream move bytes (`address` of DMA_WORK), and where the streams lie.

    Without `places`, the regions lie one after the other from `dram.base` on, each as large as the words reach, and
    behind them the streams.
    """
    extent: dict[int, int] = {}
    found = []
    for p in plans:
        records = p.words[p.move].view(DMA)
        n, stride = records["n"].astype(np.int64), records["dstride"].astype(np.int64)
        high = records["offset"].astype(np.int64) + (np.maximum(stride, 0) * (n - 1)).sum(axis=1) + records["inner"]
        for base in np.unique(records["base"]).tolist():
            extent[base] = max(extent.get(base, 0), int(high[records["base"] == base].max()))
        found.append(records)
    start = {}
    at = arch.dram.base
    for base in sorted(extent):
        start[base] = places.regions[base] if places else at
        at += -(-extent[base] // BASE_ALIGN) * BASE_ALIGN
    origin = np.array([start.get(b, 0) for b in range(256)], np.int64)
    for p, records in zip(plans, found, strict=True):
        p.dma["address"][p.slot[p.move]] = origin[records["base"]] + records["offset"].astype(np.int64)
    streams: list[int] = []
    for p in plans:
        streams.append(places.streams[len(streams)] if places else at)
        at += -(-len(p) * WORD_BYTES // BASE_ALIGN) * BASE_ALIGN
    return streams


def moves(arch: Arch, plans: Sequence[Plan], places: Places | None = None) -> tuple[list[dict[int, Move]], list[int]]:
    """Of each stream, where its words move DRAM bytes, by word index; and where the streams lie (`addresses`)."""
    streams, found = addresses(arch, plans, places), []
    for p in plans:
        rows = p.dma[p.slot[p.move]][list(_MOVE)].tolist()
        found.append({i: (r[0], r[1], r[2:5], r[5:8]) for i, r in zip(p.move.tolist(), rows, strict=True)})
    return found, streams
