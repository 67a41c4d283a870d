"""The custom logic in trouble: faults of shell and memory, resets, interrupts, power, and faults in its own source."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.f2_regmap import HBM_BASE, cl
from dpu.ir.isa import Engine, Opcode, word
from dpu.rtl.f2.build import FOLDER
from dpu.rtl.f2.card import Card, Counter, Fault

from .cl_host import (
    ALONE,
    BASES,
    BYTES,
    COPY_FAILED,
    DATA,
    DEAD_BYTES,
    DONE,
    END,
    ERROR,
    LOST,
    PAUSE,
    PCIM_LATE,
    PCIS_BAD,
    POWER,
    READY,
    SOFT_RESET,
    STAND_IN,
    START,
    Host,
    long_copy,
    run,
    simulated,
    two_tiles,
)

pytestmark = pytest.mark.usefixtures("rtl_tools")


# Faults of the shell, of the host and of memory


def test_pcim_errors(host: Host) -> None:
    host.card.inject(Fault.ERROR_PCIM, 1)
    host.start_copy(0, 3 * 4096)
    assert host.copied() == (COPY_FAILED, 3)
    host.start_copy(0, 4096, offset=len(host.buffer) - 2048)  # beyond the buffer
    assert host.copied() == (COPY_FAILED, 3) and host.card.read(cl("CL_COPY_DONE_BYTES")) == 2048
    run(host)


def test_pcim_timeout(host: Host) -> None:
    """The shell takes nothing for longer than 8 us: told, marked, and usable when it goes on."""
    host.card.inject(Fault.HANG_PCIM, 1)
    host.start_copy(0, 4096)
    assert host.copied() == (COPY_FAILED, 4)
    assert host.card.read(cl("CL_STATUS")) == READY | PCIM_LATE
    host.start_copy(0, 4096)
    assert host.copied() == (COPY_FAILED, 4)
    host.card.inject(Fault.HANG_PCIM, 0)
    host.card.step(500)
    host.card.write(cl("CL_STATUS"), PCIM_LATE)
    run(host)
    assert host.card.read(cl("CL_STATUS")) == READY


def test_a_lost_write_response(host: Host) -> None:
    """Nobody knows whether the bytes are there: only a new image makes the engine usable."""
    host.card.inject(Fault.DROP_B, 1)
    host.start_copy(0, 4096)
    assert host.copied() == (COPY_FAILED, 4) and host.card.read(cl("CL_COPY_DONE_BYTES")) == 0
    assert not host.soft_reset()
    host.card.reset()
    run(host)


def test_a_slow_shell(host: Host) -> None:
    host.card.inject(Fault.SLOW_PCIM, 30)
    run(host)


def test_memory_error_in_a_program_and_in_a_copy(host: Host) -> None:
    host.upload(BASES[0][0], DATA)
    host.place([long_copy(4), ALONE], BASES)
    host.card.inject(Fault.ERROR_HBM, 1)
    host.set("CTRL", START)
    assert host.ended() == ERROR
    host.set("CTRL", 2)
    assert host.ended() == 0
    host.card.inject(Fault.ERROR_HBM, 1)
    host.start_copy(0, 4096)
    assert host.copied() == (COPY_FAILED, 2)
    run(host)


def test_the_window_outlives_memory(host: Host) -> None:
    """HBM hangs: the host gets dead data before the shell's timeout, and knows it from STATUS."""
    host.card.inject(Fault.HANG_HBM, 1 << 2)
    np.testing.assert_array_equal(host.card.load(HBM_BASE, 256), np.tile(DEAD_BYTES, 64))
    assert host.card.read(cl("CL_STATUS")) == READY | PCIS_BAD | LOST
    host.card.store(HBM_BASE, DATA)
    assert host.card.count(Counter.TIMEOUTS) == 0
    host.card.inject(Fault.HANG_HBM, 0)
    host.card.reset()
    run(host)


# Soft reset


@pytest.mark.parametrize("cycles", [3, 40, 151, 400, 900])
def test_soft_reset_in_a_run(either: Host, cycles: int) -> None:
    """At any moment of a run with a copy beside it: it ends, no access is left open, the next run is right."""
    either.upload(BASES[0][0], DATA)
    either.place([long_copy(60), long_copy(60)], BASES)
    either.set("CTRL", START)
    either.start_copy(0, 1 << 18)
    either.card.step(cycles)
    assert either.soft_reset()
    assert either.get("STATUS") == 0 and either.get("TILE_PROGRAM_WORDS") == 0
    status, code = either.copied()
    assert (status, code) == (COPY_FAILED, 5)
    run(either)


def test_soft_reset_while_memory_hangs(host: Host) -> None:
    """It waits, the DPU's registers are away, and loading the image again helps."""
    host.upload(BASES[0][0], DATA)
    host.place([long_copy(60), ALONE], BASES)
    host.card.inject(Fault.HANG_HBM, 1)
    host.set("CTRL", START)
    host.card.step(300)
    assert not host.soft_reset()
    assert host.get("STATUS") == 0xDEAD0000 | 0x18
    assert host.card.read(cl("CL_CONTROL")) == SOFT_RESET
    host.card.inject(Fault.HANG_HBM, 0)
    host.card.reset()
    run(host)


# Interrupts


