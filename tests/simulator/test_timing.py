"""Cycle counts worked out by hand, from the rules at the head of `timing.py` and the pages of `rtl/doc`.

dpu_tiny: R = C = L = 8, so G = 1 and S = 2; DRAM latency 20, response 40. The tile starts in cycle 0. What every
program here has in common:

- The first burst of instructions is asked for in cycle 1, on the bus in 2, there from 22 on, a word a cycle: word k
  is dispatched in 23 + k and may start in 24 + k.
- LOAD: address 8 cycles after the start, first data 20 later (28); done 3 after the cycle behind the last data.
- weights: LOAD of 128 contiguous bytes into 16 WGT words: two beats, 16 cycles of data (one word a cycle).
- MM: first row 10 + G = 11 cycles after a start that finds the engine empty; 16 rows for each of its k tiles; done
  R + G + S + 3 = 14 after the last row. The next word may start when the check is free, 8 cycles later or more.
- VEC of 16 rows of 8 columns: first beat 7 after the start, 16 beats, done 26 after the last.
- A token counts in the cycle after its word is done. The run ends 2 cycles after the last word is done.
"""

import time

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import Buffer, DmaFormat, Engine, Flag, Format, Opcode, pack, signal_bit, wait_bit, word
from dpu.simulator.memory import FairMemory, IdealMemory, with_dram
from dpu.simulator.timing import Timing, simulate

TINY = load_arch("dpu_tiny")
END = word(Opcode.END)


def arch(tiles: int = 1, **dram: object) -> Arch:
    data = TINY.model_dump()
    return Arch.model_validate(data | {"tiles": tiles, "dram": data["dram"] | dram})


def program(*words: np.ndarray) -> np.ndarray:
    return np.concatenate([*words, END])


def weights(sram: int = 0, **f: object) -> np.ndarray:
    return word(Opcode.LOAD, buffer=Buffer.WGT, sram=sram, inner=128, n=[1, 1, 1], **f)


def mm(k: int = 1, **f: object) -> np.ndarray:
    return word(Opcode.MM, nx=16, ny=1, nc=k, nkx=1, nky=1, nn=1, sx=1, an=16, **f)


def vec(**f: object) -> np.ndarray:
    base = {"rows": 16, "tiles": 1, "valid": 8, "a_src": pack(Buffer.ACC, Format.I32), "a_rs": 1}
    return word(Opcode.VEC, **(base | {"d_src": pack(Buffer.VBUF, Format.F16), "d_rs": 1} | f))


def times(t: Timing, tile: int = 0) -> list[tuple[int, int, int, int]]:
    """(start, begin, issued, visible) of each word but END."""
    x = t.tiles[tile]
    return [tuple(r) for r in np.stack([x.start, x.begin, x.issued, x.visible], axis=1)[:-1].tolist()]


M, L, V = Engine.MXU, Engine.LOAD, Engine.VPU


def test_gemm_without_double_buffering() -> None:
    """One weight buffer: the second LOAD waits until the first MM no longer needs it.

    L0 starts at 24, data 24 + 28 = 52 to 68, done 71.
    M0 (2 k tiles: 32 rows) starts at 72, first row 83, last 114, done 114 + 14 = 128: its token frees the buffer.
    L1 starts at 129, data 157 to 173, done 176.
    M1 starts at 177, rows 188 to 219, done 233.
    """
    t = simulate(
        TINY,
        [
            program(
                weights(signal=signal_bit(M)),
                mm(2, wait=wait_bit(L), signal=signal_bit(L)),
                weights(wait=wait_bit(M), signal=signal_bit(M)),
                mm(2, wait=wait_bit(L)),
            )
        ],
    )
    assert times(t) == [(24, 52, 68, 71), (72, 83, 115, 128), (129, 157, 173, 176), (177, 188, 220, 233)]
    assert t.cycles == 235
    # LOAD could take L1 from cycle 26 on, when it is dispatched, a cycle after L0; it waits for the MXU until 129.
    assert t.tiles[0].stalls[L] == {"dispatch": 24 + 1, "semaphore MXU": 129 - 26}
    # M0 leaves the check at 80.
    assert t.tiles[0].stalls[M] == {"dispatch": 25, "semaphore LOAD": (72 - 25) + (177 - 80)}
    assert t.tiles[0].busy == {L: 32, M: 64, V: 0, Engine.STORE: 0}
    # 2 x 16 rows x 16 k x 8 columns over 64 MACs a cycle
    assert t.executed_macs == 4096
    assert t.utilisation() == 4096 / (64 * 235)
    assert t.utilisation(1000) == 1000 / (64 * 235)


