"""A tile's control with engines made of Python: random programs of all engines, and streams that are wrong."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import cocotb
import numpy as np
from control_bench import PARAMETERS, begin, field, get, pack, settle, tick
from dpu.ir.isa import Engine, Flag, Opcode, Words, word
from dpu.ir.regmap import ERRORS

TILES = PARAMETERS["Tiles"]
DEPTH = [PARAMETERS[f"{e}Queue"] for e in ("Load", "Mxu", "Vpu", "Store")]
OPCODES = (Opcode.LOAD, Opcode.MM, Opcode.VEC, Opcode.STORE)
CODE = {name: code for code, (name, _) in ERRORS.items()}
LOAD, STORE = int(Engine.LOAD), int(Engine.STORE)
QUIET = ("stop_i", "start_i", "program_i", "words_i", "ar_ready_i", "r_valid_i", "r_data_i", "r_resp_i")
QUIET += ("start_ready_i", "done_i", "remote_token_i", "remote_full_i")


def random_program(rng: random.Random, count: int) -> list[Words]:
    """Words whose tokens are all there in stream order, so that the engines can run them in any order of their own."""
    tokens: dict[tuple[int, int, int], int] = {}
    far = 0
    out = []
    for i in range(count):
        e = rng.choice((0, 0, 1, 2, 2, 3))
        wait = signal = remote = 0
        last = i >= count - 60
        for s in sorted(tokens):
            if s[1] == e and tokens[s] and (last or rng.random() < 0.5):
                wait |= 1 << (4 * s[0] + s[2])
                tokens[s] -= 1
        if e == LOAD and far and rng.random() < 0.5:
            far, remote = far - 1, 1
        if not last:
            for _ in range(rng.choice((0, 1, 1, 2, 5))):
                signal |= 1 << rng.randrange(16)
            for b in range(16):
                if signal >> b & 1:
                    tokens[e, b // 4, b % 4] = tokens.get((e, b // 4, b % 4), 0) + 1
            if e == STORE and rng.random() < 0.4:
                far, remote = far + 1, 1
        fields = {"remote": remote} if e in (LOAD, STORE) else {}
        flags = Flag.DRAIN if rng.random() < 0.2 else 0
        out.append(word(OPCODES[e], wait=wait, signal=signal, flags=flags, tag=i, **fields))
    while any(tokens.values()) or far:  # take what is left
        for e in range(4):
            wait = sum(1 << (4 * s[0] + s[2]) for s, n in tokens.items() if s[1] == e and n)
            tokens = {s: n - (s[1] == e and n > 0) for s, n in tokens.items()}
            take = min(far, 1) if e == LOAD else 0
            far -= take
            if wait or take:
                out.append(word(OPCODES[e], wait=wait, **({"remote": take} if e == LOAD else {})))
    return [*out, word(Opcode.END, flags=rng.choice((0, Flag.IRQ)))]


class Tile:
    """Memory with the stream, four engines with words in flight, and the tokens as they should be."""

    def __init__(self, dut: Any, program: list[Words], rng: random.Random, bad: int = -1) -> None:
        self.dut, self.rng, self.bad = dut, rng, bad
        self.program = program
        self.image = [int.from_bytes(w.tobytes(), "little") for w in program]
        self.base = rng.randrange(1 << 20) * 64
        self.beats: deque[int] = deque()
        self.flight: list[deque[tuple[int, int]]] = [deque() for _ in range(4)]  # index, cycle from which it may end
        self.tokens: dict[tuple[int, int, int], int] = {}
        self.far = 0
        self.starts: list[list[int]] = [[] for _ in range(4)]
        self.now = self.irqs = self.dispatched = self.most = 0
        self.slow = [rng.choice((2, 10, 40)) for _ in range(4)]
        self.fault = 0
        self.arrives = 0
        self.accept = True

    def started(self, e: int, index: int, bits: int) -> None:
        w = self.program[index][0]
        assert bits == self.image[index] and OPCODES[e] == w["opcode"]
        assert not w["flags"] & Flag.DRAIN or not self.flight[e], "DRAIN was not met"
        for b in range(16):
            if w["wait"] >> b & 1:
                s = (b // 4, e, b % 4)
                assert self.tokens.get(s, 0) > 0, f"word {index} started without a token of {s}"
                self.tokens[s] -= 1
        if e == LOAD and int(self.image[index]) >> 64 & 1:
            assert self.far > 0
            self.far -= 1
        self.flight[e].append((index, self.now + self.rng.randrange(1, self.slow[e])))
        self.starts[e].append(index)

    async def step(self, **inputs: int) -> None:
        d, rng = self.dut, self.rng
        d.ar_ready_i.value = rng.random() < 0.7
        give = bool(self.beats) and rng.random() < 0.8
        d.r_valid_i.value = give
        if give:
            i = self.beats.popleft()
            d.r_data_i.value, d.r_resp_i.value = self.image[i] if i < len(self.image) else 0, 2 if i == self.bad else 0
        ends = [bool(f) and f[0][1] <= self.now and rng.random() < 0.5 for f in self.flight]
        accepts = [self.accept and len(f) < 4 and rng.random() < 0.5 for f in self.flight]
        d.done_i.value, d.start_ready_i.value = pack(ends, 1), pack(accepts, 1)
        d.remote_token_i.value = self.arrives  # a cycle behind, back to this tile
        self.far += self.arrives
        for name, value in inputs.items():
            getattr(d, name).value = value
        await settle()
        if get(d.ar_valid_o) and get(d.ar_ready_i):
            first = (get(d.ar_addr_o) - self.base) // 64
            self.beats.extend(range(first, first + get(d.ar_len_o) + 1))
        self.arrives = get(d.remote_token_o) & 1
        self.irqs += get(d.irq_o)
        valid, index, words = get(d.start_valid_o), get(d.index_o), get(d.word_o)
        self.fault = get(d.fault_o) if get(d.fault_o) >> 104 & 1 else self.fault
        for e in range(4):
            if valid >> e & 1 and accepts[e]:
                self.started(e, field(index, e, 32), field(words, e, 512))
        for e in range(4):
            if ends[e]:
                w = self.program[self.flight[e].popleft()[0]][0]
                for b in range(16):
                    if w["signal"] >> b & 1:
                        s = (e, b // 4, b % 4)
                        self.tokens[s] = self.tokens.get(s, 0) + 1
        await tick(d)
        for name in inputs:
            getattr(d, name).value = 0
        self.now += 1


@cocotb.test()
async def programs(dut: Any) -> None:
    """Random programs one after the other, without a reset in between."""
    await begin(dut, **dict.fromkeys(QUIET, 0))
    for seed in range(6):
        rng = random.Random(seed)
        tile = Tile(dut, random_program(rng, 300), rng)
        n = len(tile.program)
        await tile.step(start_i=1, program_i=tile.base, words_i=n + rng.choice((0, 5)))
        for _ in range(60 * n):
            await tile.step()
            if not get(dut.busy_o):
                break
        assert not get(dut.busy_o), "it hangs"
        assert get(dut.idle_o) == 15 and get(dut.quiet_o) and get(dut.fetched_o) == n
        of = np.array([OPCODES.index(Opcode(int(w["opcode"][0]))) for w in tile.program[:-1]])
        for e in range(4):
            assert tile.starts[e] == np.flatnonzero(of == e).tolist()
        assert not any(tile.tokens.values()) and not tile.far
        assert tile.irqs == bool(tile.program[-1]["flags"][0] & Flag.IRQ)


@cocotb.test()
async def queues_fill(dut: Any) -> None:
    """Dispatch runs ahead as far as the queue of the next word's engine has room, and no further."""
    await begin(dut, **dict.fromkeys(QUIET, 0))
    for e in range(4):
        rng = random.Random(40 + e)
        tile = Tile(dut, [word(OPCODES[e], tag=i) for i in range(60)] + [word(Opcode.END)], rng)
        tile.accept = False
        await tile.step(start_i=1, program_i=tile.base, words_i=61)
        for _ in range(300):
            await tile.step()
        assert get(dut.fetched_o) == DEPTH[e] and get(dut.held_o) == 1 << e and get(dut.tokenless_o) == 0
        tile.accept = True
        while get(dut.busy_o):
            await tile.step()


