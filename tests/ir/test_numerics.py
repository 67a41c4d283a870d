"""The numerics chapter, checked: against scalar Python, against exact values, against published checksums."""

import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
from dpu.ir import functions, numerics
from dpu.ir.functions import GATES, GateTable, function_table, table_from_image, table_image
from hypothesis import given, settings
from hypothesis import strategies as st

F32 = np.float32
QNAN = 0x7FC00000
MIN_NORMAL = 2.0**-126
INF = F32(np.inf)
NAN = F32(np.nan)

SPECIAL_BITS = [0x00000000, 0x80000000, 0x00000001, 0x807FFFFF, 0x00800000, 0x80800001, 0x7F800000, 0xFF800000]
SPECIAL_BITS += [0x7FC00000, 0xFFC00001, 0x7F800001, 0x3F800000, 0xBF800000, 0x7F7FFFFF, 0x1F800000, 0x5F800000]

many = settings(max_examples=200, deadline=None)


def f32(*values: float) -> np.ndarray:
    return np.array(values, F32)


def bits(x: np.ndarray) -> np.ndarray:
    return np.asarray(x).view(np.uint32 if x.dtype == F32 else np.uint16)


def assert_same_bits(x: np.ndarray, y: np.ndarray) -> None:
    assert x.dtype == y.dtype and x.shape == y.shape
    np.testing.assert_array_equal(bits(x), bits(y))


def sample(seed: int, shape: tuple[int, ...], kind: str) -> np.ndarray:
    """Values of one kind.

    `tiny`: subnormal sums, products and values; `edge`: normal values whose sums are subnormal; `zeros`: of both signs
    among negative values; `bits`: any pattern and specials.
    """
    rng = np.random.default_rng(seed)
    if kind == "normal":
        return rng.standard_normal(shape).astype(F32) * F32(3)
    if kind == "tiny":
        return (rng.choice([-1, 0, 1], shape) * np.exp2(rng.uniform(-130, -60, shape))).astype(F32)
    if kind == "edge":
        exponent = rng.integers(-126, rng.choice([-124, -100]), shape)
        return (rng.choice([-1, 1], shape) * np.ldexp(rng.uniform(1, 2, shape), exponent)).astype(F32)
    if kind == "zeros":
        return rng.choice(f32(0.0, -0.0, -0.0, -0.0, -1e-40, -1.0), shape)
    any_bits = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    special = np.array(SPECIAL_BITS, np.uint32)[rng.integers(0, len(SPECIAL_BITS), shape)]
    return np.where(rng.random(shape) < 0.3, special, any_bits).astype(np.uint32).view(F32)


# A scalar implementation that shares nothing with the product: doubles, rounded once (53 >= 2 * 24 + 2 bits).


def canonical(x: float) -> F32:
    with np.errstate(all="ignore"):
        y = F32(x)
    if y != y:
        return np.uint32(QNAN).view(F32)
    return F32(math.copysign(0.0, y)) if abs(float(y)) < MIN_NORMAL else y


def s_add(a: float, b: float) -> F32:
    return canonical(float(canonical(a)) + float(canonical(b)))


def s_mul(a: float, b: float) -> F32:
    return canonical(float(canonical(a)) * float(canonical(b)))


def s_max(a: float, b: float) -> F32:
    a, b = canonical(a), canonical(b)
    if a != a or b != b:
        return canonical(math.nan)
    if a == b:
        return b if np.signbit(a) else a
    return a if a > b else b


def s_tree(values: list[F32]) -> F32:
    while len(values) & (len(values) - 1):
        values = [*values, F32(0)]
    while len(values) > 1:
        values = [s_add(values[k], values[k + 1]) for k in range(0, len(values), 2)]
    return canonical(values[0])


def s_row_sum(row: list[F32], cols: int, init: F32 | None) -> F32:
    acc = init
    for at in range(0, len(row), cols):
        tile = row[at : at + cols]
        tree = s_tree(tile + [F32(0)] * (cols - len(tile)))
        acc = tree if acc is None else s_add(acc, tree)
    return canonical(acc)


