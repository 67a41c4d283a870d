"""The cost formulas on cases counted by hand."""

import numpy as np
import pytest
from dpu.ir import cost
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import (
    DMA,
    MM,
    RED_COLUMNS,
    VEC,
    Buffer,
    DmaFormat,
    Format,
    Function,
    MmMode,
    Opcode,
    Operand,
    Reduce,
    pack,
    word,
)

TINY = load_arch("dpu_tiny")
F2 = Arch.model_validate(load_arch("dpu_f2").model_dump() | {"lanes": 32})  # two beats a row


@pytest.mark.parametrize(
    ("f", "stream", "macs"),
    [
        ({"nx": 342, "ny": 1, "nc": 20, "nkx": 1, "nky": 1, "nn": 1}, 20 * 342, 342 * 20 * 64 * 64),
        (
            {"nx": 2, "ny": 1, "nc": 20, "nkx": 1, "nky": 1, "nn": 3},
            3 * 20 * 64,
            2 * 20 * 64 * 3 * 64,
        ),  # a weight tile: 64 cycles
        ({"nx": 32, "ny": 4, "nc": 5, "nkx": 3, "nky": 3, "nn": 2}, 2 * 45 * 128, 128 * 45 * 64 * 2 * 64),
    ],
)
def test_mm(f: dict, stream: int, macs: int) -> None:
    w = word(Opcode.MM, **f).view(MM)
    assert cost.mm_occupancy(F2, w).tolist() == cost.mm_stream(F2, w).tolist() == [stream]
    assert cost.mm_macs(F2, w).tolist() == [macs]


def test_the_check_limits_short_words() -> None:
    """The check takes 8 cycles; on a 4 x 4 array a word of one tile and row streams for 4."""
    data = TINY.model_dump()
    four = Arch.model_validate(data | {"rows": 4, "cols": 4, "lanes": 4})
    assert cost.mm_occupancy(four, word(Opcode.MM, nx=1, ny=1, nc=1, nkx=1, nky=1, nn=1).view(MM)).tolist() == [8]


def test_latencies_of_the_array() -> None:
    """10 + G to the first row, R + G + S + 3 from the last; S is half of log2 C, rounded up."""
    assert (cost.mxu_first_row(TINY), cost.mxu_drain(TINY)) == (11, 8 + 1 + 2 + 3)
    assert (cost.mxu_first_row(F2), cost.mxu_drain(F2)) == (18, 64 + 8 + 3 + 3)  # rtl/doc/dpu_mxu.md: 95 with one row


ACC, F16 = pack(Buffer.ACC, Format.I32), pack(Buffer.VBUF, Format.F16)
F32, PARAM = pack(Buffer.VBUF, Format.F32), pack(Buffer.PARAM, Format.F32)
VECTOR = {"tiles": 1, "valid": 1, "a_src": PARAM, "a_rs": 1, "d_src": PARAM, "d_rs": 1}
SUMS = {"red": int(Reduce.SUM) | RED_COLUMNS}


@pytest.mark.parametrize(
    ("f", "cycles"),
    [
        ({"rows": 342, "tiles": 20, "valid": 64}, 342 * 40),  # L = 32: two beats a tile and row
        ({"rows": 10, "tiles": 2, "valid": 13}, 10 * (2 + 1)),
        ({"rows": 10, "tiles": 2, "valid": 13, "d_src": F32}, 10 * (2 + 2)),  # two words of the result
        ({"rows": 10, "tiles": 2, "valid": 13, "a_src": F32}, 10 * (2 + 2)),  # of the operand
        # of both only the last tile waits for operands, but for four rows that were read ahead
        ({"rows": 39, "tiles": 2, "valid": 13, "a_src": F32, "lanes": 16}, 39 * (4 + 1) + 39 - 4),
        ({"rows": 10, "tiles": 1, "valid": 13, "func": int(Function.RECIP)}, 10 * 4),  # four lanes
        (VECTOR | {"rows": 342}, 11),  # a beat is 32 rows
        (VECTOR | {"rows": 342, "func": int(Function.RSQRT)}, 86),
        (VECTOR | {"rows": 342, "func": int(Function.EXP2)}, 11),
        # with scale and bias of each row, three reads of PARAM a beat
        (VECTOR | {"rows": 342, "m1": pack(Operand.ROW, Operand.ROW)}, 33),
        # sums of columns: 10 rows of two beats, their tail of 7 x 2 + 6; 10 of one, 7 + 6
        ({"rows": 10, "tiles": 2, "valid": 13} | SUMS, 20 + 20 + 10 + 13),
        # of rows: with L rows at most, a tile's sums wait for those before it to be written
        ({"rows": 3, "tiles": 9, "valid": 8, "lanes": 64, "red": int(Reduce.SUM)}, 3 * 9 + 8 * 3),
        ({"rows": 1, "tiles": 1, "valid": 64}, 3),  # the check
    ],
)
def test_vec(f: dict, cycles: int) -> None:
    lanes = f.get("lanes", F2.lanes)
    w = word(Opcode.VEC, **({"a_src": ACC, "d_src": F16} | {k: v for k, v in f.items() if k != "lanes"}))
    assert cost.vec_occupancy(F2.model_copy(update={"lanes": lanes}), w.view(VEC)).tolist() == [cycles]


