"""Random programs of all engines and tiles: legal words on shared memory, ordered by the compiler's semaphores.

A program is a list of pieces, each a word and its tile, drawn one by one without regard to the others. Laying them out
drops those that the simulator refuses. Words at the beginning fill what a tile holds, words at the end store it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from ..codegen.disassembler import disassemble_word
from ..codegen.sync import insert_semaphores
from ..ir import numerics as nu
from ..ir.arch import Arch
from ..ir.isa import (
    DMA,
    ENGINE_OF,
    MM,
    RED_COLUMNS,
    TABLE_BYTES,
    TABLE_SLOTS,
    VEC,
    Buffer,
    DmaFormat,
    Engine,
    Flag,
    Format,
    MmMode,
    Opcode,
    Reduce,
    RowMax,
    Words,
    pack,
    word,
)
from ..simulator import load_store, mxu, vpu
from ..simulator.decode import decode
from ..simulator.state import Fault, Tally, Tile
from .rtl_dma_words import Bytes, Rng, attempt, dma_word
from .rtl_shapes import origin, part, used
from .rtl_vec_words import VecWords

SHARED, TABLES, DUMP, INT4 = (1, 2, 3), 4, 5, 6
"""Base registers: 0 is constant, the shared ones are written by all, others hold gate tables, what tiles hold in the
end, and int4 weights."""

BYTES = 1 << 14
NOISE, F16, F32 = 0, BYTES // 2, 3 * BYTES // 4
"""Contents of constants and shared regions, by first byte: any bits, and numbers of ordinary size."""

FIRST, LAST = 1, 0xFFFE  # tags of pieces


@dataclass(frozen=True)
class Piece:
    """A word and its tile."""

    tile: int
    word: Words

    def __repr__(self) -> str:
        return f"tile {self.tile}: {disassemble_word(self.word[0])}"


@dataclass
class Program:
    arch: Arch
    streams: list[Words]
    regions: dict[int, Bytes]
    count: int
    """Pieces that are in it."""
    odd: tuple[int, int] | None = None
    """Tile and index of the word that no side may execute."""

    def copies(self) -> dict[int, Bytes]:
        """Its memory, to be changed."""
        return {b: d.copy() for b, d in self.regions.items()}

    def legal(self, tile: int) -> Words:
        """The words of a tile without the illegal one."""
        words = self.streams[tile]
        return np.delete(words, self.odd[1]) if self.odd is not None and self.odd[0] == tile else words

    def __str__(self) -> str:
        """The pieces as assembler text, without the beginning and the end."""
        lines = [f"{self.count} words after the beginning"]
        for t, words in enumerate(self.streams):
            lines += [f".tile {t}"] + [disassemble_word(w) for w in words if FIRST <= w["tag"] <= LAST]
            if self.odd is not None and self.odd[0] == t:
                lines.append(f"illegal, word {self.odd[1]}: {words[self.odd[1]].tobytes().hex()}")
        return "\n".join(lines)


# Pieces.


@dataclass
class _Dram:
    """What the generator of DMA words wants to know."""

    arch: Arch

    @property
    def regions(self) -> dict[int, tuple[int, int]]:
        return dict.fromkeys((0, *SHARED), (0, BYTES))

    def views(self) -> dict[int, Bytes]:
        """Nothing: int4 words, which change memory, have a generator of their own here."""
        return {}


def _mm(rng: Rng, a: Arch) -> Words | None:
    c = a.cols
    nx, ny, nkx, nky, nc, nn = (int(x) for x in (*rng.integers(1, 9, 2), *rng.choice([1, 1, 2, 3], 4)))
    sx, sy, skx, sky, sc = (int(x) for x in rng.integers(0, 20, 5))
    rows, k = nx * ny, nkx * nky * nc * c
    an = rows + int(rng.integers(0, 3))
    wn = int(rng.choice([k, k + 1, c, 0]))
    act = (nx - 1) * sx + (ny - 1) * sy + (nkx - 1) * skx + (nky - 1) * sky + (nc - 1) * sc + 1
    room = a.words
    wgt, acc, half = (nn - 1) * wn + k, (nn - 1) * an + rows, room["param"] // 2
    if act > room["act"] or wgt > room["wgt"] or acc > room["acc"]:
        return None
    counts = {"nx": nx, "ny": ny, "nkx": nkx, "nky": nky, "nc": nc, "nn": nn}
    strides = {"sx": sx, "sy": sy, "skx": skx, "sky": sky, "sc": sc, "wn": wn, "an": an}
    return word(
        Opcode.MM,
        **counts,
        **strides,
        act=int(rng.integers(0, room["act"] - act + 1)),
        wgt=int(rng.integers(0, room["wgt"] - wgt + 1)),
        acc=int(rng.integers(0, room["acc"] - acc + 1)),
        mode=int(rng.choice(list(MmMode))),
        rowmax=int(rng.choice(list(RowMax))),
        valid=int(rng.integers(1, nn * c + 1)),
        rowmax_at=int(rng.integers(0, half - rows + 1)),
        init_at=int(rng.integers(half, room["param"] - nn * c + 1)),
    )


def _int4(rng: Rng, a: Arch) -> Words | None:
    """Runs that begin with the group integers of a block."""
    c = a.cols
    block = c + nu.W4_GROUP * c // 2
    rows, n = int(rng.integers(1, 301)), [int(x) for x in rng.integers(1, 3, 3)]
    whole, rest = divmod(rows, nu.W4_GROUP)
    inner = whole * block + (c + rest * c // 2 if rest else 0)
    strides = [int(x) for x in rng.integers(-2, 3, 3)]  # in blocks
    spans = [(k - 1) * s for k, s in zip(n, strides, strict=True)]
    low, high = sum(min(s, 0) for s in spans), sum(max(s, 0) for s in spans) + -(-inner // block)
    gaps = [int(x) for x in rng.integers(0, rows + 2, 3)]
    top = sum((k - 1) * s for k, s in zip(n, gaps, strict=True)) + rows
    if top > a.words["wgt"]:
        return None
    return dma_word(
        Opcode.LOAD,
        base=INT4,
        buffer=Buffer.WGT,
        format=DmaFormat.INT4,
        offset=block * int(rng.integers(-low, BYTES // block - high + 1)),
        sram=int(rng.integers(0, a.words["wgt"] - top + 1)),
        inner=inner,
        n=n,
        dstride=[s * block for s in strides],
        sstride=gaps,
    )


def _table(rng: Rng) -> Words:
    at, slot = TABLE_BYTES * int(rng.integers(0, len(nu.GATES))), int(rng.integers(TABLE_SLOTS))
    return dma_word(Opcode.LOAD, base=TABLES, buffer=Buffer.TABLE, offset=at, sram=slot, inner=TABLE_BYTES)


def _moved(a: Arch, w: Words) -> Words:
    """A word for the part of the scratchpads, at its place in the whole."""
    at = origin(a)
    names: dict[str, int] = {}
    opcode = int(w["opcode"][0])
    if opcode == Opcode.MM:
        f = w.view(MM)
        names = {"act": Buffer.ACT, "wgt": Buffer.WGT, "acc": Buffer.ACC}
        names |= dict.fromkeys(("rowmax_at", "init_at"), Buffer.PARAM)
    elif opcode == Opcode.VEC:
        f = w.view(VEC)
        names = {x: int(f[f"{x}_src"][0]) & 15 for x in ("a", "b", "d")}
        names |= dict.fromkeys(("a1", "b1", "a2", "b2", "r", "sub_at", "red_at"), Buffer.PARAM)
    else:
        f = w.view(DMA)
        names = {"sram": int(f["buffer"][0])}
    for name, buffer in names.items():
        f[name] += at.get(buffer, 0)
    return w


EXACT = [1.0, 0.5, -2.0, 0.25, 3.0, -128.0, 2.0**-14, 1000.0, np.inf]
STEPS = ("m1", "m2", "func", "op2", "rq")


def _vec(rng: Rng, a: Arch) -> Words | None:
    """A third has one step at most, and half of the immediates have few bits: results that lie between two of their
    format are rare else."""
    w: Words | None = VecWords(a, rng, rows=16).attempt()
    if w is None:
        return None
    f = w.view(VEC)
    if rng.integers(3) == 2:
        keep = rng.choice([*STEPS, ""])
        for name in STEPS:
            if name != keep:
                f[name] = 0
    for k in range(2):
        if rng.integers(2):
            f["imm"][0, k] = rng.choice(EXACT)
    return w


def _extreme(rng: Rng, a: Arch) -> Words:
    """Counts up to 65,535 in one dimension: a LOAD or STORE of a few bytes again and again, or a VEC of many rows."""
    count, kind = int(rng.choice([300, 1023, 4097, 20_000, 65_535])), int(rng.integers(5))
    if kind == 4:
        at = int(rng.integers(0, a.words["param"] - 4 * a.cols + 1))
        return word(
            Opcode.VEC,
            rows=count,
            tiles=1,
            valid=a.cols,
            a_src=pack(Buffer.ACC, Format.I32),
            a=int(rng.integers(a.words["acc"])),
            d_src=pack(Buffer.NONE, Format.F32),
            red=int(Reduce.MAX) | RED_COLUMNS,
            red_at=at,
        )
    n = [1, 1, 1]
    n[int(rng.integers(3))] = count
    buffer = (Buffer.ACT, Buffer.VBUF, Buffer.PARAM)[int(rng.integers(3))]
    stride = int(rng.integers(-1, 2)) if count < BYTES // 2 else 0
    return dma_word(
        Opcode.STORE if kind == 3 else Opcode.LOAD,
        base=int(rng.choice(SHARED)),
        buffer=buffer,
        offset=BYTES // 2,
        sram=int(rng.integers(a.words[buffer.name.lower()])),
        inner=int(rng.integers(1, a.word_bytes[buffer.name.lower()] + 1)),
        n=n,
        dstride=[stride] * 3,
        format=int(DmaFormat.FILL if kind == 2 else DmaFormat.RAW),
    )


def piece(rng: Rng, a: Arch) -> Piece | None:
    """What was drawn, if it fits."""
    small, tile, kind = part(a), int(rng.integers(a.tiles)), int(rng.integers(20))
    w: Words | None
    if rng.integers(256) == 255:
        w = _extreme(rng, small)
    elif kind < 5:
        w = attempt(rng, _Dram(small), Opcode.LOAD, int4=False)
    elif kind < 8:
        w = attempt(rng, _Dram(small), Opcode.STORE)
    elif kind < 12:
        w = _mm(rng, small)
    elif kind < 18:
        w = _vec(rng, small)
    elif kind < 19:
        w = _int4(rng, small)
    else:
        w = _table(rng)
    # Zero counts are illegal, and the compiler's semaphores do not expect them.
    if w is None or (w["opcode"][0] in (Opcode.LOAD, Opcode.STORE) and not w.view(DMA)["n"].all()):
        return None
    w = _moved(a, w)
    flags = (Flag.DRAIN if rng.integers(8) == 7 else 0) | (Flag.TRAP if rng.integers(8) == 7 else 0)
    w["flags"] = flags
    return Piece(tile, w)


# The beginning and the end.


def _fill(a: Arch, b: Buffer, first: int, words: int, base: int, offset: int) -> Iterator[Words]:
    """Words `first` .. of the part from up to a quarter of a region, again and again."""
    unit = a.word_bytes[b.name.lower()]
    step = BYTES // 4 // unit
    for at in range(first, first + words, step):
        inner = min(step, first + words - at) * unit
        yield dma_word(Opcode.LOAD, base=base, buffer=b, offset=offset, sram=origin(a)[b] + at, inner=inner)


@cache
def _beginning(a: Arch, t: int) -> tuple[Words, ...]:
    return tuple(_filling(a, t))


def _filling(a: Arch, t: int) -> Iterator[Words]:
    """Memory that no word reads before it was written: ordinary numbers, and some noise."""
    base, at = SHARED[t % 3], origin(a)
    for slot in range(TABLE_SLOTS):
        yield dma_word(Opcode.LOAD, base=TABLES, buffer=Buffer.TABLE, sram=slot, inner=TABLE_BYTES)
    for b, offset in ((Buffer.ACT, NOISE), (Buffer.WGT, NOISE), (Buffer.VBUF, F16), (Buffer.PARAM, F32)):
        n = used(a)[b.name.lower()]
        usual = n * 7 // 8
        yield from _fill(a, b, 0, usual, base, offset)
        yield from _fill(a, b, usual, n - usual, base, NOISE)
    step, c, have = 60, a.cols, used(a)  # rows
    for row in range(0, have["acc"], step):
        counts = dict.fromkeys(("ny", "nc", "nkx", "nky", "nn"), 1) | {"nx": min(step, have["acc"] - row)}
        act, wgt = at[Buffer.ACT] + min(row, have["act"] - step), at[Buffer.WGT] + min(row, have["wgt"] - c)
        yield word(Opcode.MM, act=act, wgt=wgt, acc=at[Buffer.ACC] + row, sx=1, **counts)


@cache
def _end(a: Arch, t: int) -> tuple[Words, ...]:
    return tuple(_dumping(a, t))


def _dumping(a: Arch, t: int) -> Iterator[Words]:
    """All that the tile holds, into its part of the dump: ACT, VBUF, PARAM as they are, ACC as float32 through VBUF."""
    at, to = origin(a), t * dump_bytes(a)
    for b in (Buffer.ACT, Buffer.VBUF, Buffer.PARAM):
        inner = used(a)[b.name.lower()] * a.word_bytes[b.name.lower()]
        yield dma_word(Opcode.STORE, buffer=b, base=DUMP, offset=to, sram=at[b], inner=inner)
        to += inner
    step = used(a)["vbuf"] // 2
    for row in range(0, used(a)["acc"], step):
        rows = min(step, used(a)["acc"] - row)
        place = {"a": at[Buffer.ACC] + row, "d": at[Buffer.VBUF], "a_rs": 1, "d_rs": 2}
        kinds = {"a_src": pack(Buffer.ACC, Format.I32), "d_src": pack(Buffer.VBUF, Format.F32)}
        yield word(Opcode.VEC, rows=rows, tiles=1, valid=a.cols, **place, **kinds)
        inner = rows * 4 * a.cols
        yield dma_word(Opcode.STORE, buffer=Buffer.VBUF, base=DUMP, offset=to, sram=at[Buffer.VBUF], inner=inner)
        to += inner


def dump_bytes(a: Arch) -> int:
    return sum(used(a)[b] * a.word_bytes[b] for b in ("act", "vbuf", "param", "acc"))


@lru_cache(64)
def contents(a: Arch, seed: int) -> dict[int, Bytes]:
    """Fresh DRAM."""
    rng = np.random.default_rng(seed)
    fresh = {b: rng.integers(0, 256, BYTES).astype(np.uint8) for b in (0, *SHARED, INT4)}
    for b in (0, *SHARED):
        fresh[b][F16:F32].view(np.float16)[:] = rng.normal(size=(F32 - F16) // 2)
        n = (BYTES - F32) // 4
        exact = rng.integers(-64, 65, n) / 2.0 ** rng.integers(0, 9, n)
        fresh[b][F32:].view(np.float32)[:] = np.where(rng.random(n) < 0.5, exact, rng.normal(size=n))
        fresh[b][fresh[b] == 128] = 129  # few weights are -128
    block = a.cols + nu.W4_GROUP * a.cols // 2
    blocks = fresh[INT4][: BYTES // block * block].reshape(-1, block)
    blocks[:, : a.cols] = rng.integers(-15, 16, (len(blocks), a.cols)).astype(np.int8).view(np.uint8)
    fresh[TABLES] = np.concatenate([nu.table_image(g) for g in nu.GATES.values()])
    fresh[DUMP] = np.zeros(a.tiles * dump_bytes(a), np.uint8)
    return fresh


# Programs.


def _legal(tile: Tile, regions: dict[int, Bytes], w: Words) -> bool:
    """Execute the word; whether the simulator takes it. After a refusal nothing has changed."""
    f = decode(w)[0]
    memory = {b: m.copy() for b, m in tile.memory.items()}
    tables, tally = list(tile.tables), Tally()
    try:
        if f[0] == Opcode.MM:
            mxu.matrix(tile, f, tally)
        elif f[0] == Opcode.VEC:
            vpu.vector(tile, f, tally)
            if f[1] & Flag.TRAP and tally.fp16_overflow + tally.nan:
                raise Fault("E415", "flags", "trap")
        elif f[0] == Opcode.LOAD:
            load_store.load(tile, regions, f, tally)
        else:
            load_store.store(tile, regions, f, tally)
    except Fault:
        for b, m in memory.items():
            tile.memory[b][:] = m
        tile.tables[:] = tables
        return False
    return True


def _spread(words: Words) -> None:
    """The n-th token of each pair of engines on semaphore n mod 4 of the pair; the compiler uses one of the four."""
    engines = np.array([ENGINE_OF[Opcode(int(o))] for o in words["opcode"]])
    for p in (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE):
        for c in (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE):
            give = np.flatnonzero((engines == p) & (words["signal"] >> 4 * c & 1 != 0))
            take = np.flatnonzero((engines == c) & (words["wait"] >> 4 * p & 1 != 0))
            assert len(give) == len(take)
            k = np.arange(len(give)) % 4
            words["signal"][give] ^= (1 << 4 * c ^ 1 << 4 * c + k).astype(np.uint16)
            words["wait"][take] ^= (1 << 4 * p ^ 1 << 4 * p + k).astype(np.uint16)


def lay_out(a: Arch, pieces: Sequence[Piece | None], seed: int = 0) -> Program:
    """A program of the pieces, in this order, on memory of this seed."""
    fresh = contents(a, seed)
    regions = {b: d.copy() for b, d in fresh.items()}
    tiles = [Tile(a) for _ in range(a.tiles)]
    streams: list[list[Words]] = [[] for _ in tiles]
    order: list[tuple[int, int]] = []

    def add(t: int, w: Words, tag: int, must: bool = True) -> bool:
        legal = _legal(tiles[t], regions, w)
        assert legal or not must, f"not legal: {disassemble_word(w[0])}"
        if legal:
            w = w.copy()
            w["tag"] = tag
            order.append((t, len(streams[t])))
            streams[t].append(w)
        return legal

    for t in range(a.tiles):
        for w in _beginning(a, t):
            add(t, w, 0)
    count = 0
    for p in pieces:
        count += p is not None and add(p.tile, p.word, FIRST + count, must=False)
    for t in range(a.tiles):
        for w in _end(a, t):
            add(t, w, LAST + 1)
    joined = [np.concatenate([*s, word(Opcode.END)]) for s in streams]
    order += [(t, len(s) - 1) for t, s in enumerate(joined)]
    synced, _ = insert_semaphores(order, joined, a)
    for s in synced:
        _spread(s)
    return Program(a, synced, fresh, count)


def random_program(a: Arch, seed: int, count: int) -> Program:
    """`count` pieces of a seed."""
    rng = np.random.default_rng(seed)
    return lay_out(a, [piece(rng, a) for _ in range(count)], seed)
