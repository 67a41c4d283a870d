"""dpu_vpu against the simulator: random words, every memory bit for bit; faults; what the pipeline may overlap."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from dpu.bench import mutation_run
from dpu.bench.mutation_nets import compile_net
from dpu.bench.rtl_vec_words import VecWords
from dpu.ir.arch import load_arch
from dpu.ir.isa import (
    RED_ACCUMULATE,
    RED_COLUMNS,
    RED_INTEGER,
    VEC,
    Buffer,
    Flag,
    Format,
    Function,
    Op2,
    Opcode,
    Operand,
    Reduce,
    pack,
    word,
)
from dpu.simulator import machine, vpu_numpy
from dpu.simulator.decode import Decoded, decode
from dpu.simulator.state import Tally, Tile

from . import vpu
from .vpu import Arch

HOLDS = [(0, 0, 0), (60, 60, 0), (128, 128, 128), (0, 200, 0), (200, 0, 100)]
SMALL = (16, 8)  # several beats a word, several parts a beat; the tile's own tests run 8 columns on 8 lanes
ACC, F16, F32 = pack(Buffer.ACC, Format.I32), pack(Buffer.VBUF, Format.F16), pack(Buffer.PARAM, Format.F32)


def vec_words(*fields: Mapping[str, Any]) -> np.ndarray:
    return np.concatenate([np.atleast_1d(word(Opcode.VEC, **f)) for f in fields])


def campaign(cols: int, lanes: int, seeds: range, words: int, rows: int = 40) -> None:
    shape = vpu.arch(cols, lanes)
    for seed in seeds:
        rng = np.random.default_rng(seed)
        tile = vpu.fresh(shape, rng, wild=bool(seed % 2))
        batch, drain = VecWords(shape, rng, rows).batch(words)
        found = vpu.mismatch(shape, tile, batch, drain, seed=seed, hold=HOLDS[seed % len(HOLDS)])
        assert not found, f"seed {seed}, drain {drain.tolist()}: {found}"


def test_single_words() -> None:
    campaign(*SMALL, range(150), 1)


def test_words_in_a_row() -> None:
    campaign(*SMALL, range(1000, 1025), 12, rows=20)


@pytest.mark.slow
@pytest.mark.parametrize(("cols", "lanes"), [(8, 8), (8, 4), (16, 4), (16, 8), (4, 2)])
def test_many_words(cols: int, lanes: int) -> None:
    campaign(cols, lanes, range(10_000, 11_500), 1)
    campaign(cols, lanes, range(20_000, 20_200), 12, rows=24)
    campaign(cols, lanes, range(30_000, 30_040), 3, rows=150)


@pytest.mark.slow
def test_words_of_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Convolutions with statistics, attention and linears as compiled: every VEC word on the contents it meets."""
    arch = load_arch("dpu_tiny")
    emitted, _, inputs = compile_net(arch)
    program, entry = emitted.program, emitted.program.entries[0]
    stream = program.words[entry.name][0]
    stream = stream[stream["opcode"] == Opcode.VEC]
    words = {d: stream[k : k + 1] for k, d in enumerate(decode(stream))}
    found: list[str] = []

    def spy(tile: Tile, w: Decoded, tally: Tally) -> None:
        rtl = vpu.twin(arch, tile)
        got = vpu.run(arch, rtl, words[w], [0], hold=HOLDS[len(found) % len(HOLDS)])
        vpu_numpy.vector(tile, w, tally)
        found.append(got.run.text.decode() or vpu.same(rtl, tile) or ("" if got.run.done_count == 1 else "not done"))

    monkeypatch.setattr(machine, "vector", spy)
    memory = mutation_run._memory(program, 0)
    for slot in entry.inputs:
        mutation_run._put(memory, slot, np.asarray(inputs[slot.name]))
    machine.Machine(arch, memory).run(program.words[entry.name])
    assert len(found) == len(stream)
    assert not any(found), found


