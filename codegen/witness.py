"""The cheap check that runs on every program, before it is saved and before it reaches a device.

Each rule is one function over the streams of an entry point; `check_program` runs them all. The rules:

- fields: codes exist, counts are not zero, reserved bytes are zero, flags and masks name what exists;
- bounds: every operand inside its buffer or DRAM region (`ir/operands.py`);
- end: END is the last word of each stream and occurs once;
- tokens: stream order is a legal execution. Every wait finds a token, no count exceeds `MAX_TOKENS`, none is left. So
  the program ends for any queue depth and any timing: the earliest unfinished word always has its tokens.

Races, drains and the provenance of values are decided in `verify/`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.container import Base
from ..ir.isa import (
    BASE_REGISTERS,
    DMA,
    DTYPE,
    ENGINE_OF,
    MAX_TOKENS,
    MM,
    RED_INTEGER,
    SEMAPHORES_PER_PAIR,
    TABLE_BYTES,
    TABLE_SLOTS,
    VEC,
    Buffer,
    DmaFormat,
    Engine,
    Flag,
    Format,
    Function,
    MmMode,
    Op2,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    Words,
    pack,
)
from ..ir.operands import check_bounds, int4_block_bytes

Rule = Callable[[list[Words], Arch, dict[int, int], str], None]

_VEC_SOURCES = {
    "a": [
        (Buffer.ACC, Format.I32),
        (Buffer.VBUF, Format.F16),
        (Buffer.VBUF, Format.F32),
        (Buffer.PARAM, Format.F32),
        (Buffer.PARAM, Format.I32),
    ],
    "b": [
        (Buffer.ACC, Format.I32),
        (Buffer.VBUF, Format.F16),
        (Buffer.VBUF, Format.F32),
        (Buffer.PARAM, Format.F32),
    ],
    "d": [
        (Buffer.VBUF, Format.F16),
        (Buffer.VBUF, Format.F32),
        (Buffer.PARAM, Format.F32),
        (Buffer.ACT, Format.I8),
        (Buffer.ACT, Format.I8_OFFSET),
        (Buffer.ACT, Format.I15_SPLIT),
        *((Buffer.NONE, x) for x in Format),
    ],
}

_LOCAL = 4  # engines with semaphores


@cache
def _bits(mask: int) -> tuple[int, ...]:
    return tuple(b for b in range(16) if mask >> b & 1)


def _place(words: Words, index: int, tile: int, where: str) -> str:
    """The word in the reader's terms: entry, tile, index, opcode and tag."""
    code = int(words["opcode"][index])
    name = Opcode(code).name if code in DTYPE else f"opcode {code}"
    prefix = f"{where}, " if where else ""
    return f"{prefix}tile {tile}, word {index} ({name}, tag {int(words['tag'][index])})"


def _header_faults(words: Words, tiles: int, tile: int) -> Iterator[tuple[Any, str]]:
    """Wait and signal masks name only pairs that exist: another engine, and one that has semaphores."""
    engine = np.full(256, -1)
    for opcode, own_engine in ENGINE_OF.items():
        engine[opcode] = own_engine
    mine = engine[words["opcode"]]
    yield mine < 0, "the opcode does not exist"
    yield words["flags"] & ~np.uint8(sum(Flag)) != 0, "a flag that does not exist is set"
    nibble = (1 << SEMAPHORES_PER_PAIR) - 1
    for e in range(_LOCAL):
        own = (mine == e) & (((words["wait"] | words["signal"]) >> (4 * e)) & nibble != 0)
        yield own, f"a mask names the pair ({Engine(e).name}, {Engine(e).name})"
    ctrl = (mine == Engine.CTRL) & (words["wait"] | words["signal"] != 0)
    yield ctrl, "CTRL has no semaphores, but a mask is set"
    remote = words.view(DMA)["remote"]
    dma = (mine == Engine.LOAD) | (mine == Engine.STORE)
    yield dma & (remote & np.uint32(1 << tile) != 0), "the remote mask names the word's own tile"
    others = ((1 << tiles) - 1) & 0xFFFFFFFF
    yield dma & (remote & ~np.uint32(others) != 0), f"the remote mask names a tile that is not there (tiles: {tiles})"


