"""dpu_mxu against simulator.mxu.matrix: equal ACC and PARAM, and the cycles that rtl/doc/dpu_mxu.md promises."""

from __future__ import annotations

import time

import numpy as np
import pytest
from dpu.ir.arch import Arch
from dpu.ir.cost import mm_stream
from dpu.ir.isa import MM, Buffer, MmMode, RowMax

from .mxu import CHECK, Device, Fields, arch, copy, max_scalars, memory, mm, packed, schedule, simulate, tiles

SHAPES = [(8, 4), (16, 8)]
MORE = [
    *((cols, lanes, False) for cols, lanes in SHAPES),
    (16, 16, True),
    *(pytest.param(*s, False, marks=pytest.mark.slow) for s in ((4, 4), (8, 8), (8, 1), (64, 16))),
    *(pytest.param(*s, True, marks=pytest.mark.slow) for s in ((4, 4), (64, 16))),
]
"""Columns, lanes, and whether two columns share a multiplier."""


def overlap(lo: int, hi: int, other: tuple[int, int]) -> bool:
    return lo < other[1] and other[0] < hi


def random_word(rng: np.random.Generator, a: Arch, near: Fields | None) -> Fields:
    """A legal word; often one that works on what `near`, the word before, wrote."""
    size, c = a.words, a.cols
    top = (3, 6, 12)[rng.integers(3)]
    while True:
        nx, ny = (int(x) for x in rng.integers(1, top, 2))
        nkx, nky, nc, nn = (int(x) for x in rng.choice([1, 1, 2, 3], 4))
        if rng.random() < 0.4:
            nkx = nky = nc = 1
        rows, k = nx * ny, nkx * nky * nc
        sx, sy, skx, sky, sc = (int(x) for x in rng.integers(0, 12, 5))
        an, wn = rows + int(rng.integers(0, 3)), int(rng.integers(0, k * c + 3))
        if nn == 1:
            an = int(rng.integers(0, 65536))
            wn = int(rng.integers(0, 65536))
        spans = {
            "act": (nx - 1) * sx + (ny - 1) * sy + (nkx - 1) * skx + (nky - 1) * sky + (nc - 1) * sc + 1,
            "wgt": (nn - 1) * wn + k * c,
            "acc": (nn - 1) * an + rows,
        }
        if all(spans[b] <= size[b] for b in spans):
            break
    f = mm(nx=nx, ny=ny, nkx=nkx, nky=nky, nc=nc, nn=nn, sx=sx, sy=sy, skx=skx, sky=sky, sc=sc, an=an, wn=wn)
    for b, span in spans.items():
        f[b] = int(rng.integers(0, size[b] - span + 1))
    f["mode"], f["rowmax"] = int(rng.choice(list(MmMode))), int(rng.choice(list(RowMax)))
    f["valid"] = int(rng.integers(1, nn * c + 1)) if f["rowmax"] else int(rng.integers(0, 65536))
    # Row maxima in the lower half of PARAM, column vectors in the upper: a word may not read what it writes itself.
    f["rowmax_at"] = int(rng.integers(0, size["param"] // 2 - rows)) if f["rowmax"] else int(rng.integers(0, 65536))
    half = size["param"] // 2
    f["init_at"] = int(rng.integers(half, size["param"] - nn * c + 1)) if f["mode"] == MmMode.COLUMN else 65535
    if near is not None and rng.random() < 0.6:  # on the last rows of the word before, or on the same ones
        before = near["nx"] * near["ny"]
        back = int(rng.integers(0, 4)) if rng.random() < 0.5 else before
        at = near["acc"] + (near["nn"] - 1) * near["an"] * (near["nn"] > 1) + before - back
        f["acc"] = min(max(0, at), size["acc"] - spans["acc"])
        if f["rowmax"] and near["rowmax"]:
            f["rowmax_at"] = min(max(0, near["rowmax_at"] + before - back), half - rows)
    return f


def random_words(rng: np.random.Generator, a: Arch, count: int) -> list[Fields]:
    words: list[Fields] = []
    while len(words) < count:
        words.append(random_word(rng, a, words[-1] if words else None))
    return words


def same(device: Device, reference, what: str) -> None:
    for b in (Buffer.ACT, Buffer.WGT, Buffer.ACC, Buffer.PARAM):
        differ = np.flatnonzero(device.tile.memory[b] != reference.memory[b])
        assert not len(differ), f"{what}: {len(differ)} bytes of {b.name} differ, first at {differ[0]}"


@pytest.mark.parametrize(("cols", "lanes", "two"), MORE)
def test_random_words_leave_the_simulators_bytes(cols: int, lanes: int, two: bool) -> None:
    a = arch(cols, lanes)
    tile = memory(a, cols)
    reference = copy(tile, a)
    device = Device(a, tile, packed=two)
    rng = np.random.default_rng(cols * 100 + lanes)
    for campaign in range(40 if cols < 64 else 20):
        words = random_words(rng, a, 12)
        gap = [int(x) for x in rng.integers(0, 200, 12)] if campaign % 3 == 2 else None
        drain = [bool(x) for x in rng.random(12) < 0.3] if campaign % 2 else None
        result = device.run(words, gap, drain)
        assert simulate(words, reference) is None
        assert result.report.fault == 0 and result.report.bad_access == 0
        same(device, reference, f"campaign {campaign}")
        # A word is reported as done when everything is written, and no word writes more than it should.
        acc = np.cumsum([f["nx"] * f["ny"] * tiles(f) for f in words])
        param = np.cumsum([max_scalars(f, cols) for f in words])
        assert result.report.acc_writes == result.report.rows == acc[-1]
        assert result.report.param_writes == param[-1]
        assert result.report.last_write <= max(result.done)
        assert (np.array(result.acc_at_done) >= acc).all() and (np.array(result.param_at_done) >= param).all()
        assert result.done == sorted(result.done)
    device.close()


def last_row(f: Fields) -> int:
    return f["acc"] + (f["nn"] - 1) * f["an"] + f["nx"] * f["ny"] - 1


def timed_word(rng: np.random.Generator, a: Arch) -> Fields:
    """A word whose timing the schedule gives exactly: see its doc."""
    f = random_word(rng, a, None)
    if f["mode"] == MmMode.COLUMN:
        f["rowmax"] = int(RowMax.NONE)
    return f


@pytest.mark.parametrize(("cols", "lanes", "two"), MORE)
def test_every_row_and_every_done_is_on_time(cols: int, lanes: int, two: bool) -> None:
    a = arch(cols, lanes)
    device = Device(a, memory(a), packed=two)
    rng = np.random.default_rng(cols)
    for campaign in range(30):
        words: list[Fields] = []
        while len(words) < 8:
            f = timed_word(rng, a)
            column = any(w["mode"] == MmMode.COLUMN for w in (f, *words))
            f["rowmax"] = int(RowMax.NONE) if column or f["rowmax"] == RowMax.ACCUMULATE else f["rowmax"]
            if any(w["rowmax"] for w in words) and f["mode"] == MmMode.COLUMN:
                continue
            if words and last_row(words[-1]) - f["acc"] in (0, 1):
                continue
            words.append(f)
        result = device.run(words, [0] * 8 if campaign % 2 else [int(x) for x in rng.integers(0, 150, 8)])
        rows, done = schedule(words, result.start, a, two)
        assert result.rows == rows
        assert result.done == done
    device.close()


@pytest.mark.parametrize(("cols", "lanes"), SHAPES)
@pytest.mark.parametrize("mode", MmMode)
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 16, 17, 40])
def test_words_follow_each_other_without_a_bubble(cols: int, lanes: int, mode: MmMode, rows: int) -> None:
    """Words of one weight tile, the shortest: the array takes a row or the loader weights in every cycle."""
    a = arch(cols, lanes)
    device = Device(a, memory(a))
    words = [mm(nx=rows, sx=1, acc=(n % 2) * 60, mode=int(mode), wgt=n * cols) for n in range(24)]
    result = device.run(words)
    first = np.array(result.rows[::rows])
    stream = mm_stream(a, packed(words).view(MM)).tolist()
    assert stream == [max(rows, cols)] * 24
    assert np.diff(first).tolist() == stream[:-1]
    assert np.diff(result.start[20:]).tolist() == [max(rows, cols, CHECK)] * 3  # when the stages are full
    assert np.diff(result.done).tolist() == stream[:-1]
    device.close()


