"""Cycle counts worked out by hand.

Latencies of the arch files: dispatch 1, issue 8, MXU 150, VPU 64, LOAD 40, STORE 40, remote signal 40; dpu_tiny: DRAM
20, C = L = 8. The words used here:

- weights: LOAD of 128 contiguous bytes into 16 WGT words: one burst, 16 cycles of data (one word a cycle).
- rows x k tiles: MM of 16 rows: occupancy 8 + 16 k; visible 150 after it.
- VEC of 16 rows of 8 columns: occupancy 8 + 16; visible 64 after it.
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

    CTRL: words enter at 1, 2, 3, 4.
    L0 starts at 1, data 1 + 20 = 21 to 21 + 16 = 37, visible 37 + 40 = 77.
    M0 (2 k tiles: 8 + 32 = 40) starts at 77, issues until 117, visible 117 + 150 = 267, its token frees the buffer.
    L1 starts at 267, data 287 to 303, visible 343.
    M1 starts at 343, issues until 383, visible 533.
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
    assert times(t) == [(1, 21, 37, 77), (77, 77, 117, 267), (267, 287, 303, 343), (343, 343, 383, 533)]
    assert t.cycles == 533
    # LOAD may send L1's request from cycle 3 on, when it enters, but waits for the MXU until 267.
    assert t.tiles[0].stalls[L] == {"dispatch": 1 + 1, "semaphore MXU": 267 - 3}
    assert t.tiles[0].stalls[M] == {"dispatch": 2, "semaphore LOAD": (77 - 2) + (343 - 117)}
    assert t.tiles[0].busy == {L: 32, M: 80, V: 0, Engine.STORE: 0}
    # 2 x 16 rows x 16 k x 8 columns over 64 MACs a cycle
    assert t.executed_macs == 4096
    assert t.utilisation() == 4096 / (64 * 533)
    assert t.utilisation(1000) == 1000 / (64 * 533)


def test_gemm_with_double_buffering() -> None:
    """Two weight buffers: the second LOAD runs under the first MM.

    L0 as before. L1 enters at 3 and starts there (the request of L0 took cycle 1); its data is there at 23, but the
    port is busy until 37: data 37 to 53, visible 93.
    M0 77 to 117. M1's tokens are there at 93; it starts when M0 has issued, at 117, issues until 157, visible 307.
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
    assert times(t) == [(1, 21, 37, 77), (77, 77, 117, 267), (3, 37, 53, 93), (117, 117, 157, 307)]
    assert t.cycles == 307


