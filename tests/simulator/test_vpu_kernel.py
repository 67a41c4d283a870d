"""Compiled VEC words against numpy's: the same bytes, counters and faults for random words over wild memories."""

import dataclasses

import numpy as np
import pytest
from dpu.ir import numerics as nu
from dpu.ir.arch import load_arch
from dpu.ir.isa import Buffer, Format, Function, Op2, Opcode, Operand, Reduce, pack, word
from dpu.simulator import threads, vpu, vpu_numpy
from dpu.simulator.decode import decode
from dpu.simulator.state import Fault, Tally, Tile

TINY, F2 = load_arch("dpu_tiny"), load_arch("dpu_f2")
F = np.float32
SPECIAL = np.array(
    [0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345, 0x7F800001, 1, 0x807FFFFF, 0x00800000, 0, 0x80000000, 0x7F7FFFFF],
    np.uint32,
)
"""Infinities, NaN with payloads, subnormals, the least normal, zeros, the largest."""

A = [pack(Buffer.ACC, Format.I32), pack(Buffer.PARAM, Format.I32), pack(Buffer.PARAM, Format.F32)]
A += [pack(Buffer.VBUF, Format.F16), pack(Buffer.VBUF, Format.F32)]
D = [pack(Buffer.ACT, x) for x in (Format.I8, Format.I8_OFFSET, Format.I15_SPLIT)]
D += [pack(Buffer.VBUF, Format.F16), pack(Buffer.VBUF, Format.F32), pack(Buffer.PARAM, Format.F32)]
D += [pack(Buffer.NONE, x) for x in Format]
GATES = list(nu.GATES.values())


def floats(rng: np.random.Generator, size: int, style: int) -> np.ndarray:
    """Ordinary values, all magnitudes, any bits, or many special values."""
    x = (rng.standard_normal(size) * (1 if style == 0 else 10.0 ** rng.integers(-46, 39, size))).astype(F)
    if style == 2:
        x = rng.integers(0, 1 << 32, size, np.uint32).view(F)
    if style == 3:
        x = np.where(rng.random(size) < 0.2, rng.choice(SPECIAL, size).view(F), x)
    return x


