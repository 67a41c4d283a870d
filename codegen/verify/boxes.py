"""What each word touches, exactly: boxes of scratchpad words and DRAM bytes, read from the words a second time.

`ir/operands.py` gives contiguous intervals, which suffice to add order. A verifier must not take a gap between two rows
for written, so here an operand is its affine box:

    { lo + i0 * s0 + i1 * s1 + ... : 0 <= ik < nk },   s0 = 1, strides ascending

Loops that continue or overlap each other are joined, so most boxes are one run (`levels` 1).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...ir.arch import Arch
from ...ir.isa import (
    DMA,
    MM,
    RED_ACCUMULATE,
    RED_COLUMNS,
    TABLE_BYTES,
    VEC,
    Buffer,
    DmaFormat,
    Format,
    Function,
    MmMode,
    Op2,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    Words,
)
from ...ir.operands import int4_words

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

DRAM = 16
"""Space of base register b is `DRAM + b`; below are the scratchpads by `Buffer`."""

RANKS: dict[Opcode, tuple[str, ...]] = {
    Opcode.LOAD: ("sram", "dram"),
    Opcode.STORE: ("sram", "dram"),
    Opcode.MM: ("act", "wgt", "init_at", "acc", "rowmax_at"),
    Opcode.VEC: (
        *("a", "b", "a1", "b1", "a2", "b2", "r", "sub_at", "func", "d", "red_at"),
        *("a, last tile", "b, last tile", "d, last tile"),  # where the last column tile is shorter
    ),
    Opcode.END: (),
}
"""Operands of each opcode. The place in the tuple is the operand's rank: a word and a rank name one operand."""


@dataclass(frozen=True)
class Boxes:
    """Operands of one stream, sorted by word and rank, one row each.

    A full-size entry has tens of millions, so columns are narrow, and the loops of a box are one number: many have the
    same. Row s of `steps` and `extents` are the strides and counts of all boxes whose `shape` is s.
    """

    word: npt.NDArray[np.int32]
    rank: npt.NDArray[np.uint8]
    space: npt.NDArray[np.uint8]
    lo: Ints
    shape: npt.NDArray[np.int32]
    read: Bools
    write: Bools
    late: Bools  # read at the end of the pipeline, in order: MM accumulation
    steps: Ints  # [shapes, levels]; the first is 1
    extents: Ints  # [shapes, levels]

    def __len__(self) -> int:
        return len(self.word)

    @property
    def hi(self) -> Ints:
        """One past the last cell."""
        return np.asarray(self.lo + (((self.extents - 1) * self.steps).sum(1) + 1)[self.shape])


def normalise(lo: Ints, run: Ints, strides: Ints, counts: Ints) -> tuple[Ints, Ints, Ints]:
    """(lo, strides, counts) of the same cells, loops sorted and joined. `run` cells lie at each step of the loops."""
    down = strides < 0
    lo = lo + np.where(down, (counts - 1) * strides, 0).sum(1)
    strides = np.where(counts > 1, np.abs(strides), 0)
    order = np.argsort(strides, axis=1, kind="stable")
    strides = np.take_along_axis(strides, order, 1)
    counts = np.take_along_axis(counts, order, 1)
    m, k = strides.shape
    out_s, out_n = np.zeros((m, k + 1), np.int64), np.ones((m, k + 1), np.int64)
    out_s[:, 0], out_n[:, 0] = 1, run
    level = np.zeros(m, np.int64)
    rows = np.arange(m)
    for j in range(k):
        s, n = strides[:, j], counts[:, j]
        top_s, top_n = out_s[rows, level], out_n[rows, level]
        times, rest = np.divmod(s, top_s)
        active = s > 0
        join = active & (rest == 0) & (times <= top_n)
        out_n[rows[join], level[join]] += (n[join] - 1) * times[join]
        push = active & ~join
        level[push] += 1
        out_s[rows[push], level[push]] = s[push]
        out_n[rows[push], level[push]] = n[push]
    top = int(level.max()) + 1 if m else 1
    return lo, out_s[:, :top], out_n[:, :top]


