"""LOAD and STORE on cocotbext-axi's AxiRam, through the tile's scratchpads, against simulator/load_store.py."""

import itertools
import json
import logging
import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge
from cocotbext.axi import AxiBus, AxiRam
from dpu.ir.isa import DMA, Buffer, DmaFormat, Opcode

from tests.rtl import dma

PARAMETERS = json.loads(os.environ["BENCH_PARAMETERS"])
ARCH = dma.arch(PARAMETERS["Cols"], PARAMETERS["Lanes"])
SIZE = 1 << 16
LOAD, STORE = 0, 1


class Bench:
    """The clock, the DRAM, and what the engines said."""

    def __init__(self, dut, memory):
        self.dut, self.memory = dut, memory
        logging.getLogger(f"cocotb.{dut._name}.m_axi").setLevel(logging.WARNING)
        Clock(dut.clk_i, 2, "ns").start()
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk_i, dut.rst_ni, False, size=SIZE)
        self.ram.write(0, bytes(memory.dram))
        self.done, self.faults, self.addresses, self.watching = [0, 0], [], [], False

    async def reset(self):
        dut = self.dut
        dut.stop_i.value = dut.start_valid_i.value = dut.hold_i.value = 0
        regions = sum((size | base << 64) << 128 * b for b, (base, size) in self.memory.regions.items())
        dut.regions_i.value = regions
        dut.rst_ni.value = 0
        for _ in range(4):
            await FallingEdge(dut.clk_i)
        dut.rst_ni.value = 1
        if not self.watching:
            self.watching = True
            cocotb.start_soon(self.watch())

    def pause(self, seed, share):
        """All five channels stand still in a random part of the cycles."""
        write, read = self.ram.write_if, self.ram.read_if
        channels = write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel
        for k, c in enumerate(channels):
            dice = random.Random(seed + k)
            c.set_pause_generator(dice.random() < share for _ in itertools.count())

    async def watch(self):
        """Counts what is done, collects faults; an address stays until it is taken and keeps within its page."""
        dut, held = self.dut, {}
        dice = random.Random(7)
        while True:
            await FallingEdge(dut.clk_i)
            dut.hold_i.value = dice.getrandbits(3) & dice.getrandbits(3)
            await RisingEdge(dut.clk_i)
            done, fault = int(dut.done_o.value), int(dut.fault_valid_o.value)
            for e in (LOAD, STORE):
                self.done[e] += done >> e & 1
                if fault >> e & 1:
                    code = int(dut.fault_code_o.value) >> 8 * e & 255
                    self.faults.append((e, code, (int(dut.fault_index_o.value) >> 32 * e) & 0xFFFFFFFF))
            for x in ("ar", "aw"):
                valid, ready = getattr(dut, f"m_axi_{x}valid").value, getattr(dut, f"m_axi_{x}ready").value
                now = None
                if int(valid):
                    now = int(getattr(dut, f"m_axi_{x}addr").value), int(getattr(dut, f"m_axi_{x}len").value)
                    assert now[0] % 64 == 0 and now[0] % 4096 + 64 * (now[1] + 1) <= 4096, now
                assert held.get(x) in (None, now), f"{x} changed from {held[x]} to {now}"
                held[x] = None if int(valid) and int(ready) else now
                if now and int(ready):
                    self.addresses.append((x, *now))

    async def start(self, engine, word, index):
        dut = self.dut
        await FallingEdge(dut.clk_i)
        dut.word_i.value = int.from_bytes(word.tobytes(), "little")
        dut.index_i.value = index
        dut.start_valid_i.value = 1 << engine
        for _ in range(20000):
            await RisingEdge(dut.clk_i)
            if int(dut.start_ready_o.value) >> engine & 1:
                break
        else:
            raise AssertionError("no word is taken")
        await FallingEdge(dut.clk_i)
        dut.start_valid_i.value = 0

    async def wait(self, engine, count):
        for _ in range(50000):
            if self.done[engine] == count:
                return
            await RisingEdge(self.dut.clk_i)
        raise AssertionError(f"{self.done[engine]} words done, not {count}")

    async def cycles(self, n):
        for _ in range(n):
            await FallingEdge(self.dut.clk_i)


def clear(memory):
    """The scratchpads of the RTL begin with anything: everything is filled first."""
    words = []
    for buffer in (Buffer.ACT, Buffer.VBUF, Buffer.PARAM):
        name = buffer.name.lower()
        unit, count = ARCH.word_bytes[name], ARCH.words[name]
        fields = {"buffer": buffer, "format": DmaFormat.FILL, "fill": 0x5A - 0x40, "inner": unit * count}
        words.append(dma.dma_word(Opcode.LOAD, **fields))
    return words


def memory(seed):
    rng = np.random.default_rng(seed)
    m = dma.memory(rng, ARCH, SIZE)
    return rng, m


@cocotb.test()
async def round_trip(dut):
    """Random LOADs, then random STOREs of what they left, with pauses on all channels: DRAM as in the simulator."""
    rng, m = memory(int(os.environ.get("SEED", "1")))
    want = m.copy()
    b = Bench(dut, m)
    await b.reset()
    rounds = int(os.environ.get("ROUNDS", "3"))
    expected = [0, 0]
    for k in range(rounds):
        b.pause(k, (0.0, 0.3, 0.7)[k % 3])
        loads = clear(m) if k == 0 else []
        loads += [dma.random_word(rng, m, Opcode.LOAD) for _ in range(12)]
        stores = [dma.random_word(rng, m, Opcode.STORE) for _ in range(12)]
        # Int4's group integers were written into the bench's copy of DRAM.
        written = b.ram.read(0, SIZE)
        changed = np.flatnonzero(m.dram != np.frombuffer(written, np.uint8)) if k == 0 else []
        for at in changed:
            b.ram.write(int(at), bytes([m.dram[at]]))
        if k == 0:
            want.dram[:] = m.dram
        loads = [w for w in loads if k == 0 or w.view(DMA)["format"][0] != DmaFormat.INT4]
        for engine, words in ((LOAD, loads), (STORE, stores)):
            for i, w in enumerate(words):
                await b.start(engine, w, i)
            expected[engine] += len(words)
            await b.wait(engine, expected[engine])
            fault, _ = dma.simulate(want, np.concatenate(words))
            assert fault is None and not b.faults, b.faults
        got = np.frombuffer(b.ram.read(0, SIZE), np.uint8)
        assert np.array_equal(got, want.dram), dma.differ("DRAM", got, want.dram)
    assert int(dut.quiet_o.value) == 3


@cocotb.test()
async def stop_while_both_move(dut):
    """Under stop nothing new is sent, and both come to rest; after reset they work again."""
    _, m = memory(3)
    b = Bench(dut, m)
    await b.reset()
    b.pause(5, 0.5)
    for i in range(3):
        for engine in (LOAD, STORE):
            fields = {"buffer": 0, "inner": 3000, "offset": 1000 * i, "sram": 500 * i}
            await b.start(engine, dma.dma_word((Opcode.LOAD, Opcode.STORE)[engine], base=1 + engine, **fields), i)
    await b.cycles(20)
    dut.stop_i.value = 1
    await b.cycles(2)
    sent = len(b.addresses)
    await b.cycles(600)
    assert len(b.addresses) <= sent + 2  # those that stood there already
    assert int(dut.quiet_o.value) == 3 and int(dut.start_ready_o.value) == 0
    assert not b.faults
    await b.reset()
    b.done = [0, 0]
    await b.start(LOAD, dma.dma_word(Opcode.LOAD, buffer=0, inner=100), 0)
    await b.wait(LOAD, 1)
