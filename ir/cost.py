"""What an instruction word costs: cycles, DRAM bytes, bursts, port use. One set of formulas for passes, simulator, RTL.

All functions take record arrays (`words.view(isa.MM)` and so on, any length) and return int64 arrays of that length;
`[0]` of the result serves a single word. Units: cycles of the tile clock and bytes. Sources: [tile_model] is the
analytical tile model of the design phase, uncalibrated; [design] is a decision of this project, to be held against the
RTL.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .arch import Arch
from .isa import MM, Buffer, DmaFormat, Function, Opcode, Words
from .operands import operands

Ints = npt.NDArray[np.int64]
Records = npt.NDArray[np.void]

BEAT_BYTES = 64  # one AXI beat: the least a DRAM access moves [design]
INT4_GROUP = 128  # rows of one int4 block
NARROW_LANES = 4  # RECIP and RSQRT run on this many lanes [design]
LOADS_OUTSTANDING = 4  # LOAD and STORE words of a tile between start and completion [design]
TABLE_WORD_BYTES = 16  # one gate table entry is written a cycle [design]


def _int(records: Records, *names: str) -> list[Ints]:
    return [records[n].astype(np.int64) for n in names]


def _up(a: Ints, b: int | Ints) -> Ints:
    return np.asarray(-(-a // b))


# MXU


def mm_rows(mm: Records) -> Ints:
    """Rows streamed: ny * nx."""
    ny, nx = _int(mm, "ny", "nx")
    return np.asarray(ny * nx)


def mm_k_tiles(mm: Records) -> Ints:
    """Weight tiles along the reduction: nky * nkx * nc."""
    nky, nkx, nc = _int(mm, "nky", "nkx", "nc")
    return np.asarray(nky * nkx * nc)


def mm_stream(arch: Arch, mm: Records) -> Ints:
    """Cycles in which the array takes rows: nn * k_tiles * max(rows, R).

    A row enters a cycle; a weight tile needs R cycles to load behind the running one [tile_model].
    """
    return np.asarray(mm["nn"].astype(np.int64) * mm_k_tiles(mm) * np.maximum(mm_rows(mm), arch.rows))


def mm_occupancy(arch: Arch, mm: Records) -> Ints:
    """Cycles from a word's start until the next may start: issue + stream [tile_model].

    The results are visible `latency.mxu` after that; the next word overlaps the drain.
    """
    return np.asarray(arch.latency.issue + mm_stream(arch, mm))


def mm_macs(arch: Arch, mm: Records) -> Ints:
    """Multiply-accumulates executed, padding included: rows * k_tiles * R * nn * C."""
    return np.asarray(mm_rows(mm) * mm_k_tiles(mm) * arch.rows * mm["nn"].astype(np.int64) * arch.cols)


# VPU


def vec_elements(arch: Arch, vec: Records) -> Ints:
    """Valid elements: rows * ((tiles - 1) * C + valid)."""
    rows, tiles, valid = _int(vec, "rows", "tiles", "valid")
    return np.asarray(rows * ((tiles - 1) * arch.cols + valid))


def vec_beats(arch: Arch, vec: Records) -> Ints:
    """Cycles in which lanes take elements [tile_model; vector mode and narrow functions: design].

    rows * ((tiles - 1) * C / L + ceil(valid / L)); for tiles = valid = 1 (vector mode over PARAM) ceil(rows / L);
    RECIP and RSQRT, on 4 lanes, ceil(elements / 4).
    """
    rows, tiles, valid = _int(vec, "rows", "tiles", "valid")
    lanes = arch.lanes
    beats = rows * ((tiles - 1) * (arch.cols // lanes) + _up(valid, lanes))
    beats = np.where((tiles == 1) & (valid == 1), _up(rows, lanes), beats)
    function = vec["func"] & 15
    narrow = (function == Function.RECIP) | (function == Function.RSQRT)
    return np.asarray(np.where(narrow, _up(vec_elements(arch, vec), NARROW_LANES), beats))


def vec_occupancy(arch: Arch, vec: Records) -> Ints:
    """Cycles from a word's start until the next may start: issue + beats. Visible `latency.vpu` after that."""
    return np.asarray(arch.latency.issue + vec_beats(arch, vec))


# LOAD and STORE


@dataclass(frozen=True)
class Dma:
    """What LOAD or STORE words move, each an array over the words."""

    payload: Ints  # bytes the word names: inner * n1 * n2 * n3, 0 for FILL
    bytes: Ints  # bytes on the DRAM bus: whole beats of 64
    bursts: Ints  # DRAM requests
    words: Ints  # scratchpad words written (padding included) or read