def test_two_engines_in_a_handshake() -> None:
    """MXU -> VPU -> MXU -> VPU, each waiting for the other.

    M0 enters and starts at 1: occupancy 8 + 16, issued 25, visible 175.
    V0 starts at 175: occupancy 24, issued 199, visible 263.
    M1 starts at 263, issued 287, visible 437. V1 starts at 437, issued 461, visible 525.
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
    assert [x[0] for x in times(t)] == [1, 175, 263, 437]
    assert t.cycles == 525
    assert t.tiles[0].stalls[M] == {"dispatch": 1, "semaphore VPU": 263 - 25}
    assert t.tiles[0].stalls[V] == {"dispatch": 2, "semaphore MXU": (175 - 2) + (437 - 199)}


def test_two_tiles_share_the_memory_rate() -> None:
    """DRAM 24 bytes a cycle, a port 16. Tile 0 loads 1,600 bytes into VBUF (100 words of 16), tile 1 768 bytes.

    Both start at 1, data from 21. Fair share 12 each, below the port's 16.
    Tile 1: 768 / 12 = 64 cycles, ends at 85, visible 125.
    Tile 0 has 64 x 12 = 768 by then; 832 are left at its port's 16: 52 cycles, ends at 137, visible 177.
    Alone they would take 1600 / 16 = 100 and 48 cycles: 16 cycles of each are waiting for memory.
    """

    def load(size: int) -> np.ndarray:
        return program(word(Opcode.LOAD, buffer=Buffer.VBUF, inner=size, n=[1, 1, 1]))

    t = simulate(arch(2, model="simple", bytes_per_cycle=24, port_bytes_per_cycle=16), [load(1600), load(768)])
    assert times(t, 0) == [(1, 21, 137, 177)]
    assert times(t, 1) == [(1, 21, 85, 125)]
    assert t.cycles == 177
    assert [x.stalls[L]["memory"] for x in t.tiles] == [16, 16]
    assert [x.busy[L] for x in t.tiles] == [100, 48]
    assert [x.bytes_read for x in t.tiles] == [1600, 768]
    # Alone or with the ideal model: 21 + 100 + 40.
    one = simulate(arch(1, model="simple", bytes_per_cycle=24, port_bytes_per_cycle=16), [load(1600)])
    ideal = simulate(arch(2, model="ideal", bytes_per_cycle=24, port_bytes_per_cycle=16), [load(1600), load(768)])
    assert one.cycles == ideal.cycles == 161
    assert times(ideal, 1) == [(1, 21, 69, 109)]


def test_a_store_signals_another_tile() -> None:
    """64 bytes of ACT (8 words, 8 cycles).

    Tile 0: STORE 1 to 9, response 9 + 40 + 20 = 69, token at tile 1 at 69 + 40 = 109.
    Tile 1: LOAD starts at 109, data 129 to 137, visible 177.
    """
    move = {"buffer": Buffer.ACT, "inner": 64, "n": [1, 1, 1]}
    t = simulate(
        arch(2),
        [program(word(Opcode.STORE, base=1, remote=0b10, **move)), program(word(Opcode.LOAD, remote=0b01, **move))],
    )
    assert times(t, 0) == [(1, 1, 9, 69)]
    assert times(t, 1) == [(109, 129, 137, 177)]
    assert t.tiles[1].stalls[L]["semaphore remote"] == 108


def test_four_loads_are_outstanding() -> None:
    """L0 .. L3 start at 1, 2, 3, 4; L4 enters at 5 but waits for L0's last data at 29.

    Data of 8 cycles each: L0 21 to 29, L1 to 37, L2 to 45, L3 to 53. L4's is there at 29 + 20 = 49: 53 to 61.
    """
    loads = [word(Opcode.LOAD, buffer=Buffer.ACT, inner=64, n=[1, 1, 1])] * 5
    t = simulate(TINY, [program(*loads)])
    assert [x[:3] for x in times(t)] == [(1, 21, 29), (2, 29, 37), (3, 37, 45), (4, 45, 53), (29, 53, 61)]
    assert t.tiles[0].stalls[L]["memory"] == 29 - 5
    assert t.cycles == 101


def test_fill_and_fences_need_no_dram() -> None:
    """FILL of 3 runs of 2 words: 6 cycles from the start. A fence is visible with the work before it."""
    fill = word(Opcode.LOAD, format=DmaFormat.FILL, buffer=Buffer.ACT, inner=16, n=[3, 1, 1], sstride=[2, 0, 0])
    t = simulate(TINY, [program(fill, word(Opcode.LOAD))])
    assert times(t) == [(1, 1, 7, 47), (2, 7, 7, 47)]
    assert t.tiles[0].bytes_read == 0


def test_port_conflict_delays_the_later_word() -> None:
    """MM sums two k tiles, so it reads ACC bank 0 from 1 to 41; the VPU wants to read that bank at 2.

    Banks are 512 words: a VEC that reads word 512 starts at once.
    """
    same, other = (simulate(TINY, [program(mm(2), vec(a=a))]) for a in (0, 512))
    assert times(same)[1][0] == 41
    assert same.tiles[0].stalls[V] == {"dispatch": 2, "port": 39}
    assert times(other)[1][0] == 2
    assert times(simulate(TINY, [program(mm(1), vec())]))[1][0] == 2  # one k tile: the MXU only writes


def test_drain_waits_for_the_pipeline() -> None:
    """M0 1 to 25, visible 175: M1 with the drain bit starts then."""
    t = simulate(TINY, [program(mm(), mm(flags=int(Flag.DRAIN)))])
    assert [x[0] for x in times(t)] == [1, 175]
    assert t.tiles[0].stalls[M] == {"dispatch": 1, "drain": 150}


def test_a_full_queue_stops_dispatch() -> None:
    """Occupancy 24 each. M0 starts at 1, M1 .. M8 fill the queue of 8 by cycle 9. M9 could enter at 10 but enters at
    25, when M1 starts; the LOAD behind it enters at 26."""
    t = simulate(TINY, [program(*[mm()] * 10, weights())])
    assert [x[0] for x in times(t)] == [1 + 24 * k for k in range(10)] + [26]
    assert t.tiles[0].stalls[Engine.CTRL] == {"queue-full MXU": 15}


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
    assert "instruction fetch" in t.not_modelled


def test_the_l2_is_reported_as_not_modelled() -> None:
    a = load_arch("dpu_asic")
    assert any("l2_bytes" in x for x in simulate(a, [END] * a.tiles).not_modelled)


def test_speed() -> None:
    """About 100,000 words in a few seconds."""
    block = [weights(signal=signal_bit(M)), mm(wait=wait_bit(L), signal=signal_bit(V)), vec(wait=wait_bit(M))]
    t0 = time.perf_counter()
    t = simulate(TINY, [program(*block * 8000)])
    assert len(t.tiles[0].start) == 24_001
    assert time.perf_counter() - t0 < 10
