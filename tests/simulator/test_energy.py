"""What words move on chip, and what that costs: every count and price by hand."""

from __future__ import annotations

import numpy as np
import pytest
from dpu.evidence import Provenance
from dpu.ir.arch import load_arch
from dpu.ir.isa import RED_ACCUMULATE, Buffer, Format, Function, MmMode, Op2, Opcode, Operand, Reduce, pack, word
from dpu.simulator.energy import NODES, Counts, Prices, dram_constant, sram_constant
from dpu.simulator.traffic import Traffic, traffic

from .recorded import TINY, WORDS


def of(*words: np.ndarray) -> Traffic:
    return traffic(TINY, np.concatenate(words))


def moved(t: Traffic, word: int = 0) -> dict[str, tuple[int, int]]:
    """Buffer: (bytes read, bytes written) by one word, where there are any."""
    both = {b.name: (int(t.read[b][word]), int(t.written[b][word])) for b in t.read}
    return {name: n for name, n in both.items() if any(n)}


def test_the_small_program() -> None:
    t = of(*WORDS)
    assert moved(t, 0) == {"WGT": (0, 512)}
    # 128 rows and 8 weight tiles of 8 x 8: rows of 8 bytes, sums of 32, the first of them not read.
    assert moved(t, 1) == {"ACT": (128 * 8 * 8, 0), "WGT": (8 * 64, 0), "ACC": (128 * 7 * 32, 128 * 8 * 32)}
    assert moved(t, 2) == {"ACC": (128 * 32, 0), "VBUF": (0, 128 * 16)}
    assert moved(t, 3) == {"VBUF": (2048, 0)}
    assert moved(t, 4) == {"PARAM": (0, 64)}
    assert moved(t, 5) == {}
    assert t.macs.tolist() == [0, 65536, 0, 0, 0, 0]
    assert t.elements.tolist() == [0, 0, 1024, 0, 0, 0]
    assert t.multiplications.tolist() == [0] * 6
    assert t.additions.tolist() == [0, 0, 2048, 0, 0, 0]  # from int32, to float16
    assert t.bytes.tolist() == [512, 8192 + 512 + 28672 + 32768, 6144, 2048, 64, 0]


def test_a_matrix_word_that_accumulates_reads_all_sums() -> None:
    mm = {"nx": 4, "ny": 2, "nc": 3, "nkx": 1, "nky": 1, "nn": 2}
    assert moved(of(word(Opcode.MM, mode=MmMode.ACCUMULATE, **mm)))["ACC"] == (8 * 2 * 3 * 32, 8 * 2 * 3 * 32)
    column = moved(of(word(Opcode.MM, mode=MmMode.COLUMN, **mm)))
    assert column["ACC"] == (8 * 2 * 2 * 32, 8 * 2 * 3 * 32) and column["PARAM"] == (2 * 8 * 4, 0)


def test_a_vector_word_counts_each_stage() -> None:
    """2 rows of 12 elements: scale by column, bias by row, a gate, times B, requantised; sums of squares by row."""
    vec = word(
        Opcode.VEC,
        rows=2,
        tiles=2,
        valid=4,
        a_src=pack(Buffer.VBUF, Format.F32),
        b_src=pack(Buffer.VBUF, Format.F16),
        d_src=pack(Buffer.ACT, Format.I15_SPLIT),
        m1=pack(Operand.COL, Operand.ROW),
        func=pack(Function.GATE_MUL, 0),
        op2=pack(Op2.MUL, Operand.ELEM),
        rq=pack(Operand.IMM0, 0),
        red=int(Reduce.SUM_SQ) | RED_ACCUMULATE,
    )
    t = of(vec)
    assert int(t.elements[0]) == 24
    assert moved(t) == {
        "VBUF": (2 * 2 * 32 + 2 * 2 * 16, 0),  # float32 takes two words
        "ACT": (0, 2 * 2 * 2 * 8),  # two planes
        "PARAM": (4 * (2 * 12 + 2) + 2 * 8, 2 * 8),  # columns for each row; pairs of sums, read and written
        "TABLE": (24 * 16, 0),
    }
    assert int(t.multiplications[0]) == 24 * (1 + 2 + 1 + 1 + 1 + 1)  # scale, function, gate, B, requantise, square
    assert int(t.additions[0]) == 24 * (1 + 2 + 1 + 2)  # bias, function, rounding, both sums