def s_col_sum(column: list[F32], init: F32 | None) -> F32:
    acc: list[F32 | None] = [None] * 8
    for i, x in enumerate(column):
        acc[i % 8] = x if acc[i % 8] is None else s_add(acc[i % 8], x)
    tree = s_tree([F32(0) if a is None else a for a in acc])
    return tree if init is None else s_add(init, tree)


# ------------------------------------------------------------------------------------------------------ conversions


def test_every_float16_survives_float32_and_back() -> None:
    h = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    wide = numerics.f16_to_f32(h)
    back, overflows = numerics.f32_to_f16(wide)
    finite = np.isfinite(h)
    assert_same_bits(back[finite], h[finite])
    assert overflows == 2  # the two infinities
    assert set(back[np.isinf(h)].tolist()) == {65504.0, -65504.0}
    assert np.all(bits(back[np.isnan(h)]) == 0x7E00)
    assert np.all(bits(wide[np.isnan(h)]) == QNAN)
    exact = [math.ldexp(m, -24) for m in range(1, 1024)]
    assert wide[1:1024].tolist() == exact, "float16 subnormals are kept"


def test_float16_rounds_half_to_even_between_all_neighbours() -> None:
    h = np.arange(0x7BFF, dtype=np.uint16)  # each pair of finite neighbours from 0
    low, high = h.view(np.float16).astype(np.float64), (h + np.uint16(1)).view(np.float16).astype(np.float64)
    middle = ((low + high) / 2).astype(F32)  # exact
    even = np.where(h & 1 == 0, h, h + 1).astype(np.uint16)
    for sign in (1, -1):
        top = np.uint16(0 if sign == 1 else 0x8000)
        tie, _ = numerics.f32_to_f16(F32(sign) * middle)
        below, _ = numerics.f32_to_f16(F32(sign) * np.nextafter(middle, F32(0)))
        above, _ = numerics.f32_to_f16(F32(sign) * np.nextafter(middle, INF))
        np.testing.assert_array_equal(bits(tie), even | top)
        np.testing.assert_array_equal(bits(below), h | top)
        np.testing.assert_array_equal(bits(above), (h + np.uint16(1)) | top)


def test_float16_overflow_saturates_and_counts() -> None:
    under = np.nextafter(F32(65520), F32(0))
    y, overflows = numerics.f32_to_f16(f32(65504, under, -under, 65520, -65520, 1e30, -np.inf, np.inf, np.nan, -1))
    assert overflows == 5
    assert y[:-2].tolist() == [65504, 65504, -65504, 65504, -65504, 65504, -65504, 65504]
    assert bits(y)[-2] == 0x7E00 and y[-1] == -1


def test_every_int8_and_the_points_between() -> None:
    q = np.arange(-128, 128, dtype=np.int8)
    for offset in (False, True):
        low = -128 if offset else -127
        for shift, expected in ((0.0, q), (0.25, q), (-0.25, q), (0.5, np.rint(q + 0.5)), (-0.5, np.rint(q - 0.5))):
            got, nan_count = numerics.f32_to_i8(q.astype(F32) + F32(shift), offset=offset)
            np.testing.assert_array_equal(got, np.clip(np.asarray(expected, np.int32), low, 127))
            assert got.dtype == np.int8 and nan_count == 0


def test_int8_special_values() -> None:
    got, nan_count = numerics.f32_to_i8(f32(np.nan, np.inf, -np.inf, 1e-40, -0.0, 127.5, -127.5, 2.5, 3.5, np.nan))
    assert got.tolist() == [0, 127, -127, 0, 0, 127, -127, 2, 4, 0] and nan_count == 2
    assert numerics.f32_to_i8(f32(-np.inf, -127.6, -127.4), offset=True)[0].tolist() == [-128, -128, -127]


def test_every_15_bit_value_splits_into_two_balanced_planes() -> None:
    x = np.arange(-16400, 16401)
    hi, lo, nan_count = numerics.f32_to_i15(x.astype(F32))
    assert nan_count == 0 and hi.dtype == lo.dtype == np.int8
    np.testing.assert_array_equal(128 * hi.astype(int) + lo, np.clip(x, -16319, 16319))
    assert (hi.min(), hi.max(), lo.min(), lo.max()) == (-127, 127, -64, 63)
    hi, lo, nan_count = numerics.f32_to_i15(f32(np.nan, np.inf, -np.inf, 0.5, 1.5))
    assert (128 * hi.astype(int) + lo).tolist() == [0, 16319, -16319, 0, 2] and nan_count == 1


