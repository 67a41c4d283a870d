"""Generated views of the instruction set and the register map: documentation and the SystemVerilog package.

`python -m dpu.ir.isa_doc` writes docs/isa.md, docs/regmap.md, rtl/dpu_isa_pkg.sv and rtl/dpu_tables_pkg.sv; a test
fails while they are stale.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from pathlib import Path

import numpy as np

from ..files import atomic_write
from . import isa, regmap
from .tables_sv import tables_package

DTYPES = {"HEADER": isa.HEADER, "DMA": isa.DMA, "MM": isa.MM, "VEC": isa.VEC}

TITLES = {
    "HEADER": "Header of every word, and the whole of END",
    "DMA": "LOAD and STORE",
    "MM": "MM",
    "VEC": "VEC",
}

FIELD_DOC: dict[str, dict[str, str]] = {
    "HEADER": {
        "opcode": "what the word is; it decides the engine and the fields",
        "flags": "`Flag` bits",
        "tag": "index into the source map: the graph operation that the word belongs to",
        "wait": "bit 4 p + k: take one token of semaphore k of (engine p, this engine) before starting",
        "signal": "bit 4 c + k: add one token to semaphore k of (this engine, engine c) when this word and all earlier "
        "ones of the engine are visible",
    },
    "DMA": {
        "remote": "bit t. LOAD: take one token of tile t's STORE before starting. STORE: signal LOAD of tile t",
        "base": "base register",
        "buffer": "`Buffer`; LOAD: ACT, WGT, VBUF, PARAM, TABLE. STORE: ACT, VBUF, PARAM",
        "format": "`DmaFormat`; STORE: RAW only",
        "fill": "byte of padding cells and of the tail of a run's last word; with FILL, of all cells",
        "offset": "bytes from the base register to the first run, below 2^40",
        "sram": "word address of the first cell, a padding cell where there is padding; with TABLE the slot",
        "inner": "bytes of one contiguous DRAM run, which makes one cell of ceil(inner / word bytes) words; zero: "
        "nothing is moved and only tokens pass (a fence)",
        "n": "runs along dimensions 1, 2, 3, each at least 1; padding cells not counted",
        "dstride": "DRAM bytes between runs along dimensions 1, 2, 3; zero repeats, negative walks back",
        "sstride": "scratchpad words between cells along dimensions 1, 2, 3",
        "pad": "LOAD: padding cells before and after along dimension 1, before and after along dimension 2; zero with "
        "INT4, TRANSPOSE and TABLE",
    },
    "MM": {
        "act": "ACT address of row (0, 0), tap (0, 0), reduction tile 0",
        "wgt": "WGT address of weight tile (0, 0)",
        "acc": "ACC address of row 0, column tile 0",
        "nx": "inner rows; ACC row = y * nx + x",
        "ny": "outer rows",
        "sx": "ACT words between inner rows",
        "sy": "ACT words between outer rows",
        "nc": "reduction tiles of R channels in one tap",
        "sc": "ACT words between reduction tiles",
        "nkx": "taps along x",
        "nky": "taps along y",
        "skx": "ACT words between taps along x",
        "sky": "ACT words between taps along y",
        "nn": "column tiles; weight tile (n, k) at wgt + n * wn + k * R words, k = (ky * nkx + kx) * nc + c",
        "wn": "WGT words between column tiles",
        "an": "ACC words between column tiles",
        "mode": "`MmMode`: what the sum starts from",
        "rowmax": "`RowMax`: maximum of each row over the first `valid` columns, as results drain",
        "rowmax_at": "PARAM address of the row maxima (int32, ny * nx)",
        "init_at": "PARAM address of the column vector of mode COLUMN (int32, nn * C)",
        "valid": "columns of the nn tiles that count for the row maximum, 1 to nn * C",
    },
    "VEC": {
        "rows": "rows i",
        "tiles": "column tiles t of C columns j",
        "valid": "columns of the last tile that count, 1 to C; the rest is stored as zero (I8_OFFSET: -128), in PARAM "
        "not at all",
        "a_src": "bits 3:0 `Buffer`, 7:4 `Format` of operand A",
        "b_src": "the same of operand B; NONE if unused",
        "d_src": "the same of the result; buffer NONE: nothing is stored, only reduced",
        "op2": "bits 3:0 `Op2`, 7:4 `Operand` of the second operand: ELEM (operand B), IMM0 or IMM1",
        "a": "address of A: element (i, t) at a + i * a_rs + t * a_ts",
        "a_rs": "words between rows of A",
        "a_ts": "words between column tiles of A",
        "b": "address of B",
        "b_rs": "words between rows of B",
        "b_ts": "words between column tiles of B",
        "d": "address of the result; I15_SPLIT: the low plane follows as tiles t + tiles",
        "d_rs": "words between rows of the result",
        "d_ts": "words between column tiles of the result",
        "m1": "affine 1, x * a1 + b1: bits 3:0 `Operand` of a1, 7:4 of b1",
        "m2": "affine 2, x * a2 + b2: bits 3:0 `Operand` of a2, 7:4 of b2",
        "a1": "PARAM address of a1 where it is ROW or COL",
        "b1": "PARAM address of b1",
        "a2": "PARAM address of a2",
        "b2": "PARAM address of b2",
        "func": "bits 3:0 `Function`, 7:4 table slot of GATE and GATE_MUL",
        "rq": "bits 3:0 `Operand` of the requantise scale r; the offset is -128 exactly for I8_OFFSET, else 0",
        "r": "PARAM address of r",
        "sub": "1: subtract PARAM int32 [sub_at + i] from the int32 A, exactly, before conversion",
        "red": "bits 3:0 `Reduce`, bit 4 axis (1: along columns, one value a column), bit 5 tap (1: integer), bit 6 "
        "accumulate",
        "sub_at": "PARAM address of what `sub` subtracts",
        "red_at": "PARAM address of the reduction; the second vector of a pair follows at + rows (row axis) or "
        "+ tiles * C (column axis)",
        "imm": "immediates IMM0 and IMM1",
    },
}
"""What each field means. Header fields are documented once; reserved bytes must be zero."""

ENUM_DOC: dict[type[IntEnum], tuple[str, dict[str, str]]] = {
    isa.Opcode: (
        "opcode",
        {
            "LOAD": "DRAM to scratchpad",
            "MM": "matrix product ACT x WGT into ACC",
            "VEC": "one fused element-wise pass",
            "STORE": "scratchpad to DRAM",
            "END": "end of the tile's stream, when all engines are idle",
        },
    ),
    isa.Engine: ("engine", {"CTRL": "fetches and dispatches; has no semaphores"}),
    isa.Buffer: (
        "buffer",
        {
            "ACT": "C int8 a word",
            "WGT": "C int8 a word",
            "ACC": "C int32 a word",
            "VBUF": "C float16 a word; C float32 take two",
            "PARAM": "one 32-bit scalar a word",
            "TABLE": "gate table RAM, by slot",
            "NONE": "no operand",
        },
    ),
    isa.Flag: (
        "bit of `flags`",
        {
            "DRAIN": "wait until earlier words of the engine have left its pipeline",
            "TRAP": "a numeric exception stops the tile",
            "IRQ": "END raises the host interrupt",
        },
    ),
    isa.DmaFormat: (
        "DMA format",
        {
            "RAW": "bytes as stored",
            "FILL": "no DRAM access, all cells are filled",
            "INT4": "a run is blocks of C group integers and up to 128 rows of C nibbles; a row becomes the word q * g",
            "TRANSPOSE": "the runs along dimension 1 (at most C, of at most R bytes) become the columns of one tile of "
            "R words",
        },
    ),
    isa.MmMode: (
        "start of the sum",
        {"ZERO": "zero", "ACCUMULATE": "what ACC holds", "COLUMN": "an int32 column vector"},
    ),
    isa.RowMax: (
        "row maximum",
        {"NONE": "none", "INIT": "of this word", "ACCUMULATE": "of this word and what PARAM holds"},
    ),
    isa.Format: (
        "element format",
        {
            "I32": "int32",
            "F32": "float32",
            "F16": "float16",
            "I8": "int8, saturates to +-127",
            "I8_OFFSET": "int8, saturates to [-128, 127]; holds p - 128",
            "I15_SPLIT": "two int8 planes, high tiles first",
        },
    ),
    isa.Operand: (
        "source of a scale or bias",
        {
            "NONE": "no operation",
            "IMM0": "immediate 0",
            "IMM1": "immediate 1",
            "ROW": "PARAM[at + i]",
            "COL": "PARAM[at + t * C + j]",
            "ELEM": "operand B",
        },
    ),
    isa.Function: (
        "function",
        {
            "NONE": "x",
            "EXP2": "2^x",
            "RECIP": "1 / x",
            "RSQRT": "1 / sqrt(x)",
            "GATE": "T(x)",
            "GATE_MUL": "x * T(x)",
        },
    ),
    isa.Op2: ("second operation", {"NONE": "none", "MUL": "multiply", "ADD": "add", "MAX": "maximum"}),
    isa.Reduce: (
        "reduction",
        {
            "NONE": "none",
            "MAX": "maximum",
            "ABSMAX": "absolute maximum, with a floor",
            "SUM": "sum",
            "SUM_SQ": "the pair {sum, sum of squares}",
        },
    ),
}

_SV_KEYWORDS = {"wait": "wait_mask", "signal": "signal_mask"}


def layout(group: str) -> Iterator[tuple[str, int, int, int, str, bool]]:
    """Fields of a word as (name, first bit, bits of one element, elements, type, own): `own` is false for the header.

    Bit b of the word is bit b % 8 of byte b // 8.
    """
    dtype = DTYPES[group]
    assert dtype.fields is not None and dtype.names is not None
    for name in dtype.names:
        field, offset = dtype.fields[name][0], dtype.fields[name][1]
        count = int(np.prod(field.shape, dtype=np.int64))
        width = 8 * field.base.itemsize
        kind = {"u": "unsigned", "i": "signed", "f": "float32"}[field.base.kind]
        yield name, 8 * offset, width, count, kind, group == "HEADER" or name not in FIELD_DOC["HEADER"]


def isa_markdown() -> str:
    """docs/isa.md."""
    out = [
        "# Instruction words",
        "",
        "Generated from `ir/isa.py` and `ir/isa_doc.py` by `python -m dpu.ir.isa_doc`; do not edit.",
        "",
        f"ABI version {isa.ABI_VERSION}. A word has {8 * isa.WORD_BYTES} bits, little-endian: "
        "bit b is bit b % 8 of byte b // 8.",
        "C is the number of array columns, R (= C) the number of its rows. Reserved bytes are zero.",
        f"Semaphores: {isa.SEMAPHORES_PER_PAIR} for each pair of producer and consumer engine, at most "
        f"{isa.MAX_TOKENS} tokens each; between tiles one for each pair of STORE and LOAD.",
    ]
    for group, title in TITLES.items():
        out += ["", f"## {title}", "", "| bits | field | type | meaning |", "|---|---|---|---|"]
        for name, low, width, count, kind, own in layout(group):
            if not own or name == "reserved":
                continue
            bits = f"{low + width * count - 1}:{low}"
            shape = f"{kind} {width}" + (f" x {count}" if count > 1 else "")
            out.append(f"| {bits} | `{name}` | {shape} | {FIELD_DOC[group][name]} |")
    out += ["", "## Codes"]
    for enum, (title, doc) in ENUM_DOC.items():
        out += ["", f"`{enum.__name__}`, {title}:", "", "| code | name | meaning |", "|---|---|---|"]
        out += [f"| {int(m)} | `{m.name}` | {doc.get(m.name, '')} |" for m in enum]
    return "\n".join(out) + "\n"


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_"))


def _snake(name: str) -> str:
    return "".join("_" + c.lower() if c.isupper() and i else c.lower() for i, c in enumerate(name))


def _sv_structs(group: str) -> Iterator[str]:
    """A packed struct, last field first: in SystemVerilog the first member is the most significant."""
    yield f"  // {TITLES[group]}"
    yield "  typedef struct packed {"
    for name, _, width, count, kind, _ in reversed(list(layout(group))):
        sign = " signed" if kind == "signed" else ""
        array = f"[{count - 1}:0]" if count > 1 else ""
        yield f"    logic{sign} {array}[{width - 1}:0] {_SV_KEYWORDS.get(name, name)};"
    yield f"  }} {group.lower()}_word_t;"
    yield ""


def sv_package() -> str:
    """rtl/dpu_isa_pkg.sv."""
    out = [
        "// Instruction words and register map.",
        "// Generated from ir/isa.py and ir/regmap.py by `python -m dpu.ir.isa_doc`; do not edit.",
        "",
        "package dpu_isa_pkg;",
        "",
        "  /* verilator lint_off UNUSEDPARAM */  // a module uses the constants that it needs",
        "",
    ]
    constants = {
        "AbiVersion": isa.ABI_VERSION,
        "WordBits": 8 * isa.WORD_BYTES,
        "WordBytes": isa.WORD_BYTES,
        "MaxTokens": isa.MAX_TOKENS,
        "SemaphoresPerPair": isa.SEMAPHORES_PER_PAIR,
        "BaseRegisters": isa.BASE_REGISTERS,
        "TableSlots": isa.TABLE_SLOTS,
        "TableBytes": isa.TABLE_BYTES,
    }
    out += [f"  parameter int unsigned {name} = {value};" for name, value in constants.items()]
    out += ["", "  // Codes."]
    for enum in ENUM_DOC:
        width = 8 if enum in (isa.Opcode, isa.Flag) else 4
        out += ["", f"  typedef enum logic [{width - 1}:0] {{"]
        members = [f"    {enum.__name__}{_camel(m.name)} = {width}'d{int(m)}" for m in enum]
        out += [",\n".join(members), f"  }} {_snake(enum.__name__)}_e;"]
    out += ["", "  // Words, and for each field its least significant bit (Lsb), bits of an element (W), elements (N)."]
    for group in DTYPES:
        out += ["", *list(_sv_structs(group))[:-1], ""]
        for name, low, width, count, _, own in layout(group):
            if name == "reserved" or not own:
                continue
            prefix = f"{group.capitalize()}{_camel(name)}"
            out.append(f"  parameter int unsigned {prefix}Lsb = {low};")
            out.append(f"  parameter int unsigned {prefix}W = {width};")
            if count > 1:
                out.append(f"  parameter int unsigned {prefix}N = {count};")
    out += ["", "  // Register map: byte offsets; Stride and Count of registers that repeat; Lsb and W of fields.", ""]
    out.append(f"  parameter logic [31:0] RegIdValue = 32'h{regmap.MAGIC:08x};")
    out.append(f"  parameter int unsigned RegSpaceBytes = 32'h{regmap.SPACE_BYTES:x};")
    for r in regmap.REGISTERS:
        prefix = f"Reg{_camel(r.name)}"
        out.append(f"  parameter int unsigned {prefix} = 32'h{r.offset:04x};")
        if r.count > 1:
            out.append(f"  parameter int unsigned {prefix}Stride = 32'h{r.stride:x};")
            out.append(f"  parameter int unsigned {prefix}Count = {r.count};")
        for f in r.fields:
            out.append(f"  parameter int unsigned {prefix}{_camel(f.name)}Lsb = {f.low};")
            out.append(f"  parameter int unsigned {prefix}{_camel(f.name)}W = {f.width};")
    out += ["", "  typedef enum logic [7:0] {"]
    out += [",\n".join(f"    Error{_camel(name)} = 8'd{code}" for code, (name, _) in regmap.ERRORS.items())]
    out += ["  } error_e;", "", "  /* verilator lint_on UNUSEDPARAM */", "", "endpackage"]
    return "\n".join(out) + "\n"


def generated() -> dict[str, str]:
    """Every generated file: path from the repository root, and what it must contain."""
    return {
        "docs/isa.md": isa_markdown(),
        "docs/regmap.md": regmap.regmap_markdown(),
        "rtl/dpu_isa_pkg.sv": sv_package(),
        "rtl/dpu_tables_pkg.sv": tables_package(),
    }


def main() -> None:
    """Write the generated files."""
    root = Path(__file__).parent.parent
    for name, text in generated().items():
        with atomic_write(root / name) as path:
            path.write_text(text)


if __name__ == "__main__":
    main()