_Column = tuple[str, Ints, Ints, Ints, Ints, list[tuple[Ints, Ints]], Bools, Bools]
"""Name, words, space, lo, run, loops (stride, count), read, write."""


def _i64(x: npt.NDArray[Any]) -> Ints:
    return x.astype(np.int64)


def _dma(index: Ints, words: Words, load: bool, arch: Arch) -> Iterator[_Column]:
    f = words[index].view(DMA)
    moves = f["inner"] > 0
    index, f = index[moves], f[moves]
    size = np.ones(256, np.int64)
    for name, bytes_ in arch.word_bytes.items():
        size[Buffer[name.upper()]] = bytes_
    size[Buffer.TABLE] = TABLE_BYTES
    inner, n, fmt = _i64(f["inner"]), _i64(f["n"]), f["format"]
    pad = _i64(f["pad"])
    run = -(-inner // size[f["buffer"]])
    cells = n.copy()
    cells[:, 0] += pad[:, 0] + pad[:, 1]
    cells[:, 1] += pad[:, 2] + pad[:, 3]
    for i in np.flatnonzero(fmt == DmaFormat.INT4).tolist():
        run[i] = int4_words(int(inner[i]), arch)
    turned = fmt == DmaFormat.TRANSPOSE  # runs along dimension 1 become the columns of one tile of R words
    run = np.where(turned, arch.rows, run)
    cells[turned, 0] = np.minimum(1, cells[turned, 0])
    loads = np.full(len(f), load)
    loops = [(_i64(f["sstride"])[:, d], cells[:, d]) for d in range(3)]
    yield "sram", index, _i64(f["buffer"]), _i64(f["sram"]), run, loops, ~loads, loads
    real = fmt != DmaFormat.FILL
    loops = [(_i64(f["dstride"])[real, d], n[real, d]) for d in range(3)]
    space = DRAM + _i64(f["base"])[real]
    yield "dram", index[real], space, _i64(f["offset"])[real], inner[real], loops, loads[real], ~loads[real]


def _mm(index: Ints, words: Words, arch: Arch) -> Iterator[_Column]:
    f = words[index].view(MM)
    g = {name: _i64(f[name]) for name in MM.names or () if name != "reserved"}
    yes, no, one = np.ones(len(f), bool), np.zeros(len(f), bool), np.ones(len(f), np.int64)
    rows, k = g["ny"] * g["nx"], g["nky"] * g["nkx"] * g["nc"]
    steps = (("sy", "ny"), ("sx", "nx"), ("sky", "nky"), ("skx", "nkx"), ("sc", "nc"))
    param = int(Buffer.PARAM) * one
    yield "act", index, int(Buffer.ACT) * one, g["act"], one, [(g[s], g[n]) for s, n in steps], yes, no
    yield "wgt", index, int(Buffer.WGT) * one, g["wgt"], k * arch.rows, [(g["wn"], g["nn"])], yes, no
    yield "init_at", index, param, g["init_at"], g["nn"] * arch.cols, [], f["mode"] == MmMode.COLUMN, no
    accumulate = f["mode"] == MmMode.ACCUMULATE
    yield "acc", index, int(Buffer.ACC) * one, g["acc"], rows, [(g["an"], g["nn"])], accumulate, yes
    accumulate = f["rowmax"] == RowMax.ACCUMULATE
    yield "rowmax_at", index, param, g["rowmax_at"], rows, [], accumulate, f["rowmax"] != RowMax.NONE


def _vec(index: Ints, words: Words, arch: Arch) -> Iterator[_Column]:
    f = words[index].view(VEC)
    c = arch.cols
    rows, tiles, valid = _i64(f["rows"]), _i64(f["tiles"]), _i64(f["valid"])
    n = (tiles - 1) * c + valid
    no, one = np.zeros(len(f), bool), np.ones(len(f), np.int64)
    param = int(Buffer.PARAM) * one

    def tensor(name: str, used: Bools, write: bool) -> Iterator[_Column]:
        """Element (i, t) at base + i * rs + t * ts: one word, two (32-bit in VBUF), or C scalars (PARAM).

        The last tile may be shorter: its `valid` scalars, or one word of two that holds all columns that are read.
        """
        buffer, fmt = _i64(f[f"{name}_src"] & 15), f[f"{name}_src"] >> 4
        used = used & (buffer != Buffer.NONE)
        at, rs, ts = (_i64(f[x]) for x in (name, f"{name}_rs", f"{name}_ts"))
        scalars = buffer == Buffer.PARAM
        wide = (buffer == Buffer.VBUF) & ((fmt == Format.F32) | (fmt == Format.I32))
        count = np.where(fmt == Format.I15_SPLIT, 2 * tiles, tiles) if write else tiles
        run = np.where(scalars, c, np.where(wide, 2, 1))
        last = np.where(scalars, valid, np.where(wide & (2 * valid <= c) & (not write), 1, run))
        joined = scalars & (ts == c)  # the tiles of a row are one run
        alone = joined | (tiles == 1) | (last == run)
        run = np.where(joined, n, np.where(tiles == 1, last, run))
        count = np.where(joined, 1, np.where(alone, count, count - 1))
        reads, writes = used & (not write), used & write
        yield name, index, buffer, at, run, [(rs, rows), (ts, count)], reads, writes
        place = at + (tiles - 1) * ts
        yield f"{name}, last tile", index, buffer, place, last, [(rs, rows)], reads & ~alone, writes & ~alone

    elem = (f["op2"] & 15 != Op2.NONE) & (f["op2"] >> 4 == Operand.ELEM)
    elem |= (f["m2"] & 15 == Operand.ELEM) | (f["m2"] >> 4 == Operand.ELEM)
    yield from tensor("a", ~no, write=False)
    yield from tensor("b", elem, write=False)
    kinds = (
        ("a1", f["m1"] & 15),
        ("b1", f["m1"] >> 4),
        ("a2", f["m2"] & 15),
        ("b2", f["m2"] >> 4),
        ("r", f["rq"] & 15),
    )
    for name, kind in kinds:
        used = (kind == Operand.ROW) | (kind == Operand.COL)
        yield name, index, param, _i64(f[name]), np.where(kind == Operand.ROW, rows, n), [], used, no
    yield "sub_at", index, param, _i64(f["sub_at"]), rows, [], f["sub"] == 1, no
    gate = (f["func"] & 15 == Function.GATE) | (f["func"] & 15 == Function.GATE_MUL)
    yield "func", index, int(Buffer.TABLE) * one, _i64(f["func"] >> 4), one, [], gate, no
    yield from tensor("d", ~no, write=True)
    along = f["red"] & RED_COLUMNS != 0
    pair = np.where(f["red"] & 15 == Reduce.SUM_SQ, 2, 1)
    second = np.where(along, tiles * c, rows)
    reduces = f["red"] & 15 != Reduce.NONE
    again = reduces & (f["red"] & RED_ACCUMULATE != 0)
    yield "red_at", index, param, _i64(f["red_at"]), np.where(along, n, rows), [(second, pair)], again, reduces


def _distinct(rows: Ints) -> tuple[Ints, Ints]:
    """The distinct ones of `rows` [n, k], and of each row the number of its equal."""
    if not len(rows):
        return rows, np.zeros(0, np.int64)
    factors = np.random.default_rng(0).integers(1 << 62, size=rows.shape[1], dtype=np.int64) | 1
    mixed = (rows * factors).sum(1)  # modulo 2^64
    _, first, number = np.unique(mixed, return_index=True, return_inverse=True)
    found = rows[first]
    if not (found[number] == rows).all():  # two that are mixed to one number
        found, number = np.unique(rows, axis=0, return_inverse=True)
    return found, number.reshape(-1)


def boxes(words: Words, arch: Arch) -> Boxes:
    """All operands of a stream whose opcodes and counts are legal (`witness.check_fields`). Fences have none."""
    opcode = words["opcode"]
    index = {o: np.flatnonzero(opcode == o) for o in Opcode}
    parts: list[tuple[npt.NDArray[Any], ...]] = []
    distinct: list[Ints] = []
    shapes = 0
    columns = (
        (Opcode.LOAD, _dma(index[Opcode.LOAD], words, True, arch)),
        (Opcode.STORE, _dma(index[Opcode.STORE], words, False, arch)),
        (Opcode.MM, _mm(index[Opcode.MM], words, arch)),
        (Opcode.VEC, _vec(index[Opcode.VEC], words, arch)),
    )
    for code, some in columns:
        for name, word, space, lo, run, loops, read, write in some:
            keep = (read | write) & (run > 0)
            for _, n in loops:
                keep &= n > 0
            unused = [(np.zeros(1, np.int64), np.ones(1, np.int64))] * (5 - len(loops))
            # One row: the run, five strides, five counts.
            rows = [run[keep], *(s[keep] for s, _ in loops), *(s for s, _ in unused)]
            rows += [*(n[keep] for _, n in loops), *(n for _, n in unused)]
            table, shape = _distinct(np.stack(np.broadcast_arrays(*rows), axis=1))
            read, write = read[keep], write[keep]
            rank = np.full(len(shape), RANKS[code].index(name), np.uint8)
            late = read & write & (code == Opcode.MM)
            of, where = word[keep].astype(np.int32), space[keep].astype(np.uint8)
            parts.append((of, rank, where, lo[keep], (shape + shapes).astype(np.int32), read, write, late))
            distinct.append(table)
            shapes += len(table)
    word, rank, space, lo, shape, read, write, late = (np.concatenate(x) for x in zip(*parts, strict=True))
    parts.clear()
    table = np.concatenate(distinct)
    shift, steps, extents = normalise(np.zeros(len(table), np.int64), table[:, 0], table[:, 1:6], table[:, 6:])
    lo = lo + shift[shape]
    order = np.argsort(word.astype(np.int64) * 16 + rank, kind="stable")
    columns_: tuple[npt.NDArray[Any], ...] = (word, rank, space, lo, shape, read, write, late)
    made: list[npt.NDArray[Any]] = [*(x[order] for x in columns_), steps, extents]
    return Boxes(*made)


def granule(streams: list[Boxes]) -> int:
    """The largest power of two up to 64 bytes on which every DRAM operand starts and steps.

    A run that ends inside a granule has it to itself, since nothing else starts there.
    """
    g = 64
    for b in streams:
        far = b.space >= DRAM
        used = np.unique(b.shape[far])
        for numbers in (b.lo[far], b.steps[used, 1:][b.extents[used, 1:] > 1]):
            if len(numbers):
                g = int(np.gcd(g, np.gcd.reduce(numbers)))
    return g


def coarse(b: Boxes, size: int | Ints) -> Boxes:
    """DRAM operands in granules of `size` bytes, one size for all or one for each operand; sizes are 1 to 64."""
    far = b.space >= DRAM
    each = np.where(far, size, 0)
    lo = b.lo.copy()
    lo[far] //= each[far]
    key = b.shape.astype(np.int64) * 65 + each
    used = np.flatnonzero(np.bincount(key, minlength=1))
    number = np.zeros(int(used[-1]) + 1 if len(used) else 1, np.int32)
    number[used] = np.arange(len(used))
    old, grain = np.divmod(used, 65)
    steps, extents = b.steps[old], b.extents[old]
    some = grain > 0
    steps[some, 1:] //= grain[some, None]
    extents[some, 0] = -(-extents[some, 0] // grain[some])
    return replace(b, lo=lo, shape=number[key], steps=steps, extents=extents)


def tables(streams: list[Boxes]) -> tuple[Ints, Ints, list[int]]:
    """Strides and counts of the shapes of all streams, one behind the other, and where those of each begin."""
    depth = max(2, *(b.steps.shape[1] for b in streams))

    def wide(a: Ints, rest: int) -> Ints:
        return np.pad(a, ((0, 0), (0, depth - a.shape[1])), constant_values=rest)

    begins = np.cumsum([0, *(len(b.steps) for b in streams)])[:-1].tolist()
    return (
        np.concatenate([wide(b.steps, 0) for b in streams]),
        np.concatenate([wide(b.extents, 1) for b in streams]),
        begins,
    )