def test_gemm_with_double_buffering() -> None:
    """Two weight buffers: the second LOAD runs under the first MM, and the second MM follows it without a gap.

    L0 as before. L1 starts at 26; its address goes at 34 and its data are there at 54, but the port is busy until 68:
    data 68 to 84, done 87.
    M0 72, rows 83 to 114. M1 starts at 88; its weights are loaded under M0's rows: rows 115 to 146, done 160.
    """
    t = simulate(
        TINY,
        [
            program(
                weights(signal=signal_bit(M, 0)),
                mm(2, wait=wait_bit(L, 0)),
                weights(sram=2048, signal=signal_bit(M, 1)),
                mm(2, wgt=2048, wait=wait_bit(L, 1)),
            )
        ],
    )
    assert times(t) == [(24, 52, 68, 71), (72, 83, 115, 128), (26, 68, 84, 87), (88, 115, 147, 160)]
    assert t.cycles == 162


def test_two_engines_in_a_handshake() -> None:
    """MXU -> VPU -> MXU -> VPU, each waiting for the other.

    M0 starts at 24: rows 35 to 50, done 64. V0 starts at 65: beats 72 to 87, done 113.
    M1 starts at 114: rows 125 to 140, done 154. V1 starts at 155: beats 162 to 177, done 203.
    """
    t = simulate(
        TINY,
        [
            program(
                mm(signal=signal_bit(V)),
                vec(wait=wait_bit(M), signal=signal_bit(M)),
                mm(wait=wait_bit(V), signal=signal_bit(V)),
                vec(wait=wait_bit(M)),
            )
        ],
    )
    assert [x[0] for x in times(t)] == [24, 65, 114, 155]
    assert [x[3] for x in times(t)] == [64, 113, 154, 203]
    assert t.cycles == 205
    # The MXU could take M1 at 32, 8 cycles after M0; the VPU V1 at 68, 3 after V0.
    assert t.tiles[0].stalls[M] == {"dispatch": 24, "semaphore VPU": 114 - 32}
    assert t.tiles[0].stalls[V] == {"dispatch": 25, "semaphore MXU": (65 - 25) + (155 - 68)}


def test_two_tiles_share_the_memory_rate() -> None:
    """DRAM 24 bytes a cycle, a port 16. Tile 0 loads 1,600 bytes into VBUF (100 words of 16), tile 1 768 bytes.

    Both start at 24, data from 52. Fair share 12 each, below the port's 16.
    Tile 1: 768 / 12 = 64 cycles, ends at 116, done 119.
    Tile 0 has 64 x 12 = 768 by then; 832 are left at its port's 16: 52 cycles, ends at 168, done 171.
    Alone they would take 1600 / 16 = 100 and 48 cycles: 16 cycles of each are waiting for memory.
    """

    def load(size: int) -> np.ndarray:
        return program(word(Opcode.LOAD, buffer=Buffer.VBUF, inner=size, n=[1, 1, 1]))

    t = simulate(arch(2, model="simple", bytes_per_cycle=24, port_bytes_per_cycle=16), [load(1600), load(768)])
    assert times(t, 0) == [(24, 52, 168, 171)]
    assert times(t, 1) == [(24, 52, 116, 119)]
    assert t.cycles == 173
    assert [x.stalls[L]["memory"] for x in t.tiles] == [16, 16]
    assert [x.busy[L] for x in t.tiles] == [100, 48]
    assert [x.bytes_read for x in t.tiles] == [1600, 768]
    # Alone or with the ideal model: 52 + 100 + 3, and 2 to the end.
    one = simulate(arch(1, model="simple", bytes_per_cycle=24, port_bytes_per_cycle=16), [load(1600)])
    ideal = simulate(arch(2, model="ideal", bytes_per_cycle=24, port_bytes_per_cycle=16), [load(1600), load(768)])
    assert one.cycles == ideal.cycles == 157
    assert times(ideal, 1) == [(24, 52, 100, 103)]


def test_a_store_signals_another_tile() -> None:
    """64 bytes of ACT (8 words, 8 cycles).

    Tile 0: STORE starts at 24, data 32 to 40; response 40 later, done 81. Its token leaves at 81, arrives at tile 1 at
    121 and counts from 122 on.
    Tile 1: LOAD starts at 122, data 150 to 158, done 161.
    """
    move = {"buffer": Buffer.ACT, "inner": 64, "n": [1, 1, 1]}
    t = simulate(
        arch(2),
        [program(word(Opcode.STORE, base=1, remote=0b10, **move)), program(word(Opcode.LOAD, remote=0b01, **move))],
    )
    assert times(t, 0) == [(24, 32, 40, 81)]
    assert times(t, 1) == [(122, 150, 158, 161)]
    assert t.tiles[1].stalls[L]["semaphore remote"] == 122 - 24


