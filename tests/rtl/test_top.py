"""The whole DPU through its registers: three tiles, tokens between them, every error, recovery, back-pressure.

LOAD, STORE and control are real; MXU and VPU only take time (`stand_in/`), so that three tiles build fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import Buffer, Engine, Flag, Opcode, Words, word
from dpu.ir.regmap import ENGINES, ERRORS, register
from dpu.rtl import model
from dpu.simulator.machine import Machine

TILES, BYTES = 3, 4096
START, RESET, BUSY, DONE, ERROR = 1, 2, 1, 2, 4
CODE = {name: code for code, (name, _) in ERRORS.items()}
ALONE = [word(Opcode.END)]
DATA = np.random.default_rng(1).integers(0, 256, BYTES).astype(np.uint8)
STAND_IN = tuple(sorted((Path(__file__).parent / "stand_in").glob("*.sv")))


def three_tiles() -> Arch:
    tiny = load_arch("dpu_tiny").model_dump(mode="json")
    return Arch.model_validate({**tiny, "name": "three_tiles", "tiles": TILES, "lanes": 4})


class Card:
    """A model with two regions, base 0 to read and base 1 to write, and a program area for each tile."""

    def __init__(self, stall: int = 0, seed: int = 1) -> None:
        self.arch = three_tiles()
        self.model = model.Model(self.arch, checked=True, stall=stall, seed=seed, extra=STAND_IN)
        self.regions = {0: DATA.copy(), 1: np.zeros(BYTES, np.uint8)}
        self.address = {0: 1 << 20, 1: 2 << 20}
        self.programs = [(16 + t) << 20 | 0xF40 for t in range(TILES)]  # bursts end at a page
        self.images: dict[int, np.ndarray] = {}
        for base, data in self.regions.items():
            self.model.map(self.address[base], data)
            self.set("BASE", self.address[base], base, wide=True)
            self.set("LIMIT", BYTES, base, wide=True)

    def get(self, name: str, index: int = 0, *, wide: bool = False) -> int:
        if wide:
            return self.get(f"{name}_LO", index) | self.get(f"{name}_HI", index) << 32
        return self.model.read(register(name).address(index))

    def set(self, name: str, value: int, index: int = 0, *, wide: bool = False) -> None:
        if wide:
            self.set(f"{name}_LO", value & 0xFFFFFFFF, index)
            self.set(f"{name}_HI", value >> 32, index)
        else:
            self.model.write(register(name).address(index), value)

    def start(self, streams: list[list[Words]], words: Mapping[int, int] | None = None) -> list[Words]:
        """Place the streams and start; `words` are other lengths than the true ones, by tile."""
        joined = [np.concatenate(s) for s in streams]
        for t, stream in enumerate(joined):
            image = np.concatenate([stream.view(np.uint8).reshape(-1), np.zeros(4096, np.uint8)])
            self.images[t] = image
            self.model.map(self.programs[t], image)
            self.set("TILE_PROGRAM", self.programs[t], t, wide=True)
            self.set("TILE_PROGRAM_WORDS", (words or {}).get(t, len(stream)), t)
        self.set("CTRL", START)
        return joined

    def finish(self, cycles: int = 100_000) -> int:
        """STATUS when BUSY is gone."""
        assert self.model.wait(register("STATUS").address(), BUSY, cycles, 64), "it hangs"
        return self.get("STATUS")

    def right(self, streams: list[list[Words]]) -> None:
        """A run that ends well and leaves in memory what the simulator leaves."""
        want = {b: d.copy() for b, d in self.regions.items()}
        joined = self.start(streams)
        Machine(self.arch, want).run(joined)
        status = self.finish()
        assert status == DONE, self.report()
        for base, data in want.items():
            np.testing.assert_array_equal(self.regions[base], data)

    def report(self) -> tuple[str, int, str, int, int]:
        """Code, tile, engine, word, address."""
        e = self.get("ERROR")
        address = self.get("ERROR_ADDRESS", wide=True)
        return ERRORS[e & 255][0], e >> 8 & 255, Engine(e >> 16 & 255).name, self.get("ERROR_WORD"), address

    def reset(self) -> None:
        self.set("CTRL", RESET)
        assert self.finish() == 0
        assert self.get("ERROR") == self.get("CYCLES_LO") == self.get("TILE_FETCHED") == 0


@pytest.fixture(scope="module")
def shared() -> Iterator[Card]:
    card = Card()
    yield card
    card.model.close()


@pytest.fixture
def card(shared: Card) -> Card:
    """In the state after RESET."""
    shared.regions[1][:] = 0
    shared.set("IRQ_ENABLE", 0)
    shared.set("IRQ_STATUS", 3)
    shared.set("WATCHDOG", 1 << 20)
    shared.reset()
    return shared


def load(offset: int, inner: int, **fields: object) -> Words:
    """Base 1 is where tiles exchange data, base 0 where they start from."""
    return word(Opcode.LOAD, **{"buffer": Buffer.VBUF, "offset": offset, "inner": inner, "n": (1, 1, 1), **fields})


def store(offset: int, inner: int, **fields: object) -> Words:
    said = {"buffer": Buffer.VBUF, "base": 1, "offset": offset, "inner": inner, "n": (1, 1, 1), **fields}
    return word(Opcode.STORE, **said)


def signal(consumer: Engine, k: int = 0) -> int:
    return 1 << (4 * consumer + k)


wait_for = signal  # the bits of a producer in `wait` lie as those of a consumer in `signal`
COPY = [
    load(64, 256, signal=signal(Engine.MXU)),
    word(Opcode.MM, tag=20, wait=wait_for(Engine.LOAD), signal=signal(Engine.VPU, 1)),
    word(Opcode.VEC, tag=3, wait=wait_for(Engine.MXU, 1), signal=signal(Engine.STORE, 2)),
    store(128, 256, wait=wait_for(Engine.VPU, 2)),
    word(Opcode.END),
]


def functional(stream: list[Words]) -> list[Words]:
    """Without MM and VEC, which here do nothing and which the simulator would execute."""
    return [load(64, 256, signal=signal(Engine.STORE)), store(128, 256, wait=wait_for(Engine.LOAD)), *stream[4:]]


def ring(rounds: int) -> list[list[Words]]:
    """Data go from tile to tile, each time to another place: a token for each step, and one back before reuse."""
    streams: list[list[Words]] = [[], [], []]
    for step in range(rounds * TILES):
        t, first = step % TILES, step == 0
        source = {"base": 0} if first else {"base": 1, "remote": 1 << (t - 1) % TILES}
        offset = 0 if first else 64 * step - 64
        streams[t].append(load(offset, 200, sram=16 * (step % 5), signal=signal(Engine.STORE, step % 4), **source))
        last = step == rounds * TILES - 1
        target = {} if last else {"remote": 1 << (t + 1) % TILES}
        at = 64 * step + 16  # not whole beats: strobes
        wait = wait_for(Engine.LOAD, step % 4)
        streams[t].append(store(at, 200 - step, sram=16 * (step % 5), wait=wait, **target))
    return [[*s, word(Opcode.END)] for s in streams]


def test_one_tile_at_a_time(card: Card) -> None:
    for t in range(TILES):
        card.regions[1][:] = 0
        streams = [ALONE] * TILES
        streams[t] = COPY
        card.start(streams)
        assert card.finish() == DONE
        np.testing.assert_array_equal(card.regions[1][128:384], DATA[64:320])
        assert [card.get("TILE_FETCHED", i) for i in range(TILES)] == [len(s) for s in streams]


def test_counters(card: Card) -> None:
    card.right([functional(COPY), ALONE, ALONE])
    card.start([COPY, ALONE, ALONE])
    assert card.finish() == DONE
    cycles = card.get("CYCLES", wide=True)
    for e in ENGINES:
        assert card.get(f"TILE_{e.name}_WORDS") == 1 and card.get(f"TILE_{e.name}_WORDS", 1) == 0
        assert card.get(f"TILE_{e.name}_AT") == int(e)
        kinds = [card.get(f"TILE_{e.name}_{k}", wide=True) for k in ("BUSY", "STALL_WAIT", "STALL_PORT", "STALL_EMPTY")]
        assert sum(kinds) <= cycles
    assert card.get("TILE_MXU_BUSY", wide=True) == 21 and card.get("TILE_VPU_BUSY", wide=True) == 4
    assert card.get("TILE_STORE_STALL_WAIT", wide=True) > card.get("TILE_MXU_STALL_WAIT", wide=True) > 10
    assert card.get("TILE_READ_BYTES", wide=True) == card.get("TILE_WRITTEN_BYTES", wide=True) == 256


def test_tokens_between_tiles(card: Card) -> None:
    for _ in range(2):
        card.right(ring(8))


def test_remote_tokens_stop_at_the_maximum(card: Card) -> None:
    """300 tokens for a tile that takes none until the sender can send no more."""
    fence = {"inner": 0, "n": (1, 1, 1)}
    senders = [word(Opcode.STORE, remote=2, **fence)] * 300
    late = [word(Opcode.MM, tag=3000, signal=signal(Engine.STORE)), word(Opcode.STORE, wait=2, **fence, remote=2)]
    late[1]["wait"] = wait_for(Engine.MXU)
    takes = [word(Opcode.LOAD, remote=4, **fence), *[word(Opcode.LOAD, remote=1, **fence)] * 300]
    card.start([[*senders, *ALONE], [*takes, *ALONE], [*late, *ALONE]])
    card.model.run(2500)
    done = card.get("TILE_STORE_WORDS")
    assert 255 <= done < 300, "the sender went on"
    assert card.finish() == DONE
    assert card.get("TILE_STORE_WORDS") == 300 and card.get("TILE_LOAD_WORDS", 1) == 301


@pytest.mark.parametrize("stall", [100, 200])
def test_back_pressure(stall: int) -> None:
    card = Card(stall, seed=stall)
    for _ in range(3):
        card.right(ring(8))
    card.model.close()


def test_interrupts(card: Card) -> None:
    card.set("IRQ_ENABLE", 1)
    card.start([ALONE, [word(Opcode.END, flags=Flag.IRQ)], COPY])
    assert card.finish() == DONE and card.model.irq and card.get("IRQ_STATUS") == 1
    card.set("IRQ_STATUS", 1)
    card.model.run(4)
    assert not card.model.irq
    card.right([ALONE, ALONE, ALONE])
    assert not card.model.irq and card.get("IRQ_STATUS") == 0


def _unknown() -> Words:
    w = word(Opcode.VEC)
    w["opcode"] = 0
    return w


def wrong() -> list[tuple[str, list[Words], str, int]]:
    """Streams for tile 1: the error, its engine, its word."""
    far = word(Opcode.LOAD, remote=1 << TILES, inner=0, n=(1, 1, 1))
    return [
        ("OPCODE", [COPY[0], _unknown(), *ALONE], "CTRL", 1),
        ("FETCH", COPY[:3], "CTRL", 3),
        ("FIELD", [far, *ALONE], "LOAD", 0),
        ("FIELD", [COPY[0], load(0, 64, buffer=Buffer.ACC), *ALONE], "LOAD", 1),
        ("FIELD", [store(0, 64, buffer=Buffer.WGT), *ALONE], "STORE", 0),
        ("SCRATCHPAD", [load(0, 128, sram=4095), *ALONE], "LOAD", 0),
        ("REGION", [COPY[0], load(BYTES - 64, 65), *ALONE], "LOAD", 1),
        ("REGION", [store(BYTES, 64), *ALONE], "STORE", 0),
        ("REGION", [load(0, 64, base=5), *ALONE], "LOAD", 0),
        ("NUMERIC", [word(Opcode.VEC), word(Opcode.VEC, flags=Flag.TRAP), *ALONE], "VPU", 1),
        ("WATCHDOG", [COPY[0], word(Opcode.MM, wait=wait_for(Engine.STORE, 3)), *ALONE], "MXU", 1),
        ("WATCHDOG", [word(Opcode.LOAD, remote=1, inner=0, n=(1, 1, 1)), *ALONE], "LOAD", 0),
    ]


@pytest.mark.parametrize("number", range(len(wrong())))
def test_errors_and_recovery(card: Card, number: int) -> None:
    """Code and place; the other tiles stop; after RESET a run is right."""
    name, stream, engine, index = wrong()[number]
    card.set("IRQ_ENABLE", 2)
    card.set("WATCHDOG", 5000)
    card.start([ALONE, stream, ring(8)[2]])  # tile 2 waits for ever: it must stop with the others
    assert card.finish() == ERROR
    assert card.report()[:4] == (name, 1, engine, index)
    assert card.get("TILE_BUSY") & 6 == 6 and card.model.irq and not card.model.memory_busy
    card.set("CTRL", START)
    assert card.get("STATUS") == ERROR, "START without RESET"
    card.reset()
    card.right(ring(4))


def test_an_engine_that_works_is_progress(card: Card) -> None:
    """Longer than the watchdog's cycles without DRAM and without a start; the same time idle is an error (above)."""
    card.set("WATCHDOG", 1000)
    card.start([[word(Opcode.MM, tag=4000), *ALONE], ALONE, ALONE])
    assert card.finish() == DONE, card.report()