@cocotb.test()
async def tokens_that_never_come(dut: Any) -> None:
    """The counters' view of a deadlock, and a reset out of it."""
    await begin(dut, **dict.fromkeys(QUIET, 0))
    rng = random.Random(50)
    program = [word(Opcode.LOAD, tag=0), word(Opcode.MM, wait=1), word(Opcode.VEC, wait=1 << 4), word(Opcode.END)]
    tile = Tile(dut, program, rng)
    await tile.step(start_i=1, program_i=tile.base, words_i=4)
    for _ in range(200):
        await tile.step()
    assert get(dut.busy_o) and get(dut.ended_o) and get(dut.tokenless_o) == 0b0110 and get(dut.idle_o) == 0b1001
    assert field(get(dut.at_o), 1, 32) == 1 and field(get(dut.at_o), 2, 32) == 2
    dut.rst_ni.value = 0
    await tick(dut)
    dut.rst_ni.value = 1
    await tick(dut)
    assert not get(dut.busy_o) and get(dut.idle_o) == 15


@cocotb.test()
async def wrong_streams(dut: Any) -> None:
    """Code, engine, index and address of each fault of dispatch; words before it go on to their engines."""
    await begin(dut, **dict.fromkeys(QUIET, 0))
    good = [word(Opcode.LOAD), word(Opcode.MM), word(Opcode.VEC)]
    unknown = word(Opcode.VEC)
    unknown["opcode"] = 9
    far_load, far_store = (word(o, remote=1 << TILES) for o in (Opcode.LOAD, Opcode.STORE))
    end = word(Opcode.END)
    for name, program, words, bad, index, engine in (
        ("OPCODE", [*good, unknown, end], 5, -1, 3, Engine.CTRL),
        ("FIELD", [*good, far_load, end], 5, -1, 3, Engine.LOAD),
        ("FIELD", [far_store, end], 2, -1, 0, Engine.STORE),
        ("FETCH", [*good, *good], 6, -1, 6, Engine.CTRL),
        ("FETCH", [end], 0, -1, 0, Engine.CTRL),
        ("FETCH", [*good, end], 3, -1, 3, Engine.CTRL),
        ("DRAM", [*good, *good, end], 7, 4, 4, Engine.CTRL),
        ("", [*good, end, unknown], 5, 4, 0, Engine.CTRL),  # what follows END does not count
    ):
        tile = Tile(dut, program, random.Random(60), bad)
        await tile.step(start_i=1, program_i=tile.base, words_i=words)
        for _ in range(300):
            await tile.step()
            if tile.fault:
                dut.stop_i.value = 1
        if not name:
            assert not tile.fault and not get(dut.busy_o)
            continue
        address = 0 if name == "FIELD" else tile.base + 64 * index
        assert tile.fault & ~(0xFF << 109) == int(engine) << 105 | 1 << 104 | CODE[name] << 96 | index << 64 | address
        assert get(dut.busy_o) and get(dut.quiet_o) and get(dut.fetched_o) == index
        dut.rst_ni.value, dut.stop_i.value = 0, 0
        await tick(dut)
        dut.rst_ni.value = 1
        await tick(dut)
