"""The instruction set: 512-bit words as packed numpy records. Everything about words is generated from here.

A program is one stream of words a tile. A word belongs to one engine, which executes its words in order; words of
different engines are ordered only by semaphores. Words are stateless: all operands are in the word. A word reads an
element of its operands before it writes an element of its results in the same place.

Addresses. Scratchpad addresses count words of the buffer (`Arch.word_bytes`): C int8 (ACT, WGT), C int32 (ACC),
C float16 (VBUF; C float32 take two), one 32-bit scalar (PARAM). C is the number of array columns. A tensor on chip is
(rows, column tiles of C); element (i, t) starts at `base + i * row_stride + t * tile_stride`.
DRAM operands are base register + byte offset; the host binds the base registers at submit.

Semantics of each field are in the tables below (`FIELD_DOC`), the numerics in `numerics.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

import numpy as np
import numpy.typing as npt

ABI_VERSION = 1
WORD_BYTES = 64
MAX_TOKENS = 255  # a semaphore at this count stalls its producer
SEMAPHORES_PER_PAIR = 4
BASE_REGISTERS = 8
TABLE_SLOTS = 2
TABLE_BYTES = 64 + 256 * 16  # image of one gate table, see functions.table_image


class Engine(IntEnum):
    """The five engines of a tile. The first four have semaphores; CTRL fetches and dispatches."""

    LOAD = 0
    MXU = 1
    VPU = 2
    STORE = 3
    CTRL = 4


class Opcode(IntEnum):
    """Zero is illegal, so that cleared memory is no program."""

    LOAD = 1
    MM = 2
    VEC = 3
    STORE = 4
    END = 5


ENGINE_OF = {
    Opcode.LOAD: Engine.LOAD,
    Opcode.MM: Engine.MXU,
    Opcode.VEC: Engine.VPU,
    Opcode.STORE: Engine.STORE,
    Opcode.END: Engine.CTRL,
}


class Buffer(IntEnum):
    ACT = 0
    WGT = 1
    ACC = 2
    VBUF = 3
    PARAM = 4
    TABLE = 5  # gate table RAM, addressed by slot
    NONE = 15


class Flag(IntEnum):
    """Bits of `flags`."""

    DRAIN = 1  # wait until earlier words of this engine have left its pipeline
    TRAP = 2  # a numeric exception of this word stops the tile instead of only counting
    IRQ = 4  # END raises the host interrupt


class DmaFormat(IntEnum):
    RAW = 0  # bytes as stored
    FILL = 1  # no DRAM access: the whole box is filled with `fill`
    INT4 = 2  # int4 weights with signed group integers, expanded to int8 (WGT)
    TRANSPOSE = 3  # corner-turn of byte tiles (WGT): DRAM rows become columns


class MmMode(IntEnum):
    ZERO = 0  # start from zero
    ACCUMULATE = 1  # start from what ACC holds
    COLUMN = 2  # start from an int32 column vector in PARAM


class RowMax(IntEnum):
    NONE = 0
    INIT = 1
    ACCUMULATE = 2


class Format(IntEnum):
    """Element formats of VEC operands."""

    I32 = 0
    F32 = 1
    F16 = 2
    I8 = 3  # saturates to +-127
    I8_OFFSET = 4  # saturates to [-128, 127]; holds p - 128
    I15_SPLIT = 5  # two int8 planes: hi tiles first, then lo tiles


class Operand(IntEnum):
    """Where an affine or requantise factor comes from."""

    NONE = 0
    IMM0 = 1
    IMM1 = 2
    ROW = 3  # PARAM[at + i]
    COL = 4  # PARAM[at + t * C + j]
    ELEM = 5  # operand B (affine 2 only)


class Function(IntEnum):
    NONE = 0
    EXP2 = 1
    RECIP = 2
    RSQRT = 3
    GATE = 4  # T(x)
    GATE_MUL = 5  # x * T(x)


class Op2(IntEnum):
    NONE = 0
    MUL = 1
    ADD = 2
    MAX = 3


class Reduce(IntEnum):
    NONE = 0
    MAX = 1
    ABSMAX = 2
    SUM = 3
    SUM_SQ = 4  # the pair {sum, sum of squares}


_HEADER = [
    ("opcode", "u1"),
    ("flags", "u1"),
    ("tag", "<u2"),  # index into the source map: the graph operation this word belongs to
    ("wait", "<u2"),  # bit 4 * producer + k: take one token of semaphore k of (producer, this engine)
    ("signal", "<u2"),  # bit 4 * consumer + k: add one token to semaphore k of (this engine, consumer)
]

_DMA = [
    (
        "remote",
        "<u4",
    ),  # LOAD: take one token from each source tile of the mask. STORE: signal LOAD of each tile
    ("base", "u1"),  # base register
    ("buffer", "u1"),
    ("format", "u1"),
    ("fill", "i1"),  # byte of padding cells and of the tail of a run's last word
    ("offset", "<u8"),  # bytes from the base register, 40 bits
    ("sram", "<u4"),  # word address
    ("inner", "<u4"),  # bytes of one contiguous DRAM run; zero: nothing is moved (a fence)
    ("n", "<u2", 3),  # runs along dimensions 1, 2, 3 (padding not counted)
    ("dstride", "<i4", 3),  # DRAM bytes between runs
    ("sstride", "<u2", 3),  # scratchpad words between runs
    ("pad", "u1", 4),  # LOAD: padding cells before/after along dimension 1, before/after along dimension 2
    ("reserved", "u1", 4),
]

_MM = [
    ("act", "<u4"),
    ("wgt", "<u4"),
    ("acc", "<u4"),
    ("nx", "<u2"),  # rows streamed: (y, x), ACT address act + y * sy + x * sx, ACC row y * nx + x
    ("ny", "<u2"),
    ("sx", "<u2"),
    ("sy", "<u2"),
    ("nc", "<u2"),  # reduction: (ky, kx, c), ACT address += ky * sky + kx * skx + c * sc
    ("sc", "<u2"),
    ("nkx", "u1"),
    ("nky", "u1"),
    ("skx", "<u2"),
    ("sky", "<u2"),
    (
        "nn",
        "<u2",
    ),  # column tiles: WGT tile (n, k) at wgt + n * wn + k * R words, k = (ky * nkx + kx) * nc + c
    ("wn", "<u2"),
    ("an", "<u2"),  # ACC word acc + n * an + row
    ("mode", "u1"),
    ("rowmax", "u1"),
    ("rowmax_at", "<u2"),  # PARAM int32: maximum over columns 0 .. valid-1 of the results as they drain
    ("init_at", "<u2"),  # PARAM int32 column vector of mode COLUMN
    ("valid", "<u2"),  # columns of the nn tiles that count for the row maximum
    ("reserved", "u1", 12),
]

_VEC = [
    ("rows", "<u2"),
    ("tiles", "u1"),
    ("valid", "u1"),  # valid columns of the last tile, 1 .. C; the rest is stored as zero (offset form: -128)
    ("a_src", "u1"),  # low nibble Buffer, high nibble Format
    ("b_src", "u1"),
    ("d_src", "u1"),
    ("op2", "u1"),  # low nibble Op2, high nibble Operand (ELEM, IMM0 or IMM1)
    ("a", "<u2"),
    ("a_rs", "<u2"),
    ("a_ts", "<u2"),
    ("b", "<u2"),
    ("b_rs", "<u2"),
    ("b_ts", "<u2"),
    ("d", "<u2"),
    ("d_rs", "<u2"),
    ("d_ts", "<u2"),
    ("m1", "u1"),  # affine 1: low nibble scale Operand, high nibble bias Operand
    ("m2", "u1"),  # affine 2
    ("a1", "<u2"),  # PARAM addresses of the affines' vectors
    ("b1", "<u2"),
    ("a2", "<u2"),
    ("b2", "<u2"),
    ("func", "u1"),  # low nibble Function, high nibble table slot
    ("rq", "u1"),  # requantise: low nibble scale Operand; the offset is -128 exactly for I8_OFFSET, else 0
    ("r", "<u2"),
    ("sub", "u1"),  # 1: subtract PARAM int32 [sub_at + i] from the int32 A, exactly, before conversion
    ("red", "u1"),  # bits 0-3 Reduce, bit 4 axis (1: along columns), bit 5 tap (1: integer), bit 6 accumulate
    ("sub_at", "<u2"),
    (
        "red_at",
        "<u2",
    ),  # PARAM; the second vector of a pair follows: + rows (row axis) or + tiles * C (column axis)
    ("imm", "<f4", 2),
    ("reserved", "u1", 2),
]

DMA = np.dtype(_HEADER + _DMA)
MM = np.dtype(_HEADER + _MM)
VEC = np.dtype(_HEADER + _VEC)
HEADER = np.dtype([*_HEADER, ("reserved", "u1", 56)])
DTYPE = {Opcode.LOAD: DMA, Opcode.STORE: DMA, Opcode.MM: MM, Opcode.VEC: VEC, Opcode.END: HEADER}

RED_COLUMNS, RED_INTEGER, RED_ACCUMULATE = 0x10, 0x20, 0x40

assert all(t.itemsize == WORD_BYTES for t in (DMA, MM, VEC, HEADER)), [t.itemsize for t in (DMA, MM, VEC)]

Words = npt.NDArray[np.void]
"""A program stream: shape [n], dtype `HEADER`. `view(DTYPE[opcode])` of one word gives its fields."""


def empty(n: int) -> Words:
    """`n` cleared words (illegal until filled)."""
    return np.zeros(n, HEADER)


def word(opcode: Opcode, **fields: object) -> Words:
    """One word, shape [1], dtype `HEADER`. A field that does not exist or a value that does not fit is an error.

    Raises:
        ValueError: the value is outside the field.
        KeyError: no such field.
    """
    dtype = DTYPE[opcode]
    record = np.zeros(1, dtype)
    record["opcode"] = opcode
    assert dtype.names is not None
    for name, value in fields.items():
        if name not in dtype.names:
            raise KeyError(f"{opcode.name} has no field '{name}'")
        base = dtype[name].base
        array = np.asarray(value)
        if base.kind in "iu":
            info = np.iinfo(base)
            if array.size and (int(array.min()) < info.min or int(array.max()) > info.max):
                raise ValueError(f"{opcode.name}.{name} = {value}: the field holds {info.min} to {info.max}")
        record[name] = array
    return record.view(HEADER)


def records(opcode: Opcode, rows: Sequence[Mapping[str, Any]]) -> Words:
    """Records of one opcode from their fields by name; fields that a row leaves out are zero. Shape [len(rows)].

    Raises:
        ValueError: a value does not fit its field; the text names both.
    """
    dtype = DTYPE[opcode]
    out: Words = np.zeros(len(rows), dtype)
    out["opcode"] = opcode
    for name in dtype.names or ():
        if name in ("opcode", "reserved") or not any(name in r for r in rows):
            continue
        base, shape = dtype[name].base, dtype[name].shape
        zero: Any = (0,) * shape[0] if shape else 0
        values = np.array([r.get(name, zero) for r in rows])
        if base.kind in "iu" and values.size:
            info = np.iinfo(base)
            if values.min() < info.min or values.max() > info.max:
                worst = values.max() if values.max() > info.max else values.min()
                raise ValueError(f"{opcode.name}.{name} = {int(worst)}: the field holds {info.min} to {info.max}")
        out[name] = values
    return out


def fields(one: np.void) -> np.void:
    """A word's record with the fields of its opcode.

    Raises:
        ValueError: illegal opcode.
    """
    opcode = int(one["opcode"])
    if opcode not in DTYPE:
        raise ValueError(f"illegal opcode {opcode}")
    record: np.void = np.frombuffer(one.tobytes(), DTYPE[Opcode(opcode)])[0]
    return record


def pack(low: int, high: int) -> int:
    """Two nibbles in one byte."""
    return int(low) | int(high) << 4


def wait_bit(producer: Engine, k: int = 0) -> int:
    """The bit of `wait` for semaphore `k` of (producer, the word's own engine)."""
    return 1 << (4 * int(producer) + k)


def signal_bit(consumer: Engine, k: int = 0) -> int:
    """The bit of `signal` for semaphore `k` of (the word's own engine, consumer)."""
    return 1 << (4 * int(consumer) + k)
