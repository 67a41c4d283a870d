"""The kernel's RTL through its control registers: protocol ap_ctrl_hs, lists and reports of every length, errors."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from dpu.ir.arch import load_arch
from dpu.ir.regmap import MAGIC, register
from dpu.rtl.model import KERNEL, Model
from dpu.rtl.xrt.kernel import (
    BEAT,
    CTRL,
    DONE,
    GIE,
    IDLE,
    IER,
    ISR,
    READY,
    SCALARS,
    START,
    Op,
    arguments,
    command,
)

pytestmark = pytest.mark.usefixtures("rtl_tools")
ARCH = load_arch("dpu_tiny")
LIST, REPORT, PART = 0x1_8000_0000, 0x2_0000_1000, 1 << 14  # addresses with both halves in use; bytes of each
END = 0xC0FFEE


class Kernel:
    """A kernel with a list and a report in memory."""

    def __init__(self, stall: int = 0) -> None:
        self.model = Model(ARCH, checked=True, stall=stall, seed=3, top=KERNEL)
        self.list, self.report = np.zeros(PART, np.uint8), np.zeros(PART, np.uint8)
        self.model.map(LIST, self.list)
        self.model.map(REPORT, self.report)
        for name, value in zip(
            SCALARS, (LIST & 0xFFFFFFFF, LIST >> 32, REPORT & 0xFFFFFFFF, REPORT >> 32), strict=True
        ):
            self.model.write(next(a.offset for a in arguments(1) if a.name == name), value)
        self.model.write(GIE, 1)
        self.model.write(IER, DONE >> 1)

    def run(self, commands: list[int], cycles: int = 20000) -> list[int]:
        """The report's words after a run, whole beats; -1 in what was not written."""
        self.list[:] = 0
        self.list[: 8 * len(commands)] = np.array(commands, "<u8").view(np.uint8)
        self.report[:] = 0xA5
        self.model.write(CTRL, START)
        self.model.run(cycles, irq=True)
        assert self.model.irq, "the run does not end"
        self.model.write(ISR, self.model.read(ISR))
        assert self.model.read(CTRL) == DONE | IDLE | READY
        words = self.report.view("<u4")
        return [-1 if w == 0xA5A5A5A5 else int(w) for w in words]


@pytest.fixture(scope="module", params=[0, 120], ids=["", "stalls"])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    made = Kernel(request.param)
    yield made
    made.model.close()


def read(name: str, index: int = 0) -> int:
    return command(Op.READ, register(name).address(index))


def write(name: str, value: int, index: int = 0) -> int:
    return command(Op.WRITE, register(name).address(index), value)


def end(value: int = END) -> int:
    return command(Op.END, value=value)


def test_control_registers(kernel: Kernel) -> None:
    m = kernel.model
    assert m.read(CTRL) == IDLE and m.read(GIE) == 1 and m.read(IER) == 1 and m.read(ISR) == 0
    for name in SCALARS:
        offset = next(a.offset for a in arguments(1) if a.name == name)
        before = m.read(offset)
        m.write(offset, ~before & 0xFFFFFFFF)
        assert m.read(offset) == ~before & 0xFFFFFFFF
        m.write(offset, before)
    m.write(next(a.offset for a in arguments(1) if a.port), 0x1234)  # a pointer: taken, not kept
    assert m.read(next(a.offset for a in arguments(1) if a.port)) == 0
    assert m.read(0xFFC) == 0


def test_a_run_sets_done_once(kernel: Kernel) -> None:
    m = kernel.model
    kernel.run([end()])
    assert m.read(CTRL) == IDLE  # cleared by the read before
    m.write(ISR, 1)  # toggle on write: a bit that is 0 becomes 1
    assert m.irq
    m.write(ISR, 1)
    assert not m.irq
    m.write(IER, 0)
    m.write(CTRL, START)
    assert m.read(CTRL) & START  # until the run has ended
    while m.read(CTRL) & START:
        pass
    assert not m.irq and m.read(ISR) == 0  # not enabled
    m.write(IER, DONE >> 1)
    assert m.read(CTRL) & IDLE


def test_it_reads_and_writes_the_registers_of_the_dpu(kernel: Kernel) -> None:
    words = kernel.run([write("BASE_LO", 0x1000, 3), write("BASE_HI", 7, 3), read("BASE_LO", 3), read("BASE_HI", 3),
                        read("ID"), end()])  # fmt: skip
    assert words[:16] == [0x1000, 7, MAGIC, END, *[0] * 12] and set(words[16:]) == {-1}


@pytest.mark.parametrize("reads", [0, 1, 6, 7, 14, 15, 16, 17, 31, 32, 47, 63])
def test_reports_of_every_length(kernel: Kernel, reads: int) -> None:
    """Up to and over a beat of commands (8) and of report (16)."""
    rng = random.Random(reads)
    values = [rng.getrandbits(32) & ~0x3F for _ in range(8)]
    commands = [write("LIMIT_HI", v, i) for i, v in enumerate(values)]
    wanted = []
    for _ in range(reads):
        i = rng.randrange(8)
        commands.append(read("LIMIT_HI", i))
        wanted.append(values[i])
    words = kernel.run([*commands, end()])
    assert words[: reads + 1] == [*wanted, END]
    beats = -(-(reads + 1) // 16)
    assert set(words[reads + 1 : 16 * beats]) <= {0} and set(words[16 * beats :]) == {-1}


def test_it_waits_for_bits(kernel: Kernel) -> None:
    """RESET sets BUSY for some cycles: without the wait the read sees it."""
    status, ctrl = register("STATUS").address(), register("CTRL").address()
    reset = command(Op.WRITE, ctrl, 2)
    assert kernel.run([reset, read("STATUS"), command(Op.WAIT, status, 1), read("STATUS"), end()])[:3] == [1, 0, END]


@pytest.mark.parametrize("bad", [4, 9, 15])
def test_an_operation_that_does_not_exist_ends_the_run_without_its_end(kernel: Kernel, bad: int) -> None:
    assert set(kernel.run([read("ID"), bad << 28, end()])) == {-1}
    assert kernel.run([read("ID"), end()])[:2] == [MAGIC, END]  # and the next run is right


def test_memory_that_answers_with_an_error_ends_the_run(kernel: Kernel) -> None:
    m = kernel.model
    m.map(LIST, kernel.list, fault=True)
    assert set(kernel.run([end()])) == {-1}
    m.map(LIST, kernel.list)
    m.map(REPORT, kernel.report, fault=True)
    assert set(kernel.run([*[read("ID")] * 40, end()])) == {-1}
    m.map(REPORT, kernel.report)
    assert kernel.run([end(7)])[0] == 7
    assert m.cycle > 0 and not m.memory_busy and BEAT == 64
