"""The text form of instruction words: one table of items an opcode, which assembler and disassembler both follow.

    mxu.mm act=0x100 wgt=0x0 acc=0x0 rows=4x16:18,1 k=3x3x2:18,1,324 n=1:0,0 ; wait load0 signal vpu0 ; tag 17 "/conv"

An item shows one or more fields. It is left out when all of them are zero, so what is not written is zero, and every
word, legal or not, has exactly one text. A code without a name is shown as its number.

| item | fields |
|---|---|
| `dram=work+0x40` | `base`, `offset` |
| `sram=act@0x10` | `buffer`, `sram` |
| `n=4x3x1`, `ds=..`, `ss=..`, `pad=..` | vectors by dimension |
| `rows=4x16:18,1` | `ny` x `nx` : `sy`, `sx` |
| `k=3x3x2:18,1,324` | `nky` x `nkx` x `nc` : `sky`, `skx`, `sc` |
| `n=2:72,64` | `nn` : `wn`, `an` |
| `a=acc.i32@0x0:1,64` | buffer, format, address : row stride, tile stride (also `b`, `d`) |
| `affine1=row@0x40,imm0` | scale, bias, each with its PARAM address |
| `red=sum_sq.col.int.acc@0x80` | reduction, axis, tap, accumulate, address |
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from ..ir.container import Base
from ..ir.isa import (
    DTYPE,
    RED_ACCUMULATE,
    RED_COLUMNS,
    RED_INTEGER,
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
)

Fields = dict[str, int | list[int]]
"""Field values of a word. Floats are their 32 bits."""

MNEMONIC = {Opcode.LOAD: "load", Opcode.MM: "mxu.mm", Opcode.VEC: "vpu.vec", Opcode.STORE: "store", Opcode.END: "end"}
"""LOAD and STORE are followed by their format: `load.raw`, `load.int4`."""


@dataclass(frozen=True)
class Item:
    """`key=text`, standing for `fields`. `read` raises ValueError with a reason when the text makes no sense."""

    key: str
    fields: tuple[str, ...]
    show: Callable[[Fields], str]
    read: Callable[[str], Fields]


def integer(text: str) -> int:
    """A decimal or 0x number."""
    try:
        return int(text, 0)
    except ValueError:
        raise ValueError(f"'{text}' is no number") from None


def code_name(kind: type[IntEnum], value: int) -> str:
    """A member's name in lower case, or the number where there is none."""
    return kind(value).name.lower() if value in kind._value2member_map_ else str(value)


def code_value(kind: type[IntEnum], text: str) -> int:
    """The inverse of `code_name`."""
    name = text.upper()
    if name in kind.__members__:
        return int(kind[name])
    if text[:1].isdigit():
        return integer(text)
    raise ValueError(f"'{text}' is none of {', '.join(m.name.lower() for m in kind)}")


def _one(f: Fields, name: str) -> int:
    value = f[name]
    assert isinstance(value, int)
    return value


def _many(f: Fields, name: str) -> list[int]:
    value = f[name]
    assert isinstance(value, list)
    return value


def _numbers(text: str, separator: str, count: int) -> list[int]:
    parts = text.split(separator)
    if len(parts) != count:
        raise ValueError(f"'{text}' must be {count} numbers separated by '{separator}'")
    return [integer(p) for p in parts]


def _split(text: str, separator: str, default: str) -> tuple[str, str]:
    head, found, tail = text.partition(separator)
    return head, tail if found else default


def _nibble(value: int) -> int:
    if not 0 <= value <= 15:
        raise ValueError(f"{value} does not fit in 4 bits")
    return value


def _number(key: str, field: str = "", address: bool = False) -> Item:
    name = field or key
    return Item(
        key,
        (name,),
        lambda f: hex(_one(f, name)) if address else str(_one(f, name)),
        lambda text: {name: integer(text)},
    )


def _code(key: str, kind: type[IntEnum]) -> Item:
    return Item(key, (key,), lambda f: code_name(kind, _one(f, key)), lambda text: {key: code_value(kind, text)})


def _vector(key: str, field: str, count: int, separator: str = ",") -> Item:
    return Item(
        key,
        (field,),
        lambda f: separator.join(map(str, _many(f, field))),
        lambda text: {field: list(_numbers(text, separator, count))},
    )


