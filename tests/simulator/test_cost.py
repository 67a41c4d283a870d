"""The cost formulas on cases counted by hand."""

import numpy as np
import pytest
from dpu.ir import cost
from dpu.ir.arch import load_arch
from dpu.ir.isa import DMA, MM, VEC, Buffer, DmaFormat, Function, MmMode, Opcode, word

TINY = load_arch("dpu_tiny")
F2 = load_arch("dpu_f2")


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
    assert cost.mm_occupancy(F2, w).tolist() == [8 + stream]
    assert cost.mm_macs(F2, w).tolist() == [macs]


@pytest.mark.parametrize(
    ("f", "beats"),
    [
        ({"rows": 342, "tiles": 20, "valid": 64}, 342 * 40),  # L = 32: two beats a tile and row
        ({"rows": 10, "tiles": 2, "valid": 13}, 10 * (2 + 1)),
        ({"rows": 342, "tiles": 1, "valid": 1}, 11),  # vector mode
        ({"rows": 342, "tiles": 1, "valid": 1, "func": int(Function.RSQRT)}, 86),  # four lanes
        ({"rows": 342, "tiles": 1, "valid": 1, "func": int(Function.EXP2)}, 11),
    ],
)
def test_vec(f: dict, beats: int) -> None:
    assert cost.vec_occupancy(F2, word(Opcode.VEC, **f).view(VEC)).tolist() == [8 + beats]


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


def test_dma_cycles_takes_the_slowest_side() -> None:
    """64 bytes a cycle at the port, one word of 64 bytes a cycle; PARAM takes a beat of 16 scalars. A VBUF word is
    128 bytes, so the port is the slower side; on dpu_tiny an ACT word is 8 bytes and the scratchpad is."""
    loads = [word(Opcode.LOAD, buffer=b, inner=6400, n=[1, 1, 1]) for b in (Buffer.ACT, Buffer.PARAM)]
    assert cost.dma_cycles(F2, np.concatenate(loads).view(DMA)).tolist() == [100, 100]
    assert cost.dma_cycles(TINY, np.concatenate(loads).view(DMA)).tolist() == [800, 100]


def test_ports() -> None:
    """ACC of dpu_tiny: 4 banks of 512 words, WGT 2 of 2,048, ACT 2 of 4,096, VBUF 2 of 2,048."""
    ports = cost.Ports(TINY)

    def names(w: np.ndarray) -> set[str]:
        mask = int(ports.masks(w)[0])
        return {n for k, n in enumerate(ports.names) if mask >> k & 1}

    f = {"nx": 16, "ny": 1, "nc": 1, "nkx": 1, "nky": 1, "nn": 1, "sx": 1}
    assert names(word(Opcode.MM, acc=500, **f)) == {"ACT0 read", "WGT0 read", "ACC0 write", "ACC1 write"}
    assert "ACC0 read" in names(word(Opcode.MM, mode=int(MmMode.ACCUMULATE), **f))
    assert "ACC0 read" in names(word(Opcode.MM, **(f | {"nc": 2})))
    assert names(word(Opcode.LOAD, buffer=Buffer.VBUF, sram=2048, inner=16, n=[1, 1, 1])) == {"VBUF1 write"}
    assert names(word(Opcode.STORE, buffer=Buffer.ACT, sram=4095, inner=16, n=[1, 1, 1])) == {"ACT0 read", "ACT1 read"}
    assert names(word(Opcode.LOAD, buffer=Buffer.PARAM, inner=16, n=[1, 1, 1])) == set()