def test_prices() -> None:
    node = NODES[45]
    assert (node.mac.value, node.mac.provenance) == (pytest.approx(0.3), Provenance.PUBLISHED)
    act = sram_constant(node, TINY, Buffer.ACT)  # two banks of 32 KiB
    assert (act.value, act.provenance) == (pytest.approx(2.5), Provenance.ASSUMED)
    assert "a bank of 32 KiB" in act.source
    assert sram_constant(node, TINY, Buffer.WGT).value == pytest.approx(1.25 * 2**0.5)  # 16 KiB, halfway to 32
    assert sram_constant(node, TINY, Buffer.TABLE).value == pytest.approx(1.25)  # nothing is cheaper than 8 KiB
    assert sram_constant(node, load_arch("dpu_f2"), Buffer.ACT).value == pytest.approx(12.5)
    assert dram_constant(load_arch("dpu_f2")).provenance == Provenance.PUBLISHED
    assert dram_constant(load_arch("dpu_asic")).value == 5.0
    for n in NODES.values():
        assert all(a < b for (_, a), (_, b) in zip(n.sram, n.sram[1:], strict=False))
    assert all(
        NODES[7].model_dump()[k]["value"] < NODES[45].model_dump()[k]["value"] for k in ("mac", "add", "multiply")
    )


def test_the_split() -> None:
    counts = Counts(macs=1_000_000, multiplications=1000, additions=2000, sram={"ACT": 4000}, dram_bytes=500)
    prices = Prices(TINY)
    e = prices.energy(counts, 1e-3, "here")
    groups = e.by_group()
    assert groups["MAC"] == pytest.approx(0.6e-6)  # 0.3 for arithmetic, 0.3 for registers
    assert groups["VPU"] == pytest.approx((3.7 * 1000 + 0.9 * 2000) * 1e-12)
    assert groups["SRAM"] == pytest.approx(4000 * 2.5e-12)
    assert groups["DRAM"] == pytest.approx(500 * 8 * 5e-12)
    pads = (3 * 64 + 32 + 64) / 1024  # MiB
    assert groups["leakage"] == pytest.approx(1e-3 * (pads * 20e-3 + 64 * 2e-6 + 8 * 40e-6))
    assert e.total.value == pytest.approx(sum(groups.values())) == pytest.approx(sum(p.energy.value for p in e.parts))
    assert prices.dynamic(counts) == pytest.approx(e.total.value - groups["leakage"])


def test_results_are_as_weak_as_their_weakest_input() -> None:
    e = Prices(load_arch("dpu_f2")).energy(Counts(macs=1, dram_bytes=1), 1.0, "entry x")
    by = {p.name: p.energy for p in e.parts}
    assert by["MAC arithmetic"].provenance == by["DRAM"].provenance == Provenance.SIMULATED  # published x simulated
    assert by["array registers"].provenance == Provenance.ASSUMED
    assert e.total.provenance == Provenance.ASSUMED
    assert all(p.energy.provenance < Provenance.PUBLISHED for p in e.parts)
    assert [q.source for q in by["DRAM"].inputs] == [
        "entry x",
        "micron.com, ultra-bandwidth solutions: HBM2E 6.0 pJ/bit",
    ]
    assert all(q.source.strip() for p in e.parts for q in p.energy.inputs)


def test_an_l2_that_is_not_priced_is_named() -> None:
    asic, tile = (Prices(arch).energy(Counts(macs=1), 1.0, "test") for arch in (load_arch("dpu_asic"), TINY))
    assert any("shared L2" in line for line in asic.not_counted)
    assert not any("L2" in line for line in tile.not_counted)
