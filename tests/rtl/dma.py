"""dpu_load and dpu_store as a shared library: lists of words on given memory, and the same on the simulator."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from dpu.bench.rtl_dma_words import attempt
from dpu.ir import cost
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import DMA, Buffer, Opcode
from dpu.simulator import load_store
from dpu.simulator.decode import decode
from dpu.simulator.state import Fault, Tally, Tile

from . import shared

DRAM_BASE = 0x12_3456_7000
CODES = {"E410": 2, "E411": 3, "E412": 4, "E415": 6}  # FIELD, SCRATCHPAD, REGION, NUMERIC
DRAM_CODE = 7
TABLE = 16 + 4096  # what the bench keeps of a table: header and entries

U64, POINTER = ctypes.c_uint64, ctypes.c_void_p


class Run(ctypes.Structure):
    """`struct Run` of rtl/bench/dpu_dma.cpp."""

    _fields_ = [
        ("store", U64),
        ("words", U64),
        ("word", POINTER),
        ("cols", U64),
        ("lanes", U64),
        ("dram", POINTER),
        ("dram_base", U64),
        ("dram_bytes", U64),
        ("regions", POINTER),
        ("act", POINTER),
        ("wgt", POINTER),
        ("vbuf", POINTER),
        ("param", POINTER),
        ("tables", POINTER),
        ("latency", U64),
        ("hold_address", U64),
        ("hold_data", U64),
        ("hold_port", U64),
        ("hold_start", U64),
        ("seed", U64),
        ("bad_low", U64),
        ("bad_high", U64),
        ("stop_at", U64),
        ("limit", U64),
        ("started", POINTER),
        ("done", POINTER),
        ("written_by_done", POINTER),
        *((name, U64) for name in ("done_count", "cycles", "bursts", "beats", "bytes", "first_address", "last_data")),
        *((name, U64) for name in ("busy", "stall")),
        *((f"fault{name}", U64) for name in ("", "_code", "_index", "_address", "_cycle")),
        ("dropped", U64),
        ("text", ctypes.c_char * 256),
    ]


@cache
def arch(cols: int, lanes: int) -> Arch:
    """A small tile with buffers whose sizes are no powers of two."""
    tiny = load_arch("dpu_tiny").model_dump()
    sizes = {"act": 3000 * cols, "wgt": 2500 * cols, "acc": 256 * cols, "vbuf": 2 * 1500 * cols, "param": 4 * 5000}
    buffers = {k: {"bytes": v, "banks": 2} for k, v in sizes.items()}
    return Arch.model_validate({**tiny, "rows": cols, "cols": cols, "lanes": lanes, "buffers": buffers})


@cache
def library(cols: int, lanes: int) -> Any:
    """The compiled library."""
    words = arch(cols, lanes).words
    sizes = {f"{n.capitalize()}Words": words[n] for n in ("act", "wgt", "vbuf", "param")}
    return shared.library("dpu_dma_tb", {"Cols": cols, "Lanes": lanes, **sizes})


@dataclass
class Memory:
    """DRAM with its regions, and the scratchpads of a tile."""

    arch: Arch
    dram: Any
    regions: dict[int, tuple[int, int]]  # base register -> offset in `dram`, bytes
    tile: Tile
    tables: Any = field(default_factory=lambda: np.zeros((2, TABLE), np.uint8))

    def copy(self) -> Memory:
        tile = Tile(self.arch)
        for b, memory in self.tile.memory.items():
            tile.memory[b][:] = memory
        return Memory(self.arch, self.dram.copy(), self.regions, tile, self.tables.copy())

    def views(self) -> dict[int, Any]:
        return {b: self.dram[at : at + size] for b, (at, size) in self.regions.items()}


def memory(rng: np.random.Generator, a: Arch, size: int = 1 << 16) -> Memory:
    """Random contents; base registers 0 to 3 are bound, at any byte."""
    tile = Tile(a)
    for m in tile.memory.values():
        m[:] = rng.integers(0, 256, m.size, dtype=np.uint8)
    dram = rng.integers(0, 256, size, dtype=np.uint8)
    part = size // 4
    regions = {b: (b * part + int(rng.integers(0, 80)), part - 100 - int(rng.integers(0, 80))) for b in range(4)}
    return Memory(a, dram, regions, tile)


@dataclass
class Result:
    """What the RTL did: cycles of each word, counts, the fault."""

    run: Run
    started: Any
    done: Any
    written_by_done: Any

    @property
    def fault(self) -> tuple[int, int] | None:
        """(code, word) of the fault."""
        return (self.run.fault_code, self.run.fault_index - 1000) if self.run.fault else None


def rtl(m: Memory, words: Any, **given: int) -> Result:
    """Run the words on the RTL; `m` changes in place. `given` are fields of `Run`."""
    a, n = m.arch, len(words)
    store = int(words["opcode"][0] == Opcode.STORE)
    words = np.ascontiguousarray(words)
    table = np.zeros((8, 2), np.uint64)
    for b, (at, size) in m.regions.items():
        table[b] = size, DRAM_BASE + at  # region_t, from the low end
    started, done, written = (np.zeros(n, np.uint64) for _ in range(3))
    run = Run(store=store, words=n, cols=a.cols, lanes=a.lanes, dram_base=DRAM_BASE, dram_bytes=m.dram.size)
    run.latency, run.seed, run.limit = 10, 1, 4_000_000
    run.word, run.regions, run.dram, run.tables = (x.ctypes.data for x in (words, table, m.dram, m.tables))
    run.act, run.wgt, run.vbuf = (m.tile.memory[b].ctypes.data for b in (Buffer.ACT, Buffer.WGT, Buffer.VBUF))
    room = 4 * a.lanes
    param = np.concatenate([m.tile.memory[Buffer.PARAM], np.zeros(room, np.uint8)])  # reads may go beyond
    run.param = param.ctypes.data
    run.started, run.done, run.written_by_done = (x.ctypes.data for x in (started, done, written))
    for name, value in given.items():
        setattr(run, name, value)
    library(a.cols, a.lanes).dma_run(ctypes.byref(run))
    m.tile.memory[Buffer.PARAM][:] = param[:-room]
    assert not run.text, run.text.decode()
    return Result(run, started.astype(np.int64), done.astype(np.int64), written.astype(np.int64))


def simulate(m: Memory, words: Any) -> tuple[tuple[int, int] | None, Tally]:
    """The words on the simulator, `m` in place; (code, word) of the fault that ends it."""
    tally = Tally()
    for k, w in enumerate(decode(words)):
        f = words[k : k + 1].view(DMA)[0]
        try:
            (load_store.load if w[0] == Opcode.LOAD else load_store.store)(m.tile, m.views(), w, tally)
        except Fault as e:
            return (CODES[e.code], k), tally
        if w[0] == Opcode.LOAD and f["buffer"] == Buffer.TABLE and f["inner"]:
            at = m.regions[int(f["base"])][0] + int(f["offset"])
            image = m.dram[at : at + 4160]
            m.tables[int(f["sram"])] = np.concatenate([image[:16], image[64:]])
    return None, tally


def written_words(a: Arch, words: Any) -> Any:
    """Port writes of each LOAD: scratchpad words, beats of scalars."""
    records = words.view(DMA)
    out = cost.dma(a, records).words.copy()
    param = records["buffer"] == Buffer.PARAM
    if param.any():
        n, pad = records["n"].astype(np.int64), records["pad"].astype(np.int64)
        cells = (n[:, 0] + pad[:, 0] + pad[:, 1]) * (n[:, 1] + pad[:, 2] + pad[:, 3]) * n[:, 2]
        step = 4 * min(a.lanes, 16)
        out[param] = (cells * -(-records["inner"].astype(np.int64) // step))[param]
    out[records["buffer"] == Buffer.TABLE] = 0
    return out


def same(got: Memory, want: Memory, but: Buffer | None = None) -> None:
    """All memories are equal; `but` one buffer."""
    assert np.array_equal(got.dram, want.dram), differ("DRAM", got.dram, want.dram)
    assert np.array_equal(got.tables, want.tables), differ("tables", got.tables.ravel(), want.tables.ravel())
    for b, memory in got.tile.memory.items():
        if b != but:
            assert np.array_equal(memory, want.tile.memory[b]), differ(Buffer(b).name, memory, want.tile.memory[b])


def differ(name: str, got: Any, want: Any) -> str:
    at = np.flatnonzero(got != want)
    return f"{name}: {len(at)} bytes differ, the first at {at[0]}: {got[at[:8]].tolist()}, not {want[at[:8]].tolist()}"


def check(m: Memory, words: Any, **given: int) -> Result:
    """The words on RTL and simulator: equal memory, fault, counts, order of completion."""
    want = m.copy()
    fault, tally = simulate(want, words)
    result = rtl(m, words, **given)
    assert result.fault == fault, f"fault {result.fault}, not {fault}: {words[(result.fault or fault)[1]]}"
    done = fault[1] if fault else len(words)
    assert result.run.done_count == done, f"{result.run.done_count} words done, not {done}; fault {fault}"
    assert (np.diff(result.done[:done]) > 0).all()
    same(m, want, but=Buffer.WGT if fault and fault[0] == CODES["E415"] else None)
    if not fault:
        assert result.run.bytes == tally.read + tally.written
    if words["opcode"][0] == Opcode.LOAD:
        assert (result.written_by_done[:done] >= np.cumsum(written_words(m.arch, words))[:done]).all()
    return result


# Random words.


def random_word(rng: np.random.Generator, m: Memory, opcode: Opcode, wrong: float = 0.0) -> Any:
    """A word that is legal but with probability `wrong`."""
    while True:
        w = attempt(rng, m, opcode)
        if w is not None:
            break
    if rng.random() < wrong:
        f = w.view(DMA)
        name = rng.choice(["offset", "sram", "base", "buffer", "format", "pad", "n", "inner", "sstride", "dstride"])
        value = {
            "offset": np.array([1 << 63, (1 << 64) - 5, 1 << 14, 16200], np.uint64)[rng.integers(0, 4)],
            "sram": rng.choice([4990, 2999, 0xFFFFFFFF, 1499]),
            "base": rng.integers(0, 10),
            "buffer": rng.integers(0, 8),
            "format": rng.integers(0, 5),
            "pad": rng.integers(0, 3, 4),
            "n": rng.choice([0, 1, 9, 200, 65535], 3),
            "inner": rng.choice([0, 1, 100, 4160, 1 << 20, 0xFFFFFFFF]),
            "sstride": rng.choice([0, 1, 300, 65535], 3),
            "dstride": rng.choice([-(1 << 31), (1 << 31) - 1, -3000, 3000, 0], 3),
        }[str(name)]
        f[name] = value
    return w


def mixed(rng: np.random.Generator, m: Memory, opcode: Opcode, count: int, wrong: float = 0.0) -> Any:
    """A list of words."""
    return np.concatenate([random_word(rng, m, opcode, wrong) for _ in range(count)])
