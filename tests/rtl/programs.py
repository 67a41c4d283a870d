"""Random programs of all engines and tiles: legal words on shared memory, ordered by the compiler's semaphores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from dpu.codegen.sync import insert_semaphores
from dpu.ir import numerics as nu
from dpu.ir.arch import Arch
from dpu.ir.isa import DMA, Buffer, DmaFormat, Format, MmMode, Opcode, RowMax, Words, pack, word
from dpu.simulator import load_store, mxu, vpu
from dpu.simulator.decode import decode
from dpu.simulator.state import Fault, Tally, Tile

from . import dma
from . import vpu as vec_words

TABLES, SHARED, DUMP = 4, (1, 2, 3), 5
"""Base registers: 0 is constant, the shared ones are written by all, one holds gate tables, one takes what is left."""

BYTES = 1 << 14


@dataclass
class Program:
    arch: Arch
    streams: list[Words]
    regions: dict[int, Any]

    def copies(self) -> dict[int, Any]:
        return {b: d.copy() for b, d in self.regions.items()}


@dataclass
class _Dram:
    """What the generator of DMA words wants to know."""

    arch: Arch
    data: dict[int, Any]

    @property
    def regions(self) -> dict[int, tuple[int, int]]:
        return dict.fromkeys((0, *SHARED), (0, BYTES))

    def views(self) -> dict[int, Any]:
        return self.data


def _mm(rng: np.random.Generator, a: Arch) -> Words:
    size, c = a.words, a.cols
    nx, ny, nkx, nky, nc, nn = (int(x) for x in (*rng.integers(1, 9, 2), *rng.choice([1, 1, 2, 3], 4)))
    rows, k = nx * ny, nkx * nky * nc
    sx, sy, skx, sky, sc = (int(x) for x in rng.integers(0, 20, 5))
    an, wn = rows + int(rng.integers(0, 3)), k * c
    act = (nx - 1) * sx + (ny - 1) * sy + (nkx - 1) * skx + (nky - 1) * sky + (nc - 1) * sc + 1
    rowmax, mode = int(rng.choice(list(RowMax))), int(rng.choice(list(MmMode)))
    half = size["param"] // 2
    return word(
        Opcode.MM,
        act=int(rng.integers(0, size["act"] - act)),
        wgt=int(rng.integers(0, size["wgt"] - nn * wn)),
        acc=int(rng.integers(0, size["acc"] - nn * an)),
        nx=nx,
        ny=ny,
        sx=sx,
        sy=sy,
        skx=skx,
        sky=sky,
        sc=sc,
        nc=nc,
        nkx=nkx,
        nky=nky,
        nn=nn,
        wn=wn,
        an=an,
        mode=mode,
        rowmax=rowmax,
        valid=int(rng.integers(1, nn * c + 1)),
        rowmax_at=int(rng.integers(0, half - rows)),
        init_at=int(rng.integers(half, size["param"] - nn * c)),
    )


def _dma(rng: np.random.Generator, dram: Any, opcode: Opcode) -> Words:
    """No INT4, whose bytes would have to be made legal in the middle of a run, and no zero counts, which the
    instruction set excludes and the compiler's semaphores do not expect."""
    while True:
        w: Words = np.atleast_1d(dma.random_word(rng, dram, opcode))
        f = w.view(DMA)
        if f["format"][0] != DmaFormat.INT4 and f["n"].all():
            return w


def _table(rng: np.random.Generator) -> Words:
    at = 4160 * int(rng.integers(0, len(nu.GATES)))
    return word(
        Opcode.LOAD, buffer=Buffer.TABLE, base=TABLES, offset=at, sram=int(rng.integers(2)), inner=4160, n=(1, 1, 1)
    )


def _legal(tile: Tile, regions: dict[int, Any], w: Words) -> bool:
    """Execute the word; whether the simulator takes it. After a refusal nothing has changed."""
    f = decode(w)[0]
    memory = {b: m.copy() for b, m in tile.memory.items()}
    tables = list(tile.tables)
    try:
        if f[0] == Opcode.MM:
            mxu.matrix(tile, f, Tally())
        elif f[0] == Opcode.VEC:
            vpu.vector(tile, f, Tally())
        elif f[0] == Opcode.LOAD:
            load_store.load(tile, regions, f, Tally())
        else:
            load_store.store(tile, regions, f, Tally())
    except Fault:
        for b, m in memory.items():
            tile.memory[b][:] = m
        tile.tables[:] = tables
        return False
    return True


