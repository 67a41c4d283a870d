"""What a host does with a Verilated card, by hand: the shortest way to each register, no recovery, no driver."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from dpu.ir.arch import Arch, load_arch
from dpu.ir.f2_regmap import HBM_BASE, cl
from dpu.ir.isa import Buffer, Engine, Opcode, Words, word
from dpu.ir.regmap import register
from dpu.rtl.f2.card import Card
from dpu.simulator.machine import Machine

Bytes = npt.NDArray[np.uint8]

STAND_IN = tuple(sorted((Path(__file__).parents[1] / "rtl" / "stand_in").glob("*.sv")))
"""MXU and VPU that only take time: two tiles build fast."""

HOST = 0x71_2345_0000
"""Physical address of the host's buffer."""

START, RESET, BUSY, DONE, ERROR = 1, 2, 1, 2, 4
SOFT_RESET, PAUSE = 1, 2  # CONTROL
READY, POWER, PCIM_LATE, PCIS_BAD, LOST = 1, 2, 4, 8, 16  # STATUS
COPY_BUSY, COPY_DONE, COPY_FAILED = 1, 2, 4
END = word(Opcode.END)
BYTES = 4096
DATA = np.random.default_rng(1).integers(0, 256, BYTES).astype(np.uint8)
BASES = {0: ((1 << 20) + 64, BYTES), 1: (2 << 20, BYTES)}
ALONE = [END]
DEAD_BYTES = np.frombuffer(bytes.fromhex("addeadde"), np.uint8)


def two_tiles() -> Arch:
    """Two tiles of 8 x 8 with four lanes."""
    tiny = load_arch("dpu_tiny").model_dump(mode="json")
    return Arch.model_validate({**tiny, "name": "two_tiles", "tiles": 2, "lanes": 4})


class Host:
    """A card, a buffer of 1 MiB that PCIM reaches, and two regions of device memory that programs use."""

    def __init__(self, card: Card) -> None:
        self.card, self.arch = card, card.arch
        self.buffer = np.zeros(1 << 20, np.uint8)
        card.host(self._take)

    def _take(self, address: int, beat: Bytes, strobe: int) -> bool:
        at = address - HOST
        if not 0 <= at <= len(self.buffer) - 64 or strobe != (1 << 64) - 1:
            return False
        self.buffer[at : at + 64] = beat
        return True

    def get(self, name: str, index: int = 0, *, wide: bool = False) -> int:
        """A register of the DPU, by name."""
        if wide:
            return self.get(f"{name}_LO", index) | self.get(f"{name}_HI", index) << 32
        return self.card.read(register(name).address(index))

    def set(self, name: str, value: int, index: int = 0, *, wide: bool = False) -> None:
        """Set a register of the DPU."""
        if wide:
            self.set(f"{name}_LO", value & 0xFFFFFFFF, index)
            self.set(f"{name}_HI", value >> 32, index)
        else:
            self.card.write(register(name).address(index), value)

    def upload(self, address: int, data: Bytes) -> None:
        """Bytes into device memory, through the window."""
        self.card.store(HBM_BASE + address, data.view(np.uint8).reshape(-1))

    def start_copy(self, source: int, size: int, offset: int = 0) -> None:
        """Set the read-back engine going."""
        target = HOST + offset
        for name, value in (("SRC", source), ("DST", target)):
            self.card.write(cl(f"CL_COPY_{name}_LO"), value & 0xFFFFFFFF)
            self.card.write(cl(f"CL_COPY_{name}_HI"), value >> 32)
        self.card.write(cl("CL_COPY_BYTES"), size)
        self.card.write(cl("CL_COPY_CONTROL"), 1)

    def copied(self, cycles: int = 200_000) -> tuple[int, int]:
        """COPY_STATUS without its code, and the code, when the engine is not busy."""
        for _ in range(0, cycles, 50):
            status = self.card.read(cl("CL_COPY_STATUS"))
            if not status & COPY_BUSY:
                return status & 0xFF, status >> 8
            self.card.step(50)
        raise AssertionError("the copy does not end")

    def download(self, address: int, size: int, offset: int = 0) -> Bytes:
        """Bytes of device memory, through the read-back engine."""
        self.start_copy(address, size, offset)
        assert self.copied() == (COPY_DONE, 0)
        return self.buffer[offset : offset + size].copy()

    def place(self, streams: list[list[Words]], bases: dict[int, tuple[int, int]], at: int = 16 << 20) -> None:
        """Programs and regions (address, bytes) into device memory and registers."""
        for base, (address, size) in bases.items():
            self.set("BASE", address, base, wide=True)
            self.set("LIMIT", size, base, wide=True)
        for t, stream in enumerate(streams):
            image = np.concatenate(stream)
            self.upload(at + (t << 20) + 0xF40, image)  # bursts end at a page
            self.set("TILE_PROGRAM", at + (t << 20) + 0xF40, t, wide=True)
            self.set("TILE_PROGRAM_WORDS", len(image), t)

    def ended(self, cycles: int = 200_000) -> int:
        """STATUS of the DPU when it is not busy."""
        for _ in range(0, cycles, 50):
            status = self.get("STATUS")
            if not status & BUSY:
                return status
            self.card.step(50)
        raise AssertionError("the run does not end")

    def soft_reset(self, cycles: int = 5000) -> bool:
        """Whether it came to an end."""
        self.card.write(cl("CL_CONTROL"), SOFT_RESET)
        for _ in range(0, cycles, 20):
            if not self.card.read(cl("CL_CONTROL")) & SOFT_RESET:
                return True
            self.card.step(20)
        return False


