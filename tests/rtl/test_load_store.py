"""dpu_load and dpu_store against simulator/load_store.py: equal memory, faults and counts; the rules of AXI; cycles."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from dpu.bench.rtl_dma_words import dma_word
from dpu.ir import cost
from dpu.ir.functions import GATES, table_image
from dpu.ir.isa import DMA, TABLE_BYTES, Buffer, DmaFormat, Opcode

from . import dma
from .runner import run_bench

SIZES = [(8, 8), (8, 4), (16, 16)]
TINY = dma.arch(8, 8)
LATENCY = 20  # of the bench's DRAM, in the tests of cycles
LOAD_FIXED, STORE_FIXED = 10, 9  # cycles of a word beside latency and data; rtl/doc/dpu_load.md, dpu_store.md


def pace(rng: np.random.Generator) -> dict[str, int]:
    """Random back-pressure and latency."""
    hold = [int(x) for x in rng.choice([0, 0, 40, 128, 230], 4)]
    return {
        "hold_address": hold[0],
        "hold_data": hold[1],
        "hold_port": hold[2],
        "hold_start": hold[3],
        "latency": int(rng.choice([0, 1, 7, 40])),
        "seed": int(rng.integers(1, 1 << 30)),
    }


def campaign(cols: int, lanes: int, opcode: Opcode, rounds: int, words: int, wrong: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    for k in range(rounds):
        m = dma.memory(rng, dma.arch(cols, lanes))
        listed = dma.mixed(rng, m, opcode, words, wrong)
        given: dict[str, Any] = pace(rng)
        try:
            dma.check(m, listed, **given)
        except AssertionError as e:
            raise AssertionError(f"round {k}: {given}: {e}") from e


@pytest.mark.parametrize(("cols", "lanes"), SIZES[:1])
@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_random_words(cols: int, lanes: int, opcode: Opcode) -> None:
    campaign(cols, lanes, opcode, 60, 12, 0.0, 1)
    campaign(cols, lanes, opcode, 60, 4, 0.2, 2)


def small(seed: int = 0) -> dma.Memory:
    return dma.memory(np.random.default_rng(seed), TINY)


def load(**fields: Any) -> Any:
    return dma_word(Opcode.LOAD, **fields)


def store(**fields: Any) -> Any:
    return dma_word(Opcode.STORE, **fields)


# Directed: what is moved.


@pytest.mark.parametrize("offset", [0, 1, 37, 63])
@pytest.mark.parametrize("inner", [1, 7, 64, 65, 700])
def test_unaligned(offset: int, inner: int) -> None:
    for buffer in (Buffer.ACT, Buffer.VBUF, Buffer.PARAM):
        dma.check(small(), load(buffer=buffer, offset=offset, inner=inner, sram=3, fill=-3))
        dma.check(small(), store(buffer=buffer, offset=offset, inner=inner, sram=3))


def test_runs_of_a_byte_backwards() -> None:
    fields = {"buffer": 0, "inner": 1, "n": (50, 2, 1), "dstride": (-3, 200, 0), "sstride": (1, 50, 0), "offset": 150}
    for w in (load(**fields), store(**fields)):
        assert dma.check(small(), w).run.bursts >= 100


def test_stride_zero_repeats_and_later_cells_win() -> None:
    fields = {"buffer": 0, "inner": 20, "n": (4, 3, 2), "dstride": (0, 20, 7), "sstride": (2, 1, 1), "offset": 9}
    dma.check(small(), load(**fields))
    dma.check(small(), store(**fields))


def test_padding_cells_without_runs() -> None:
    for n in ((0, 3, 2), (2, 0, 2), (2, 3, 0)):
        r = dma.check(small(), load(buffer=0, inner=20, n=n, pad=(1, 2, 1, 0), sstride=(3, 12, 40), fill=77))
        assert r.run.bursts == 0


def test_merged_runs_are_one() -> None:
    """Contiguous dimensions become one run, so one burst a 4 KiB page."""
    fields = {"buffer": 0, "inner": 24, "n": (10, 5, 4), "dstride": (24, 240, 1200), "sstride": (3, 30, 150)}
    for w in (load(**fields), store(**fields)):
        r = dma.check(small(), w)
        assert r.run.bursts <= 3
        assert r.run.beats <= 76


def test_int4() -> None:
    c = TINY.cols
    for rows in (1, 127, 128, 129, 257):
        m = small()
        inner = -(-rows // 128) * c + rows * c // 2
        for at in range(0, inner, 65 * c):
            m.views()[1][5 + at : 5 + at + c] = np.arange(-15, 16, 4, np.int8).view(np.uint8)
        dma.check(m, load(buffer=Buffer.WGT, format=DmaFormat.INT4, inner=inner, offset=5, sram=9))


@pytest.mark.parametrize("g", [16, -16, 127, -128, 31])
def test_int4_group_integers_out_of_range(g: int) -> None:
    m = small()
    m.views()[1][: TINY.cols] = 0
    m.views()[1][TINY.cols - 1] = g & 255
    words = [load(buffer=0, inner=30), load(buffer=1, format=DmaFormat.INT4, inner=24), load(buffer=0, inner=9)]
    r = dma.check(m, np.concatenate(words))
    assert r.fault == (dma.CODES["E415"], 1)
    assert r.run.fault_address == dma.DRAM_BASE + m.regions[1][0]


def table_memory(spoil: int | None = None) -> dma.Memory:
    m = small()
    image = table_image(GATES["phi"])
    if spoil is not None:
        image[spoil] ^= 4
    m.views()[2][77 : 77 + TABLE_BYTES] = image
    return m


@pytest.mark.parametrize("slot", [0, 1])
def test_table(slot: int) -> None:
    w = load(buffer=Buffer.TABLE, base=2, offset=77, sram=slot, inner=TABLE_BYTES)
    r = dma.check(table_memory(), np.concatenate([w, load(buffer=0, inner=30), w]), hold_data=60)
    assert r.fault is None


@pytest.mark.parametrize("spoil", [0, 4, 20, 60, 64, 2000, TABLE_BYTES - 1])
def test_table_with_a_wrong_byte(spoil: int) -> None:
    w = load(buffer=Buffer.TABLE, base=2, offset=77, sram=1, inner=TABLE_BYTES)
    m = table_memory(spoil)
    want = m.copy()
    fault, _ = dma.simulate(want, w)
    r = dma.rtl(m, w)
    assert fault == r.fault == (dma.CODES["E415"], 0)
    assert not m.tables[1, :16].any()  # no header: the slot stays empty


# Directed: faults and stop.


def test_errors_of_dram() -> None:
    """SLVERR ends the run at once, with the word and the address; words whose bytes are in the ring stay undone."""
    for opcode in (Opcode.LOAD, Opcode.STORE):
        m = small()
        one = [dma_word(opcode, buffer=0, inner=500, offset=600 * k, sram=100 * k) for k in range(6)]
        bad = dma.DRAM_BASE + m.regions[1][0] + 600 * 3 + 64 & ~63
        before = m.copy()
        r = dma.rtl(m, np.concatenate(one), bad_low=bad, bad_high=bad + 64, latency=30)
        assert r.fault == (dma.DRAM_CODE, 3)
        assert r.run.done_count <= 3
        if opcode == Opcode.LOAD:
            assert r.run.fault_address & ~63 == bad
            at = (300 + 8 + 7) * 8  # words of the third run that may hold bytes from before the beat
            assert np.array_equal(m.tile.memory[Buffer.ACT][at:], before.tile.memory[Buffer.ACT][at:])
        else:
            assert r.run.done_count == 3


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_stop_in_any_cycle(opcode: Opcode) -> None:
    """Under stop no address is sent, what is owed is taken or sent without strobes, and then it is quiet."""
    rng = np.random.default_rng(5)
    dropped = 0
    for stop in range(1, 140, 3):
        m = small(stop)
        words = dma.mixed(rng, m, opcode, 8)
        given = pace(rng)
        r = dma.rtl(m, words, stop_at=stop, **given)
        dropped += r.run.dropped
        assert r.fault is None
    assert (dropped > 0) == (opcode == Opcode.STORE)


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_fences_complete_in_order(opcode: Opcode) -> None:
    fence = dma_word(opcode, base=77, buffer=99, inner=0, sram=1 << 31)
    long = dma_word(opcode, buffer=0, inner=400)
    r = dma.check(small(), np.concatenate([fence, long, fence, long, fence, fence]), latency=60)
    assert r.done[2] - r.done[1] == 1
    assert r.done[1] - r.started[1] > 60


# Directed: cycles.


@pytest.mark.parametrize("buffer", [Buffer.ACT, Buffer.VBUF])
@pytest.mark.parametrize("inner", [8, 64, 640, 8000])
def test_cycles_of_a_long_run(buffer: Buffer, inner: int) -> None:
    """A scratchpad word a cycle and a constant."""
    steps = -(-inner // TINY.word_bytes[buffer.name.lower()])
    m = small()
    m.regions[1] = (m.regions[1][0] & ~63, m.regions[1][1])
    r = dma.check(m, load(buffer=buffer, inner=inner), latency=LATENCY)
    assert r.done[0] - r.started[0] == LATENCY + LOAD_FIXED + steps
    r = dma.check(m, store(buffer=buffer, inner=inner), latency=LATENCY)
    assert abs(r.done[0] - r.started[0] - (LATENCY + STORE_FIXED + steps)) <= 1


def test_cycles_of_short_runs() -> None:
    """A burst a cycle."""
    fields = {"buffer": 0, "inner": 1, "n": (200, 1, 1), "dstride": (70, 0, 0), "sstride": (1, 0, 0)}
    r = dma.check(small(), load(**fields), latency=LATENCY)
    assert r.done[0] - r.started[0] == LATENCY + LOAD_FIXED + 200
    r = dma.check(small(), store(**fields), latency=LATENCY)
    assert r.done[0] - r.started[0] == LATENCY + STORE_FIXED + 200


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_latencies_of_four_words_overlap(opcode: Opcode) -> None:
    words = np.concatenate([dma_word(opcode, buffer=0, inner=8, offset=64 * k, sram=k) for k in range(8)])
    m = small()
    m.regions[1] = (m.regions[1][0] & ~63, m.regions[1][1])
    r = dma.check(m, words, latency=200)
    assert r.started[:4].tolist() == (r.started[0] + np.arange(4)).tolist()
    assert r.started[4] > r.done[0]  # no more than four between start and done
    assert (np.diff(r.done[:4]) <= 2).all()
    assert r.done[7] - r.started[0] < 2 * 220


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_more_bursts_than_there_are_places(opcode: Opcode) -> None:
    """600 bursts while the first answer is not there: addresses wait after the 256 that fit."""
    word = dma_word(opcode, buffer=0, inner=8, n=(600, 1, 1), dstride=(16, 0, 0), sstride=(1, 0, 0))
    r = dma.check(small(), word, latency=900)
    assert r.run.bursts >= 600 and r.done[0] - r.started[0] > 2 * 900  # in three parts


def test_cycles_of_turned_tiles() -> None:
    """Two tiles at once: C cycles each, and one tile of C runs to begin."""
    c = TINY.cols
    w = load(buffer=1, format=DmaFormat.TRANSPOSE, inner=c, n=(c, 20, 1), dstride=(c, c * c, 0), sstride=(0, c, 0))
    m = small()
    m.regions[1] = (m.regions[1][0] & ~63, m.regions[1][1])
    r = dma.check(m, w, latency=LATENCY)
    assert r.done[0] - r.started[0] == LATENCY + LOAD_FIXED + 1 + c + 20 * c


def test_cost_model() -> None:
    """No word takes longer than ir/cost.py says but for a constant, and what rtl/doc says of PARAM and of int4."""
    rng = np.random.default_rng(9)
    for opcode in (Opcode.LOAD, Opcode.STORE):
        for _ in range(100):
            m = dma.memory(rng, TINY)
            w = dma.random_word(rng, m, opcode)
            r = dma.check(m, w, latency=LATENCY)
            took = r.done[0] - r.started[0] - LATENCY
            f = w.view(DMA)
            model = max(int(cost.dma_cycles(TINY, f)[0]), int(dma.written_words(TINY, w)[0]))
            if f["format"][0] == DmaFormat.INT4:
                model += int(f["n"].prod()) * -(-int(f["inner"][0]) // (65 * TINY.cols))  # group integers
            constant = LOAD_FIXED + (TINY.cols + 1 if f["format"][0] == DmaFormat.TRANSPOSE else 0)
            assert took <= model + constant + int(r.run.bursts), (took, model, f[0])


@pytest.mark.slow
@pytest.mark.parametrize(("cols", "lanes"), [*SIZES, (4, 4), (64, 32), (128, 128)])
@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
def test_campaign(cols: int, lanes: int, opcode: Opcode) -> None:
    campaign(cols, lanes, opcode, 400, 20, 0.0, 3)
    campaign(cols, lanes, opcode, 1000, 4, 0.3, 4)


# On a bus model that others wrote, through the tile's scratchpads.


def cocotb_bench(cols: int, lanes: int, env: dict[str, str]) -> None:
    pytest.importorskip("cocotb")
    pytest.importorskip("cocotbext.axi")
    words = dma.arch(cols, lanes).words
    parameters = {f"{n.capitalize()}Words": words[n] for n in ("act", "wgt", "vbuf", "param")}
    parameters |= {"Cols": cols, "Lanes": lanes}
    run_bench("dma_axi", None, "dpu_dma_axi_tb", parameters, "test_dpu_dma", env=env)


@pytest.mark.slow  # for its build
@pytest.mark.parametrize(("cols", "lanes", "seed"), [(8, 8, 2), (8, 4, 3), (16, 16, 4), (64, 32, 5)])
def test_on_axi_ram(cols: int, lanes: int, seed: int) -> None:
    cocotb_bench(cols, lanes, {"SEED": str(seed), "ROUNDS": "9"})
