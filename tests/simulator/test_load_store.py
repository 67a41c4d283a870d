"""LOAD and STORE against loops over the definition in isa.py, and what they refuse."""

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir import numerics as nu
from dpu.ir.arch import load_arch
from dpu.ir.isa import TABLE_BYTES, Buffer, DmaFormat, Opcode, word
from dpu.simulator.machine import Machine
from hypothesis import given, settings
from hypothesis import strategies as st

TINY = load_arch("dpu_tiny")
C = TINY.cols
END = word(Opcode.END)
SIZE = 40_000


def fresh(seed: int = 0) -> Machine:
    rng = np.random.default_rng(seed)
    m = Machine(TINY, {b: rng.integers(0, 256, SIZE).astype(np.uint8) for b in range(4)})
    for memory in m.tiles[0].memory.values():
        memory[:] = rng.integers(0, 256, memory.shape)
    return m


def run(m: Machine, opcode: Opcode, **f: object) -> None:
    m.run([np.concatenate([word(opcode, tag=2, **f), END])])


def reference_load(m: Machine, f: dict) -> np.ndarray:
    unit = m.tiles[0].word_bytes[f["buffer"]]
    out, dram = m.tiles[0].memory[f["buffer"]].copy(), m.regions[f["base"]]
    n, d, s, pad, inner = f["n"], f["dstride"], f["sstride"], f["pad"], f["inner"]
    words = -(-inner // unit)
    for i3 in range(n[2]):
        for i2 in range(n[1] + pad[2] + pad[3]):
            for i1 in range(n[0] + pad[0] + pad[1]):
                at = (f["sram"] + i1 * s[0] + i2 * s[1] + i3 * s[2]) * unit
                cell = [f["fill"] & 255] * (words * unit)
                if pad[0] <= i1 < pad[0] + n[0] and pad[2] <= i2 < pad[2] + n[1] and f["format"] == DmaFormat.RAW:
                    source = f["offset"] + (i1 - pad[0]) * d[0] + (i2 - pad[2]) * d[1] + i3 * d[2]
                    cell[:inner] = dram[source : source + inner].tolist()
                out[at : at + words * unit] = cell
    return out


three = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))


@settings(max_examples=120, deadline=None)
@given(
    buffer=st.sampled_from([Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM]),
    fmt=st.sampled_from([DmaFormat.RAW, DmaFormat.FILL]),
    fill=st.integers(-128, 127),
    inner=st.integers(1, 50),
    n=three,
    dstride=st.tuples(*[st.integers(-300, 300)] * 3),
    sstride=st.tuples(*[st.integers(0, 60)] * 3),
    pad=st.tuples(*[st.integers(0, 2)] * 4),
    sram=st.integers(0, 200),
)
def test_loads(buffer, fmt, fill, inner, n, dstride, sstride, pad, sram) -> None:
    """Strides of any sign, pads, tails, and cells that overlap in the scratchpad."""
    f = {"base": 2, "buffer": buffer, "format": fmt, "fill": fill, "offset": 10_000, "sram": sram, "inner": inner}
    f |= {"n": n, "dstride": dstride, "sstride": sstride, "pad": pad}
    m = fresh(inner)
    expected = reference_load(m, f)
    run(m, Opcode.LOAD, **f)
    assert np.array_equal(m.tiles[0].memory[buffer], expected)


@settings(max_examples=80, deadline=None)
@given(
    buffer=st.sampled_from([Buffer.ACT, Buffer.VBUF, Buffer.PARAM]),
    inner=st.integers(1, 50),
    n=three,
    dstride=st.tuples(*[st.integers(-300, 300)] * 3),
    sstride=st.tuples(*[st.integers(0, 60)] * 3),
)
def test_stores(buffer, inner, n, dstride, sstride) -> None:
    m = fresh(inner)
    unit, memory = m.tiles[0].word_bytes[buffer], m.tiles[0].memory[buffer]
    expected = m.regions[1].copy()
    for i3 in range(n[2]):
        for i2 in range(n[1]):
            for i1 in range(n[0]):
                source = (5 + i1 * sstride[0] + i2 * sstride[1] + i3 * sstride[2]) * unit
                at = 10_000 + i1 * dstride[0] + i2 * dstride[1] + i3 * dstride[2]
                expected[at : at + inner] = memory[source : source + inner]
    f = {
        "base": 1,
        "buffer": buffer,
        "offset": 10_000,
        "sram": 5,
        "inner": inner,
        "n": n,
        "dstride": dstride,
        "sstride": sstride,
    }
    run(m, Opcode.STORE, **f)
    assert np.array_equal(m.regions[1], expected)


