"""A small program with a record of its timing that is written by hand, so that no rule of timing matters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Entry, Slot, SourceOp
from dpu.ir.isa import ENGINE_OF, Buffer, Engine, Format, Opcode, Words, pack, signal_bit, wait_bit, word
from dpu.simulator.plan import ENGINES
from dpu.simulator.timing_result import TileTiming, Timing

TINY = load_arch("dpu_tiny")
L, M, V, S = Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE
Times = tuple[int, int, int, int]
"""start, begin, issued, visible"""

ENTRY = Entry(
    name="unet",
    inputs=(),
    outputs=(),
    sources=(
        SourceOp(
            tag=0,
            name="conv_in",
            kind="dpu.q.conv",
            nodes=("/conv_in/Conv",),
            macs=1000,
            outputs=(Slot(name="x", shape=(1, 128, 8), dtype="f16", base=1, offset=0, row_bytes=16),),
        ),
        SourceOp(tag=1, name="norm<1>", kind="dpu.norm", nodes=("/norm/Mul", "/norm/Add"), macs=0),
        SourceOp(tag=2, name="folded", kind="dpu.q.linear", nodes=(), macs=24),
    ),
)
_ACT = {"a_src": pack(Buffer.ACC, Format.I32), "a_rs": 1, "d_src": pack(Buffer.VBUF, Format.F16), "d_rs": 1}
WORDS = [
    word(Opcode.LOAD, buffer=Buffer.WGT, inner=512, n=[1, 1, 1], signal=signal_bit(M)),
    word(Opcode.MM, nx=128, ny=1, nc=8, nkx=1, nky=1, nn=1, sx=1, an=128, wait=wait_bit(L), signal=signal_bit(V)),
    word(Opcode.VEC, tag=1, rows=128, tiles=1, valid=8, wait=wait_bit(M), signal=signal_bit(S), **_ACT),
    word(Opcode.STORE, tag=1, base=1, buffer=Buffer.VBUF, inner=2048, n=[1, 1, 1], wait=wait_bit(V)),
    word(Opcode.LOAD, tag=7, buffer=Buffer.PARAM, inner=64, n=[1, 1, 1]),
    word(Opcode.END),
]
TIMES: list[Times] = [
    (1, 21, 85, 125),
    (125, 125, 1157, 1307),
    (1307, 1310, 1443, 1507),
    (1507, 1507, 1635, 1700),
    (2, 85, 101, 141),
    (7, 7, 7, 7),
]
PAYLOAD = [512, 0, 0, 2048, 64, 0]
CYCLES = 1702


def tile(words: Sequence[Words], times: Sequence[Times], payload: Sequence[int]) -> TileTiming:
    """A record: engines and tags from the words, all else as given."""
    stream = np.concatenate(list(words))
    engine = np.array([int(ENGINE_OF[Opcode(o)]) for o in stream["opcode"].tolist()])
    start, begin, issued, visible = np.array(times, np.int64).T
    macs = np.where(engine == M, 128 * 8 * 8 * 8, 0)
    bytes_ = np.array(payload, np.int64)
    busy = {e: int((issued - begin)[engine == e].sum()) for e in ENGINES}
    stalls = {e: {"semaphore X": 5} if e == M else {} for e in Engine}
    tag = stream["tag"].astype(np.int64)
    return TileTiming(engine, tag, start, begin, issued, visible, macs, bytes_, bytes_, busy, stalls)


def recorded(arch: Arch = TINY, times: Sequence[Times] = TIMES, cycles: int = CYCLES) -> tuple[list[Words], Timing]:
    """The streams and their record, the same on every tile of the arch."""
    tiles = [tile(WORDS, times, PAYLOAD) for _ in range(arch.tiles)]
    rate = [(0, 0.0), (21, 8.0), (101, 0.0), (1507, 16.0), (1635, 0.0)]
    return [np.concatenate(WORDS)] * arch.tiles, Timing(arch, "unet", cycles, tiles, rate, ("everything else",))
