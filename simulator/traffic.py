"""What each word moves and computes on chip: scratchpad bytes by buffer, vector elements, float operations.

Counted from the fields of the executed words. Per word, `[tile words]` arrays; END counts nothing.

- MM reads each ACT row once for every weight tile, each weight tile once, and reads and writes ACC once for every tile
  of the reduction (the first one is not read unless the word accumulates).
- VEC reads A and B and writes D once; PARAM vectors along columns are read for every row; a reduction writes its
  result once (and reads it when it accumulates); a gate reads one 16-byte table entry an element.
- LOAD writes, padding included, and STORE reads whole scratchpad words.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..ir.arch import Arch
from ..ir.cost import TABLE_WORD_BYTES, dma, mm_k_tiles, mm_macs, mm_rows, vec_elements, word_bytes_of
from ..ir.isa import (
    DMA,
    MM,
    RED_ACCUMULATE,
    RED_COLUMNS,
    VEC,
    Buffer,
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

Ints = npt.NDArray[np.int64]

BUFFERS = (Buffer.ACT, Buffer.WGT, Buffer.ACC, Buffer.VBUF, Buffer.PARAM, Buffer.TABLE)

QUADRATIC = 2  # multiplications and additions of a function: integers, counted as float32


@dataclass
class Traffic:
    """Per word. `read` and `written` are bytes of each scratchpad."""

    read: dict[Buffer, Ints]
    written: dict[Buffer, Ints]
    macs: Ints
    elements: Ints  # that VEC words work on
    multiplications: Ints  # float32, of VEC words
    additions: Ints  # float32 additions, comparisons and conversions

    @property
    def bytes(self) -> Ints:
        """All scratchpads, read and written."""
        return np.asarray(sum(self.read.values()) + sum(self.written.values()))


def traffic(arch: Arch, words: Words) -> Traffic:
    """Count the words of one stream."""
    n = len(words)

    def zero() -> Ints:
        return np.zeros(n, np.int64)

    t = Traffic({b: zero() for b in BUFFERS}, {b: zero() for b in BUFFERS}, zero(), zero(), zero(), zero())
    opcode = words["opcode"]
    _matrix(arch, words, np.flatnonzero(opcode == Opcode.MM), t)
    _vector(arch, words, np.flatnonzero(opcode == Opcode.VEC), t)
    for o, to in ((Opcode.LOAD, t.written), (Opcode.STORE, t.read)):
        at = np.flatnonzero(opcode == o)
        records = words[at].view(DMA)
        size = dma(arch, records).words * word_bytes_of(arch, records["buffer"])
        for b in BUFFERS:
            to[b][at] += np.where(records["buffer"] == b, size, 0)
    return t


def _matrix(arch: Arch, words: Words, at: Ints, t: Traffic) -> None:
    mm = words[at].view(MM)
    rows, k, nn = mm_rows(mm), mm_k_tiles(mm), mm["nn"].astype(np.int64)
    size = arch.word_bytes
    t.macs[at] = mm_macs(arch, mm)
    t.read[Buffer.ACT][at] = rows * k * nn * size["act"]
    t.read[Buffer.WGT][at] = nn * k * arch.rows * size["wgt"]
    some = (rows > 0) & (k > 0)
    sums = np.where(some, k - 1 + (mm["mode"] == MmMode.ACCUMULATE), 0)
    t.read[Buffer.ACC][at] = rows * nn * sums * size["acc"]
    t.written[Buffer.ACC][at] = rows * nn * k * size["acc"]
    t.read[Buffer.PARAM][at] = np.where(mm["mode"] == MmMode.COLUMN, nn * arch.cols * 4, 0) + np.where(
        mm["rowmax"] == RowMax.ACCUMULATE, rows * 4, 0
    )
    t.written[Buffer.PARAM][at] = np.where(mm["rowmax"] != RowMax.NONE, rows * 4, 0)


def _vector(arch: Arch, words: Words, at: Ints, t: Traffic) -> None:
    vec = words[at].view(VEC)
    rows, tiles, elements = vec["rows"].astype(np.int64), vec["tiles"].astype(np.int64), vec_elements(arch, vec)
    columns = (tiles - 1) * arch.cols + vec["valid"]
    elements = np.where((rows > 0) & (tiles > 0), elements, 0)
    t.elements[at] = elements
    elem = ((vec["op2"] & 15 != Op2.NONE) & (vec["op2"] >> 4 == Operand.ELEM)) | (
        (vec["m2"] & 15 == Operand.ELEM) | (vec["m2"] >> 4 == Operand.ELEM)
    )

    def tensor(name: str, used: npt.NDArray[np.bool_], to: dict[Buffer, Ints]) -> None:
        buffer, fmt = vec[f"{name}_src"] & 15, vec[f"{name}_src"] >> 4
        planes = np.where(fmt == Format.I15_SPLIT, 2, 1)
        wide = np.where((fmt == Format.F32) | (fmt == Format.I32), 2, 1)
        for b in (Buffer.ACT, Buffer.ACC, Buffer.VBUF):
            size = rows * tiles * planes * arch.word_bytes[b.name.lower()]
            size = size * wide if b == Buffer.VBUF else size
            to[b][at] += np.where(used & (buffer == b), size, 0)
        to[Buffer.PARAM][at] += np.where(used & (buffer == Buffer.PARAM), 4 * elements, 0)

    always = np.ones(len(vec), np.bool_)
    tensor("a", always, t.read)
    tensor("b", elem, t.read)
    tensor("d", always, t.written)
    multiply, add = np.zeros(len(vec), np.int64), np.zeros(len(vec), np.int64)
    add += (vec["a_src"] >> 4 == Format.I32).astype(np.int64)  # the conversion to float
    for field_name, low_is_scale in (("m1", True), ("m2", True), ("rq", False)):
        kinds = (vec[field_name] & 15, vec[field_name] >> 4) if low_is_scale else (vec[field_name] & 15,)
        for kind, what in zip(kinds, (multiply, add), strict=False):
            what += kind != Operand.NONE
            size = np.where(kind == Operand.ROW, rows, np.where(kind == Operand.COL, rows * columns, 0))
            t.read[Buffer.PARAM][at] += 4 * size
    t.read[Buffer.PARAM][at] += np.where(vec["sub"] == 1, 4 * rows, 0)
    add += vec["sub"] == 1
    op2 = vec["op2"] & 15
    multiply += op2 == Op2.MUL
    add += (op2 == Op2.ADD) | (op2 == Op2.MAX)
    function = vec["func"] & 15
    gate = (function == Function.GATE) | (function == Function.GATE_MUL)
    both = QUADRATIC * (function != Function.NONE)
    multiply += both + (function == Function.GATE_MUL)
    add += both
    t.read[Buffer.TABLE][at] = np.where(gate, elements * TABLE_WORD_BYTES, 0)
    add += (vec["d_src"] >> 4 != Format.F32).astype(np.int64)  # rounding to the result's format
    red = vec["red"] & 15
    multiply += red == Reduce.SUM_SQ
    add += (red != Reduce.NONE).astype(np.int64) + (red == Reduce.SUM_SQ)
    size = np.where(vec["red"] & RED_COLUMNS != 0, columns, rows) * np.where(red == Reduce.SUM_SQ, 8, 4)
    t.written[Buffer.PARAM][at] += np.where(red != Reduce.NONE, size, 0)
    t.read[Buffer.PARAM][at] += np.where((red != Reduce.NONE) & (vec["red"] & RED_ACCUMULATE != 0), size, 0)
    t.multiplications[at], t.additions[at] = multiply * elements, add * elements
