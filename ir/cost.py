"""What an instruction word costs: cycles, DRAM bytes, bursts, port use. One set of formulas for passes, simulator, RTL.

All functions take record arrays (`words.view(isa.MM)` and so on, any length) and return int64 arrays of that length;
`[0]` of the result serves a single word. Units: cycles of the tile clock and bytes. The cycles are those of the RTL:
each formula names its page in `rtl/doc`, and `tests/rtl/test_cycles.py` holds it against the Verilated tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from math import gcd

import numpy as np
import numpy.typing as npt

from .arch import Arch
from .isa import (
    MM,
    RED_ACCUMULATE,
    RED_COLUMNS,
    Buffer,
    DmaFormat,
    Format,
    Function,
    Op2,
    Opcode,
    Operand,
    Reduce,
    Words,
)
from .operands import operands

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
Records = npt.NDArray[np.void]

BEAT_BYTES = 64  # one AXI beat: the least a DRAM access moves [design]
INT4_GROUP = 128  # rows of one int4 block
NARROW_LANES = 4  # RECIP and RSQRT run on this many lanes [design]
WORDS_OUTSTANDING = 4  # LOAD and STORE words of a tile between start and done [dpu_load, dpu_store]
TABLE_WORD_BYTES = 16  # one gate table entry is written a cycle [dpu_load]


def _int(records: Records, *names: str) -> list[Ints]:
    return [records[n].astype(np.int64) for n in names]


def _up(a: Ints, b: int | Ints) -> Ints:
    return np.asarray(-(-a // b))


# Shared L2 of archs with `l2_bytes`: read only, for constants. Assumed: no such arch is built.

L2_LINE = 256  # bytes; a power of two [assumed: the block that LPDDR5X controllers spread over channels]
L2_WAYS = 16  # true LRU [assumed]
L2_SLICES = 16  # by line; a power of two [assumed: as many as LPDDR5X 256-bit has channels]
L2_SLICE_BYTES = 64  # a cycle of each slice: 1 KiB a cycle together, 43 bytes for each of 24 tiles [assumed]
L2_LATENCY = 64  # cycles from an address to the data of a hit, without those in the slice [assumed: half of DRAM's way]

# Sequencer [dpu_sequencer]

FETCH_BURST = 16  # words a burst
FETCH_WORDS = 64  # words fetched, or on their way, that were not dispatched
READ_ADDRESS = 1  # an address waits a cycle in the register before the AXI port [dpu_tile]


# MXU [dpu_mxu]

MXU_CHECK = 8  # cycles from start to leaving the check, which holds one word


def mxu_blocks(arch: Arch) -> int:
    """G: blocks of 8 columns; the array is skewed by these."""
    return max(1, arch.cols // 8)


def mxu_first_row(arch: Arch) -> int:
    """From the start of a word that finds the engine empty to its first ACT address."""
    return MXU_CHECK + 2 + mxu_blocks(arch)


def mxu_drain(arch: Arch) -> int:
    """From the last ACT address to done: R + G + S + 3, S levels of the row maximum's tree."""
    levels = -(-(arch.cols.bit_length() - 1) // 2)
    return arch.rows + mxu_blocks(arch) + levels + 3


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

    A row enters a cycle; a weight tile needs R cycles to load behind the running one.
    """
    return np.asarray(mm["nn"].astype(np.int64) * mm_k_tiles(mm) * np.maximum(mm_rows(mm), arch.rows))


def mm_occupancy(arch: Arch, mm: Records) -> Ints:
    """Cycles from start to start with words waiting: the stream, and at least the check's.

    There is no gap between words: the next word's weights are loaded under the last rows.
    """
    return np.maximum(mm_stream(arch, mm), MXU_CHECK)


def mm_macs(arch: Arch, mm: Records) -> Ints:
    """Multiply-accumulates executed, padding included: rows * k_tiles * R * nn * C."""
    return np.asarray(mm_rows(mm) * mm_k_tiles(mm) * arch.rows * mm["nn"].astype(np.int64) * arch.cols)


def stream_macs(arch: Arch, streams: Sequence[Words]) -> int:
    """Multiply-accumulates that all matrix words of the streams execute."""
    return sum(int(mm_macs(arch, w[w["opcode"] == Opcode.MM].view(MM)).sum()) for w in streams)


# VPU [dpu_vpu]

VPU_CHECK = 3  # cycles from start to being offered to the operand fetch, and the least from start to start
VPU_FETCH = 4  # from there to the first beat, where one read of each operand is enough
VPU_AHEAD = 4  # elements of an operand that are read before the beat that needs them
VPU_READ = 2  # cycles from the address, when the place of one is taken, to when its beat can go
VPU_DRAIN = 26  # from the last beat to done, without a reduction
VPU_WORDS = 8  # between first beat and done
VPU_SUMS = 2  # sums of L rows that wait to be written; no more are added up then
VPU_RESULT, VPU_ROWS, VPU_COLUMNS = 1, 2, 4  # ways to PARAM: a word that uses others than words under way waits


def vec_elements(arch: Arch, vec: Records) -> Ints:
    """Valid elements: rows * ((tiles - 1) * C + valid)."""
    rows, tiles, valid = _int(vec, "rows", "tiles", "valid")
    return np.asarray(rows * ((tiles - 1) * arch.cols + valid))


@dataclass(frozen=True)
class Vec:
    """What VEC words take, each an array over the words, in cycles.

    A word that reduces columns goes tile by tile: `lane` and `fetch` are of its first tile, `more` of the others.
    """

    scalars: Ints  # reads of PARAM before the first beat
    entry: Ints  # reads of an element of A and B, at one port
    fetch: Ints  # reads of all elements, at the busiest port
    lane: Ints  # from first beat to last, if operands are there
    gap: Ints  # behind the last beat, before another can follow
    more: Ints
    tail: Ints  # behind the last beat, before the next word may reduce columns
    reads: Ints  # of PARAM, a cycle each
    writes: Ints  # of PARAM
    fills: Ints  # of these, those that take all banks: none, or all but a last one of fewer scalars
    behind: Ints  # adding up row reductions
    between: Ints  # behind that, before the next word's are added up
    drain: Ints  # from the last beat to done
    ways: Ints  # VPU_RESULT, VPU_ROWS, VPU_COLUMNS
    acc: Ints  # words of ACC read
    vbuf: Ints  # words of VBUF read
    out: Ints  # words of ACT or VBUF written

    @property
    def beats(self) -> Ints:
        """Cycles from the first beat to the first of the next word, where nothing but beats and operands counts."""
        return np.asarray(np.maximum(self.lane + self.gap, self.fetch) + self.more)


def vec(arch: Arch, records: Records) -> Vec:
    """The times of `rtl/doc/dpu_vpu.md`."""
    c, lanes = arch.cols, arch.lanes
    narrow_lanes = min(NARROW_LANES, lanes)
    rows, tiles, valid = _int(records, "rows", "tiles", "valid")
    a_src, b_src, d_src = _int(records, "a_src", "b_src", "d_src")
    kinds = [records[f] >> s & 15 for f in ("m1", "m2") for s in (0, 4)] + [records["rq"] & 15]
    op2 = np.where(records["op2"] & 15 != Op2.NONE, records["op2"] >> 4, Operand.NONE)
    elem = np.any([k == Operand.ELEM for k in (*kinds, op2)], axis=0)
    row_vectors = np.sum([k == Operand.ROW for k in kinds], axis=0) + (records["sub"] != 0)
    col_vectors = np.sum([k == Operand.COL for k in kinds], axis=0)

    def read(buffer: Buffer) -> Ints:
        """Words, or beats of PARAM, that an element tile takes from a buffer."""
        found = np.zeros(len(records), np.int64)
        for source, used in ((a_src, np.ones_like(elem)), (b_src, elem)):
            wide = (source >> 4 == Format.F32) & (buffer == Buffer.VBUF)
            found += np.where(used & (source & 15 == buffer), 1 + wide, 0)
        return found

    acc, vbuf, param = read(Buffer.ACC), read(Buffer.VBUF), read(Buffer.PARAM)
    d_buffer, d_format = d_src & 15, d_src >> 4
    d_param = d_buffer == Buffer.PARAM
    words = (d_buffer == Buffer.ACT) | (d_buffer == Buffer.VBUF)
    pair = ((d_buffer == Buffer.VBUF) & (d_format == Format.F32)) | (
        (d_buffer == Buffer.ACT) & (d_format == Format.I15_SPLIT)
    )
    red = records["red"].astype(np.int64)
    reduces = red & 15 != Reduce.NONE
    columns = reduces & (red & RED_COLUMNS != 0)
    by_row = reduces & ~columns
    again = (red & RED_ACCUMULATE != 0).astype(np.int64)
    squares = (red & 15 == Reduce.SUM_SQ).astype(np.int64)
    narrow = np.isin(records["func"] & 15, (Function.RECIP, Function.RSQRT))
    groups = _up(rows, lanes)
    full = tiles - 1
    every = np.full_like(valid, c)

    def beats(n: Ints) -> Ints:
        return _up(n, lanes)

    def parts(n: Ints) -> Ints:
        """Cycles of a row in the lanes, of a tile with n columns."""
        return np.asarray(np.where(narrow, _up(n, narrow_lanes), beats(n)))

    def lane(n: Ints) -> Ints:
        """From row to row: a result of two words takes two cycles to write."""
        return np.asarray(np.maximum(parts(n), 1 + pair))

    def fetch(n: Ints) -> Ints:
        """From row to row, in the operand fetch."""
        return np.asarray(np.max([acc, vbuf, beats(n) * param], axis=0))

    def tail(n: Ints) -> Ints:
        return np.asarray(np.where(columns, 7 * beats(n) + 6 + again * (2 + beats(n) * (1 + squares)), 0))

    def later(n: Ints) -> Ints:
        """A tile of a column reduction behind another one: some operands are there."""
        return np.asarray(np.maximum(rows * lane(n) - lane(n) + parts(n), (rows - VPU_AHEAD) * fetch(n) + 3))

    def banks(more: Ints, reads: Ints, each: Ints | int, last: Ints | int) -> Ints:
        """Cycles of `more` uses of `each` cycles and then one of `last`. Of scalars there are two banks: one is read
        again two cycles after it was done with."""
        return np.asarray(np.where(reads > 0, more // 2 * (reads + 2) + more % 2 * each + last, 0))

    all_beats = full * beats(every) + beats(valid)
    first = np.where(columns & (full > 0), every, valid)  # the last tile of lane and fetch
    whole = np.where(columns, 0, full)  # tiles of C columns before it
    # Only the last tile waits for operands: those of its first rows were read under the tiles before it.
    slow = np.where((whole > 0) & (fetch(every) < lane(every)), np.maximum(0, rows - VPU_AHEAD), 0)
    slow *= np.maximum(0, fetch(first) - lane(first))
    reads = rows * all_beats * param + col_vectors * all_beats
    reads += row_vectors * groups * np.where(groups > 1, tiles, 1)
    writes = np.where(d_param, rows * all_beats, 0) + np.where(columns, all_beats * (1 + squares), 0)
    writes += np.where(by_row, tiles * groups * (1 + squares), 0)
    scalars = row_vectors * np.where(col_vectors + param > 0, np.minimum(groups, 2), 1)
    scalars += col_vectors * beats(np.where(full > 0, every, valid)) + param
    drain = np.full_like(rows, VPU_DRAIN)
    drain += np.where(by_row, 2 + (c.bit_length() - 1) + squares, 0)
    drain += np.where(columns, tail(valid) + 4 + np.where((again == 0) & (squares > 0), beats(valid), 0), 0)

    def by_one(buffer: Ints, name: str) -> Bools:
        return np.asarray((buffer == Buffer.PARAM) & (records[name] == 1))

    # Vector mode: a beat is L rows.
    vector = (tiles == 1) & (valid == 1) & ~reduces & by_one(a_src & 15, "a_rs")
    vector &= ~elem | by_one(b_src & 15, "b_rs")
    vector &= (d_buffer == Buffer.NONE) | by_one(d_buffer, "d_rs")
    steps = np.where(narrow, _up(rows, narrow_lanes), groups)
    writes = np.where(vector, groups * d_param, writes)
    wide = np.where(
        vector | by_row, rows, np.where(full > 0, c, valid)
    )  # scalars of a write, if there are so many lanes
    inner = np.where(full > 0, (full - 1) * (tail(every) + later(every)) + tail(every) + later(valid), 0)
    return Vec(
        scalars=scalars,
        entry=np.max([acc, vbuf, param], axis=0),
        fetch=np.where(vector, groups * param, rows * (whole * fetch(every) + fetch(first))),
        lane=np.where(
            vector,
            np.maximum(steps, banks(groups - 1, row_vectors, 1, 1)),
            np.maximum(
                rows * (whole * lane(every) + lane(first)) - lane(first) + parts(first) + slow,
                banks(whole, col_vectors * beats(every), rows * lane(every), rows * lane(first)),
            ),
        ),
        gap=np.where(vector, 0, lane(valid) - parts(valid)),
        more=np.where(columns, inner, 0),
        tail=tail(valid),
        reads=np.where(vector, groups * (param + row_vectors) + col_vectors, reads),
        writes=writes,
        fills=np.where(wide >= lanes, writes, 0),
        behind=np.where(by_row, rows * tiles + np.where(groups == 1, full * (3 + 2 * squares), 0), 0),
        between=np.where(by_row, again * (2 + squares), 0),
        drain=drain,
        ways=VPU_RESULT * d_param + VPU_ROWS * by_row + VPU_COLUMNS * columns,
        acc=rows * tiles * acc,
        vbuf=rows * tiles * vbuf,
        out=np.where(words, rows * tiles * (1 + pair), 0),
    )


def vec_occupancy(arch: Arch, records: Records) -> Ints:
    """Cycles from start to start with words waiting: beats and tails, or PARAM's reads or writes, or row sums."""
    v = vec(arch, records)
    least = np.full_like(v.lane, VPU_CHECK)
    return np.asarray(np.max([v.beats + v.tail, v.reads, v.writes, v.behind + v.between, least], axis=0))


# LOAD and STORE [dpu_load, dpu_store, dpu_dma]

DMA_CHECK = 5  # cycles from start to the walks
DMA_ADDRESS = 7  # from start to the first address
LOAD_RING_BEATS = 3  # data that LOAD holds at least where its scratchpad port is the slower side
LOAD_WRITE = 3  # from the first data to done, beside a cycle a step
STORE_READ = 8  # from start to the first beat, beside a cycle a step
STORE_BEAT = 2  # of it, from the read of a scratchpad word to its beat
STORE_ANSWER = 1  # from the response to done


@dataclass(frozen=True)
class Dma:
    """What LOAD or STORE words move, each an array over the words."""

    payload: Ints  # bytes the word names: inner * n1 * n2 * n3, 0 for FILL
    bytes: Ints  # bytes on the DRAM bus: whole beats of 64
    bursts: Ints  # DRAM requests
    words: Ints  # scratchpad words written (padding included) or read; of PARAM, several scalars at a time
    steps: Ints  # cycles of the scratchpad port
    lead: Ints  # of them, those of padding that need not wait for the first data


def int4_rows(arch: Arch, inner: Ints) -> Ints:
    """Weight rows in `inner` bytes of int4 blocks: (C of g + 128 x C / 2 of nibbles), the last block may be short."""
    c = arch.cols
    block = c + INT4_GROUP * (c // 2)
    full, rest = inner // block, inner % block
    return np.asarray(full * INT4_GROUP + np.maximum(rest - c, 0) // (c // 2))


def word_bytes_of(arch: Arch, buffer: npt.NDArray[np.unsignedinteger]) -> Ints:
    """Bytes that DMA moves into each word's buffer in a cycle: one word; min(L, 16) scalars of PARAM."""
    w = arch.word_bytes
    lut = np.ones(256, np.int64)
    for b in (Buffer.ACT, Buffer.WGT, Buffer.ACC, Buffer.VBUF, Buffer.PARAM):
        lut[b] = w[b.name.lower()]
    lut[Buffer.PARAM] *= min(arch.lanes, BEAT_BYTES // 4)
    lut[Buffer.TABLE] = TABLE_WORD_BYTES
    return np.asarray(lut[buffer])


@cache
def _phases(stride: int, n: int) -> tuple[int, ...]:
    """How many of the offsets 0, stride, 2 * stride .. (n of them) begin at each byte of a beat."""
    found = [0] * BEAT_BYTES
    period = BEAT_BYTES // gcd(stride, BEAT_BYTES)
    for i in range(min(n, period)):
        found[i * stride % BEAT_BYTES] += n // period + (i < n % period)
    return tuple(found)


@cache
def _unaligned_beats(offset: int, run: int, n: tuple[int, ...], stride: tuple[int, ...]) -> int:
    """Beats of all runs, each counted from the byte of a beat at which it begins."""
    begins = np.zeros(BEAT_BYTES, np.int64)
    begins[offset % BEAT_BYTES] = 1
    for k, s in zip(n, stride, strict=True):
        steps = _phases(s, k)
        begins = np.sum([np.roll(begins, at) * count for at, count in enumerate(steps) if count], axis=0)
    return int((begins * -(-(np.arange(BEAT_BYTES) + run) // BEAT_BYTES)).sum())


def dma(arch: Arch, records: Records) -> Dma:
    """Bytes, bursts and port cycles of LOAD or STORE words.

    Runs that follow each other without a gap are one run (dimension 1 into `inner`, then 2, then 3). A run occupies
    whole 64-byte beats from where it begins, and is split into bursts of `dram.burst_bytes`. TRANSPOSE and INT4 count
    their DRAM bytes the same way; TRANSPOSE writes whole tiles of R words, the first of which is filled before; INT4
    takes a cycle for the group integers of each block, a gate table one for its verdict.
    """
    inner = records["inner"].astype(np.int64)
    n = records["n"].astype(np.int64)
    stride = records["dstride"].astype(np.int64)
    pad = records["pad"].astype(np.int64)
    offset = records["offset"].astype(np.int64)
    fmt = records["format"]
    fill = fmt == DmaFormat.FILL
    runs = n.prod(axis=1)
    moved = np.where(fill | (inner == 0), 0, runs)
    run, count = inner.copy(), np.ones_like(inner)
    left = n.copy()  # runs of each dimension that are not joined
    joined = np.ones(len(inner), np.bool_)
    for d in range(3):
        joined = joined & ((stride[:, d] == run) | (n[:, d] == 1))
        run = np.where(joined, run * n[:, d], run)
        count = np.where(joined, count, count * n[:, d])
        left[:, d] = np.where(joined, 1, n[:, d])
    count = np.where(moved > 0, count, 0)
    beats = count * _up(offset % BEAT_BYTES + run, BEAT_BYTES)
    odd = (count > 1) & ((left > 1) & (stride % BEAT_BYTES != 0)).any(axis=1)
    for i in np.flatnonzero(odd):
        k, s = left[i].tolist(), (stride[i] % BEAT_BYTES).tolist()
        beats[i] = _unaligned_beats(int(offset[i] % BEAT_BYTES), int(run[i]), tuple(k), tuple(s))
    cells = (n[:, 0] + pad[:, 0] + pad[:, 1]) * (n[:, 1] + pad[:, 2] + pad[:, 3]) * n[:, 2]
    cell = _up(inner, word_bytes_of(arch, records["buffer"]))
    words = cells * cell
    lead = (pad[:, 2] * (n[:, 0] + pad[:, 0] + pad[:, 1]) + pad[:, 0]) * cell
    turned = n[:, 1] * n[:, 2] * arch.rows
    words = np.where(fmt == DmaFormat.TRANSPOSE, turned, words)
    words = np.where(fmt == DmaFormat.INT4, cells * int4_rows(arch, inner), words)
    words = np.where(inner == 0, 0, words)
    block = arch.cols + INT4_GROUP * (arch.cols // 2)
    steps = words + np.where(fmt == DmaFormat.INT4, cells * _up(inner, block), 0)
    steps += np.where((fmt == DmaFormat.TRANSPOSE) & (words > 0), n[:, 0] + 1, 0)
    steps += np.where((records["buffer"] == Buffer.TABLE) & (words > 0), 1, 0)
    return Dma(
        payload=inner * moved,
        bytes=beats * BEAT_BYTES,
        bursts=count * _up(run, arch.dram.burst_bytes),
        words=words,
        steps=steps,
        lead=np.where(moved > 0, np.clip(steps - beats, 0, lead), 0),
    )


def dma_floor(cost: Dma) -> Ints:
    """Least cycles of the data phase beside the DRAM's rate: one scratchpad word, one beat, one burst a cycle."""
    return np.asarray(np.max([cost.steps, cost.bytes // BEAT_BYTES, cost.bursts], axis=0))


def dma_cycles(arch: Arch, records: Records) -> Ints:
    """Cycles of the data phase when nobody else uses the DRAM: max(bytes / port rate, words, bursts), rounded up."""
    cost = dma(arch, records)
    rate = min(arch.dram.port_bytes_per_cycle, arch.dram.bytes_per_cycle)
    return np.maximum(np.ceil(cost.bytes / rate).astype(np.int64), dma_floor(cost))


def pipeline(arch: Arch) -> int:
    """Cycles that a word of each engine, one after the other, takes beside what it moves and computes: LOAD, MXU, VPU,
    STORE."""
    load = DMA_ADDRESS + READ_ADDRESS + arch.dram.latency + LOAD_WRITE
    store = STORE_READ + arch.dram.response + STORE_ANSWER
    return load + mxu_first_row(arch) + mxu_drain(arch) + VPU_CHECK + VPU_FETCH + VPU_DRAIN + store


# Ports

ACT_READ, ACT_WRITE, ACC_READ, VBUF_READ, VBUF_WRITE = range(5)
PORTS = {
    (Buffer.ACT, False): ACT_READ,
    (Buffer.ACT, True): ACT_WRITE,
    (Buffer.ACC, False): ACC_READ,
    (Buffer.VBUF, False): VBUF_READ,
    (Buffer.VBUF, True): VBUF_WRITE,
}
"""Ports that two engines share, by (buffer, is a write): MXU goes before STORE at ACT's read port and before VPU at
ACC's, VPU before STORE at VBUF's, VPU before LOAD at the write ports of ACT and VBUF [rtl/README.md]. WGT's have one
engine each; PARAM has three copies, and conflicts there are rare."""

Span = tuple[int, int]


class Ports:
    """Which words use the shared ports, and where: a bank, one contiguous part of its buffer, has a port of its own."""

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.bank_words = {
            port: -(-arch.words[b.name.lower()] // int(getattr(arch.buffers, b.name.lower()).banks))
            for (b, _), port in PORTS.items()
        }

    def spans(self, words: Words) -> tuple[Ints, Ints]:
        """The intervals of addresses that words use at the ports, by word, port and order of operands.

        Returns where those of each word begin, shape [words + 1], and rows of (port, first, one past the last).
        MM reads ACC when it accumulates or sums several k tiles.
        """
        found = [np.zeros((0, 4), np.int64)]
        for o in operands(words, self.arch):
            if o.dram:
                continue
            read = o.read
            if o.opcode == Opcode.MM and o.name == "acc":
                read = read | (mm_k_tiles(words[o.index].view(MM)) > 1)
            for (buffer, write), port in PORTS.items():
                pick = np.flatnonzero((o.write if write else read) & (o.buffer == buffer))
                if len(pick):
                    index = o.index[pick]
                    found.append(np.stack([index, np.full_like(index, port), o.lo[pick], o.hi[pick]], axis=1))
        rows = np.concatenate(found)
        rows = rows[np.argsort(rows[:, 0] * len(PORTS) + rows[:, 1], kind="stable")]
        at = np.searchsorted(rows[:, 0], np.arange(len(words) + 1))
        return at, np.ascontiguousarray(rows[:, 1:])

    def banks(self, port: int, spans: Sequence[Span]) -> list[tuple[int, float]]:
        """The banks under the intervals in turn, each with its part of all that is used."""
        size = self.bank_words[port]
        total = sum(hi - lo for lo, hi in spans)
        out = []
        for lo, hi in spans:
            for bank in range(lo // size, (hi - 1) // size + 1):
                out.append((bank, (min(hi, (bank + 1) * size) - max(lo, bank * size)) / total))
        return out
