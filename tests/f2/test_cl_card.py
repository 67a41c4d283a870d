"""The whole custom logic from the host's side: registers, window, programs, read-back, and all of it at random."""

from __future__ import annotations

import numpy as np
import pytest
from dpu.ir.f2_regmap import HBM_BASE, cl
from dpu.rtl.f2.card import Counter, Fault

from .cl_host import (
    ALONE,
    BASES,
    BYTES,
    COPY_DONE,
    COPY_FAILED,
    DATA,
    DEAD_BYTES,
    DONE,
    ERROR,
    PAUSE,
    PCIS_BAD,
    READY,
    START,
    Host,
    fresh,
    long_copy,
    run,
    simulated,
)

pytestmark = pytest.mark.usefixtures("rtl_tools")


# Identity and registers


def test_identity(host: Host) -> None:
    read = host.card.read
    digest = int(host.arch.digest, 16)
    assert read(cl("CL_ID")) == int.from_bytes(b"DPUF", "big") and read(cl("CL_VERSION")) == 1 << 16
    assert (read(cl("CL_ARCH_DIGEST_LO")), read(cl("CL_ARCH_DIGEST_HI"))) == (digest & 0xFFFFFFFF, digest >> 32)
    assert (read(cl("CL_TILES")), read(cl("CL_MEMORY_MIB"))) == (2, host.arch.dram.bytes >> 20)
    assert read(cl("CL_STATUS")) == READY and read(cl("CL_CONTROL")) == 0
    assert host.get("ARCH_DIGEST", wide=True) == digest and host.get("SHAPE") == 2 | 8 << 8 | 4 << 16


def test_unassigned_addresses_are_never_all_ones(host: Host) -> None:
    for address in (0x4000, 0xF_FFFC, 0x10_0054, 0x10_FFFC, 0x20_0000, 0x3FF_FFFC):
        host.card.write(address, 0xFFFFFFFF)
        assert host.card.read(address) == 0xDEAD0000 | address & 0xFFFF


def test_read_and_write_registers(host: Host) -> None:
    for name in ("COPY_SRC_LO", "COPY_SRC_HI", "COPY_DST_LO", "COPY_DST_HI", "COPY_BYTES", "SCRATCH"):
        for value in (0xFFFFFFFF, 0x12345678, 0):
            host.card.write(cl(f"CL_{name}"), value)
            assert host.card.read(cl(f"CL_{name}")) == value, name
    for name in ("ID", "TILES", "MEMORY_MIB", "COPY_DONE_BYTES"):
        before = host.card.read(cl(f"CL_{name}"))
        host.card.write(cl(f"CL_{name}"), ~before)
        assert host.card.read(cl(f"CL_{name}")) == before, name
    host.card.write(cl("CL_IRQ_ENABLE"), 0xFFFFFFFF)
    assert host.card.read(cl("CL_IRQ_ENABLE")) == 31


def test_the_global_counter_counts_4_ns(host: Host) -> None:
    def now() -> int:
        low = host.card.read(cl("CL_GLOBAL_COUNT_LO"))
        return low | host.card.read(cl("CL_GLOBAL_COUNT_HI")) << 32

    first, cycle = now(), host.card.cycle
    host.card.step(1000)
    assert now() - first == host.card.cycle - cycle


def test_fresh_memory_is_noise_by_seed(host: Host) -> None:
    """No byte says of itself that nobody wrote it; loading the image again leaves what was there."""
    first = host.card.peek(0, BYTES)
    assert (np.bincount(first, minlength=256) < 50).all() and np.unique(host.card.peek(BYTES, 512)).size > 200
    host.card.reset()
    np.testing.assert_array_equal(host.card.peek(0, BYTES), first)
    same, other = fresh(), fresh(seed=2)
    np.testing.assert_array_equal(same.card.load(HBM_BASE, BYTES), first)
    assert np.mean(other.card.peek(0, BYTES) == first) < 0.05
    same.card.close()
    other.card.close()


# The window


def test_the_window_takes_any_address_and_length(either: Host) -> None:
    rng = np.random.default_rng(3)
    size = 1 << 16
    base = 0x1_0000_0000 - size // 2  # across 4 GiB
    if base + size > host_bytes(either):
        base = 3 << 20
    model = either.card.peek(base, size)
    for _ in range(25):
        at, size = int(rng.integers(0, 60000)), int(rng.choice([1, 4, 63, 64, 65, 300, 5000]))
        data = rng.integers(0, 256, size).astype(np.uint8)
        either.card.store(HBM_BASE + base + at, data)
        model[at : at + size] = data
        at, size = int(rng.integers(0, 60000)), int(rng.choice([1, 4, 63, 64, 65, 300, 5000]))
        np.testing.assert_array_equal(either.card.load(HBM_BASE + base + at, size), model[at : at + size])
    np.testing.assert_array_equal(either.card.peek(base, len(model)), model)
    assert either.card.read(cl("CL_STATUS")) == READY


def host_bytes(host: Host) -> int:
    return host.arch.dram.bytes


def test_a_read_is_a_fence_for_posted_writes(either: Host) -> None:
    """A host sees no response of its stores; the data of a load that follows say that they are in HBM."""
    either.card.inject(Fault.POSTED, 1)
    for n in range(4):
        begin = either.card.cycle
        either.upload(n << 14, DATA)
        assert either.card.cycle - begin < 10
        either.card.load(HBM_BASE + (5 << 20), 4)
        np.testing.assert_array_equal(either.card.peek(n << 14, BYTES), DATA)


