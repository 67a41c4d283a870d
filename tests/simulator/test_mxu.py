"""MM words against plain Python loops over the definition in isa.py."""

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.isa import MmMode, Opcode, RowMax, word
from dpu.simulator import mxu
from dpu.simulator.machine import Machine
from hypothesis import given, settings
from hypothesis import strategies as st

TINY = load_arch("dpu_tiny")
C = TINY.cols
END = word(Opcode.END)


def fresh(seed: int = 0) -> Machine:
    """A machine with random ACT, WGT (without -128), ACC and PARAM."""
    rng = np.random.default_rng(seed)
    m = Machine(TINY, {})
    tile = m.tiles[0]
    tile.act[:] = rng.integers(-128, 128, tile.act.shape)
    tile.wgt[:] = rng.integers(-127, 128, tile.wgt.shape)
    tile.acc[:] = rng.integers(-1000, 1000, tile.acc.shape)
    tile.param_i[:] = rng.integers(-1000, 1000, tile.param_i.shape)
    return m


def reference(m: Machine, f: dict[str, int]) -> tuple[np.ndarray, np.ndarray]:
    """ACC and PARAM after the word, element by element."""
    act, wgt = m.tiles[0].act.reshape(-1, C), m.tiles[0].wgt.reshape(-1, C)
    acc, param = m.tiles[0].acc.copy(), m.tiles[0].param_i.copy()
    for y in range(f["ny"]):
        for x in range(f["nx"]):
            row = y * f["nx"] + x
            finals = []
            for n in range(f["nn"]):
                for j in range(C):
                    at = f["acc"] + n * f["an"] + row
                    total = {
                        MmMode.ZERO: 0,
                        MmMode.ACCUMULATE: int(acc[at, j]),
                        MmMode.COLUMN: int(param[f["init_at"] + n * C + j]),
                    }[MmMode(f["mode"])]
                    for ky in range(f["nky"]):
                        for kx in range(f["nkx"]):
                            for c in range(f["nc"]):
                                k = (ky * f["nkx"] + kx) * f["nc"] + c
                                a = f["act"] + y * f["sy"] + x * f["sx"]
                                a += ky * f["sky"] + kx * f["skx"] + c * f["sc"]
                                w = f["wgt"] + n * f["wn"] + k * C
                                total += sum(int(act[a, r]) * int(wgt[w + r, j]) for r in range(C))
                    acc[at, j] = total
                    finals.append(total)
            if f["rowmax"] != RowMax.NONE:
                best = max(finals[: f["valid"]])
                at = f["rowmax_at"] + row
                param[at] = best if f["rowmax"] == RowMax.INIT else max(best, int(param[at]))
    return acc, param


small = st.integers(1, 3)


@settings(max_examples=60, deadline=None)
@given(
    n=st.tuples(small, small, small, small, small, small),
    strides=st.tuples(*[st.integers(0, 40)] * 5),
    bases=st.tuples(st.integers(0, 500), st.integers(0, 500), st.integers(0, 500)),
    gap=st.integers(0, 9),
    mode=st.sampled_from(MmMode),
    rowmax=st.sampled_from(RowMax),
    data=st.data(),
)
def test_every_field_of_mm(n, strides, bases, gap, mode, rowmax, data) -> None:
    nx, ny, nc, nkx, nky, nn = n
    sx, sy, sc, skx, sky = strides
    f = {
        "nx": nx,
        "ny": ny,
        "nc": nc,
        "nkx": nkx,
        "nky": nky,
        "nn": nn,
        "sx": sx,
        "sy": sy,
        "sc": sc,
        "skx": skx,
        "sky": sky,
    }
    f |= {"act": bases[0], "wgt": bases[1], "acc": bases[2], "an": nx * ny + gap, "wn": nky * nkx * nc * C + gap}
    f |= {
        "mode": int(mode),
        "init_at": 100,
        "rowmax": int(rowmax),
        "rowmax_at": 7,
        "valid": data.draw(st.integers(1, nn * C)),
    }
    m = fresh(sum(n))
    acc, param = reference(m, f)
    counters = m.run([np.concatenate([word(Opcode.MM, tag=5, **f), END])])
    assert np.array_equal(m.tiles[0].acc, acc)
    assert np.array_equal(m.tiles[0].param_i, param)
    assert counters.tags[5].macs == nx * ny * nky * nkx * nc * C * nn * C