@pytest.mark.parametrize(
    ("f", "payload", "size", "bursts", "words"),
    [
        # contiguous: 10 runs of 640 bytes are one of 6,400: two bursts of 4,096
        ({"inner": 640, "n": [10, 1, 1], "dstride": [640, 0, 0]}, 6400, 6400, 2, 100),
        # with gaps: 10 bursts of 10 beats
        ({"inner": 640, "n": [10, 1, 1], "dstride": [704, 0, 0]}, 6400, 6400, 10, 100),
        # a short run is a beat; at offset 60, 8 bytes touch two
        ({"inner": 8, "n": [3, 1, 1], "dstride": [64, 0, 0]}, 24, 192, 3, 3),
        ({"inner": 8, "n": [3, 1, 1], "dstride": [64, 0, 0], "offset": 60}, 24, 384, 3, 3),
        # pads are words, not bytes
        ({"inner": 64, "n": [4, 4, 1], "dstride": [64, 256, 0], "pad": [1, 1, 1, 1]}, 1024, 1024, 1, 36),
        ({"inner": 64, "n": [4, 1, 1], "format": int(DmaFormat.FILL)}, 0, 0, 0, 4),
        ({"inner": 0, "n": [4, 1, 1]}, 0, 0, 0, 0),
        # a corner-turn writes whole tiles of 64 words
        (
            {"inner": 40, "n": [10, 2, 1], "dstride": [64, 4096, 0], "format": 3, "buffer": Buffer.WGT},
            800,
            1280,
            20,
            128,
        ),
        # two int4 blocks: 65 lines each
        ({"inner": 2 * 65 * 64, "n": [1, 1, 1], "format": 2, "buffer": Buffer.WGT}, 8320, 8320, 3, 256),
        ({"inner": 64 + 64 * 32, "n": [1, 1, 1], "format": 2, "buffer": Buffer.WGT}, 2112, 2112, 1, 64),
    ],
)
def test_dma(f: dict, payload: int, size: int, bursts: int, words: int) -> None:
    c = cost.dma(F2, word(Opcode.LOAD, **f).view(DMA))
    assert (c.payload.tolist(), c.bytes.tolist(), c.bursts.tolist(), c.words.tolist()) == (
        [payload],
        [size],
        [bursts],
        [words],
    )


@pytest.mark.parametrize(
    ("f", "steps", "lead"),
    [
        # padding: a row of 6 cells and one cell before the first data
        ({"inner": 64, "n": [4, 4, 1], "dstride": [64, 256, 0], "pad": [1, 1, 1, 1]}, 36, 7),
        ({"inner": 2 * 65 * 64, "n": [1, 1, 1], "format": 2, "buffer": Buffer.WGT}, 2 * 129, 0),  # group integers
        # the first tile, a run a cycle, is filled before words are written
        (
            {"inner": 40, "n": [10, 2, 1], "dstride": [64, 4096, 0], "format": 3, "buffer": Buffer.WGT},
            128 + 10 + 1,
            0,
        ),
        ({"inner": 4160, "n": [1, 1, 1], "buffer": Buffer.TABLE}, 261, 0),  # 260 entries and the verdict
        ({"inner": 640, "n": [1, 1, 1], "buffer": Buffer.PARAM}, 10, 0),  # 16 scalars a cycle
    ],
)
def test_steps_of_the_scratchpad_port(f: dict, steps: int, lead: int) -> None:
    c = cost.dma(F2, word(Opcode.LOAD, **f).view(DMA))
    assert (c.steps.tolist(), c.lead.tolist()) == ([steps], [lead])