def test_outside_the_window(host: Host) -> None:
    """An answer, a mark in STATUS, and no byte of HBM touched."""
    for address in (0, HBM_BASE - 128, HBM_BASE + host_bytes(host), 1 << 40):
        host.card.store(address, DATA[:128])
        np.testing.assert_array_equal(host.card.load(address, 128), np.tile(DEAD_BYTES, 32))
        assert host.card.read(cl("CL_STATUS")) == READY | PCIS_BAD
        host.card.write(cl("CL_STATUS"), PCIS_BAD)
        assert host.card.read(cl("CL_STATUS")) == READY
    assert host.card.count(Counter.HBM_WRITE_BEATS) == host.card.count(Counter.HBM_READ_BEATS) == 0


def test_before_memory_is_ready(host: Host) -> None:
    host.card.inject(Fault.COLD_HBM, 1)
    host.card.step(20)
    assert host.card.read(cl("CL_STATUS")) == 0
    np.testing.assert_array_equal(host.card.load(HBM_BASE, 64), np.tile(DEAD_BYTES, 16))
    host.start_copy(0, 64)
    assert host.copied() == (COPY_FAILED, 7)
    host.card.inject(Fault.COLD_HBM, 0)
    host.card.step(20)
    host.card.write(cl("CL_STATUS"), PCIS_BAD)
    run(host)


# Programs and read-back


def test_programs_leave_the_bytes_of_the_simulator(either: Host) -> None:
    for _ in range(2):
        run(either)


def test_a_program_that_reaches_beyond_memory_fails(host: Host) -> None:
    """Not a wrap to address 0: DRAM error, and nothing written."""
    before = host.card.peek(2 << 20, BYTES)
    host.place([long_copy(1), ALONE], {0: (host_bytes(host) - 64, BYTES), 1: (2 << 20, BYTES)})
    host.set("CTRL", START)
    assert host.ended() == ERROR and host.get("ERROR") & 0xFF == 7
    np.testing.assert_array_equal(host.card.peek(2 << 20, BYTES), before)


def test_read_back_of_any_alignment(either: Host) -> None:
    rng = np.random.default_rng(4)
    data = rng.integers(0, 256, 1 << 16).astype(np.uint8)
    either.card.poke(8 << 20, data)
    for size in (64, 4096, 4160, 20032):
        at, offset = 64 * int(rng.integers(0, 700)), 64 * int(rng.integers(0, 700))
        either.buffer[:] = 0
        np.testing.assert_array_equal(either.download((8 << 20) + at, size, offset), data[at : at + size])
        assert not either.buffer[:offset].any() and not either.buffer[offset + size :].any()
        assert either.card.read(cl("CL_COPY_DONE_BYTES")) == size


def test_read_back_is_fast(host: Host) -> None:
    """Beats of PCIM a cycle: 64 of 66 cycles of a chunk, less the start."""
    size = 1 << 18
    host.start_copy(0, size)
    begin = host.card.cycle
    assert host.copied() == (COPY_DONE, 0)
    assert (size // 64) / (host.card.cycle - begin) > 0.9


def test_read_back_while_tiles_run(either: Host) -> None:
    regions = {0: DATA, 1: np.zeros(BYTES, np.uint8)}
    stream = long_copy(40)
    want = simulated(either.arch, [stream, ALONE], regions)
    either.upload(BASES[0][0], DATA)
    either.card.poke(8 << 20, np.tile(DATA, 8))
    either.place([stream, ALONE], BASES)
    either.set("CTRL", START)
    np.testing.assert_array_equal(either.download(8 << 20, 8 * BYTES), np.tile(DATA, 8))
    either.upload(9 << 20, DATA)
    assert either.ended() == DONE
    np.testing.assert_array_equal(either.download(BASES[1][0], BYTES), want[1])


# Everything at once


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100))
def test_random_sessions(seed: int) -> None:
    """Runs, copies and loads beside them, pauses, and soft resets at random moments, with pauses on all channels."""
    rng = np.random.default_rng(seed)
    host = fresh(int(rng.integers(0, 160)), seed)
    host.card.inject(Fault.POSTED, seed % 2)
    host.card.inject(Fault.SLOW_PCIM, int(rng.choice([0, 0, 3, 20])))
    regions = {0: DATA, 1: np.zeros(BYTES, np.uint8)}
    stream = long_copy(50)
    want = simulated(host.arch, [stream, ALONE], regions)
    for _ in range(6):
        for base, data in regions.items():
            host.upload(BASES[base][0], data)
        host.place([stream, ALONE], BASES)
        host.card.load(HBM_BASE, 4)
        host.set("CTRL", START)
        for _ in range(int(rng.integers(0, 4))):
            at, size = 64 * int(rng.integers(0, 40)), 64 * int(rng.integers(1, 20))
            if rng.random() < 0.5:
                host.card.write(cl("CL_CONTROL"), PAUSE)
                host.card.step(int(rng.integers(1, 200)))
                host.card.write(cl("CL_CONTROL"), 0)
            np.testing.assert_array_equal(host.download(BASES[0][0] + at, size), DATA[at : at + size])
            np.testing.assert_array_equal(host.card.load(HBM_BASE + BASES[0][0] + at, size), DATA[at : at + size])
        if rng.random() < 0.4:
            host.card.step(int(rng.integers(0, 300)))
            host.start_copy(0, 1 << 14)
            assert host.soft_reset(20_000)
            continue
        assert host.ended() == DONE
        np.testing.assert_array_equal(host.download(BASES[1][0], BYTES), want[1])
    host.card.close()
