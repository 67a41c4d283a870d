"""What each word touches: intervals of scratchpad words and of DRAM bytes.

One description serves the semaphore insertion, the bounds check and every later analysis: `operands` gives, for each
operand of an opcode, columns over the words that have it; `accesses` regroups them by word.

An interval is the smallest contiguous one that holds the operand's affine box, so gaps between strided rows count as
touched. That errs on the safe side: an analysis may order two words that need no order, never the reverse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from .arch import Arch
from .isa import (
    BASE_REGISTERS,
    DMA,
    MM,
    RED_ACCUMULATE,
    RED_COLUMNS,
    TABLE_BYTES,
    TABLE_SLOTS,
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
from .numerics import W4_GROUP

Access = tuple[int, int, int, bool]
"""(buffer, first word, one past the last word, is a write)."""

DramAccess = tuple[int, int, int, bool]
"""(base register, first byte, one past the last byte, is a write)."""

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

LEGAL_BUFFERS = {
    (Opcode.LOAD, "sram"): {Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM, Buffer.TABLE},
    (Opcode.STORE, "sram"): {Buffer.ACT, Buffer.VBUF, Buffer.PARAM},
    (Opcode.VEC, "a"): {Buffer.ACC, Buffer.VBUF, Buffer.PARAM},
    (Opcode.VEC, "b"): {Buffer.ACC, Buffer.VBUF, Buffer.PARAM},
    (Opcode.VEC, "d"): {Buffer.ACT, Buffer.VBUF, Buffer.PARAM},
}
"""Ports of the engines: which buffers an operand with a buffer field may name."""


@dataclass(frozen=True)
class Accesses:
    """Per word: its scratchpad accesses (reads before writes) and its DRAM access, if it has one."""

    local: list[list[Access]]
    dram: list[DramAccess | None]


@dataclass(frozen=True)
class OperandColumn:
    """One operand of one opcode over all words that use it; row j belongs to word `index[j]`.

    `buffer` is a base register when `dram` is set. An accumulating operand is read and written.
    """

    opcode: Opcode
    name: str
    index: Ints
    buffer: Ints
    lo: Ints
    hi: Ints
    read: Bools
    write: Bools
    dram: bool = False


def int4_block_bytes(arch: Arch) -> int:
    """DRAM bytes of a full int4 block: a line of C group integers, then `W4_GROUP` rows of C nibbles."""
    return arch.cols + W4_GROUP * arch.cols // 2


def int4_words(inner: int, arch: Arch) -> int:
    """WGT words that a run of `inner` bytes of int4 blocks expands to. The last block may have any number of rows."""
    blocks, rest = divmod(inner, int4_block_bytes(arch))
    return blocks * W4_GROUP + max(0, rest - arch.cols) // (arch.cols // 2)


def capacities(arch: Arch) -> dict[Buffer, int]:
    """Addressable words of each scratchpad of one tile; the table RAM counts slots."""
    words = {Buffer[name.upper()]: n for name, n in arch.words.items()}
    return words | {Buffer.TABLE: TABLE_SLOTS}


def _i64(x: npt.NDArray[Any]) -> Ints:
    return x.astype(np.int64)


def _dma(index: Ints, words: Words, opcode: Opcode, arch: Arch) -> Iterator[OperandColumn]:
    f = words[index].view(DMA)
    index, f = index[f["inner"] > 0], f[f["inner"] > 0]  # the others are fences
    c = arch.cols
    word_bytes = np.ones(256, np.int64)
    for name, size in arch.word_bytes.items():
        word_bytes[Buffer[name.upper()]] = size
    word_bytes[Buffer.TABLE] = TABLE_BYTES

    inner, n, pad = _i64(f["inner"]), _i64(f["n"]), _i64(f["pad"])
    run = -(-inner // word_bytes[f["buffer"]])
    count = n.copy()
    count[:, 0] += pad[:, 0] + pad[:, 1]
    count[:, 1] += pad[:, 2] + pad[:, 3]
    int4 = f["format"] == DmaFormat.INT4
    if int4.any():
        blocks, rest = np.divmod(inner, int4_block_bytes(arch))
        run = np.where(int4, blocks * W4_GROUP + np.maximum(0, rest - c) // (c // 2), run)
    turned = f["format"] == DmaFormat.TRANSPOSE
    if turned.any():  # the runs along dimension 1 become the columns of one tile of R words
        run = np.where(turned, arch.rows, run)
        count[:, 0] = np.where(turned, np.minimum(1, n[:, 0]), count[:, 0])

    lo = _i64(f["sram"])
    hi = lo + ((count - 1) * _i64(f["sstride"])).sum(1) + run
    some = (count > 0).all(1)
    load = np.full(len(f), opcode == Opcode.LOAD)
    yield OperandColumn(
        opcode, "sram", index[some], _i64(f["buffer"])[some], lo[some], hi[some], ~load[some], load[some]
    )

    span = (n - 1) * _i64(f["dstride"])
    lo = _i64(f["offset"]) + np.minimum(span, 0).sum(1)
    hi = _i64(f["offset"]) + np.maximum(span, 0).sum(1) + inner
    some = (n > 0).all(1) & (f["format"] != DmaFormat.FILL)
    base = _i64(f["base"])
    yield OperandColumn(opcode, "dram", index[some], base[some], lo[some], hi[some], load[some], ~load[some], dram=True)


def _mm(index: Ints, words: Words, arch: Arch) -> Iterator[OperandColumn]:
    f = words[index].view(MM)
    g = {name: _i64(f[name]) for name in MM.names or () if name != "reserved"}
    rows = g["ny"] * g["nx"]
    k = g["nky"] * g["nkx"] * g["nc"]
    yes, no = np.ones(len(f), bool), np.zeros(len(f), bool)

    def column(name: str, buffer: Buffer, at: Ints, length: Ints, read: Bools, write: Bools) -> OperandColumn:
        some = (rows > 0) & (k > 0) & (g["nn"] > 0) & (read | write)
        where = np.full(len(f), int(buffer))
        return OperandColumn(
            Opcode.MM, name, index[some], where[some], at[some], (at + length)[some], read[some], write[some]
        )

    act = (
        (g["ny"] - 1) * g["sy"]
        + (g["nx"] - 1) * g["sx"]
        + (g["nky"] - 1) * g["sky"]
        + (g["nkx"] - 1) * g["skx"]
        + (g["nc"] - 1) * g["sc"]
        + 1
    )
    yield column("act", Buffer.ACT, g["act"], act, yes, no)
    yield column("wgt", Buffer.WGT, g["wgt"], (g["nn"] - 1) * g["wn"] + k * arch.rows, yes, no)
    yield column("init_at", Buffer.PARAM, g["init_at"], g["nn"] * arch.cols, g["mode"] == MmMode.COLUMN, no)
    yield column("acc", Buffer.ACC, g["acc"], (g["nn"] - 1) * g["an"] + rows, g["mode"] == MmMode.ACCUMULATE, yes)
    accumulate = g["rowmax"] == RowMax.ACCUMULATE
    yield column("rowmax_at", Buffer.PARAM, g["rowmax_at"], rows, accumulate, g["rowmax"] != RowMax.NONE)


def _vec(index: Ints, words: Words, arch: Arch) -> Iterator[OperandColumn]:
    f = words[index].view(VEC)
    c = arch.cols
    rows, tiles = _i64(f["rows"]), _i64(f["tiles"])
    some = (rows > 0) & (tiles > 0)
    index, f, rows, tiles = index[some], f[some], rows[some], tiles[some]
    n = (tiles - 1) * c + f["valid"]  # columns that count

    def column(name: str, buffer: Ints, at: Ints, length: Ints, used: Bools, write: bool | Bools) -> OperandColumn:
        written = np.broadcast_to(np.asarray(write), used.shape)
        return OperandColumn(
            Opcode.VEC,
            name,
            index[used],
            buffer[used],
            at[used],
            (at + length)[used],
            (~written if isinstance(write, bool) else (f["red"] & RED_ACCUMULATE) != 0)[used],
            written[used],
        )

    def tensor(name: str, used: Bools, write: bool) -> OperandColumn:
        """Element (i, t) at base + i * rs + t * ts; a tile takes one word, two (32-bit in VBUF) or C (PARAM).

        In PARAM only valid scalars are touched, so the last tile may be shorter than the one before it.
        """
        buffer, fmt = _i64(f[f"{name}_src"] & 15), f[f"{name}_src"] >> 4
        wide = (buffer == Buffer.VBUF) & ((fmt == Format.F32) | (fmt == Format.I32))
        ts = _i64(f[f"{name}_ts"])
        count = np.where(fmt == Format.I15_SPLIT, 2 * tiles, tiles) if write else tiles
        row = (count - 1) * ts + np.where(wide, 2, 1)
        scalars = np.maximum((tiles - 1) * ts + f["valid"], np.where(tiles > 1, (tiles - 2) * ts + c, 0))
        length = (rows - 1) * f[f"{name}_rs"] + np.where(buffer == Buffer.PARAM, scalars, row)
        return column(name, buffer, _i64(f[name]), length, used & (buffer != Buffer.NONE), write)

    elem = ((f["op2"] & 15 != Op2.NONE) & (f["op2"] >> 4 == Operand.ELEM)) | (
        (f["m2"] & 15 == Operand.ELEM) | (f["m2"] >> 4 == Operand.ELEM)
    )
    everywhere = np.ones(len(f), bool)
    param = np.full(len(f), int(Buffer.PARAM))
    yield tensor("a", everywhere, write=False)
    yield tensor("b", elem, write=False)
    for name, kind in (
        ("a1", f["m1"] & 15),
        ("b1", f["m1"] >> 4),
        ("a2", f["m2"] & 15),
        ("b2", f["m2"] >> 4),
        ("r", f["rq"] & 15),
    ):
        length = np.where(kind == Operand.ROW, rows, n)
        used = (kind == Operand.ROW) | (kind == Operand.COL)
        yield column(name, param, _i64(f[name]), length, used, write=False)
    yield column("sub_at", param, _i64(f["sub_at"]), rows, f["sub"] == 1, write=False)
    gate = (f["func"] & 15 == Function.GATE) | (f["func"] & 15 == Function.GATE_MUL)
    slot = _i64(f["func"] >> 4)
    yield column("func", np.full(len(f), int(Buffer.TABLE)), slot, np.ones_like(slot), gate, write=False)
    yield tensor("d", everywhere, write=True)
    along = f["red"] & RED_COLUMNS != 0
    second = np.where(f["red"] & 15 == Reduce.SUM_SQ, np.where(along, tiles * c, rows), 0)
    length = second + np.where(along, n, rows)
    reduces = f["red"] & 15 != Reduce.NONE
    yield column("red_at", param, _i64(f["red_at"]), length, reduces, write=reduces)


def operands(words: Words, arch: Arch) -> list[OperandColumn]:
    """All operands of a stream, by opcode. Fences and END have none.

    Raises:
        DpuError: E310, an opcode does not exist.
    """
    opcode = words["opcode"]
    illegal = (opcode < min(Opcode)) | (opcode > max(Opcode))
    if illegal.any():
        at = int(np.argmax(illegal))
        raise DpuError(f"word {at}", f"opcode {int(opcode[at])} does not exist", code="E310")
    index = {o: np.flatnonzero(opcode == o) for o in Opcode}
    return [
        *_dma(index[Opcode.LOAD], words, Opcode.LOAD, arch),
        *_dma(index[Opcode.STORE], words, Opcode.STORE, arch),
        *_mm(index[Opcode.MM], words, arch),
        *_vec(index[Opcode.VEC], words, arch),
    ]


def accesses(words: Words, arch: Arch) -> Accesses:
    """The intervals that each word of a stream touches, as plain Python.

    Raises:
        DpuError: E310, an opcode does not exist.
    """
    local: list[list[Access]] = [[] for _ in range(len(words))]
    dram: list[DramAccess | None] = [None] * len(words)
    columns = operands(words, arch)
    for write in (False, True):
        for o in columns:
            keep = o.write if write else o.read
            if not keep.any():
                continue
            rows = zip(*(x[keep].tolist() for x in (o.index, o.buffer, o.lo, o.hi)), strict=True)
            if o.dram:
                for i, b, lo, hi in rows:
                    dram[i] = (b, lo, hi, write)
            else:
                for i, b, lo, hi in rows:
                    local[i].append((b, lo, hi, write))
    return Accesses(local, dram)


def check_bounds(words: Words, arch: Arch, base_bytes: dict[int, int], where: str = "") -> None:
    """Every operand lies inside its buffer or DRAM region, and in a buffer that its engine has a port to.

    `where` names the stream in the message ("entry 'unet', tile 0").

    Raises:
        DpuError: E310 illegal opcode or buffer, E311 outside a scratchpad, E312 outside a DRAM region.
    """
    capacity = capacities(arch)
    room = np.zeros(256, np.int64)
    for buffer, n in capacity.items():
        room[buffer] = n
    region = np.zeros(256, np.int64)
    for base, n in base_bytes.items():
        region[base] = n

    def place(i: int, opcode: Opcode) -> str:
        return f"{where + ', ' if where else ''}word {i} ({opcode.name}, tag {int(words['tag'][i])})"

    for o in operands(words, arch):
        legal = LEGAL_BUFFERS.get((o.opcode, o.name))
        if legal is not None:
            bad = ~np.isin(o.buffer, [int(b) for b in legal])
            if bad.any():
                j = int(np.argmax(bad))
                seen = int(o.buffer[j])
                name = Buffer(seen).name if seen in set(Buffer) else str(seen)
                raise DpuError(
                    place(int(o.index[j]), o.opcode),
                    f"operand '{o.name}' is in buffer {name}",
                    why=f"this operand can be in {', '.join(sorted(b.name for b in legal))}",
                    code="E310",
                )
        limit = (region if o.dram else room)[o.buffer]
        bad = (o.lo < 0) | (o.hi > limit)
        if not bad.any():
            continue
        j = int(np.argmax(bad))
        lo, hi, size, b = int(o.lo[j]), int(o.hi[j]), int(limit[j]), int(o.buffer[j])
        if o.dram:
            known = "" if b < BASE_REGISTERS else f" (there are {BASE_REGISTERS} base registers)"
            raise DpuError(
                place(int(o.index[j]), o.opcode),
                f"operand '{o.name}' touches bytes [{lo:#x}, {hi:#x}) of base register {b}{known}",
                why=f"that region has {size:#x} bytes",
                code="E312",
            )
        raise DpuError(
            place(int(o.index[j]), o.opcode),
            f"operand '{o.name}' touches words [{lo:#x}, {hi:#x}) of {Buffer(b).name}",
            why=f"{Buffer(b).name} of arch '{arch.name}' has {size:#x} {'slots' if b == Buffer.TABLE else 'words'}",
            code="E311",
        )