@settings(max_examples=40, deadline=None)
@given(columns=st.integers(1, C), inner=st.integers(1, C), n2=st.integers(1, 3), n3=st.integers(1, 2))
def test_transposes_whole_tiles(columns, inner, n2, n3) -> None:
    m = fresh()
    f = {"base": 0, "buffer": Buffer.WGT, "format": DmaFormat.TRANSPOSE, "offset": 70, "sram": 16, "inner": inner}
    run(m, Opcode.LOAD, **f, n=[columns, n2, n3], dstride=[100, 8, 1000], sstride=[0, 8, 64])
    wgt, dram = m.tiles[0].wgt.reshape(-1, C), m.regions[0].view(np.int8)
    for i3 in range(n3):
        for i2 in range(n2):
            for r in range(C):
                for c in range(C):
                    source = 70 + c * 100 + i2 * 8 + i3 * 1000 + r
                    inside = r < inner and c < columns
                    assert wgt[16 + i2 * 8 + i3 * 64 + r, c] == (dram[source] if inside else 0)


@settings(max_examples=30, deadline=None)
@given(rows=st.integers(1, 300), runs=st.integers(1, 2), seed=st.integers(0, 9))
def test_expands_int4(rows, runs, seed) -> None:
    """Blocks of C group integers and 128 rows of C / 2 bytes, low nibble the even column; the last block is short."""
    rng = np.random.default_rng(seed)
    q = rng.integers(-8, 8, (runs, rows, C))
    g = rng.integers(-15, 16, (runs, -(-rows // 128), C))
    m = fresh()
    image = []
    for k in range(runs):
        for b in range(0, rows, 128):
            image += (g[k, b // 128] & 255).tolist()
            for row in q[k, b : b + 128]:
                image += [(int(row[j]) & 15) | (int(row[j + 1]) & 15) << 4 for j in range(0, C, 2)]
    inner = len(image) // runs
    m.regions[0][3 : 3 + len(image)] = image
    f = {"base": 0, "buffer": Buffer.WGT, "format": DmaFormat.INT4, "offset": 3, "sram": 9, "inner": inner}
    run(m, Opcode.LOAD, **f, n=[runs, 1, 1], dstride=[inner, 0, 0], sstride=[400, 0, 0])
    wgt = m.tiles[0].wgt.reshape(-1, C)
    for k in range(runs):
        for r in range(rows):
            assert wgt[9 + 400 * k + r].tolist() == (q[k, r] * g[k, r // 128]).tolist()


MOST = (65535, 65535, 65535)
INT4 = {"buffer": Buffer.WGT, "format": DmaFormat.INT4, "inner": C + C // 2}  # a row
REPEATED = {
    "raw": (Opcode.LOAD, {}),
    "raw, a long run": (Opcode.LOAD, {"inner": 33_000}),
    "raw, padded before": (Opcode.LOAD, {"pad": (2, 0, 1, 0)}),
    "raw, padded behind": (Opcode.LOAD, {"pad": (0, 0, 0, 3)}),
    "fill": (Opcode.LOAD, {"format": DmaFormat.FILL, "dstride": (5, 5, 5)}),
    "int4": (Opcode.LOAD, INT4),
    "transpose": (Opcode.LOAD, {"buffer": Buffer.WGT, "format": DmaFormat.TRANSPOSE, "inner": 5, "n": (3, *MOST[1:])}),
    "store": (Opcode.STORE, {}),
}


def one_run(seed: int, opcode: Opcode, **f: object) -> list[np.ndarray]:
    """The scratchpad and the DRAM after a word; DRAM has group integers of int4 from byte 70 on."""
    m = fresh(seed)
    m.regions[1][70 : 70 + C] = np.arange(1, C + 1)
    run(m, opcode, **({"base": 1, "buffer": Buffer.ACT, "offset": 70, "sram": 9, "fill": -3, "inner": 13} | f))
    return [m.tiles[0].memory[f.get("buffer", Buffer.ACT)], m.regions[1]]


@pytest.mark.parametrize("name", REPEATED)
def test_runs_without_strides_end_at_once_as_one_run(name: str) -> None:
    """Of any number of them. A padding cell behind them stays."""
    opcode, f = REPEATED[name]
    single = (f["n"][0] if "n" in f else 1, 1, 1)
    none, one, many = (one_run(0, opcode, **({"n": MOST} | f | g)) for g in ({"inner": 0}, {"n": single}, {}))
    assert all(map(np.array_equal, many, one)) and not all(map(np.array_equal, many, none))


@pytest.mark.parametrize("f", [{}, INT4], ids=["raw", "int4"])
def test_of_runs_to_the_same_words_the_last_stays(f: dict) -> None:
    """With a stride in DRAM only, no run is the one before."""
    m, last = fresh(), fresh()
    f = {"base": 1, "buffer": Buffer.ACT, "inner": 13, "sram": 9} | f
    for machine in (m, last):
        machine.regions[1][:100] = np.arange(100) % 8
    run(m, Opcode.LOAD, **f, offset=0, n=[3, 2, 1], dstride=[16, 50, 0])
    run(last, Opcode.LOAD, **f, offset=82, n=[1, 1, 1])
    assert np.array_equal(m.tiles[0].memory[f["buffer"]], last.tiles[0].memory[f["buffer"]])


def test_of_runs_to_the_same_words_the_first_can_be_the_one_at_fault() -> None:
    m = fresh()
    m.regions[1][:100] = 1
    m.regions[1][:C], m.regions[1][C] = 16, 8  # 16 * -8 is no weight
    with pytest.raises(DpuError) as e:
        run(m, Opcode.LOAD, **INT4, base=1, n=[3, 1, 1], dstride=[30, 0, 0])
    assert e.value.code == "E415"
    run(m, Opcode.LOAD, **INT4, base=1, offset=30, n=[2, 1, 1], dstride=[30, 0, 0])


def test_loads_a_gate_table_and_refuses_a_broken_one() -> None:
    m = fresh()
    m.regions[0][64 : 64 + TABLE_BYTES] = nu.table_image(nu.GATES["phi"])
    f = {"base": 0, "buffer": Buffer.TABLE, "offset": 64, "sram": 1, "inner": TABLE_BYTES, "n": [1, 1, 1]}
    run(m, Opcode.LOAD, **f)
    table = m.tiles[0].tables[1]
    assert table is not None and table.name == "phi"
    m.regions[0][700] ^= 1
    with pytest.raises(DpuError) as e:
        run(m, Opcode.LOAD, **f)
    assert "field 'offset': gate table image: checksum" in str(e.value)


def test_a_fence_moves_nothing() -> None:
    m = fresh()
    before = {k: v.copy() for k, v in m.tiles[0].memory.items()}
    run(m, Opcode.LOAD, inner=0, base=7)
    run(m, Opcode.STORE, inner=0, base=7)
    assert all(np.array_equal(v, before[k]) for k, v in m.tiles[0].memory.items())


def test_regions_are_used_in_place() -> None:
    image = np.zeros(256, np.uint8)
    m = Machine(TINY, {1: image})
    m.tiles[0].act[:] = 7
    run(m, Opcode.STORE, base=1, buffer=Buffer.ACT, inner=16, n=[1, 1, 1])
    assert image[:17].tolist() == [7] * 16 + [0]
    assert m.view(1, 0, (2, 8), np.int8).tolist() == [[7] * 8] * 2


_VERIFY = "  try: dpuc verify names the word at fault; compile the model again"


@pytest.mark.parametrize(
    ("opcode", "fields", "text"),
    [
        (
            Opcode.LOAD,
            {"sram": 8190, "inner": 17},
            "error[E411]: entry 'program' tile 0 word 0 (LOAD, tag 2): "
            f"field 'sram': words 8190 to 8192 of ACT, which holds 8192\n{_VERIFY}",
        ),
        (
            Opcode.LOAD,
            {"offset": SIZE - 7},
            "error[E412]: entry 'program' tile 0 word 0 (LOAD, tag 2): "
            f"field 'offset': bytes 39993 to 40000 of base 0, which holds 40000\n{_VERIFY}",
        ),
        (
            Opcode.LOAD,
            {"offset": 8, "n": [3, 1, 1], "dstride": [-8, 0, 0], "sstride": [1, 0, 0]},
            "error[E412]: entry 'program' tile 0 word 0 (LOAD, tag 2): "
            f"field 'offset': bytes -8 to 15 of base 0, which holds 40000\n{_VERIFY}",
        ),
        (
            Opcode.LOAD,
            {"base": 6},
            "error[E412]: entry 'program' tile 0 word 0 (LOAD, tag 2): "
            f"field 'base': base register 6 is not bound\n{_VERIFY}",
        ),
        (Opcode.LOAD, {"buffer": Buffer.ACC}, "field 'buffer': LOAD cannot write ACC"),
        (Opcode.LOAD, {"buffer": 9}, "field 'buffer': LOAD cannot write buffer 9"),
        (Opcode.LOAD, {"format": 7}, "field 'format': 7 is no format"),
        (Opcode.LOAD, {"format": DmaFormat.INT4}, "field 'buffer': INT4 writes WGT, not ACT"),
        (
            Opcode.LOAD,
            {"format": DmaFormat.INT4, "buffer": Buffer.WGT, "inner": 9},
            "field 'inner': 9 bytes are not whole int4 rows (blocks of 520 bytes)",
        ),
        (
            Opcode.LOAD,
            {"format": DmaFormat.TRANSPOSE, "buffer": Buffer.WGT, "n": [9, 1, 1]},
            "field 'n': TRANSPOSE turns 9 runs, a tile has 8 columns",
        ),
        (Opcode.STORE, {"buffer": Buffer.WGT}, "field 'buffer': STORE cannot read WGT"),
        (Opcode.STORE, {"base": 0}, "field 'base': base register 0 (constants) is read only"),
        (Opcode.STORE, {"base": 1, "format": 1}, "field 'format': STORE knows only format RAW, not 1"),
    ],
)
def test_refusals(opcode: Opcode, fields: dict, text: str) -> None:
    with pytest.raises(DpuError) as e:
        run(fresh(), opcode, **({"base": 0, "buffer": Buffer.ACT, "inner": 8, "n": [1, 1, 1]} | fields))
    assert str(e.value) == text if text.startswith("error") else text in str(e.value)