def test_four_loads_are_outstanding() -> None:
    """L0 .. L3 start at 24 .. 27; L4 could at 28 but waits for L0, done at 63, until 64.

    Data of 8 cycles each: L0 52 to 60, L1 to 68, L2 to 76, L3 to 84. L4's is there at 64 + 28 = 92.
    """
    loads = [word(Opcode.LOAD, buffer=Buffer.ACT, inner=64, n=[1, 1, 1])] * 5
    t = simulate(TINY, [program(*loads)])
    assert [x[:3] for x in times(t)] == [(24, 52, 60), (25, 60, 68), (26, 68, 76), (27, 76, 84), (64, 92, 100)]
    assert t.tiles[0].stalls[L]["memory"] == 64 - 28
    assert t.cycles == 105


def test_padding_does_not_wait_for_data() -> None:
    """2 runs of 8 bytes with a cell before and behind each way: 4 x 4 cells, one word each, 5 of them before the data.

    Start 24, data there at 52: the walk could begin at 29, and needs data from its sixth word on: 47 to 63.
    Padding of 40 words is not done at 52, when the first data come: it begins at 29, and takes 41 + 1.
    """
    small = word(Opcode.LOAD, buffer=Buffer.ACT, inner=8, n=[2, 2, 1], dstride=[64, 128, 0], pad=[1, 1, 1, 1])
    large = word(Opcode.LOAD, buffer=Buffer.ACT, inner=8, n=[1, 1, 1], pad=[40, 1, 0, 0])
    assert times(simulate(TINY, [program(small)])) == [(24, 47, 63, 66)]
    assert times(simulate(TINY, [program(large)])) == [(24, 29, 71, 74)]


def test_instructions_go_before_data() -> None:
    """Sixty-four words come from 22 to 85 and keep the read channel; the first LOAD's data, there at 52, wait.

    24 MMs whose last 16 wait for the queue: all words behind them are fetched but not dispatched.
    """
    t = simulate(TINY, [program(word(Opcode.LOAD, buffer=Buffer.PARAM, inner=64, n=[1, 1, 1]), *[mm()] * 70)])
    assert times(t)[0] == (24, 86, 88, 91)


def test_fill_and_fences_need_no_dram() -> None:
    """FILL of 3 runs of 2 words: 6 cycles from 5 behind the start, done 3 later. A fence takes its turn: one step."""
    fill = word(Opcode.LOAD, format=DmaFormat.FILL, buffer=Buffer.ACT, inner=16, n=[3, 1, 1], sstride=[2, 0, 0])
    t = simulate(TINY, [program(fill, word(Opcode.LOAD))])
    assert times(t) == [(24, 29, 35, 38), (25, 35, 36, 39)]
    assert t.tiles[0].bytes_read == 0


def test_the_mxu_goes_first_at_a_bank() -> None:
    """MM starts at 24, rows 35 to 66. The second k tile's rows add to ACC bank 0: read R + G = 9 cycles after they
    enter, from 60 to 75, in every cycle. VEC starts at 25, 64 beats from 32 on: 28 before 60, the other 36 from 76.

    Banks are 512 words: a VEC that reads word 512 takes its 64 beats at once. One k tile is only written.
    """
    same, other, one = (simulate(TINY, [program(mm(k), vec(rows=64, a=a))]) for k, a in ((2, 0), (2, 512), (1, 0)))
    assert times(same)[1] == (25, 32, 112, 111 + 26)
    assert same.tiles[0].stalls[V] == {"dispatch": 25, "port": 16}
    assert times(other)[1] == times(one)[1] == (25, 32, 96, 95 + 26)


