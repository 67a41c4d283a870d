"""Intervals of operands against a plain enumeration of the addresses, from the definitions in `ir/isa.py`."""

from __future__ import annotations

import itertools
import time

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir import isa
from dpu.ir.arch import load_arch
from dpu.ir.isa import Buffer, DmaFormat, Format, Function, MmMode, Op2, Opcode, Operand, Reduce, RowMax, pack, word
from dpu.ir.operands import accesses, capacities, check_bounds, int4_block_bytes, int4_words, operands
from hypothesis import given, settings
from hypothesis import strategies as st

TINY = load_arch("dpu_tiny")
C = TINY.cols
small = st.integers(1, 4)
stride = st.integers(0, 9)


def local(one: isa.Words) -> list[tuple[int, int, int, bool]]:
    return accesses(one, TINY).local[0]


def box(addresses: set[int]) -> tuple[int, int]:
    return min(addresses), max(addresses) + 1


@given(
    inner=st.integers(1, 50),
    n=st.tuples(small, small, small),
    ss=st.tuples(stride, stride, stride),
    ds=st.tuples(*[st.integers(-40, 40)] * 3),
    pad=st.tuples(*[st.integers(0, 2)] * 4),
    buffer=st.sampled_from([Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM]),
    fmt=st.sampled_from([DmaFormat.RAW, DmaFormat.FILL]),
)
def test_load_covers_cells_padding_and_tails(inner, n, ss, ds, pad, buffer, fmt) -> None:
    one = word(
        Opcode.LOAD,
        buffer=buffer,
        format=fmt,
        base=2,
        offset=1000,
        sram=7,
        inner=inner,
        n=n,
        dstride=ds,
        sstride=ss,
        pad=pad,
    )
    a = accesses(one, TINY)
    size = TINY.word_bytes[buffer.name.lower()]
    cells = itertools.product(range(n[0] + pad[0] + pad[1]), range(n[1] + pad[2] + pad[3]), range(n[2]))
    touched = {
        7 + i * ss[0] + j * ss[1] + k * ss[2] + b // size for i, j, k in cells for b in range(inner)
    }  # fmt: skip
    assert a.local[0] == [(buffer, *box(touched), True)]
    runs = itertools.product(*map(range, n))
    moved = {1000 + i * ds[0] + j * ds[1] + k * ds[2] + b for i, j, k in runs for b in (0, inner - 1)}
    assert a.dram[0] == (None if fmt == DmaFormat.FILL else (2, *box(moved), False))


def test_fence_touches_nothing() -> None:
    both = np.concatenate([word(Opcode.LOAD, sram=5, n=(1, 1, 1)), word(Opcode.STORE, n=(1, 1, 1))])
    a = accesses(both, TINY)
    assert a.local == [[], []]
    assert a.dram == [None, None]


def test_store_reads_its_buffer_and_writes_dram() -> None:
    one = word(Opcode.STORE, buffer=Buffer.VBUF, sram=4, inner=4 * C, n=(3, 1, 1), sstride=(2, 0, 0), base=1, offset=64)
    a = accesses(one, TINY)
    assert a.local[0] == [(Buffer.VBUF, 4, 4 + 2 * 2 + 2, False)]
    assert a.dram[0] == (1, 64, 64 + 4 * C, True)


