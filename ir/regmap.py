"""The host's register map, defined once: docs/regmap.md and the SystemVerilog package are generated from it.

AXI4-Lite, 32-bit registers, byte addresses. A 64-bit value is a LO register with its HI register 4 bytes above; for
counters, reading LO latches HI.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .arch import MAX_TILES
from .isa import ABI_VERSION, BASE_REGISTERS, Engine

Access = Literal["ro", "rw", "w1s", "w1c"]

ACCESS_DOC: dict[Access, str] = {
    "ro": "read only",
    "rw": "read and write",
    "w1s": "writing one starts the action, reads as zero",
    "w1c": "writing one clears the bit",
}

MAGIC = 0x44505530  # "DPU0"
TILE_BASE, TILE_STRIDE = 0x1000, 0x100
SPACE_BYTES = 0x4000
ENGINES = tuple(e for e in Engine if e != Engine.CTRL)


@dataclass(frozen=True)
class Field:
    """Bits of a register."""

    name: str
    low: int
    width: int
    doc: str


@dataclass(frozen=True)
class Register:
    """One register, or `count` of them `stride` bytes apart. `reset` is None where it depends on the build."""

    name: str
    offset: int
    access: Access
    reset: int | None
    doc: str
    fields: tuple[Field, ...] = ()
    count: int = 1
    stride: int = 0

    def address(self, index: int = 0) -> int:
        """Byte address of number `index`.

        Raises:
            IndexError: there is no such number.
        """
        if not 0 <= index < self.count:
            raise IndexError(f"{self.name}[{index}]: there are {self.count}")
        return self.offset + index * self.stride


def _wide(name: str, offset: int, access: Access, doc: str, count: int = 1, stride: int = 0) -> tuple[Register, ...]:
    return (
        Register(f"{name}_LO", offset, access, 0, f"{doc}, bits 31:0", (), count, stride),
        Register(f"{name}_HI", offset + 4, access, 0, f"{doc}, bits 63:32", (), count, stride),
    )


_GLOBAL: tuple[Register, ...] = (
    Register("ID", 0x000, "ro", MAGIC, "identifies a DPU: 'DPU0' in ASCII"),
    Register("ABI", 0x004, "ro", ABI_VERSION, "ABI version of the instruction words and of this map"),
    Register("ARCH_DIGEST_LO", 0x008, "ro", None, "digest of the arch description (`Arch.digest`), low 8 hex digits"),
    Register("ARCH_DIGEST_HI", 0x00C, "ro", None, "digest of the arch description, high 8 hex digits"),
    Register(
        "SHAPE",
        0x010,
        "ro",
        None,
        "what was built",
        (
            Field("TILES", 0, 8, "tiles"),
            Field("COLS", 8, 8, "columns and rows of the array"),
            Field("LANES", 16, 8, "VPU lanes"),
        ),
    ),
    Register(
        "CTRL",
        0x014,
        "w1s",
        0,
        "actions of the host",
        (
            Field("START", 0, 1, "start all tiles at their program addresses; ignored while BUSY or ERROR is set"),
            Field("RESET", 1, 1, "stop, wait for DRAM, empty queues and semaphores, clear STATUS, ERROR and counters"),
        ),
    ),
    Register(
        "STATUS",
        0x018,
        "ro",
        0,
        "what the DPU does",
        (
            Field("BUSY", 0, 1, "a tile has not ended, or after an error or RESET a DRAM access is open"),
            Field("DONE", 1, 1, "all tiles ended since START"),
            Field("ERROR", 2, 1, "a tile stopped with an error; see ERROR"),
        ),
    ),
    Register("TILE_BUSY", 0x01C, "ro", 0, "bit t: tile t has not ended"),
    Register(
        "IRQ_ENABLE",
        0x020,
        "rw",
        0,
        "which events raise the interrupt",
        (Field("END", 0, 1, "an END word with the IRQ flag"), Field("ERROR", 1, 1, "a tile stopped with an error")),
    ),
    Register(
        "IRQ_STATUS",
        0x024,
        "w1c",
        0,
        "events since they were last cleared, enabled or not",
        (Field("END", 0, 1, "an END word with the IRQ flag"), Field("ERROR", 1, 1, "a tile stopped with an error")),
    ),
    Register(
        "ERROR",
        0x028,
        "ro",
        0,
        "the first error since START; the registers that follow belong to it",
        (
            Field("CODE", 0, 8, "see the table of error codes"),
            Field("TILE", 8, 8, "tile"),
            Field("ENGINE", 16, 8, "engine"),
        ),
    ),
    Register("ERROR_WORD", 0x02C, "ro", 0, "index of the word in its tile's stream"),
    *_wide("ERROR_ADDRESS", 0x030, "ro", "DRAM or scratchpad address at fault"),
    *_wide("CYCLES", 0x038, "ro", "cycles from START until all tiles ended"),
    Register("WATCHDOG", 0x040, "rw", None, "cycles without progress until a running DPU stops in error; 0: never"),
    *_wide("BASE", 0x080, "rw", "byte address of base register i, a multiple of 64", BASE_REGISTERS, 16),
    *_wide("LIMIT", 0x088, "rw", "bytes of the region of base register i; an access beyond is an error",
           BASE_REGISTERS, 16),
)  # fmt: skip

# Offsets inside a tile's block.
_TILE: tuple[Register, ...] = (
    *_wide("PROGRAM", 0x00, "rw", "DRAM byte address of the tile's first word, a multiple of 64"),
    Register("PROGRAM_WORDS", 0x08, "rw", 0, "words of the tile's stream; fetching beyond is an error"),
    Register("FETCHED", 0x0C, "ro", 0, "words dispatched since START"),
    Register("FP16_OVERFLOWS", 0x10, "ro", 0, "float16 results that saturated since START; stops at its maximum"),
    Register("NANS", 0x14, "ro", 0, "NaN that became integer 0 since START; stops at its maximum"),
    *_wide("READ_BYTES", 0x18, "ro", "bytes that LOAD read from DRAM"),
    *_wide("WRITTEN_BYTES", 0x20, "ro", "bytes that STORE wrote to DRAM"),
    *(
        r
        for i, e in enumerate(ENGINES)
        for r in (
            Register(f"{e.name}_WORDS", 0x40 + 0x28 * i, "ro", 0, f"words that {e.name} completed"),
            Register(f"{e.name}_AT", 0x44 + 0x28 * i, "ro", 0, f"index in the stream of {e.name}'s current word"),
            *_wide(f"{e.name}_BUSY", 0x48 + 0x28 * i, "ro", f"cycles in which {e.name} worked"),
            *_wide(f"{e.name}_STALL_WAIT", 0x50 + 0x28 * i, "ro", f"cycles in which {e.name} waited for a token"),
            *_wide(f"{e.name}_STALL_PORT", 0x58 + 0x28 * i, "ro",
                   f"cycles in which {e.name} waited for a buffer port, DRAM or its pipeline"),
            *_wide(f"{e.name}_STALL_EMPTY", 0x60 + 0x28 * i, "ro", f"cycles in which {e.name} had no word"),
        )
    ),
)  # fmt: skip


REGISTERS: tuple[Register, ...] = (
    *_GLOBAL,
    *(
        Register(
            f"TILE_{r.name}", TILE_BASE + r.offset, r.access, r.reset, f"tile i: {r.doc}", r.fields, MAX_TILES,
            TILE_STRIDE,
        )
        for r in _TILE
    ),
)  # fmt: skip
"""All registers by offset. Those named TILE_... repeat for each tile."""

ERRORS = {
    0: ("NONE", "no error"),
    1: ("OPCODE", "an opcode does not exist"),
    2: ("FIELD", "a field holds a code that does not exist"),
    3: ("SCRATCHPAD", "a scratchpad address beyond the buffer"),
    4: ("REGION", "a DRAM access beyond its region"),
    5: ("FETCH", "the stream has no END within PROGRAM_WORDS"),
    6: ("NUMERIC", "a numeric exception of a word with the TRAP flag"),
    7: ("DRAM", "DRAM answered with an error"),
    8: ("WATCHDOG", "no tile made progress for WATCHDOG cycles: tokens that never come, or DRAM does not answer"),
}
"""Codes of the ERROR register: name and meaning."""


def register(name: str) -> Register:
    """The register called `name`.

    Raises:
        KeyError: there is none.
    """
    for r in REGISTERS:
        if r.name == name:
            return r
    raise KeyError(name)


def regmap_markdown() -> str:
    """docs/regmap.md."""
    out = [
        "# Register map",
        "",
        "Generated from `ir/regmap.py` by `python -m dpu.ir.isa_doc`; do not edit.",
        "",
        f"AXI4-Lite, 32-bit registers in {SPACE_BYTES // 1024} KiB of byte addresses; unlisted addresses read as zero.",
        "A 64-bit value is LO and, 4 bytes above, HI; for counters, reading LO latches HI.",
        "Access: " + "; ".join(f"`{k}` {v}" for k, v in ACCESS_DOC.items()) + ".",
        "",
        "| offset | name | access | reset | meaning |",
        "|---|---|---|---|---|",
    ]
    for r in REGISTERS:
        offset = f"`{r.offset:#06x}`" + (f" + {r.stride:#x} i, i < {r.count}" if r.count > 1 else "")
        reset = "build" if r.reset is None else f"{r.reset:#x}"
        out.append(f"| {offset} | `{r.name}` | {r.access} | {reset} | {r.doc} |")
        for f in r.fields:
            bits = f"{f.low + f.width - 1}:{f.low}" if f.width > 1 else str(f.low)
            out.append(f"| | &nbsp;&nbsp;[{bits}] `{f.name}` | | | {f.doc} |")
    out += ["", "## Error codes", "", "| code | name | meaning |", "|---|---|---|"]
    out += [f"| {code} | `{name}` | {doc} |" for code, (name, doc) in ERRORS.items()]
    return "\n".join(out) + "\n"