def test_int32_to_float32_rounds_to_nearest_even() -> None:
    rng = np.random.default_rng(1)
    near = (1 << 24) + np.arange(-4, 12)
    x = np.concatenate([near, -near, 5 * near, rng.integers(-(1 << 31), 1 << 31, 100_000), [-(1 << 31), (1 << 31) - 1]])
    np.testing.assert_array_equal(numerics.i32_to_f32(x.astype(np.int32)), x.astype(np.float64).astype(F32))
    assert numerics.i32_to_f32(np.array([16777217, 16777219], np.int32)).tolist() == [16777216, 16777220]


# ----------------------------------------------------------------------------------------------- float32 operations


@many
@given(
    seed=st.integers(0, 1 << 30), kinds=st.tuples(*[st.sampled_from(["normal", "tiny", "edge", "zeros", "bits"])] * 2)
)
def test_operations_are_one_ieee_operation_with_flushed_ends(seed: int, kinds: tuple[str, str]) -> None:
    a, b = sample(seed, (7, 9), kinds[0]), sample(seed + 1, (9,), kinds[1])
    for op, scalar in ((numerics.fadd, s_add), (numerics.fmul, s_mul), (numerics.fmax, s_max)):
        expected = np.array([[scalar(x, y) for x, y in zip(row, b, strict=True)] for row in a], F32)
        assert_same_bits(op(a, b), expected)
    assert_same_bits(numerics.ftz(a), np.array([[canonical(x) for x in row] for row in a], F32))
    assert_same_bits(numerics.fmul(a, a), np.array([[s_mul(x, x) for x in row] for row in a], F32))


def test_a_subnormal_is_flushed_after_rounding_and_as_an_operand() -> None:
    one_below = F32(1) - F32(2**-24)
    least = F32(MIN_NORMAL)
    assert numerics.fmul(f32(one_below), f32(least)) == least, "rounds up to the least normal: kept"
    assert numerics.fmul(f32(F32(1) - F32(2**-23)), f32(least)) == 0
    assert_same_bits(numerics.fmul(f32(1e-40), f32(1e30)), f32(0.0))
    assert_same_bits(numerics.fmul(f32(-1e-40), f32(np.inf)), np.array([QNAN], np.uint32).view(F32))
    assert_same_bits(numerics.fadd(f32(3e-38), f32(-2.9e-38)), f32(0.0))
    assert_same_bits(numerics.fmax(f32(-0.0, -0.0, -1e-40), f32(0.0, -0.0, -1)), f32(0.0, -0.0, -0.0))


def test_one_special_in_a_large_array_is_not_missed() -> None:
    x = np.ones((64, 2000), F32)
    x[37, 1999] = 1e-40
    assert numerics.ftz(x)[37, 1999] == 0 and numerics.fmul(x, f32(1e30))[37, 1999] == 0
    assert numerics.fadd(x, f32(0))[37, 1999] == 0
    x[37, 1999] = np.array(0xFFC00001, np.uint32).view(F32)
    for y in (numerics.ftz(x), numerics.fmul(x, x), numerics.fadd(x, x), numerics.fmax(x, x)):
        assert bits(y)[37, 1999] == QNAN and np.isnan(y).sum() == 1


# -------------------------------------------------------------------------------------------------------- functions

SPECIAL_VALUES = {
    "exp2": [
        (np.nan, np.nan), (-np.inf, 0), (np.inf, np.inf), (128, np.inf), (np.nextafter(F32(-126), -INF), 0),
        (-126, MIN_NORMAL), (0, 1), (-0.0, 1), (1e-40, 1), (-1e-40, 1), (1, 2), (-1, 0.5), (127, 2.0**127),
    ],
    "recip": [
        (np.nan, np.nan), (0, np.inf), (-0.0, -np.inf), (1e-40, np.inf), (-1e-40, -np.inf), (np.inf, 0),
        (-np.inf, -0.0), (1, 1), (-2, -0.5), (2.0**126, 2.0**-126), (2.0**127, 0), (-(2.0**127), -0.0),
        (2.0**-126, 2.0**126),
    ],
    "rsqrt": [
        (np.nan, np.nan), (0, np.inf), (-0.0, np.inf), (1e-40, np.inf), (-1e-40, np.inf), (np.inf, 0),
        (-np.inf, np.nan), (-1, np.nan), (1, 1), (4, 0.5), (2.0**-126, 2.0**63), (2.0**126, 2.0**-63),
    ],
}  # fmt: skip