def test_int4_and_transpose_and_table_sizes() -> None:
    block = int4_block_bytes(TINY)
    assert block == C + 128 * C // 2  # one line of group integers, 128 rows of C nibbles
    assert int4_words(block, TINY) == 128
    assert int4_words(2 * block + C + 5 * C // 2, TINY) == 261  # ragged last group
    one = word(Opcode.LOAD, buffer=Buffer.WGT, format=DmaFormat.INT4, inner=block, n=(2, 1, 1), sstride=(130, 0, 0))
    assert local(one) == [(Buffer.WGT, 0, 130 + 128, True)]
    turned = word(Opcode.LOAD, buffer=Buffer.WGT, format=DmaFormat.TRANSPOSE, inner=3, n=(2, 3, 1), sstride=(99, C, 0))
    assert local(turned) == [(Buffer.WGT, 0, 3 * C, True)]  # R words a tile, whatever its runs
    table = word(Opcode.LOAD, buffer=Buffer.TABLE, sram=1, inner=isa.TABLE_BYTES, n=(1, 1, 1))
    assert local(table) == [(Buffer.TABLE, 1, 2, True)]


@given(data=st.data())
def test_mm_covers_rows_taps_and_tiles(data) -> None:
    ny, nx, nky, nkx, nc, nn = (data.draw(small) for _ in range(6))
    sy, sx, sky, skx, sc, wn, an = (data.draw(stride) for _ in range(7))
    mode, rowmax = data.draw(st.sampled_from(MmMode)), data.draw(st.sampled_from(RowMax))
    one = word(
        Opcode.MM,
        act=3,
        wgt=5,
        acc=9,
        nx=nx,
        ny=ny,
        sx=sx,
        sy=sy,
        nc=nc,
        sc=sc,
        nkx=nkx,
        nky=nky,
        skx=skx,
        sky=sky,
        nn=nn,
        wn=wn,
        an=an,
        mode=mode,
        rowmax=rowmax,
        rowmax_at=20,
        init_at=40,
        valid=nn * C,
    )
    act, wgt, acc, params = set(), set(), set(), set()
    for y, x, ky, kx, c, n in itertools.product(*map(range, (ny, nx, nky, nkx, nc, nn))):
        act.add(3 + y * sy + x * sx + ky * sky + kx * skx + c * sc)
        k = (ky * nkx + kx) * nc + c
        wgt |= {5 + n * wn + k * C, 5 + n * wn + k * C + C - 1}
        acc.add(9 + n * an + y * nx + x)
        params.add(20 + y * nx + x)
    want = {(Buffer.ACT, *box(act), False), (Buffer.WGT, *box(wgt), False), (Buffer.ACC, *box(acc), True)}
    if mode == MmMode.ACCUMULATE:
        want.add((Buffer.ACC, *box(acc), False))
    if mode == MmMode.COLUMN:
        want.add((Buffer.PARAM, 40, 40 + nn * C, False))
    if rowmax != RowMax.NONE:
        want.add((Buffer.PARAM, *box(params), True))
    if rowmax == RowMax.ACCUMULATE:
        want.add((Buffer.PARAM, *box(params), False))
    got = local(one)
    assert set(got) == want and len(got) == len(want)
    assert [w for *_, w in got] == sorted(w for *_, w in got)  # reads first


@given(
    rows=small,
    tiles=small,
    rs=stride,
    ts=stride,
    place=st.sampled_from(
        [
            (Buffer.ACT, Format.I8, 1),
            (Buffer.ACT, Format.I8_OFFSET, 1),
            (Buffer.ACT, Format.I15_SPLIT, 1),
            (Buffer.VBUF, Format.F16, 1),
            (Buffer.VBUF, Format.F32, 2),
            (Buffer.PARAM, Format.F32, C),
        ]
    ),
    valid=st.integers(1, C),
)
def test_vec_result_covers_tiles_and_split_planes(rows, tiles, rs, ts, place, valid) -> None:
    buffer, fmt, run = place
    one = word(
        Opcode.VEC,
        rows=rows,
        tiles=tiles,
        valid=valid,
        a_src=pack(Buffer.ACC, Format.I32),
        b_src=Buffer.NONE,
        d_src=pack(buffer, fmt),
        a=1,
        a_rs=2,
        a_ts=30,
        d=11,
        d_rs=rs,
        d_ts=ts,
    )
    n = 2 * tiles if fmt == Format.I15_SPLIT else tiles
    last = valid if buffer == Buffer.PARAM else run  # in PARAM only valid scalars are written
    d = {11 + i * rs + t * ts + k for i in range(rows) for t in range(n) for k in range(last if t == n - 1 else run)}
    assert local(one) == [
        (Buffer.ACC, 1, 2 + (rows - 1) * 2 + (tiles - 1) * 30, False),
        (buffer, *box(d), True),
    ]


def test_vec_vectors_reductions_and_tables() -> None:
    one = word(
        Opcode.VEC,
        rows=3,
        tiles=2,
        valid=5,
        a_src=pack(Buffer.ACC, Format.I32),
        b_src=pack(Buffer.VBUF, Format.F32),
        d_src=Buffer.NONE,
        b=50,
        b_rs=4,
        b_ts=2,
        op2=pack(Op2.MUL, Operand.ELEM),
        m1=pack(Operand.ROW, Operand.COL),
        m2=pack(Operand.IMM0, Operand.ROW),
        a1=100,
        b1=200,
        a2=300,
        b2=400,
        func=pack(Function.GATE, 1),
        rq=Operand.COL,
        r=500,
        sub=1,
        sub_at=600,
        red=Reduce.SUM_SQ | isa.RED_COLUMNS | isa.RED_ACCUMULATE,
        red_at=700,
    )
    param = Buffer.PARAM
    assert set(local(one)) == {
        (Buffer.ACC, 0, 1, False),
        (Buffer.VBUF, 50, 50 + 2 * 4 + 2 + 2, False),
        (param, 100, 103, False),
        (param, 200, 200 + C + 5, False),
        (param, 400, 403, False),
        (param, 500, 500 + C + 5, False),
        (param, 600, 603, False),
        (param, 700, 700 + 2 * C + C + 5, False),
        (param, 700, 700 + 2 * C + C + 5, True),
        (Buffer.TABLE, 1, 2, False),
    }
    one.view(isa.VEC)["red"] = Reduce.MAX
    assert (param, 700, 703, True) in local(one) and (param, 700, 703, False) not in local(one)
    one.view(isa.VEC)["op2"] = pack(Op2.MUL, Operand.IMM1)
    assert not any(b == Buffer.VBUF for b, *_ in local(one))


@settings(max_examples=200)
@given(data=st.data())
def test_bounds_hold_exactly_at_the_capacity(data) -> None:
    cap = capacities(TINY)[Buffer.ACT]
    sx = data.draw(st.integers(1, 8))
    nx = data.draw(st.integers(1, 60))
    last = (nx - 1) * sx
    fields = {"nx": nx, "ny": 1, "nc": 1, "nkx": 1, "nky": 1, "nn": 1, "sx": sx}
    check_bounds(word(Opcode.MM, act=cap - 1 - last, **fields), TINY, {})
    with pytest.raises(DpuError, match=r"error\[E311\]: word 0 \(MM, tag 0\): operand 'act' touches words") as e:
        check_bounds(word(Opcode.MM, act=cap - last, **fields), TINY, {})
    assert f"has {cap:#x} words" in str(e.value)


def test_bounds_name_dram_regions_buffers_and_opcodes() -> None:
    one = word(Opcode.STORE, buffer=Buffer.ACT, base=3, offset=100, inner=C, n=(1, 1, 1))
    check_bounds(one, TINY, {3: 100 + C})
    with pytest.raises(DpuError, match=r"E312.*tile 1, word 0 \(STORE.*base register 3"):
        check_bounds(one, TINY, {3: 99 + C}, "tile 1")
    below = word(Opcode.LOAD, buffer=Buffer.ACT, offset=4, inner=C, n=(2, 1, 1), dstride=(-8, 0, 0))
    with pytest.raises(DpuError, match="E312"):
        check_bounds(below, TINY, {0: 1000})
    with pytest.raises(DpuError, match=r"E310.*operand 'sram' is in buffer WGT"):
        check_bounds(word(Opcode.STORE, buffer=Buffer.WGT, inner=C, n=(1, 1, 1)), TINY, {0: 1000})
    with pytest.raises(DpuError, match=r"E310.*opcode 0 does not exist"):
        operands(isa.empty(1), TINY)


def test_accesses_is_quick() -> None:
    vec = word(
        Opcode.VEC,
        rows=3,
        tiles=2,
        a_src=pack(Buffer.ACC, 0),
        d_src=pack(Buffer.VBUF, Format.F16),
        m1=pack(Operand.ROW, Operand.COL),
        red=Reduce.SUM_SQ,
    )
    mm = word(Opcode.MM, nx=4, ny=4, nc=2, nkx=1, nky=1, nn=1)
    stream = np.tile(np.concatenate([vec, mm]), 20_000)
    start = time.perf_counter()
    accesses(stream, TINY)
    seconds = time.perf_counter() - start
    assert seconds / len(stream) < 100e-6, f"{seconds / len(stream) * 1e6:.1f} us a word"  # aim 15, loaded machines