def test_beats_are_counted_where_each_run_begins() -> None:
    """Runs of 40 bytes, 48 apart: at bytes 0, 48, 32, 16 of a beat, so 1, 2, 2, 1 beats; 10 runs: 1 2 2 1 1 2 2 1 1 2.

    In the second dimension 8 bytes further: 8, 56, 40, 24: 1, 2, 2, 1 again.
    """
    one = word(Opcode.LOAD, inner=40, n=[10, 1, 1], dstride=[48, 0, 0]).view(DMA)
    two = word(Opcode.LOAD, inner=40, n=[10, 2, 1], dstride=[48, 1032, 0]).view(DMA)
    assert cost.dma(F2, one).bytes.tolist() == [15 * 64]
    assert cost.dma(F2, two).bytes.tolist() == [30 * 64]


def test_dma_cycles_takes_the_slowest_side() -> None:
    """64 bytes a cycle at the port, one word of 64 bytes a cycle; PARAM takes min(L, 16) scalars. A VBUF word is
    128 bytes, so the port is the slower side; on dpu_tiny an ACT word is 8 bytes, 8 scalars 32: the scratchpad is."""
    loads = [word(Opcode.LOAD, buffer=b, inner=6400, n=[1, 1, 1]) for b in (Buffer.ACT, Buffer.PARAM)]
    assert cost.dma_cycles(F2, np.concatenate(loads).view(DMA)).tolist() == [100, 100]
    assert cost.dma_cycles(TINY, np.concatenate(loads).view(DMA)).tolist() == [800, 200]


def test_shared_ports() -> None:
    """ACC of dpu_tiny: 4 banks of 512 words, ACT 2 of 4,096, VBUF 2 of 2,048. WGT and PARAM are not shared."""
    ports = cost.Ports(TINY)

    def used(w: np.ndarray) -> dict[int, list[tuple[int, float]]]:
        at, rows = ports.spans(w)
        assert at.tolist() == [0, len(rows)]
        return {
            k: ports.banks(k, [(lo, hi) for p, lo, hi in rows.tolist() if p == k]) for k in set(rows[:, 0].tolist())
        }

    f = {"nx": 16, "ny": 1, "nc": 1, "nkx": 1, "nky": 1, "nn": 1, "sx": 1}
    assert used(word(Opcode.MM, acc=500, **f)) == {cost.ACT_READ: [(0, 1.0)]}
    assert used(word(Opcode.MM, acc=500, mode=int(MmMode.ACCUMULATE), **f))[cost.ACC_READ] == [(0, 0.75), (1, 0.25)]
    assert cost.ACC_READ in used(word(Opcode.MM, **(f | {"nc": 2})))
    assert used(word(Opcode.LOAD, buffer=Buffer.VBUF, sram=2048, inner=16, n=[1, 1, 1])) == {
        cost.VBUF_WRITE: [(1, 1.0)]
    }
    assert used(word(Opcode.STORE, buffer=Buffer.ACT, sram=4095, inner=16, n=[1, 1, 1])) == {
        cost.ACT_READ: [(0, 0.5), (1, 0.5)]
    }
    vec = word(Opcode.VEC, rows=2, tiles=1, valid=8, a_src=ACC, a=511, a_rs=1, d_src=F16, d=7, d_rs=1)
    assert used(vec) == {cost.ACC_READ: [(0, 0.5), (1, 0.5)], cost.VBUF_WRITE: [(0, 1.0)]}
    for buffer in (Buffer.PARAM, Buffer.WGT):
        assert used(word(Opcode.LOAD, buffer=buffer, inner=16, n=[1, 1, 1])) == {}