def _loops(key: str, counts: tuple[str, ...], strides: tuple[str, ...]) -> Item:
    """`AxBxC:a,b,c`"""

    def show(f: Fields) -> str:
        return "x".join(str(_one(f, n)) for n in counts) + ":" + ",".join(str(_one(f, n)) for n in strides)

    def read(text: str) -> Fields:
        head, tail = _split(text, ":", ",".join("0" * len(strides)))
        values = _numbers(head, "x", len(counts)) + _numbers(tail, ",", len(strides))
        return dict(zip(counts + strides, values, strict=True))

    return Item(key, counts + strides, show, read)


def _placed(key: str, kind: type[IntEnum], code: str, at: str) -> Item:
    """`code@address`"""

    def show(f: Fields) -> str:
        return f"{code_name(kind, _one(f, code))}@{_one(f, at):#x}"

    def read(text: str) -> Fields:
        name, where = _split(text, "@", "0")
        return {code: code_value(kind, name), at: integer(where)}

    return Item(key, (code, at), show, read)


def _dram() -> Item:
    def read(text: str) -> Fields:
        base, offset = _split(text, "+", "0")
        return {"base": code_value(Base, base), "offset": integer(offset)}

    return Item(
        "dram", ("base", "offset"), lambda f: f"{code_name(Base, _one(f, 'base'))}+{_one(f, 'offset'):#x}", read
    )


def _tensor(key: str) -> Item:
    """`buffer.format@address:row stride,tile stride`, or `none`."""
    source, rs, ts = f"{key}_src", f"{key}_rs", f"{key}_ts"

    def show(f: Fields) -> str:
        code, rest = _one(f, source), (_one(f, key), _one(f, rs), _one(f, ts))
        if code == Buffer.NONE and not any(rest):
            return "none"
        name = f"{code_name(Buffer, code & 15)}.{code_name(Format, code >> 4)}"
        return f"{name}@{rest[0]:#x}:{rest[1]},{rest[2]}"

    def read(text: str) -> Fields:
        place, strides = _split(text, ":", "0,0")
        name, at = _split(place, "@", "0")
        buffer, form = _split(name, ".", "i32")
        code = _nibble(code_value(Buffer, buffer)) | _nibble(code_value(Format, form)) << 4
        row, tile = _numbers(strides, ",", 2)
        return {source: code, key: integer(at), rs: row, ts: tile}

    return Item(key, (source, key, rs, ts), show, read)


def _affine(n: int) -> Item:
    m, scale, bias = f"m{n}", f"a{n}", f"b{n}"

    def part(code: int, at: int) -> str:
        return code_name(Operand, code) + (f"@{at:#x}" if at else "")

    def show(f: Fields) -> str:
        code = _one(f, m)
        return f"{part(code & 15, _one(f, scale))},{part(code >> 4, _one(f, bias))}"

    def read(text: str) -> Fields:
        parts = text.split(",")
        if len(parts) != 2:
            raise ValueError(f"'{text}' must be scale,bias")
        (a, a_at), (b, b_at) = (_split(p, "@", "0") for p in parts)
        code = _nibble(code_value(Operand, a)) | _nibble(code_value(Operand, b)) << 4
        return {m: code, scale: integer(a_at), bias: integer(b_at)}

    return Item(f"affine{n}", (m, scale, bias), show, read)


def _pair(key: str, low: type[IntEnum], high: type[IntEnum] | None) -> Item:
    """Two nibbles as `low,high`; `high` is a number where it has no names."""

    def show(f: Fields) -> str:
        code = _one(f, key)
        return f"{code_name(low, code & 15)},{code_name(high, code >> 4) if high else code >> 4}"

    def read(text: str) -> Fields:
        a, b = _split(text, ",", "0")
        return {
            key: _nibble(code_value(low, a)) | _nibble(code_value(high, b) if high else integer(b)) << 4,
        }

    return Item(key, (key,), show, read)


_RED_BITS = {"col": RED_COLUMNS, "int": RED_INTEGER, "acc": RED_ACCUMULATE, "bit7": 0x80}


def _reduction() -> Item:
    def show(f: Fields) -> str:
        code = _one(f, "red")
        bits = "".join(f".{name}" for name, bit in _RED_BITS.items() if code & bit)
        return f"{code_name(Reduce, code & 15)}{bits}@{_one(f, 'red_at'):#x}"

    def read(text: str) -> Fields:
        name, at = _split(text, "@", "0")
        kind, *bits = name.split(".")
        code = _nibble(code_value(Reduce, kind))
        for bit in bits:
            if bit not in _RED_BITS:
                raise ValueError(f"'{bit}' is none of {', '.join(_RED_BITS)}")
            code |= _RED_BITS[bit]
        return {"red": code, "red_at": integer(at)}

    return Item("red", ("red", "red_at"), show, read)


