"""Instruction fetch: every word once and in order, bursts inside pages, errors, END and stop in the middle."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, get, settle, tick

FIFO = PARAMETERS["FifoWords"]
OKAY, SLVERR = 0, 2
QUIET = ("stop_i", "start_i", "program_i", "words_i", "end_i", "ar_ready_i", "r_valid_i", "r_data_i", "r_resp_i")


class Memory:
    """Answers in order. A word's data are its address; words in `bad` come with an error."""

    def __init__(self, rng: random.Random, bad: set[int]) -> None:
        self.rng, self.bad = rng, bad
        self.beats: deque[tuple[int, int]] = deque()  # cycle from which on, address
        self.asked: list[tuple[int, int]] = []
        self.now = 0

    def ask(self, address: int, beats: int) -> None:
        assert beats <= 16 and address % 64 == 0
        assert address // 4096 == (address + 64 * beats - 1) // 4096, "a burst crosses a page"
        self.asked.append((address, beats))
        when = self.now + self.rng.randrange(1, 30)
        self.beats.extend((when, address + 64 * i) for i in range(beats))


async def step(dut: Any, memory: Memory, take: bool, **inputs: int) -> tuple[int, int] | None:
    """One cycle; the word that was handed over and its error bit."""
    rng = memory.rng
    dut.ar_ready_i.value, dut.word_ready_i.value = rng.random() < 0.6, take
    due = bool(memory.beats) and memory.beats[0][0] <= memory.now and rng.random() < 0.8
    dut.r_valid_i.value = due
    if due:
        address = memory.beats.popleft()[1]
        dut.r_data_i.value, dut.r_resp_i.value = address, SLVERR if address in memory.bad else OKAY
    for name, value in inputs.items():
        getattr(dut, name).value = value
    await settle()
    assert get(dut.r_ready_o) == 1
    if get(dut.ar_valid_o) and get(dut.ar_ready_i):
        memory.ask(get(dut.ar_addr_o), get(dut.ar_len_o) + 1)
    word = (get(dut.word_o), get(dut.word_error_o)) if take and get(dut.word_valid_o) else None
    await tick(dut)
    for name in inputs:
        getattr(dut, name).value = 0
    memory.now += 1
    return word


@cocotb.test()
async def streams(dut: Any) -> None:
    """Whole streams of many lengths, from anywhere in a page, taken fast and slowly."""
    await begin(dut, word_ready_i=0, **dict.fromkeys(QUIET, 0))
    for seed in range(30):
        rng = random.Random(seed)
        words = rng.choice((0, 1, 2, 15, 16, 17, 63, 64, 65, 130, 300))
        program = rng.randrange(1 << 30) * 64 + (1 << 40)
        bad = {program + 64 * rng.randrange(max(1, words))} if seed % 3 == 0 else set()
        memory, got, rate = Memory(rng, bad), [], rng.choice((0.1, 0.5, 1.0))
        await step(dut, memory, False, start_i=1, program_i=program, words_i=words)
        ahead = 0
        for _ in range(20 * words + 200):
            word = await step(dut, memory, rng.random() < rate)
            if word:
                got.append(word)
            ahead = max(ahead, sum(n for _, n in memory.asked) - len(got))
            if len(got) == words and get(dut.exhausted_o):
                break
        addresses = [program + 64 * i for i in range(words)]
        assert got == [(a, int(a in bad)) for a in addresses]
        assert [a + 64 * i for a, n in memory.asked for i in range(n)] == addresses
        assert ahead <= FIFO and (words < 300 or rate > 0.4 or ahead > FIFO - 16), "it does not read ahead"
        assert get(dut.exhausted_o) and get(dut.quiet_o)
        # END: nothing of the old stream may be left.
        await step(dut, memory, False, end_i=1)
        assert not get(dut.exhausted_o)


@cocotb.test()
async def end_in_the_middle(dut: Any) -> None:
    """After END open reads are swallowed, `quiet_o` waits for them, the next stream is clean."""
    await begin(dut, word_ready_i=0, **dict.fromkeys(QUIET, 0))
    for seed in range(20):
        rng = random.Random(100 + seed)
        program, words, end = rng.randrange(1 << 20) * 64, 200, rng.randrange(1, 60)
        memory, got = Memory(rng, set()), 0
        await step(dut, memory, False, start_i=1, program_i=program, words_i=words)
        while got < end:
            assert memory.now < 5000, "no more words come"
            word = await step(dut, memory, rng.random() < 0.7)
            assert word is None or word == (program + 64 * got, 0)
            got += word is not None
        await step(dut, memory, False, end_i=1)
        asked = len(memory.asked)
        while memory.beats:
            assert not get(dut.quiet_o) and not get(dut.word_valid_o)
            await step(dut, memory, True)
        await step(dut, memory, True)
        assert get(dut.quiet_o) and len(memory.asked) == asked and not get(dut.word_valid_o)


@cocotb.test()
async def stop(dut: Any) -> None:
    """With stop nothing new is asked for, and what is owed is taken."""
    await begin(dut, word_ready_i=0, **dict.fromkeys(QUIET, 0))
    memory = Memory(random.Random(9), set())
    await step(dut, memory, False, start_i=1, program_i=64 * 60, words_i=500)
    for _ in range(5):
        await step(dut, memory, True)
    dut.stop_i.value = 1
    asked = len(memory.asked)
    assert asked
    while memory.beats:
        await step(dut, memory, False)
    await step(dut, memory, False)
    assert get(dut.quiet_o) and len(memory.asked) == asked
    dut.rst_ni.value = 0
    await tick(dut)
    dut.rst_ni.value, dut.stop_i.value = 1, 0
    await tick(dut)
    assert get(dut.quiet_o) and not get(dut.word_valid_o) and not get(dut.exhausted_o)