def test_torch_and_numpy_products_are_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    p = mxu._Product()
    rng = np.random.default_rng(1)
    for m, k, n in ((1, 8, 8), (7, 64, 64), (130, 3000, 64), (64, 64, 520)):
        a = rng.integers(-128, 128, (m, k)).astype(np.int8)
        w = rng.integers(-127, 128, (k, n)).astype(np.int8)
        assert np.array_equal(p(a, w), a.astype(np.int64) @ w.astype(np.int64))
    assert p.torch is torch or p.refused
    monkeypatch.setattr(torch, "_int_mm", lambda a, w, out: out.zero_())
    wrong = mxu._Product()  # a product that is not exact is refused
    assert np.array_equal(wrong(a, w), a.astype(np.int64) @ w.astype(np.int64))
    assert wrong.torch is None


def test_minus_128_as_weight_traps() -> None:
    m = fresh()
    m.tiles[0].wgt[9] = -128
    mm = word(Opcode.MM, nx=1, ny=1, nc=1, nkx=1, nky=1, nn=1, an=1, wn=8, tag=3)
    with pytest.raises(DpuError) as e:
        m.run([np.concatenate([mm, END])], entry="unet")
    assert str(e.value) == (
        "error[E415]: entry 'unet' tile 0 word 0 (MM, tag 3): field 'wgt': a weight is -128\n"
        "  why: stationary operands saturate to +-127\n"
        "  try: dpuc verify names the word at fault; compile the model again"
    )


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"nx": 0}, "field 'nx': is 0, must be at least 1"),
        ({"act": 8192}, "field 'act': words 8192 to 8192 of ACT, which holds 8192"),
        ({"acc": 2040, "nx": 9}, "field 'acc': words 2040 to 2048 of ACC, which holds 2048"),
        ({"nn": 2, "nx": 4, "an": 3}, "field 'an': is 3: column tiles of 4 rows would overlap in ACC"),
        ({"rowmax": 1, "valid": 9}, "field 'valid': is 9, must be 1 to 8"),
        ({"mode": 3}, "field 'mode': 3 is no mode"),
    ],
)
def test_illegal_fields_are_named(fields: dict[str, int], text: str) -> None:
    base = {"nx": 1, "ny": 1, "nc": 1, "nkx": 1, "nky": 1, "nn": 1, "an": 1, "wn": 8}
    with pytest.raises(DpuError) as e:
        fresh().run([np.concatenate([word(Opcode.MM, **(base | fields)), END])])
    assert text in str(e.value)


def test_column_tiles_may_overlap_in_weights() -> None:
    """wn = 1: tile n starts one row behind tile n - 1; the wide product of several tiles must not be a strided view."""
    pytest.importorskip("torch")  # the product takes torch as soon as it is imported
    m = fresh(5)
    m.tiles[0].act[m.tiles[0].act == -128] = 0
    f = {"act": 3, "wgt": 7, "acc": 1, "nx": 5, "ny": 1, "sx": 2, "nc": 2, "sc": 1, "nkx": 1, "nky": 1}
    f |= {"nn": 3, "wn": 1, "an": 5}
    tile = m.tiles[0]
    m.run([np.concatenate([word(Opcode.MM, **f), END])])
    a = np.stack([tile.act.reshape(-1, C)[3 + 2 * i : 5 + 2 * i].ravel() for i in range(5)]).astype(np.int32)
    for n in range(3):
        w = tile.wgt.reshape(-1, C)[7 + n : 7 + n + 2 * C].astype(np.int32)
        assert np.array_equal(tile.acc[1 + 5 * n : 6 + 5 * n], a @ w)