def float_text(bits: int) -> str:
    """The shortest decimal that gives back these 32 bits, or the bits for NaN and infinity."""
    value = np.uint32(bits).view(np.float32)
    if not np.isfinite(value):
        return f"{bits:#010x}"
    text = str(value)
    return text if float_bits(text) == bits else repr(float(value))


def float_bits(text: str) -> int:
    """The inverse of `float_text`."""
    if text.startswith("0x"):
        return integer(text)
    try:
        value = float(text)
    except ValueError:
        raise ValueError(f"'{text}' is no number") from None
    with np.errstate(over="ignore"):
        single = np.float32(value)
    if not math.isfinite(value) or not np.isfinite(single):
        raise ValueError(f"'{text}' is no finite float32; write its bits as 0x...")
    return int(single.view(np.uint32))


def _immediates() -> Item:
    def read(text: str) -> Fields:
        parts = text.split(",")
        if len(parts) != 2:
            raise ValueError(f"'{text}' must be two numbers")
        return {"imm": [float_bits(p) for p in parts]}

    return Item("imm", ("imm",), lambda f: ",".join(float_text(b) for b in _many(f, "imm")), read)


def _reserved(count: int) -> Item:
    def read(text: str) -> Fields:
        raw = bytes.fromhex(text)
        if len(raw) != count:
            raise ValueError(f"'{text}' must be {count} bytes in hexadecimal")
        return {"reserved": list(raw)}

    return Item("reserved", ("reserved",), lambda f: bytes(_many(f, "reserved")).hex(), read)


_DMA = (
    _dram(),
    _placed("sram", Buffer, "buffer", "sram"),
    _number("inner"),
    _vector("n", "n", 3, "x"),
    _vector("ds", "dstride", 3),
    _vector("ss", "sstride", 3),
    _vector("pad", "pad", 4),
    _number("fill"),
    _reserved(4),
)

ITEMS: dict[Opcode, tuple[Item, ...]] = {
    Opcode.LOAD: _DMA,
    Opcode.STORE: _DMA,
    Opcode.MM: (
        _number("act", address=True),
        _number("wgt", address=True),
        _number("acc", address=True),
        _loops("rows", ("ny", "nx"), ("sy", "sx")),
        _loops("k", ("nky", "nkx", "nc"), ("sky", "skx", "sc")),
        _loops("n", ("nn",), ("wn", "an")),
        _code("mode", MmMode),
        _number("init", "init_at", address=True),
        _placed("rowmax", RowMax, "rowmax", "rowmax_at"),
        _number("valid"),
        _reserved(12),
    ),
    Opcode.VEC: (
        _number("rows"),
        _number("tiles"),
        _number("valid"),
        _tensor("a"),
        _tensor("b"),
        _tensor("d"),
        Item(
            "sub",
            ("sub", "sub_at"),
            lambda f: f"{_one(f, 'sub')}@{_one(f, 'sub_at'):#x}",
            lambda text: dict(zip(("sub", "sub_at"), map(integer, _split(text, "@", "0")), strict=True)),
        ),
        _affine(1),
        _affine(2),
        _pair("func", Function, None),
        _pair("op2", Op2, Operand),
        _placed("rq", Operand, "rq", "r"),
        _reduction(),
        _immediates(),
        _reserved(2),
    ),
    Opcode.END: (_reserved(56),),
}
"""Items of each opcode in the order they are shown. With the header and `format` they cover every field once."""

HEADER_FIELDS = ("opcode", "flags", "tag", "wait", "signal")


def _check_cover() -> None:
    for opcode, items in ITEMS.items():
        shown = [n for item in items for n in item.fields] + list(HEADER_FIELDS)
        if opcode in (Opcode.LOAD, Opcode.STORE):
            shown += ["format", "remote"]
        assert sorted(shown) == sorted(DTYPE[opcode].names or ()), opcode


_check_cover()


def mnemonic(opcode: Opcode, f: Fields) -> str:
    """`load.raw`, `mxu.mm`, ..."""
    if opcode in (Opcode.LOAD, Opcode.STORE):
        return f"{MNEMONIC[opcode]}.{code_name(DmaFormat, _one(f, 'format'))}"
    return MNEMONIC[opcode]