def _dump(a: Arch, t: int) -> list[Words]:
    """All that a tile holds into its part of the dump: ACT, VBUF, PARAM as they are, ACC as float32 through VBUF."""
    out, at = [], t * dump_bytes(a)
    for b in (Buffer.ACT, Buffer.VBUF, Buffer.PARAM):
        size = a.words[b.name.lower()] * a.word_bytes[b.name.lower()]
        out.append(word(Opcode.STORE, buffer=b, base=DUMP, offset=at, inner=size, n=(1, 1, 1)))
        at += size
    rows = min(a.words["acc"], a.words["vbuf"] // 2)
    out.append(
        word(
            Opcode.VEC,
            rows=rows,
            tiles=1,
            valid=a.cols,
            a_rs=1,
            d_rs=2,
            a_src=pack(Buffer.ACC, Format.I32),
            d_src=pack(Buffer.VBUF, Format.F32),
        )
    )
    inner = 2 * rows * a.word_bytes["vbuf"]
    return [*out, word(Opcode.STORE, buffer=Buffer.VBUF, base=DUMP, offset=at, inner=inner, n=(1, 1, 1))]


def dump_bytes(a: Arch) -> int:
    return sum(a.words[b] * a.word_bytes[b] for b in ("act", "vbuf", "param")) + a.words["vbuf"] * a.word_bytes["vbuf"]


def random_program(a: Arch, seed: int, count: int) -> Program:
    """`count` words, on all tiles in turn."""
    rng = np.random.default_rng(seed)
    fresh = {b: rng.integers(0, 256, BYTES).astype(np.uint8) for b in (0, *SHARED)}
    for b in SHARED:  # numbers of ordinary size among the noise
        fresh[b][: BYTES // 2].view(np.float16)[:] = rng.normal(size=BYTES // 4)
    for b in (0, *SHARED):
        fresh[b][fresh[b] == 128] = 129  # no weight is -128, or few
    fresh[TABLES] = np.concatenate([nu.table_image(g) for g in nu.GATES.values()])
    fresh[DUMP] = np.zeros(a.tiles * dump_bytes(a), np.uint8)
    regions = {b: d.copy() for b, d in fresh.items()}
    tiles = [Tile(a) for _ in range(a.tiles)]
    dram, vectors = _Dram(a, regions), vec_words.Words(a, rng, rows=16)
    streams: list[list[Words]] = [[] for _ in tiles]
    order: list[tuple[int, int]] = []

    def add(t: int, w: Words) -> None:
        if _legal(tiles[t], regions, w):
            order.append((t, len(streams[t])))
            streams[t].append(w)

    for t in range(a.tiles):  # memory that no word reads before it was written
        for slot in range(2):
            w = _table(rng)
            w.view(DMA)["sram"] = slot
            add(t, w)
        for b in (Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM):
            words, unit = a.words[b.name.lower()], a.word_bytes[b.name.lower()]
            cells = -(-words * unit // BYTES)  # the noise again and again
            each = words // cells
            fields = {"inner": each * unit, "n": (cells, 1, 1), "sstride": (each, 0, 0)}
            assert each * cells == words
            add(t, word(Opcode.LOAD, buffer=b, base=1 + t % 3, **fields))
        for at in range(0, a.words["acc"], 64):  # ACC from products
            full = {"nx": 64, "ny": 1, "sx": 1, "nc": 1, "sc": 1, "nkx": 1, "nky": 1, "nn": 1, "an": 64, "wn": 8}
            add(t, word(Opcode.MM, acc=at, act=at % 512, **full))
        assert len(streams[t]) == 2 + 4 + a.words["acc"] // 64, "a word of the beginning is not legal"
    while len(order) < count:
        t, kind = int(rng.integers(a.tiles)), int(rng.integers(10))
        if kind < 3:
            w = _dma(rng, dram, Opcode.LOAD)
        elif kind < 5:
            w = _dma(rng, dram, Opcode.STORE)
        elif kind < 7:
            w = _mm(rng, a)
        elif kind < 9:
            w = np.atleast_1d(vectors.word())
        else:
            w = _table(rng)
        add(t, w)
    for t in range(a.tiles):
        for w in _dump(a, t):
            add(t, w)
    joined = [np.concatenate([*s, word(Opcode.END)]) for s in streams]
    order += [(t, len(s) - 1) for t, s in enumerate(joined)]
    synced, _ = insert_semaphores(order, joined, a)
    return Program(a, synced, fresh)