@pytest.mark.parametrize("engine", ["LOAD", "STORE", "CTRL"])
def test_dram_errors(card: Card, engine: str) -> None:
    base = {"LOAD": 0, "STORE": 1}.get(engine)
    if base is not None:
        card.model.map(card.address[base], card.regions[base], fault=True)
    words = {0: len(COPY)}
    card.start([COPY, ALONE, ALONE], words)
    if engine == "CTRL":
        card.finish()
        card.model.map(card.programs[0], card.images[0], fault=True)
        card.set("CTRL", START)
    assert card.finish() == ERROR
    code, tile, said, index, address = card.report()
    assert (code, tile, said) == ("DRAM", 0, engine)
    assert index == {"LOAD": 0, "STORE": 3, "CTRL": 0}[engine]
    place = card.programs[0] if base is None else card.address[base] + (64 if base == 0 else 128)
    assert address // 4096 == place // 4096
    for b, data in card.regions.items():
        card.model.map(card.address[b], data)
    card.reset()
    card.right(ring(4))


def test_reset_in_the_middle(card: Card) -> None:
    """At any time: accesses end first, nothing of the old run is left."""
    for cycles in range(5, 600, 37):
        card.regions[1][:] = 0
        card.start(ring(8))
        card.model.run(cycles)
        card.reset()
        assert not card.model.memory_busy
        card.regions[1][:] = 0
        card.right(ring(3))