@pytest.mark.parametrize("name", SPECIAL_VALUES)
def test_special_values(name: str) -> None:
    x, y = (np.array(v, F32) for v in zip(*SPECIAL_VALUES[name], strict=True))
    y = np.where(np.isnan(y), np.array(QNAN, np.uint32).view(F32), y)
    assert_same_bits(getattr(numerics, name)(x), y)
    for value, expected in zip(x, y, strict=True):  # alone too, not only among others
        assert_same_bits(getattr(numerics, name)(np.array(value, F32)), np.array(expected, F32))


@pytest.mark.parametrize("name", GATES)
def test_gate_special_values(name: str) -> None:
    table = GATES[name]
    x = f32(np.nan, -np.inf, np.inf, 0.0, -0.0, 1e-40, -1e-40)
    t, y = numerics.gate(x, table), numerics.gate_mul(x, table)
    half = float(table.c0[0]) / 2**24
    far = float(min(table.c0[-1], 2**24)) / 2**24
    assert bits(t)[0] == bits(y)[0] == QNAN
    assert t[1:].tolist() == [1 - far, far, half, 1 - half, half, 1 - half]
    assert_same_bits(y[1:], f32(0.0, np.inf, 0.0, -0.0, 0.0, -0.0))
    x = np.linspace(-20, 20, 4001).astype(F32)
    total = numerics.gate(x, table).astype(float) + numerics.gate(-x, table)
    np.testing.assert_array_equal(total, 1.0)  # T(-x) = 1 - T(x), exactly


def ulps(y: np.ndarray, exact: np.ndarray) -> float:
    scale = np.exp2(np.floor(np.log2(np.abs(exact))) - 23)
    return float(np.max(np.abs(y.astype(np.float64) - exact) / scale))


def test_functions_stay_within_their_published_error() -> None:
    rng = np.random.default_rng(2)
    x = np.concatenate([rng.uniform(-126, 127, 100_000), np.exp2(rng.uniform(-30, 0, 50_000))]).astype(F32)
    assert ulps(numerics.exp2(x), np.exp2(x.astype(float))) <= 0.83
    x = np.exp2(rng.uniform(-125, 125, 150_000)).astype(F32)
    assert ulps(numerics.recip(x), 1 / x.astype(float)) <= 0.87
    assert ulps(numerics.rsqrt(x), 1 / np.sqrt(x.astype(float))) <= 1.22


def test_gates_stay_within_their_published_error() -> None:
    x = np.linspace(-30, 30, 200_001).astype(F32)
    xd = x.astype(float)
    erfc = np.vectorize(math.erfc)
    with np.errstate(over="ignore"):
        silu = xd / (1 + np.exp(-xd))
        quick = xd / (1 + np.exp(-1.702 * xd))
        tanh_gelu = xd / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (xd + 0.044715 * xd**3)))
    assert np.max(np.abs(numerics.gate_mul(x, GATES["sigmoid"]) - silu)) <= 3.82e-6
    assert np.max(np.abs(numerics.gate_mul(x, GATES["phi"]) - xd * 0.5 * erfc(-xd / math.sqrt(2)))) <= 7.8e-7
    assert np.max(np.abs(numerics.gate_mul(x, GATES["tanh_gelu"]) - tanh_gelu)) <= 7.8e-7
    assert np.max(np.abs(numerics.gate_mul(x, GATES["quick_gelu"]) - quick)) <= 1.2e-6


def test_exp2_is_monotone_and_at_most_one_below_zero() -> None:
    x = np.sort(np.concatenate([np.random.default_rng(3).uniform(-127, 0, 300_000), np.arange(-127, 1)]).astype(F32))
    y = numerics.exp2(x)
    assert np.all(np.diff(y) >= 0) and y.max() == 1