def test_store_and_load_take_what_is_left_of_a_bank() -> None:
    """STORE reads ACT, 8 words from 32 on. MM starts at 25 and reads the same bank from 36 to 67: 4 words go before,
    4 behind. The other bank begins at word 4,096.

    Tiles of 4 rows take 8 cycles each, so the MXU leaves every second one: 4 words, and 4 in 8 cycles.
    """
    store = {"buffer": Buffer.ACT, "inner": 64, "n": [1, 1, 1], "base": 1}
    t = simulate(TINY, [program(word(Opcode.STORE, **store), mm(2))])
    assert times(t)[0] == (24, 32, 72, 72 + 41)
    assert t.tiles[0].stalls[Engine.STORE]["port"] == 32
    assert times(simulate(TINY, [program(word(Opcode.STORE, sram=4096, **store), mm(2))]))[0] == (24, 32, 40, 81)
    four = word(Opcode.MM, nx=4, ny=1, nc=4, nkx=1, nky=1, nn=1, sx=1, an=4)
    assert times(simulate(TINY, [program(word(Opcode.STORE, **store), four)]))[0] == (24, 32, 44, 85)


def test_drain_waits_for_the_pipeline() -> None:
    """M0 24, done 64: M1 with the drain bit starts then. It could at 32."""
    t = simulate(TINY, [program(mm(), mm(flags=int(Flag.DRAIN)))])
    assert [x[0] for x in times(t)] == [24, 65]
    assert t.tiles[0].stalls[M] == {"dispatch": 24, "drain": 65 - 32}


def test_a_full_queue_stops_dispatch() -> None:
    """Twelve MMs of 16 rows. The check takes 8 cycles: M1 starts at 32, M2 at 40. Its weights are loaded when M0's last
    row has entered (35 + 16 = 51: rows of M1), so M3 starts at 50, and then one every 16 cycles.

    CTRL dispatches M0 .. M8 in 23 .. 31. M9 could go at 32, but the queue of 8 has room in the cycle after M1's start:
    33. M10 follows M2's, at 41, M11 M3's, at 51; the LOAD is dispatched at 52 and starts at 53.
    """
    t = simulate(TINY, [program(*[mm()] * 12, weights())])
    assert [x[0] for x in times(t)] == [24, 32, 40, *(50 + 16 * k for k in range(9)), 53]
    assert [x[1] for x in times(t)[:12]] == [35 + 16 * k for k in range(12)]
    assert t.tiles[0].stalls[Engine.CTRL] == {"queue-full MXU": (33 - 32) + (41 - 34) + (51 - 42), "fetch": 22}


def test_a_deadlock_is_an_error() -> None:
    with pytest.raises(DpuError) as e:
        simulate(TINY, [program(mm(tag=6, wait=wait_bit(V, 3)))], entry="vae")
    assert str(e.value) == (
        "error[E414]: entry 'vae': deadlock: entry 'vae' tile 0 word 0 (MM, tag 6) waits for a token of VPU->MXU[3]\n"
        "  why: no tile can advance, so the tokens never come\n"
        "  try: dpuc verify names the word at fault; compile the model again"
    )


def test_fair_sharing_is_max_min() -> None:
    """Rate 30; caps 4, 20, 20: the small one gets its 4, the others 13 each."""
    m = FairMemory(30)
    for key, cap in enumerate((4, 20, 20)):
        m.start(0, key, 260, cap)
    assert m.log[-1] == (0, 30)
    assert m.next() == 20  # 260 / 13
    assert m.finish(20) == [1, 2]
    assert m.next() == 65  # 260 / 4
    m.start(20, 7, 30, 100)  # 26 of 30 are free: 2 cycles
    assert m.next() == 22
    assert m.finish(22) == [7]
    assert m.finish(65) == [0]
    assert m.next() is None


def test_ideal_memory_never_shares() -> None:
    m = IdealMemory()
    m.start(0, 1, 100, 7)
    m.start(3, 2, 70, 7)
    assert m.next() == 13
    assert m.finish(13) == [2]
    assert (m.next(), m.finish(15)) == (15, [1])


@pytest.mark.parametrize("name", ["dpu_f2", "dpu_32tops"])
def test_shipped_archs_and_what_is_not_modelled(name: str) -> None:
    a = with_dram(load_arch(name), "simple")
    t = simulate(a, [program(word(Opcode.LOAD, buffer=Buffer.ACT, inner=4096, n=[1, 1, 1]))] * a.tiles)
    assert t.cycles > a.dram.latency
    assert any("PARAM" in x for x in t.not_modelled)


def test_speed() -> None:
    """About 100,000 words in a few seconds."""
    block = [weights(signal=signal_bit(M)), mm(wait=wait_bit(L), signal=signal_bit(V)), vec(wait=wait_bit(M))]
    t0 = time.perf_counter()
    t = simulate(TINY, [program(*block * 8000)])
    assert len(t.tiles[0].start) == 24_001
    assert time.perf_counter() - t0 < 10