def _spoil(w: np.ndarray, rng: np.random.Generator, cols: int) -> None:
    """Change a field or two, so that the word is probably illegal."""
    f = w.view(VEC)
    for _ in range(int(rng.integers(1, 3))):
        name = str(rng.choice(["rows", "tiles", "valid", "a_src", "b_src", "d_src", "op2", "m1", "m2", "func", "rq"]))
        if rng.random() < 0.4:
            name = str(rng.choice(["sub", "red", "a", "b", "d", "a1", "b1", "a2", "b2", "r", "sub_at", "red_at"]))
        if rng.random() < 0.2:
            name = str(rng.choice(["a_rs", "a_ts", "b_rs", "b_ts", "d_rs", "d_ts"]))
        wide = f.dtype[name].itemsize == 2
        if name in ("rows", "tiles"):
            f[name] = rng.choice([0, 200])
        elif name == "valid":
            f[name] = rng.choice([0, cols + 1, 255])
        elif wide:
            f[name] = rng.choice([rng.integers(0, 1 << 16), (1 << 16) - 1, 290, 899, 1095, 4990])
        else:
            f[name] = rng.integers(0, 256)


def faults(cols: int, lanes: int, seeds: range) -> int:
    """Spoiled words; how many of them were illegal."""
    shape, count = vpu.arch(cols, lanes), 0
    for seed in seeds:
        rng = np.random.default_rng(seed)
        tile = vpu.fresh(shape, rng, wild=False)
        tile.tables[int(rng.integers(0, 2))] = None
        while True:
            batch, drain = VecWords(shape, rng, 12).batch(2)
            _spoil(batch[1:2], rng, cols)
            _, fault, _ = vpu.simulate(vpu.twin(shape, tile), batch)
            if fault is not None:
                break
        count += 1
        found = vpu.mismatch(shape, tile, batch, drain, seed=seed, hold=HOLDS[seed % len(HOLDS)])
        assert not found, f"seed {seed}: {found}: {batch[1:2].view(VEC)}"
    return count


def test_illegal_words_are_faults() -> None:
    assert faults(*SMALL, range(3000, 3200)) == 200


def test_a_trap_comes_after_its_word() -> None:
    shape = vpu.arch(*SMALL)
    rng = np.random.default_rng(1)
    big = {"rows": 5, "tiles": 1, "valid": 8, "a_src": ACC, "a_rs": 1, "d_src": F16, "d": 300, "d_rs": 1}
    big |= {"m1": Operand.IMM0, "imm": [3000.0, 0.0]}
    fine = {**big, "imm": [1.0, 0.0], "flags": Flag.TRAP, "d": 200}
    words = np.concatenate(
        [np.atleast_1d(word(Opcode.VEC, **f)) for f in (fine, big, {**big, "flags": Flag.TRAP}, fine)]
    )
    tile = vpu.fresh(shape, rng, wild=False)
    rtl = vpu.twin(shape, tile)
    got = vpu.run(shape, rtl, words, np.zeros(4))
    tally, fault, at = vpu.simulate(tile, words)
    assert fault is not None and at == 2
    assert (got.run.fault_code, got.run.fault_index, got.run.done_count) == (vpu.CODES["E415"], 2, 2)
    assert got.run.overflows == tally.fp16_overflow
    assert not vpu.same(rtl, tile)


def test_inexact_integer_sums_are_faults() -> None:
    shape = vpu.arch(*SMALL)
    tile = vpu.fresh(shape, np.random.default_rng(1), wild=False)
    f = {"rows": 150, "tiles": 8, "valid": 8, "a_src": F32, "a_rs": 0, "d_src": pack(Buffer.NONE, Format.I15_SPLIT)}
    f |= {"m1": pack(Operand.IMM0, Operand.IMM1), "imm": [0.0, 1e9], "red_at": 100}
    for red in (Reduce.SUM | RED_INTEGER, Reduce.SUM | RED_INTEGER | RED_COLUMNS):
        for rows, tiles in ((150, 8), (1030, 1), (1028, 1), (1, 128), (1, 129)):
            w = vec_words({**f, "red": int(red), "rows": rows, "tiles": tiles})
            assert not vpu.mismatch(shape, tile, w, [0])