def test_output_checksums_of_the_published_sweeps() -> None:
    """The exhaustive sweeps of the table's author, bit for bit (16.8 M, 8.4 M, 16.8 M and 5 M values)."""
    crc = lambda y: f"{zlib.crc32(y.tobytes()):08x}"  # noqa: E731
    assert crc(numerics.exp2((-np.arange(1, 1 << 24) / 2.0**24).astype(F32))) == "e56ef3c1"
    x = (np.arange(1 << 23, dtype=np.uint32) | np.uint32(0x3F800000)).view(F32)
    assert crc(numerics.recip(x)) == "0d6e4287"
    assert crc(np.concatenate([numerics.rsqrt(x), numerics.rsqrt(2 * x)])) == "16f7ed5b"
    rng = np.random.default_rng(0)
    for n in (4_000_000, 2_000_000):  # the draws that came before in the author's sweep
        rng.uniform(0, 1, n)
    rng.choice([-1, 1], 1_000_000)
    for n in (1_000_000, 2_000_000, 2_000_000):
        rng.uniform(0, 1, n)
    x = np.concatenate([np.linspace(-30, 30, 3_000_001), rng.standard_normal(2_000_000) * 3]).astype(F32)
    assert crc(numerics.gate_mul(x, GATES["sigmoid"])) == "482578b7"
    assert crc(numerics.gate_mul(x, GATES["phi"])) == "8b59f4eb"


PUBLISHED = {"exp2": "e230bd27", "recip": "da7911f8", "rsqrt": "3875a444", "sigmoid": "c6351437", "phi": "f3ce6414"}
PUBLISHED |= {"tanh_gelu": "7b8bdf24", "quick_gelu": "0cdfee7d"}


@pytest.mark.parametrize("name", PUBLISHED)
def test_tables_carry_the_published_checksums(name: str) -> None:
    table = GATES[name].table if name in GATES else function_table(name)
    assert f"{table.crc:08x}" == PUBLISHED[name]
    chapter = (Path(functions.__file__).parent.parent / "docs" / "numerics.md").read_text(encoding="utf-8")
    assert PUBLISHED[name] in chapter, "docs/numerics.md names every table's checksum"


def test_a_changed_coefficient_is_refused() -> None:
    entry = json.loads(functions.TABLE_FILE.read_text(encoding="utf-8"))["tables"]["phi"]
    c0, c1, c2 = (np.array(entry[c]) for c in ("c0", "c1", "c2"))
    c1[5] += 1
    with pytest.raises(ValueError, match=r"'phi': checksum .*, expected f3ce6414"):
        GateTable("phi", entry["lg"], c0, c1, c2, entry["f1"], entry["f2"], entry["of"], int(entry["crc32"], 16))


@pytest.mark.parametrize("name", ["exp2", *GATES])
def test_the_32_bit_evaluator_equals_the_defined_one(name: str) -> None:
    table, rb = (function_table(name), 20) if name == "exp2" else (GATES[name].table, GATES[name].rb)
    v = np.arange(0, len(table.c0) << rb, 11 if rb < 20 else 41)
    i, r = v >> rb, v & ((1 << rb) - 1)
    np.testing.assert_array_equal(table.narrow(rb)(i.astype(np.int32), r.astype(np.int32)), table.quadratic(i, r, rb))


@pytest.mark.parametrize("name", GATES)
def test_table_image_round_trip(name: str) -> None:
    image = table_image(GATES[name])
    assert image.dtype == np.uint8 and len(image) == functions.IMAGE_BYTES == 64 + 256 * 16
    back = table_from_image(image.tobytes())
    assert (back.name, back.lg, back.crc) == (name, GATES[name].lg, GATES[name].crc)
    x = np.linspace(-9, 9, 999).astype(F32)
    assert_same_bits(numerics.gate(x, back), numerics.gate(x, GATES[name]))
    entry = image[64 + 16 * 3 : 64 + 16 * 4].view("<i4")
    assert entry.tolist() == [GATES[name].c0[3], GATES[name].c1[3], GATES[name].c2[3], 0]