@np.errstate(all="ignore")
def fill(tile: Tile, rng: np.random.Generator, style: int) -> None:
    tile.act[:] = rng.integers(-128, 128, tile.act.size, np.int8)
    top = 1 << 31 if style else 4000
    tile.acc[:] = rng.integers(-top, top, tile.acc.shape)
    half = tile.vbuf.size // 8 * 4
    tile.vbuf[:half].view(np.float16)[:] = floats(rng, half // 2, min(style, 1))
    if style >= 2:
        tile.vbuf[: half // 2].view(np.uint16)[:] = rng.integers(0, 1 << 16, half // 4)
    tile.vbuf[half:].view(F)[:] = floats(rng, (tile.vbuf.size - half) // 4, style)
    tile.param_f[:] = floats(rng, tile.param_f.size, style)
    tile.param_i[: tile.param_i.size // 8] = rng.integers(-4000, 4000, tile.param_i.size // 8)
    tile.tables[0], tile.tables[1] = (GATES[i] for i in rng.integers(0, len(GATES), 2))


def draw(rng: np.random.Generator, tile: Tile) -> np.ndarray:
    """One random word: mostly legal, in place or overlapping now and then."""
    c = tile.cols
    rows, tiles, valid = int(rng.integers(1, 40)), int(rng.integers(1, 4)), int(rng.integers(1, c + 1))
    if rng.random() < 0.3:
        valid = c
    f = {"rows": rows, "tiles": tiles, "valid": valid}
    f |= {"a_src": int(rng.choice(A)), "b_src": int(rng.choice(A)), "d_src": int(rng.choice(D))}

    def place(name: str) -> None:
        src = f[f"{name}_src"]
        buffer = src & 15
        unit = c if buffer == Buffer.PARAM else 2 if src >> 4 == Format.F32 else 1
        planes = 2 if src >> 4 == Format.I15_SPLIT else 1
        size = tile.words[Buffer(buffer)] if buffer != Buffer.NONE else 1 << 14
        low = size // 2 if src == pack(Buffer.VBUF, Format.F32) and rng.random() < 0.8 else 0
        need = unit * tiles * planes * rows
        at = int(rng.integers(low, max(low + 1, size - need))) & ~(unit - 1 if unit < 3 else 0)
        rs, ts = (unit * tiles * planes, unit) if rng.random() < 0.5 else (unit, unit * rows)
        if buffer == Buffer.PARAM and tiles == 1 and rng.random() < 0.5:
            rs = int(rng.integers(0, c + 2))
        if rng.random() < 0.03:
            rs = int(rng.integers(0, 5))
        f.update({name: min(at, 65535), f"{name}_rs": rs, f"{name}_ts": ts})

    for name in "abd":
        place(name)
    for name in "ab":  # in place, or nearly so
        if f[f"{name}_src"] == f["d_src"] and rng.random() < 0.5:
            f |= {"d": f[name] + int(rng.integers(0, 3) == 2), "d_rs": f[f"{name}_rs"], "d_ts": f[f"{name}_ts"]}
    kinds = [Operand.NONE, Operand.IMM0, Operand.IMM1, Operand.ROW, Operand.COL]
    one = lambda more=(): rng.choice([*kinds, Operand.NONE, *more])  # noqa: E731
    f |= {"m1": pack(one(), one()), "m2": pack(one([Operand.ELEM]), one([Operand.ELEM])), "rq": int(one())}
    second = rng.choice([Operand.ELEM, Operand.IMM0, Operand.IMM1])
    f["op2"] = pack(rng.choice(Op2), second)
    f["func"] = pack(rng.choice([*Function, Function.NONE]), int(rng.integers(0, 2)))
    f["sub"] = int(f["a_src"] >> 4 == Format.I32 and rng.random() < 0.4)
    f["red"] = (
        int(rng.choice([*Reduce])) | int(rng.choice([0, 16])) | int(rng.choice([0, 0, 32])) | int(rng.choice([0, 64]))
    )
    size = tile.words[Buffer.PARAM] - 3 * tiles * c
    for name in ("a1", "b1", "a2", "b2", "r", "sub_at", "red_at"):
        f[name] = int(rng.integers(0, size))
    f["imm"] = floats(rng, 2, int(rng.choice([0, 0, 1, 3])))
    if rng.random() < 0.04:  # something illegal
        name = str(rng.choice(["rows", "tiles", "valid", "a_src", "d_src", "m1", "op2", "func", "rq", "red", "a", "d"]))
        f[name] = int(rng.integers(0, 256))
    return word(Opcode.VEC, **f)


def outcome(execute, tile: Tile, w: tuple) -> tuple:
    tally = Tally()
    try:
        execute(tile, w, tally)
        fault = ("", "")
    except Fault as e:
        fault = (e.code, e.what)
    return fault, dataclasses.astuple(tally), {b: m.tobytes() for b, m in tile.memory.items()}


def compare(rng: np.random.Generator, arch, words: int, style: int) -> None:
    one, two = Tile(arch), Tile(arch)
    fill(one, rng, style)
    two.tables = list(one.tables)
    for b, m in one.memory.items():
        two.memory[b][:] = m
    for _ in range(words):
        w = draw(rng, one)
        (decoded,) = decode(w)
        want, got = outcome(vpu_numpy.vector, one, decoded), outcome(vpu.kernel, two, decoded)
        assert got[:2] == want[:2], w
        for b in want[2]:
            assert got[2][b] == want[2][b], (Buffer(b), w)


@pytest.mark.parametrize("style", range(4))
def test_random_words_are_equal_to_numpys(style: int) -> None:
    for seed in range(40):
        compare(np.random.default_rng((seed, style)), TINY, 40, style)


@pytest.mark.parametrize("style", [0, 3])
def test_random_words_on_wide_tiles(style: int) -> None:
    for seed in range(3):
        compare(np.random.default_rng((seed, style)), F2, 15, style)


def test_threads_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "_count", 3)
    monkeypatch.setattr(vpu, "SHARE", 16)
    for seed in range(30):
        compare(np.random.default_rng((seed, 77)), TINY, 30, seed % 4)


def arithmetic(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """a * b + c of one row, in and out by PARAM: the kernel's, and one operation after the other."""
    tile, n = Tile(F2), len(a)
    for at, x in ((0, a), (n, b), (2 * n, c)):
        tile.param_f[at : at + n] = x
    source = pack(Buffer.PARAM, Format.F32)
    f = {"rows": 1, "tiles": n // F2.cols, "valid": F2.cols, "a_ts": F2.cols, "d_ts": F2.cols, "d": 3 * n}
    f |= {"a_src": source, "d_src": source, "m1": pack(Operand.COL, Operand.COL), "a1": n, "b1": 2 * n}
    (w,) = decode(word(Opcode.VEC, **f))
    vpu.kernel(tile, w, Tally())
    return tile.param_f[3 * n : 4 * n].copy(), nu.fadd(nu.fmul(a, b), c)


def test_products_are_rounded_before_they_are_added() -> None:
    """c = -(a * b) rounded: a fused multiply-add gives the rounding error, two operations give zero."""
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(4096).astype(F) for _ in range(2))
    got, want = arithmetic(a, b, -(a * b))
    assert got.tobytes() == want.tobytes()
    assert not got.any()
    assert np.any((a.astype(np.float64) * b + -(a * b).astype(np.float64)).astype(F))


def test_a_product_that_rounds_up_to_the_least_normal_stays() -> None:
    a = np.full(64, 1 - 2.0**-24, F)
    b = np.full(64, 2.0**-126, F)
    got, want = arithmetic(a, b, np.zeros(64, F))
    assert got.tobytes() == want.tobytes()