def _dma_faults(f: Words, arch: Arch) -> Iterator[tuple[Any, str]]:
    load, moves = f["opcode"] == Opcode.LOAD, f["inner"] > 0
    fmt, n = f["format"], f["n"]
    yield f["reserved"].any(axis=1), "reserved bytes are not zero"
    yield f["base"] >= BASE_REGISTERS, f"base register out of range (there are {BASE_REGISTERS})"
    yield f["offset"] >= 1 << 40, "offset does not fit in 40 bits"
    yield fmt > max(DmaFormat), "the format does not exist"
    yield moves & (n == 0).any(1), "a run count is zero"
    yield ~load & (fmt != DmaFormat.RAW), "STORE writes bytes as they are stored (format RAW)"
    yield ~load & f["pad"].any(1), "STORE has no padding"
    packed = moves & ((fmt == DmaFormat.INT4) | (fmt == DmaFormat.TRANSPOSE))
    yield packed & (f["buffer"] != Buffer.WGT), "formats INT4 and TRANSPOSE load into WGT only"
    yield packed & f["pad"].any(1), "formats INT4 and TRANSPOSE have no padding"
    rest = f["inner"].astype(np.int64) % int4_block_bytes(arch) - arch.cols
    whole = (rest == -arch.cols) | ((rest > 0) & (rest % (arch.cols // 2) == 0))
    yield moves & (fmt == DmaFormat.INT4) & ~whole, "a run is not whole rows of int4 blocks"
    turned = moves & (fmt == DmaFormat.TRANSPOSE)
    yield turned & ((n[:, 0] > arch.cols) | (f["inner"] > arch.rows)), "TRANSPOSE turns more than one tile a step"
    yield ~load & moves & (f["base"] == Base.CONST), "STORE into base register 0 (constants, read only)"
    table = moves & (f["buffer"] == Buffer.TABLE)
    image = (f["inner"] == TABLE_BYTES) & (n == 1).all(1) & ~f["pad"].any(1) & (fmt == DmaFormat.RAW)
    yield table & ~image, f"a table is loaded as one run of {TABLE_BYTES} bytes"


def _mm_faults(f: Words, arch: Arch) -> Iterator[tuple[Any, str]]:
    yield f["reserved"].any(axis=1), "reserved bytes are not zero"
    for name in ("nx", "ny", "nc", "nkx", "nky", "nn"):
        yield f[name] == 0, f"the count '{name}' is zero"
    yield f["mode"] > max(MmMode), "the mode does not exist"
    yield f["rowmax"] > max(RowMax), "the row maximum mode does not exist"
    columns = f["nn"].astype(np.int64) * arch.cols
    bad = (f["rowmax"] != RowMax.NONE) & ((f["valid"] == 0) | (f["valid"] > columns))
    yield bad, "the row maximum needs valid from 1 to the columns of the word"


def _vec_faults(f: Words, arch: Arch) -> Iterator[tuple[Any, str]]:
    yield f["reserved"].any(axis=1), "reserved bytes are not zero"
    for name in ("rows", "tiles"):
        yield f[name] == 0, f"the count '{name}' is zero"
    yield (f["valid"] == 0) | (f["valid"] > arch.cols), f"valid must be 1 to {arch.cols}"
    elem = (f["op2"] & 15 != Op2.NONE) & (f["op2"] >> 4 == Operand.ELEM)
    elem |= (f["m2"] & 15 == Operand.ELEM) | (f["m2"] >> 4 == Operand.ELEM)
    for name, legal in _VEC_SOURCES.items():
        bad = ~np.isin(f[f"{name}_src"], [pack(b, x) for b, x in legal])
        yield bad & elem if name == "b" else bad, f"operand '{name}' cannot have this buffer and format"
    yield f["op2"] & 15 > max(Op2), "the second operation does not exist"
    second = f["op2"] >> 4
    used = f["op2"] & 15 != Op2.NONE
    immediate = (second == Operand.IMM0) | (second == Operand.IMM1)
    yield used & ~immediate & (second != Operand.ELEM), "the second operand must be ELEM, IMM0 or IMM1"
    for name in ("m1", "rq"):
        yield f[name] & 15 > Operand.COL, f"'{name}' takes none, an immediate, a row or a column vector"
    yield f["m1"] >> 4 > Operand.COL, "'m1' takes none, an immediate, a row or a column vector"
    yield f["rq"] >> 4 != 0, "the high nibble of 'rq' is not zero"
    yield (f["m2"] & 15 > max(Operand)) | (f["m2"] >> 4 > max(Operand)), "an operand of 'm2' does not exist"
    yield f["func"] & 15 > max(Function), "the function does not exist"
    yield f["func"] >> 4 >= TABLE_SLOTS, f"the table slot does not exist (there are {TABLE_SLOTS})"
    yield f["sub"] > 1, "'sub' is 0 or 1"
    yield (f["sub"] == 1) & (f["a_src"] >> 4 != Format.I32), "only an int32 operand A can be subtracted from"
    integer = (f["red"] & 15 != Reduce.NONE) & (f["red"] & RED_INTEGER != 0)
    yield integer & (f["d_src"] >> 4 < Format.I8), "the integer tap needs an integer destination format"
    yield integer & (f["red"] & 15 == Reduce.SUM_SQ), "the integer tap has no sum of squares"
    yield (f["red"] & 15 > max(Reduce)) | (f["red"] & 0x80 != 0), "the reduction does not exist"


def check_fields(streams: list[Words], arch: Arch, base_bytes: dict[int, int], where: str = "") -> None:
    """Codes exist, counts are not zero, masks address only pairs that exist.

    Raises:
        DpuError: E310, the word and the field are named.
    """
    del base_bytes
    for tile, words in enumerate(streams):
        opcode = words["opcode"]
        every = np.arange(len(words))
        of = {o: np.flatnonzero(opcode == o) for o in Opcode}
        dma = np.flatnonzero((opcode == Opcode.LOAD) | (opcode == Opcode.STORE))
        groups = (
            (every, _header_faults(words, len(streams), tile)),
            (dma, _dma_faults(words[dma].view(DMA), arch)),
            (of[Opcode.MM], _mm_faults(words[of[Opcode.MM]].view(MM), arch)),
            (of[Opcode.VEC], _vec_faults(words[of[Opcode.VEC]].view(VEC), arch)),
            (of[Opcode.END], iter([(words[of[Opcode.END]]["reserved"].any(axis=1), "reserved bytes are not zero")])),
        )
        for index, faults in groups:
            for bad, what in faults:
                if bad.any():
                    raise DpuError(_place(words, int(index[np.argmax(bad)]), tile, where), what, code="E310")


def check_operands(streams: list[Words], arch: Arch, base_bytes: dict[int, int], where: str = "") -> None:
    """Every operand lies inside its buffer or DRAM region.

    Raises:
        DpuError: E310 to E312, see `check_bounds`.
    """
    for tile, words in enumerate(streams):
        check_bounds(words, arch, base_bytes, f"{where + ', ' if where else ''}tile {tile}")


def check_end(streams: list[Words], arch: Arch, base_bytes: dict[int, int], where: str = "") -> None:
    """Each stream ends with its only END.

    Raises:
        DpuError: E313.
    """
    del base_bytes
    if len(streams) != arch.tiles:
        raise DpuError(where or "program", f"{len(streams)} streams for {arch.tiles} tiles", code="E313")
    for tile, words in enumerate(streams):
        at = np.flatnonzero(words["opcode"] == Opcode.END)
        if len(at) == 0:
            raise DpuError(f"{where + ', ' if where else ''}tile {tile}", "the stream has no END", code="E313")
        if at[0] != len(words) - 1:
            raise DpuError(_place(words, int(at[0]), tile, where), "END is not the last word", code="E313")


def check_tokens(streams: list[Words], arch: Arch, base_bytes: dict[int, int], where: str = "") -> None:
    """Stream order is a legal execution: a token at each wait, never more than `MAX_TOKENS`, none left at the end.

    Tiles advance in turn; one that needs a remote token, or finds a remote semaphore full, lets the others go first.
    Semaphores have one producer and one consumer, so the turn does not change the outcome.

    Raises:
        DpuError: E320 a wait without a token, E321 too many tokens, E322 tokens left, E323 tiles wait for each other.
    """
    del arch, base_bytes
    engine_of = {int(o): int(e) for o, e in ENGINE_OF.items()}
    active = []
    for words in streams:
        remote = np.where(np.isin(words["opcode"], (int(Opcode.LOAD), int(Opcode.STORE))), words.view(DMA)["remote"], 0)
        index = np.flatnonzero((words["wait"] != 0) | (words["signal"] != 0) | (remote != 0))
        columns = (index, words["opcode"][index], words["wait"][index], words["signal"][index], remote[index])
        active.append(list(zip(*(x.tolist() for x in columns), strict=True)))

    tiles = len(streams)
    local = [[0] * (_LOCAL * 16) for _ in streams]  # [producer * 16 + 4 * consumer + k]
    between = [[0] * tiles for _ in streams]  # [source][destination]
    position = [0] * tiles

    def blocked(tile: int) -> str:
        """Why the tile's next word cannot go yet."""
        _, opcode, _, _, remote = active[tile][position[tile]]
        for other in range(tiles):
            if remote >> other & 1:
                if opcode == Opcode.LOAD and between[other][tile] == 0:
                    return f"waits for a token from tile {other} that never comes"
                if opcode == Opcode.STORE and between[tile][other] >= MAX_TOKENS:
                    return f"signals tile {other}, whose semaphore stays at {MAX_TOKENS}"
        return ""

    def step(tile: int) -> None:
        index, opcode, wait, signal, remote = active[tile][position[tile]]
        me, count = engine_of[opcode], local[tile]
        for b in _bits(wait):
            s = (b >> 2) * 16 + 4 * me + (b & 3)
            if count[s] == 0:
                name = f"{Engine(b >> 2).name.lower()}{b & 3}"
                raise DpuError(
                    _place(streams[tile], index, tile, where),
                    f"waits for {name}, which has no token here",
                    why="every wait needs an earlier signal in stream order, else the engines may wait forever",
                    code="E320",
                )
            count[s] -= 1
        for b in _bits(signal):
            s = me * 16 + b
            count[s] += 1
            if count[s] > MAX_TOKENS:
                name = f"{Engine(b >> 2).name.lower()}{b & 3}"
                raise DpuError(
                    _place(streams[tile], index, tile, where),
                    f"signals {name}, which already holds {MAX_TOKENS} tokens",
                    code="E321",
                )
        for other in range(tiles):
            if remote >> other & 1:
                if opcode == Opcode.LOAD:
                    between[other][tile] -= 1
                else:
                    between[tile][other] += 1
        position[tile] += 1

    moved = True
    while moved:
        moved = False
        for tile in range(tiles):
            while position[tile] < len(active[tile]) and not blocked(tile):
                step(tile)
                moved = True
    for tile in range(tiles):
        if position[tile] < len(active[tile]):
            at = active[tile][position[tile]][0]
            raise DpuError(_place(streams[tile], at, tile, where), blocked(tile), code="E323")

    for tile, count in enumerate(local):
        for s, n in enumerate(count):
            if n:
                producer, consumer = Engine(s // 16), Engine(s % 16 // 4)
                pair = f"semaphore {s % 4} of ({producer.name}, {consumer.name})"
                raise DpuError(
                    f"{where + ', ' if where else ''}tile {tile}", f"{pair} ends with {n} tokens", code="E322"
                )
    for source, row in enumerate(between):
        for to, n in enumerate(row):
            if n:
                raise DpuError(
                    where or "program", f"the semaphore from tile {source} to {to} ends with {n} tokens", code="E322"
                )


RULES: tuple[Rule, ...] = (check_fields, check_end, check_operands, check_tokens)


def check_program(streams: list[Words], arch: Arch, base_bytes: dict[int, int], where: str = "") -> None:
    """Run all rules over the streams of one entry point, one a tile. `where` names the entry in messages.

    Raises:
        DpuError: E310 to E323, the first fault of the first rule that fails.
    """
    for rule in RULES:
        rule(streams, arch, base_bytes, where)