@pytest.mark.parametrize(("cols", "lanes"), SHAPES)
def test_one_word_from_start_to_done(cols: int, lanes: int) -> None:
    a = arch(cols, lanes)
    device = Device(a, memory(a))
    groups, stages = max(1, cols // 8), (int(np.log2(cols)) + 1) // 2
    for rows, k, nn, rowmax in [(1, 1, 1, 0), (5, 2, 1, 0), (20, 3, 2, 0), (20, 3, 2, 1), (1, 1, 1, 1)]:
        f = mm(nx=rows, sx=1, nc=k, sc=1, nn=nn, an=rows, wn=k * cols, rowmax=rowmax, valid=nn * cols)
        result = device.run([f])
        first = result.start[0] + 10 + groups
        last = first + (nn * k - 1) * max(rows, cols) + rows - 1
        assert result.rows[0] == first and result.rows[-1] == last
        assert result.done == [last + cols + groups + stages + 3]
        assert result.report.last_write == result.done[0] - (0 if rowmax else 1 + stages)
        assert result.report.busy == nn * k * rows
        assert result.report.stall == result.done[0] - result.start[0] - result.report.busy
    device.close()


@pytest.mark.parametrize("distance", [0, 1, 2, 3])
@pytest.mark.parametrize("rowmax", [RowMax.NONE, RowMax.ACCUMULATE])
def test_a_word_may_add_to_the_last_rows_of_the_one_before(distance: int, rowmax: RowMax) -> None:
    a = arch(8, 4)
    tile = memory(a, 5)
    reference = copy(tile, a)
    device = Device(a, tile)
    words = [
        mm(
            nx=10,
            sx=1,
            acc=10 - distance * n,
            mode=int(MmMode.ACCUMULATE),
            rowmax=int(rowmax),
            rowmax_at=9 * n,
            valid=5,
        )
        for n in range(2)
    ]
    words[1]["acc"] = 10 + 10 - distance
    words[1]["rowmax_at"] = 10 - distance
    result = device.run(words)
    simulate(words, reference)
    same(device, reference, f"distance {distance}")
    gap = result.rows[10] - result.rows[9]
    assert gap == (3 if distance in (1, 2) else 1)
    device.close()


def illegal(a: Arch) -> list[tuple[Fields, int]]:
    """Words that must fail, and the address that the fault names."""
    w, c = a.words, a.cols
    far = 65535
    return [
        *((mm(**{n: 0}), 0) for n in ("nx", "ny", "nc", "nkx", "nky", "nn")),
        (mm(act=w["act"]), w["act"]),
        (mm(act=0xFFFFFFFF), 0xFFFFFFFF),
        (mm(act=3, nx=far, sx=far, ny=far, sy=far), 3),
        (mm(act=1, nky=2, sky=w["act"] - 1), 1),
        (mm(act=1, nkx=2, skx=w["act"] - 1), 1),
        (mm(act=1, nc=2, sc=w["act"] - 1), 1),
        (mm(wgt=w["wgt"] - c + 1), w["wgt"] - c + 1),
        (mm(wgt=2, nn=2, wn=w["wgt"] - c - 1, an=1), 2),
        (mm(nc=far, nkx=255, nky=255), 0),
        (mm(acc=w["acc"]), w["acc"]),
        (mm(nn=2, nx=2, an=w["acc"] - 1), 0),
        (mm(nn=2, nx=3, an=2), 0),
        (mm(mode=3), 0),
        (mm(mode=255), 0),
        (mm(mode=2, init_at=w["param"] - c + 1), w["param"] - c + 1),
        (mm(rowmax=3, valid=1), 0),
        (mm(rowmax=1, valid=0), 0),
        (mm(rowmax=2, valid=c + 1), 0),
        (mm(rowmax=1, valid=1, rowmax_at=w["param"] - 1, nx=2), w["param"] - 1),
    ]


@pytest.mark.parametrize(("cols", "lanes"), SHAPES)
def test_an_illegal_word_has_no_effect_and_earlier_ones_are_done(cols: int, lanes: int) -> None:
    a = arch(cols, lanes)
    good = mm(nx=20, sx=1, nc=2, sc=1, rowmax=1, rowmax_at=5, valid=3)
    tile = memory(a, 3)
    reference = copy(tile, a)
    device = Device(a, tile)
    for bad, address in illegal(a):
        words = [good, bad, good]
        expected = simulate(words, reference)
        assert expected is not None and expected[1] == 1, bad
        device.lib.mxu_reset(device.handle)
        result = device.run(words)
        r = result.report
        assert (r.fault, r.code, r.index, r.address) == (1, expected[0], 1, address), bad
        assert result.done[0] > 0 and result.done[1:] == [-1, -1] and r.fault_cycle > result.done[0]
        same(device, reference, str(bad)) if bad.get("rowmax", 0) == 0 else None  # the simulator finds these late
        copy_back(device, reference)
    device.close()


def copy_back(device: Device, reference) -> None:
    for b, data in reference.memory.items():
        device.tile.memory[b][:] = data


def test_words_at_the_edge_of_the_buffers_are_legal() -> None:
    a = arch(8, 4)
    w = a.words
    tile = memory(a, 8)
    reference = copy(tile, a)
    device = Device(a, tile)
    words = [
        mm(act=w["act"] - 1, wgt=w["wgt"] - 8, acc=w["acc"] - 1, mode=2, init_at=w["param"] - 8),
        mm(
            act=0,
            nx=2,
            sx=w["act"] - 1,
            nn=2,
            wn=w["wgt"] - 8,
            an=w["acc"] - 2,
            rowmax=1,
            valid=16,
            rowmax_at=w["param"] - 2,
        ),
    ]
    assert device.run(words).report.fault == 0
    assert simulate(words, reference) is None
    same(device, reference, "edge")
    device.close()


@pytest.mark.parametrize(("cols", "lanes"), SHAPES)
def test_a_weight_of_minus_128_is_reported(cols: int, lanes: int) -> None:
    a = arch(cols, lanes)
    for row, rows in ((0, 1), (cols - 1, 1), (3, 30), (2 * cols - 1, 2)):
        tile = memory(a)
        tile.wgt[(100 + row) * cols + cols - 1] = -128
        device = Device(a, tile)
        words = [mm(nx=30, sx=1, nc=2), mm(wgt=100, nx=rows, sx=1, nc=2), mm()]
        assert simulate(words, copy(tile, a)) == (6, 1)
        result = device.run(words)
        r = result.report
        assert (r.fault, r.code, r.index, r.address) == (1, 6, 1, 100 + row)
        assert result.done[1:] == [-1, -1]
        device.close()


def test_extreme_operands() -> None:
    a = arch(16, 8)
    tile = memory(a)
    tile.act[:] = -128
    tile.wgt[:] = np.where(np.arange(tile.wgt.size) % 32 < 16, 127, -127)
    reference = copy(tile, a)
    device = Device(a, tile)
    words = [mm(nx=20, nc=20, nn=2, wn=320, an=20, mode=m, init_at=600, rowmax=1, valid=32) for m in (0, 1, 2)]
    device.run(words)
    simulate(words, reference)
    same(device, reference, "extremes")
    device.close()


@pytest.mark.slow
@pytest.mark.parametrize(("cols", "lanes"), [(8, 4), (16, 8), (64, 16)])
def test_speed_of_the_array(cols: int, lanes: int, capsys: pytest.CaptureFixture[str]) -> None:
    a = arch(cols, lanes)
    device = Device(a, memory(a), fast=True)
    words = [mm(nx=128, sx=1, nc=4, sc=1) for _ in range(16_000_000 // (512 * cols * cols) * 8)]
    begin = time.process_time()
    result = device.run(words)
    spent = time.process_time() - begin
    with capsys.disabled():
        rate, busy = result.report.cycles / spent / 1e3, result.report.busy / result.report.cycles
        print(f"\n{cols}x{cols}: {rate:.0f} kcycles/s, array busy {busy:.0%}")
    device.close()
