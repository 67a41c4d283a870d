"""dpu_fp_pkg, dpu_func and dpu_recip against ir/numerics.py: equal bits on directed and random arguments."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import pytest
from dpu.ir import numerics as nu
from dpu.ir.functions import GateTable, coefficients_crc, table_from_image
from dpu.ir.isa import Function

from . import arguments, vectors

QUICK, CAMPAIGN = 100_000, 3_000_000


def equal(where: str, got: Any, want: Any, *given: Any) -> None:
    want = vectors.bits(want)
    bad = np.flatnonzero(got != want)
    if len(bad):
        shown = [
            f"({', '.join(f'{int(vectors.bits(g)[k]):08x}' for g in given)}): {got[k]:08x}, not {want[k]:08x}"
            for k in bad[:6]
        ]
        pytest.fail(f"{where}: {len(bad)} of {len(got)} wrong\n" + "\n".join(shown), pytrace=False)


def _u8(x: Any) -> Any:
    return x.view(np.uint8).astype(np.uint32)


def check_arithmetic(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    for name, a, b in arguments.sums(rng, n):
        equal(f"fadd, {name}", vectors.combinational("fadd", a, b), nu.fadd(a, b), a, b)
        equal(f"fmax, {name}", vectors.combinational("fmax", a, b), nu.fmax(a, b), a, b)
        equal(f"ftz, {name}", vectors.combinational("ftz", a), nu.ftz(a), a)
        x, y = np.abs(a), np.abs(b)
        equal(f"fadd_positive, {name}", vectors.combinational("fadd_positive", x, y), nu.fadd(x, y), x, y)
        maximum = np.arange(len(a)) % 2 == 0
        either = np.where(maximum, vectors.bits(nu.fmax(a, b)), vectors.bits(nu.fadd(a, b)))
        equal(f"fmax_or_add, {name}", vectors.combinational("fmax_or_add", a, b, sign=maximum), either, a, b)
    for name, a, b in arguments.products(rng, n):
        equal(f"fmul, {name}", vectors.combinational("fmul", a, b), nu.fmul(a, b), a, b)
        equal(f"fmul_split, {name}", vectors.combinational("fmul_split", a, b), nu.fmul(a, b), a, b)


@np.errstate(invalid="ignore")
def check_conversions(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    for name, x in arguments.conversions(rng, n):
        nan = np.isnan(x).astype(np.uint32)
        half, overflows = nu.f32_to_f16(x)
        got = vectors.combinational("to_f16", x)
        equal(f"f32_to_f16, {name}", got & 0xFFFF, half.view(np.uint16).astype(np.uint32), x)
        over = (np.abs(x) >= nu.F16_OVERFLOW).astype(np.uint32)
        equal(f"f32_to_f16 overflow, {name}", got >> 16, over, x)
        assert int((got >> 16).sum()) == overflows
        for op, offset in (("to_i8", False), ("to_i8_offset", True)):
            q, nans = nu.f32_to_i8(x, offset)
            got = vectors.combinational(op, x)
            equal(f"{op}, {name}", got, _u8(q) | nan << 8, x)
            assert int((got >> 8).sum()) == nans
        hi, lo, nans = nu.f32_to_i15(x)
        got = vectors.combinational("to_i15", x)
        equal(f"f32_to_i15, {name}", got, _u8(lo) | _u8(hi) << 8 | nan << 16, x)
        assert int((got >> 16).sum()) == nans


def check_integers(seed: int, n: int) -> None:
    d = arguments.differences(np.random.default_rng(seed), n)
    got = vectors.combinational("i33", d.astype(np.uint64).astype(np.uint32), sign=d < 0)
    equal("i33_to_f32", got, d.astype(np.float32), d.astype(np.uint64).astype(np.uint32))  # as the simulator's `sub`
    x = d[(d >= -(2**31)) & (d < 2**31)].astype(np.int32)
    equal("i32_to_f32", vectors.combinational("i32", x), nu.i32_to_f32(x), x)


def load(slot: int, table: GateTable) -> None:
    vectors.load_table(slot, nu.table_image(table))


def check_functions(seed: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    tables = list(nu.GATES.values())
    for name, x in arguments.functions(rng, n):
        equal(f"none, {name}", vectors.unit("func", Function.NONE, x), x, x)
        equal(f"exp2, {name}", vectors.unit("func", Function.EXP2, x), nu.exp2(x), x)
        equal(f"recip, {name}", vectors.unit("recip", 0, x, holes=20), nu.recip(x), x)
        equal(f"rsqrt, {name}", vectors.unit("recip", 1, x), nu.rsqrt(x), x)
        for k, table in enumerate(tables):
            load(k & 1, table)
            equal(f"{table.name}, {name}", vectors.unit("func", Function.GATE, x, k & 1), nu.gate(x, table), x)
            got = vectors.unit("func", Function.GATE_MUL, x, k & 1)
            equal(f"x {table.name}, {name}", got, nu.gate_mul(x, table), x)


def check_mixed(seed: int, n: int) -> None:
    """Functions and slots change from one argument to the next, with holes between."""
    rng = np.random.default_rng(seed)
    tables = [nu.GATES["sigmoid"], nu.GATES["phi"]]
    for slot, table in enumerate(tables):
        load(slot, table)
    x = np.concatenate([x for _, x in arguments.functions(rng, n)])
    code = rng.integers(0, 6, len(x))
    slot = rng.integers(0, 2, len(x))
    want = np.array(x)
    want[code == Function.EXP2] = nu.exp2(x[code == Function.EXP2])
    for s, table in enumerate(tables):
        for function, reference in ((Function.GATE, nu.gate), (Function.GATE_MUL, nu.gate_mul)):
            at = (code == function) & (slot == s)
            want[at] = reference(x[at], table)
    equal("mixed functions", vectors.unit("func", code, x, slot, holes=100), want, code, slot, x)
    kind = rng.integers(0, 2, len(x))
    want = np.where(kind == 1, nu.rsqrt(x).view(np.uint32), nu.recip(x).view(np.uint32))
    equal("mixed recip, rsqrt", vectors.unit("recip", kind, x, holes=100), want, kind, x)


def random_table(rng: np.random.Generator) -> GateTable:
    """A legal gate table with coefficients of any size, so that clamping and every shift are met."""
    while True:
        lg, n = int(rng.integers(0, 5)), 2 ** int(rng.integers(1, 9))
        f1 = int(rng.integers(16, 25))
        f2 = int(rng.integers(max(0, f1 - 8), f1 + 1))
        sizes = [2 ** int(rng.integers(4, bits)) for bits in (28, 22, 16)]
        c0, c1, c2 = (rng.integers(-size + 1, size, n) for size in sizes)
        try:
            return GateTable("random", lg, c0, c1, c2, f1, f2, 24, coefficients_crc(c0, c1, c2))
        except ValueError:  # a shift would be negative
            continue


def check_tables(seed: int, count: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(count):
        table = random_table(rng)
        assert table_from_image(nu.table_image(table)).rb == table.rb
        slot = int(rng.integers(0, 2))
        load(slot, table)
        x = arguments.around(rng, n, 2.0 ** (table.lg - 12), 2.0 ** (table.lg + 1))
        what = f"lg {table.lg}, {len(table.c0)} entries, f1 {table.f1}, f2 {table.f2}"
        equal(f"gate, {what}", vectors.unit("func", Function.GATE, x, slot), nu.gate(x, table), x)


def test_arithmetic() -> None:
    check_arithmetic(1, QUICK)


def test_conversions() -> None:
    check_conversions(2, QUICK)


def test_integers() -> None:
    check_integers(3, QUICK)


def test_every_float16() -> None:
    h = np.arange(1 << 16, dtype=np.uint16)
    equal("f16_to_f32", vectors.combinational("from_f16", h), nu.f16_to_f32(h.view(np.float16)), h)
    finite = (h & 0x7C00) != 0x7C00
    back = vectors.combinational("to_f16", nu.f16_to_f32(h.view(np.float16)))
    equal("there and back", back[finite], h[finite].astype(np.uint32), h[finite])


def test_functions() -> None:
    check_functions(4, QUICK // 4)


def test_functions_in_turn() -> None:
    check_mixed(5, QUICK // 4)


def test_random_tables() -> None:
    check_tables(6, 40, 2000)


def test_boundaries_of_the_recip_mantissa() -> None:
    """All exponents with mantissas at the ends of every table piece."""
    piece = np.arange(128, dtype=np.uint32) << np.uint32(16)
    m = np.concatenate([piece, piece + np.uint32(1), piece + np.uint32(0xFFFF)])
    x = (m[None, :] | (np.arange(256, dtype=np.uint32) << np.uint32(23))[:, None]).ravel()
    x = np.concatenate([x, x | np.uint32(1 << 31)]).view(np.float32)
    equal("recip", vectors.unit("recip", 0, x), nu.recip(x), x)
    equal("rsqrt", vectors.unit("recip", 1, x), nu.rsqrt(x), x)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [101, 102])
def test_campaign(seed: int) -> None:
    check_arithmetic(seed, CAMPAIGN)
    check_conversions(seed, CAMPAIGN)
    check_integers(seed, CAMPAIGN)
    check_functions(seed, CAMPAIGN // 4)
    check_mixed(seed, CAMPAIGN // 4)
    check_tables(seed, 1000, 10_000)


@pytest.mark.slow
def test_sweeps_of_the_numerics_page() -> None:
    """The outputs on the fitting sweeps have the checksums that docs/numerics.md gives."""
    k = np.arange(1, 1 << 24)
    y = vectors.unit("func", Function.EXP2, (-k / 2.0**24).astype(np.float32))
    assert zlib.crc32(y.astype("<u4").tobytes()) == 0xE56EF3C1
    m = np.arange(1 << 23, dtype=np.uint32)
    one, two = (m | np.uint32(e << 23) for e in (127, 128))
    y = vectors.unit("recip", 0, one.view(np.float32))
    assert zlib.crc32(y.astype("<u4").tobytes()) == 0x0D6E4287
    y = vectors.unit("recip", 1, np.concatenate([one, two]).view(np.float32))
    assert zlib.crc32(y.astype("<u4").tobytes()) == 0x16F7ED5B


@pytest.mark.slow
@pytest.mark.parametrize("name", nu.GATES)
def test_every_point_of_a_gate(name: str) -> None:
    """All 2^(20+lg) arguments a gate tells apart, of both signs."""
    table = nu.GATES[name]
    load(0, table)
    v = np.arange(1 << 20 + table.lg) * 2.0**-20
    for sign in (1.0, -1.0):
        x = (sign * v).astype(np.float32)
        equal(name, vectors.unit("func", Function.GATE, x), nu.gate(x, table), x)
        equal(f"x {name}", vectors.unit("func", Function.GATE_MUL, x), nu.gate_mul(x, table), x)