def test_any_flipped_byte_of_a_table_image_is_refused() -> None:
    image = table_image(GATES["sigmoid"])
    for at in range(0, len(image), 3):
        image[at] ^= 0x10
        with pytest.raises(ValueError, match="gate table"):
            table_from_image(image)
        image[at] ^= 0x10
    with pytest.raises(ValueError, match="4159 bytes"):
        table_from_image(image[:-1])


# ------------------------------------------------------------------------------------------------------- reductions

KINDS = st.sampled_from(["normal", "tiny", "edge", "zeros", "bits"])


@many
@given(st.integers(0, 1 << 30), st.integers(1, 70), KINDS)
def test_tree_sum_is_the_balanced_tree(seed: int, n: int, kind: str) -> None:
    x = sample(seed, (3, n), kind)
    expected = np.array([s_tree(list(row)) for row in x], F32)
    assert_same_bits(numerics.tree_sum(x), expected)
    assert_same_bits(numerics.tree_sum(x.T, axis=0), expected)


@many
@given(st.integers(0, 1 << 30), st.integers(1, 4), st.integers(1, 150), st.sampled_from([8, 64]), KINDS, st.booleans())
def test_row_sums_go_tile_by_tile(seed: int, rows: int, n: int, cols: int, kind: str, with_init: bool) -> None:
    x = sample(seed, (rows, n), kind)
    init = sample(seed + 1, (rows,), kind) if with_init else None
    start = [None] * rows if init is None else list(init)
    expected = [s_row_sum(list(row), cols, s) for row, s in zip(x, start, strict=True)]
    assert_same_bits(numerics.row_sum(x, cols, init), np.array(expected, F32))
    expected = [s_row_sum([s_mul(v, v) for v in row], cols, s) for row, s in zip(x, start, strict=True)]
    assert_same_bits(numerics.row_sum_sq(x, cols, init), np.array(expected, F32))


@many
@given(st.integers(0, 1 << 30), st.integers(1, 45), st.integers(1, 5), KINDS, st.booleans())
def test_column_sums_use_eight_interleaved_accumulators(
    seed: int, rows: int, n: int, kind: str, with_init: bool
) -> None:
    x = sample(seed, (rows, n), kind)
    init = sample(seed + 1, (n,), kind) if with_init else None
    start = [None] * n if init is None else list(init)
    expected = [s_col_sum(list(col), s) for col, s in zip(x.T, start, strict=True)]
    assert_same_bits(numerics.col_sum(x, init), np.array(expected, F32))
    expected = [s_col_sum([s_mul(v, v) for v in col], s) for col, s in zip(x.T, start, strict=True)]
    assert_same_bits(numerics.col_sum_sq(x, init), np.array(expected, F32))


@many
@given(st.integers(0, 1 << 30), st.integers(1, 20), st.integers(1, 20), KINDS, st.randoms(use_true_random=False))
def test_maxima_do_not_depend_on_the_order(seed: int, rows: int, n: int, kind: str, random) -> None:
    x = sample(seed, (rows, n), kind)
    order = list(range(n))
    random.shuffle(order)
    expected = []
    for row in x:
        m = canonical(row[0])
        for v in row[1:]:
            m = s_max(m, v)
        expected.append(m)
    y = np.array(expected, F32)
    assert_same_bits(numerics.row_max(x), y)
    assert_same_bits(numerics.row_max(x[:, order]), y)
    assert_same_bits(numerics.col_max(x.T), y)
    assert_same_bits(numerics.row_max(x, init=f32(*[1] * rows)), np.array([s_max(v, F32(1)) for v in y], F32))
    absolute = numerics.fmax(numerics.row_max(np.abs(x)), f32(2.0**-24))
    assert_same_bits(numerics.row_absmax(x), absolute)
    assert_same_bits(numerics.col_absmax(x.T[order]), absolute)


def test_an_all_zero_row_has_a_finite_reciprocal() -> None:
    amax = numerics.row_absmax(np.zeros((2, 64), F32))
    assert amax.tolist() == [2.0**-24] * 2 and np.all(numerics.recip(amax) == 2.0**24)