def simulated(arch: Arch, streams: list[list[Words]], regions: dict[int, Bytes]) -> dict[int, Bytes]:
    """What the streams leave in memory."""
    want = {b: d.copy() for b, d in regions.items()}
    Machine(arch, want).run([np.concatenate(s) for s in streams])
    return want


def _token(consumer: Engine, k: int = 0) -> int:
    return 1 << (4 * consumer + k)


def ring(rounds: int, tiles: int = 2) -> list[list[Words]]:
    """Data of base 0 go from tile to tile through base 1: a token between tiles for each step, strobes, odd lengths."""
    streams: list[list[Words]] = [[] for _ in range(tiles)]
    for step in range(rounds * tiles):
        t, k = step % tiles, step % 4
        place = {"buffer": Buffer.VBUF, "sram": 16 * (step % 5), "n": (1, 1, 1)}
        source = {"base": 1, "remote": 1 << (t - 1) % tiles, "offset": 64 * step - 64} if step else {"base": 0}
        target = {} if step == rounds * tiles - 1 else {"remote": 1 << (t + 1) % tiles}
        load = word(Opcode.LOAD, inner=200, signal=_token(Engine.STORE, k), **place, **source)
        store = {"offset": 64 * step + 16, "inner": 200 - step, "wait": _token(Engine.LOAD, k)}
        streams[t] += [load, word(Opcode.STORE, base=1, **store, **place, **target)]
    return [[*s, END] for s in streams]


def long_copy(words: int) -> list[Words]:
    """Base 0 to base 1 in pieces of 256 bytes, a token each: thousands of cycles of traffic."""
    stream = []
    for i in range(words):
        place = {"buffer": Buffer.VBUF, "inner": 256, "n": (1, 1, 1), "sram": 16 * (i % 4), "offset": 256 * (i % 16)}
        stream += [
            word(Opcode.LOAD, signal=_token(Engine.STORE, i % 4), **place),
            word(Opcode.STORE, base=1, wait=_token(Engine.LOAD, i % 4), **place),
        ]
    return [*stream, END]


def fresh(stall: int = 0, seed: int = 1) -> Host:
    """Two tiles whose MXU and VPU only take time; everything else is real, with assertions and the buses' rules."""
    return Host(Card(two_tiles(), seed, stall, checked=True, extra=STAND_IN))


def run(host: Host, rounds: int = 6) -> None:
    """Data in through the window, a program on both tiles, back through PCIM: the simulator's bytes."""
    regions = {0: DATA, 1: np.zeros(BYTES, np.uint8)}
    streams = ring(rounds)
    want = simulated(host.arch, streams, regions)
    for base, data in regions.items():
        host.upload(BASES[base][0], data)
    host.place(streams, BASES)
    host.set("CTRL", START)
    assert host.ended() == DONE, (hex(host.get("ERROR")), host.get("ERROR_WORD"))
    for base, data in want.items():
        np.testing.assert_array_equal(host.download(BASES[base][0], BYTES, offset=64 * 7), data)