def test_interrupts(host: Host) -> None:
    card = host.card
    card.write(cl("CL_IRQ_ENABLE"), 0b01111)
    for event, bit in (("done", 1), ("error", 2), ("copied", 4), ("copy failed", 8)):
        if event == "done":
            host.place([ALONE, ALONE], BASES)
            host.set("CTRL", START)
        elif event == "error":
            host.place([[word(Opcode.MM, wait=1 << 4 * Engine.LOAD), END], ALONE], BASES)
            host.set("WATCHDOG", 500)
            host.set("CTRL", START)
        else:
            host.start_copy(0, 64 if event == "copied" else 65)
        card.step(10_000, irq=True)
        assert card.irqs() == 1 and card.read(cl("CL_IRQ_PENDING")) == bit, event
        card.write(cl("CL_IRQ_PENDING"), bit)
        assert card.read(cl("CL_IRQ_PENDING")) == 0
    card.step(300)
    assert card.irqs() == 0


def test_no_interrupt_that_is_not_enabled(host: Host) -> None:
    host.start_copy(0, 64)
    host.card.step(1000)
    assert host.card.irqs() == 0 and host.card.read(cl("CL_IRQ_PENDING")) == 4
    host.card.write(cl("CL_IRQ_ENABLE"), 4)  # what waits is told now
    host.card.step(100)
    assert host.card.irqs() == 1


@pytest.mark.parametrize("fault", [Fault.DROP_IRQ, Fault.SILENT_IRQ])
def test_a_lost_interrupt_costs_no_later_one(host: Host, fault: Fault) -> None:
    host.card.write(cl("CL_IRQ_ENABLE"), 31)
    host.card.inject(fault, 1)
    host.start_copy(0, 64)
    host.card.step(2000)
    assert host.card.irqs() == 0 and host.card.read(cl("CL_IRQ_PENDING")) == 4
    host.card.inject(fault, 0)
    host.card.write(cl("CL_IRQ_PENDING"), 4)
    host.start_copy(0, 64)
    host.card.step(1000)
    assert host.card.irqs() == 1


# Power


def test_power_warning(host: Host) -> None:
    host.card.write(cl("CL_IRQ_ENABLE"), 16)
    host.card.power(2)
    host.card.step(100, irq=True)
    assert host.card.irqs() == 1
    assert host.card.read(cl("CL_STATUS")) == READY | POWER | 2 << 8
    host.card.power(0)
    host.card.step(10)
    assert host.card.read(cl("CL_STATUS")) == READY | POWER
    host.card.write(cl("CL_STATUS"), POWER)
    assert host.card.read(cl("CL_STATUS")) == READY
    host.card.write(cl("CL_IRQ_PENDING"), 16)
    run(host)


@pytest.mark.parametrize("kind", ["pause", "critical"])
def test_pause(host: Host, kind: str) -> None:
    """Tiles get no new memory access, copies do; afterwards the run goes on to the right end."""
    regions = {0: DATA, 1: np.zeros(BYTES, np.uint8)}
    want = simulated(host.arch, [long_copy(60), ALONE], regions)
    host.upload(BASES[0][0], DATA)
    host.place([long_copy(60), ALONE], BASES)
    host.set("CTRL", START)
    host.card.step(300)
    host.card.write(cl("CL_CONTROL"), PAUSE if kind == "pause" else 0)
    host.card.power(3 if kind == "critical" else 0)
    host.card.step(500)
    before = host.get("TILE_STORE_WORDS")
    host.card.step(2000)
    assert host.get("TILE_STORE_WORDS") == before < 60 and host.get("STATUS") & 1
    np.testing.assert_array_equal(host.download(BASES[0][0], BYTES), DATA)
    host.card.write(cl("CL_CONTROL"), 0)
    host.card.power(0)
    assert host.ended() == DONE
    np.testing.assert_array_equal(host.download(BASES[1][0], BYTES), want[1])


# Would the models see it?

BROKEN = {
    "copy crosses 4 KiB": ("dpu_f2_copy", "= 7'd64 - {1'b0, dst_q[11:6]};", "= 7'd64;", "PCIM: burst crosses 4 KiB"),
    "no wait for acknowledge": ("dpu_f2_irq", "want_q & ~open_q;", "want_q;", "a second interrupt before the first"),
    "last on every half": ("dpu_f2_narrow", "last: 1'b0}", "last: 1'b1}", "WLAST is on the wrong beat"),
    "pieces of any place": ("dpu_f2_split", "{1'b0, slot};", "4'd0;", "burst crosses 4 KiB"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_the_models_see_broken_rules(name: str, tmp_path: Path) -> None:
    """A fault in the source ends the run with the rule that it breaks."""
    module, old, new, text = BROKEN[name]
    source = (FOLDER / f"{module}.sv").read_text()
    assert source.count(old) == 1
    (tmp_path / f"{module}.sv").write_text(source.replace(old, new))
    host = Host(Card(two_tiles(), 1, 40, checked=True, extra=(*STAND_IN, tmp_path / f"{module}.sv")))
    with pytest.raises(DpuError, match=text):
        host.card.write(cl("CL_IRQ_ENABLE"), 31)
        for offset in range(0, 4096, 64 * 9):
            at = (1 << 20) + (7 << 14) + offset  # the last 512 bytes of 4 KiB in HBM
            host.upload(at, DATA)
            host.start_copy(at, BYTES, 2 * offset)
            host.start_copy(at, 65)
            host.copied()
            for enabled in (0, 31, 0, 31):  # rises sooner than the shell acknowledges
                host.card.write(cl("CL_IRQ_ENABLE"), enabled)
            host.card.write(cl("CL_IRQ_PENDING"), 31)
    host.card.close()