@pytest.mark.parametrize("kind", ["normal", "tiny", "edge"])
def test_blocks_inside_a_large_reduction_change_nothing(kind: str) -> None:
    x = sample(5, (300, 1000), kind)
    x[123, 456] = 1e-40
    rows = [0, 122, 123, 124, 299]
    part = numerics.row_sum(x, 64)[rows]
    assert_same_bits(part, np.array([s_row_sum(list(x[r]), 64, None) for r in rows], F32))
    columns = [0, 455, 456, 999]
    assert_same_bits(numerics.col_sum(x)[columns], np.array([s_col_sum(list(x[:, c]), None) for c in columns], F32))


def test_integer_sums_are_exact_to_their_bound() -> None:
    q = np.random.default_rng(6).integers(-128, 128, (300, 70)).astype(np.int8)
    np.testing.assert_array_equal(numerics.row_sum_i(q), q.astype(int).sum(axis=1))
    np.testing.assert_array_equal(numerics.col_sum_i(q, f32(*[5] * 70)), q.astype(int).sum(axis=0) + 5)
    low = np.full((131_072, 1), -128, np.int8)
    assert numerics.col_sum_i(low).tolist() == [-(2.0**24)]
    with pytest.raises(ValueError, match="not exact"):
        numerics.col_sum_i(np.full((131_073, 1), -128, np.int8))


# -------------------------------------------------------------------------------------------------- integer products


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1 << 30), st.integers(1, 20), st.integers(1, 2500), st.integers(1, 20))
def test_matrix_product_is_exact(seed: int, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    w = rng.integers(-127, 128, (k, n)).astype(np.int8)
    got = numerics.matmul_i8(a, w)
    assert got.dtype == np.int32
    np.testing.assert_array_equal(got, a.astype(np.int64) @ w.astype(np.int64))


@pytest.mark.parametrize("k", [1023, 1024, 1025, 2047, 23_040])
def test_matrix_product_at_its_extremes(k: int) -> None:
    a, w = np.full((3, k), -128, np.int8), np.full((k, 2), 127, np.int8)
    w[:, 1] = -127
    assert numerics.matmul_i8(a, w).tolist() == [[-128 * 127 * k, 128 * 127 * k]] * 3
    a[:], w[:, 0] = 127, 127  # an odd product: a float32 sum past 2^24 would lose its last bit
    assert numerics.matmul_i8(a, w)[0].tolist() == [127 * 127 * k, -127 * 127 * k]


def test_matrix_product_refuses_what_the_array_cannot_do() -> None:
    a, w = np.zeros((2, 4), np.int8), np.zeros((4, 2), np.int8)
    w[3, 1] = -128
    with pytest.raises(ValueError, match="stationary operand is -128"):
        numerics.matmul_i8(a, w)
    with pytest.raises(ValueError, match="of \\(2, 4\\) and \\(2, 4\\)"):
        numerics.matmul_i8(a, a)
    with pytest.raises(ValueError, match="takes int8"):
        numerics.matmul_i8(a.astype(np.int32), w)
    with pytest.raises(ValueError, match="overflow int32"):
        numerics.matmul_i8(np.zeros((1, 132_105), np.int8), np.zeros((132_105, 1), np.int8))


@many
@given(st.integers(0, 1 << 30), st.integers(1, 300), st.integers(1, 5))
def test_4_bit_weights_expand_by_their_group(seed: int, k: int, n: int) -> None:
    rng = np.random.default_rng(seed)
    q = rng.integers(-8, 8, (k, n)).astype(np.int8)
    g = rng.integers(-15, 16, (-(-k // 128), n)).astype(np.int8)
    w = numerics.expand_w4(q, g)
    assert w.dtype == np.int8 and np.abs(w.astype(int)).max() <= 120
    assert all(w[r, c] == int(q[r, c]) * int(g[r // 128, c]) for r in range(k) for c in range(n))


def test_4_bit_expansion_refuses_values_outside_its_format() -> None:
    q, g = np.zeros((129, 2), np.int8), np.ones((2, 2), np.int8)
    with pytest.raises(ValueError, match="g must be \\(2, 2\\), not \\(1, 2\\)"):
        numerics.expand_w4(q, g[:1])
    with pytest.raises(ValueError, match="outside \\[-8, 7\\]"):
        numerics.expand_w4(q + np.int8(8), g)
    with pytest.raises(ValueError, match="outside \\[-15, 15\\]"):
        numerics.expand_w4(q, g * np.int8(16))