def test_column_sums_wait_for_param() -> None:
    """A tile's sums take two PARAM writes; when these are refused most of the time, the sums of four tiles wait."""
    shape = vpu.arch(*SMALL)
    tile = vpu.fresh(shape, np.random.default_rng(1), wild=False)
    f = {"rows": 1, "tiles": 60, "valid": 16, "a_src": F16, "a_rs": 1, "a_ts": 1, "red_at": 2000}
    f |= {"d_src": pack(Buffer.NONE, Format.F16), "red": int(Reduce.SUM_SQ) | RED_COLUMNS}
    assert not vpu.mismatch(shape, tile, vec_words(f), [0], hold=(0, 250, 0))


def test_stop_begins_nothing_more() -> None:
    shape = vpu.arch(*SMALL)
    tile = vpu.fresh(shape, np.random.default_rng(1), wild=False)
    f = {"rows": 30, "tiles": 1, "valid": 8, "a_src": ACC, "a_rs": 1, "d_src": F16, "d_rs": 1}
    words = vec_words(*({**f, "d": 40 * k} for k in range(6)))
    rtl = vpu.twin(shape, tile)
    got = vpu.run(shape, rtl, words, np.zeros(6), stop_at=50, limit=500)
    assert got.run.done_count == 2  # the words that had begun
    vpu.simulate(tile, words[:2])
    assert not vpu.same(rtl, tile)


def _measure(shape: Arch, f: Mapping[str, Any]) -> tuple[float, int]:
    """Cycles from word to word when the same word comes again and again; from start to done of one alone."""
    words = vec_words(*[f] * 24)
    tile = vpu.fresh(shape, np.random.default_rng(1), wild=False)
    many = vpu.run(shape, tile, words, np.zeros(24))
    one = vpu.run(shape, tile, words[:1], np.zeros(1))
    assert not many.run.text and not many.run.fault
    return float(many.done[-1] - many.done[7]) / 16, int(one.done[0] - one.started[0])


def test_timing_of_the_doc_page() -> None:
    shape = vpu.arch(*SMALL)
    c, beats = shape.cols, shape.cols // shape.lanes
    levels = c.bit_length() - 1
    f = {"rows": 40, "tiles": 1, "valid": c, "a_src": ACC, "a_rs": 1, "d_src": F16, "d_rs": 1, "imm": [1.0, 2.0]}
    f16 = {**f, "a_src": F16, "d": 600}
    nothing = {**f16, "d_src": pack(Buffer.NONE, Format.F16), "red_at": 2000}
    epilogue = {"m1": pack(Operand.ROW, 0), "m2": pack(Operand.COL, Operand.COL), "a1": 9, "a2": 500, "b2": 700}
    vector = {"rows": 64, "tiles": 1, "valid": 1, "a_src": F32, "a_rs": 1, "d_src": F32, "d": 1000, "d_rs": 1}
    both = {"b_rs": 1, "op2": pack(Op2.ADD, Operand.ELEM)}
    columns = int(Reduce.SUM_SQ) | RED_COLUMNS
    # What is added to first beat + beats + 26: reads ahead of the first beat but one, the tail of a reduction.
    cases: list[tuple[dict[str, Any], int | None]] = [
        (f, 0),
        ({**f, "d_src": pack(Buffer.ACT, Format.I15_SPLIT), "d_ts": 40}, 0),
        ({**f, **epilogue}, 2 * beats + 1),
        ({**f, **epilogue, "tiles": 4, "a_ts": 40, "d_ts": 40}, 2 * beats + 1),
        ({**f16, **both, "b_src": F16, "b": 300}, None),
        (vector, 0),
        ({**vector, **both, "b_src": F32, "b": 300}, None),
        ({**vector, "func": int(Function.RECIP)}, 0),
        ({**nothing, "red": int(Reduce.SUM)}, levels + 2),
        ({**nothing, "red": int(Reduce.SUM_SQ)}, levels + 3),
        ({**nothing, "red": columns}, 7 * beats + 6 + 4 + beats),
        ({**nothing, "red": columns | RED_ACCUMULATE}, None),
    ]
    for fields, more in cases:
        period, latency = _measure(shape, fields)
        expected = vpu.occupancy(shape, vec_words(fields))
        assert abs(period - expected) <= 1, (fields, period, expected)
        if more is not None:
            front = expected - (7 * beats + 6 if fields.get("red") == columns else 0)
            assert latency == 7 + front - 1 + 26 + more, (fields, latency, front, more)