def int4_rows(arch: Arch, inner: Ints) -> Ints:
    """Weight rows in `inner` bytes of int4 blocks: (C of g + 128 x C / 2 of nibbles), the last block may be short."""
    c = arch.cols
    block = c + INT4_GROUP * (c // 2)
    full, rest = inner // block, inner % block
    return np.asarray(full * INT4_GROUP + np.maximum(rest - c, 0) // (c // 2))


def word_bytes_of(arch: Arch, buffer: npt.NDArray[np.unsignedinteger]) -> Ints:
    """Bytes that DMA moves into each word's buffer in a cycle: one word; a beat of scalars for PARAM."""
    w = arch.word_bytes
    lut = np.ones(256, np.int64)
    for b in (Buffer.ACT, Buffer.WGT, Buffer.ACC, Buffer.VBUF, Buffer.PARAM):
        lut[b] = w[b.name.lower()]
    lut[Buffer.PARAM] = BEAT_BYTES  # PARAM is read and written L scalars at a time; DMA writes a beat of 16
    lut[Buffer.TABLE] = TABLE_WORD_BYTES
    return np.asarray(lut[buffer])


def dma(arch: Arch, records: Records) -> Dma:
    """Bytes, bursts and words of LOAD or STORE words [design].

    Runs that follow each other without a gap are one run (dimension 1 into `inner`, then 2, then 3). A run occupies
    whole 64-byte beats, counted at the alignment of the word's offset, and is split into bursts of
    `dram.burst_bytes`. TRANSPOSE and INT4 count their DRAM bytes the same way; TRANSPOSE writes whole tiles of R words.
    """
    inner = records["inner"].astype(np.int64)
    n = records["n"].astype(np.int64)
    stride = records["dstride"].astype(np.int64)
    pad = records["pad"].astype(np.int64)
    fmt = records["format"]
    fill = fmt == DmaFormat.FILL
    runs = n.prod(axis=1)
    moved = np.where(fill | (inner == 0), 0, runs)
    run, count = inner.copy(), np.ones_like(inner)
    joined = np.ones(len(inner), np.bool_)
    for d in range(3):
        joined = joined & ((stride[:, d] == run) | (n[:, d] == 1))
        run = np.where(joined, run * n[:, d], run)
        count = np.where(joined, count, count * n[:, d])
    count = np.where(moved > 0, count, 0)
    beats = _up((records["offset"] % BEAT_BYTES).astype(np.int64) + run, BEAT_BYTES)
    cells = (n[:, 0] + pad[:, 0] + pad[:, 1]) * (n[:, 1] + pad[:, 2] + pad[:, 3]) * n[:, 2]
    words = cells * _up(inner, word_bytes_of(arch, records["buffer"]))
    words = np.where(fmt == DmaFormat.TRANSPOSE, n[:, 1] * n[:, 2] * arch.rows, words)
    words = np.where(fmt == DmaFormat.INT4, cells * int4_rows(arch, inner), words)
    return Dma(
        payload=inner * moved,
        bytes=count * beats * BEAT_BYTES,
        bursts=count * _up(run, arch.dram.burst_bytes),
        words=np.where(inner == 0, 0, words),
    )


def dma_floor(cost: Dma) -> Ints:
    """Least cycles of the data phase beside the DRAM's rate: one scratchpad word and one burst a cycle [design]."""
    return np.maximum(cost.words, cost.bursts)


def dma_cycles(arch: Arch, records: Records) -> Ints:
    """Cycles of the data phase when nobody else uses the DRAM: max(bytes / port rate, words, bursts), rounded up."""
    cost = dma(arch, records)
    rate = min(arch.dram.port_bytes_per_cycle, arch.dram.bytes_per_cycle)
    return np.maximum(np.ceil(cost.bytes / rate).astype(np.int64), dma_floor(cost))


# Ports

BANKED = (Buffer.ACT, Buffer.WGT, Buffer.ACC, Buffer.VBUF)
"""Buffers with port conflicts. PARAM and TABLE are small enough to have a port for each engine [design]."""


class Ports:
    """The bank ports that words use, as bit masks; bit k is `names[k]`.

    A bank is one contiguous part of its buffer, with one read and one write port. An operand uses every bank between
    its first and last word (the intervals of `operands.py`). MM reads ACC as well when it sums several k tiles
    [design].
    """

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.banks = {b: int(getattr(arch.buffers, b.name.lower()).banks) for b in BANKED}
        self.names: list[str] = []
        self._first: dict[tuple[int, bool], int] = {}
        for buffer, banks in self.banks.items():
            for write in (False, True):
                self._first[buffer, write] = len(self.names)
                self.names += [f"{buffer.name}{k} {'write' if write else 'read'}" for k in range(banks)]
        if len(self.names) > 62:
            raise ValueError(f"{len(self.names)} bank ports: the masks hold 62")

    def masks(self, words: Words) -> Ints:
        """One mask a word."""
        out = np.zeros(len(words), np.int64)
        for o in operands(words, self.arch):
            if o.dram:
                continue
            read = o.read
            if o.opcode == Opcode.MM and o.name == "acc":
                read = read | (mm_k_tiles(words[o.index].view(MM)) > 1)
            for write, used in ((False, read), (True, o.write)):
                for buffer in BANKED:
                    pick = used & (o.buffer == buffer)
                    if pick.any():
                        np.bitwise_or.at(out, o.index[pick], self._mask(buffer, write, o.lo[pick], o.hi[pick]))
        return out

    def _mask(self, buffer: Buffer, write: bool, lo: Ints, hi: Ints) -> Ints:
        banks = self.banks[buffer]
        size = -(-self.arch.words[buffer.name.lower()] // banks)
        first = np.clip(lo // size, 0, banks - 1)
        last = np.clip((hi - 1) // size, 0, banks - 1)
        one = np.ones_like(first)
        return np.asarray(((one << (last + 1)) - (one << first)) << self._first[buffer, write])
