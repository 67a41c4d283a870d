"""Every register, the host bus, and control: start, end, error, watchdog, reset, interrupt."""

from __future__ import annotations

import random
from typing import Any

import cocotb
from control_bench import PARAMETERS, begin, field, get, pack, settle, tick
from dpu.ir.regmap import ENGINES, ERRORS, MAGIC, REGISTERS, SPACE_BYTES, register

TILES = PARAMETERS.get("Tiles", 3)
START, RESET, BUSY, DONE, ERROR, END = 1, 2, 1, 2, 4, 1
CODE = {name: code for code, (name, _) in ERRORS.items()}
EVENTS = ("done_i", "busy_i", "wait_i", "port_i", "empty_i")
QUANTITIES = ("overflows_i", "nans_i", "read_bytes_i", "written_bytes_i")
REPORT = 117  # bits of report_t


class Host:
    """AXI4-Lite by hand: address and data of a write in any order, answers taken late."""

    def __init__(self, dut: Any, rng: random.Random) -> None:
        self.dut, self.rng = dut, rng

    async def write(self, address: int, data: int, strobes: int = 15) -> None:
        d, order = self.dut, self.rng.randrange(3)
        d.awaddr_i.value, d.wdata_i.value, d.wstrb_i.value = address, data, strobes
        d.awvalid_i.value, d.wvalid_i.value = order != 1, order != 2
        aw, w, wait = True, True, self.rng.randrange(3)
        for cycle in range(100):
            await settle()
            aw_done = bool(get(d.awvalid_i) and get(d.awready_o))
            w_done = bool(get(d.wvalid_i) and get(d.wready_o))
            answered = bool(get(d.bvalid_o) and get(d.bready_i))
            if get(d.bvalid_o):
                assert not aw and not w, "answered too early"
                assert get(d.bresp_o) == 0
            await tick(d)
            aw, w = aw and not aw_done, w and not w_done
            d.awvalid_i.value, d.wvalid_i.value = aw and (order != 1 or cycle > 2), w and (order != 2 or cycle > 2)
            d.bready_i.value = cycle > wait and not answered
            if answered:
                return
        raise AssertionError("no answer to a write")

    async def read(self, address: int) -> int:
        d, wait = self.dut, self.rng.randrange(3)
        d.araddr_i.value, d.arvalid_i.value = address, 1
        for cycle in range(100):
            await settle()
            sent = bool(get(d.arvalid_i) and get(d.arready_o))
            answered, data = bool(get(d.rvalid_o) and get(d.rready_i)), get(d.rdata_o)
            assert not answered or get(d.rresp_o) == 0
            await tick(d)
            if sent:
                d.arvalid_i.value = 0
            d.rready_i.value = cycle > wait and not answered
            if answered:
                return data
        raise AssertionError("no answer to a read")

    async def get(self, name: str, index: int = 0) -> int:
        return await self.read(register(name).address(index))

    async def set(self, name: str, value: int, index: int = 0) -> None:
        await self.write(register(name).address(index), value)

    async def wide(self, name: str, index: int = 0) -> int:
        low = await self.get(f"{name}_LO", index)
        return low | await self.get(f"{name}_HI", index) << 32


async def setup(dut: Any, seed: int = 1) -> Host:
    quiet = ("awvalid_i", "wvalid_i", "bready_i", "arvalid_i", "rready_i", "tile_busy_i", "tile_progress_i")
    quiet += ("tile_irq_i", "tile_fault_i", "tile_stuck_i", "count_i", "at_i", "fetched_i", *EVENTS, *QUANTITIES)
    await begin(dut, tile_quiet_i=(1 << TILES) - 1, **dict.fromkeys(quiet, 0))
    return Host(dut, random.Random(seed))


def report(code: int, engine: int, index: int, address: int, valid: int = 1) -> int:
    return engine << 105 | valid << 104 | code << 96 | index << 64 | address


@cocotb.test()
async def map_as_documented(dut: Any) -> None:
    """Reset values, access of each register, byte strobes, holes."""
    host, rng = await setup(dut), random.Random(2)
    digest = PARAMETERS.get("digest", 0x0123456789ABCDEF)
    build = {
        "ARCH_DIGEST_LO": digest & 0xFFFFFFFF,
        "ARCH_DIGEST_HI": digest >> 32,
        "SHAPE": TILES | PARAMETERS["Cols"] << 8 | PARAMETERS["Lanes"] << 16,
        "WATCHDOG": PARAMETERS["Watchdog"],
    }
    listed = {}
    for r in REGISTERS:
        for i in range(r.count):
            exists = not r.name.startswith("TILE_") or r.count == 1 or i < TILES
            listed[r.address(i)] = (r, i, exists)
            if exists or i in (TILES, r.count - 1):
                want = (build[r.name] if r.reset is None else r.reset) if exists else 0
                assert await host.read(r.address(i)) == want, (r.name, i)
    assert await host.get("ID") == MAGIC
    held: dict[int, int] = {}
    for address, (r, i, exists) in listed.items():
        if (not exists and i != TILES) or r.name == "CTRL":
            continue
        value = rng.getrandbits(32)
        await host.write(address, value)
        if r.access == "rw" and exists:
            low = 0x3F if r.name in ("BASE_LO", "TILE_PROGRAM_LO") else 0  # multiples of 64
            held[address] = value & ~low & (3 if r.name == "IRQ_ENABLE" else 0xFFFFFFFF)
    for address, value in held.items():
        assert await host.read(address) == value, hex(address)
    for address, (r, i, exists) in listed.items():
        if r.access == "ro" and (exists or i == TILES):
            want = build.get(r.name, r.reset) if exists else 0
            assert await host.read(address) == want, (r.name, i)
    for address in [a for a in range(0, SPACE_BYTES, 4) if a not in listed][::37]:
        await host.write(address, 0xFFFFFFFF)
        assert await host.read(address) == 0, hex(address)
    for address, value in held.items():
        assert await host.read(address) == value, "a write to a hole changed something"
    address = register("LIMIT_LO").address(3)
    for strobes in range(16):
        new, old = rng.getrandbits(32), await host.read(address)
        mask = sum(0xFF << 8 * b for b in range(4) if strobes >> b & 1)
        await host.write(address, new, strobes)
        assert await host.read(address) == (new & mask | old & ~mask)
    await settle()
    regions, programs, words = get(dut.regions_o), get(dut.program_o), get(dut.words_o)
    await tick(dut)
    for i in range(8):
        assert field(regions, 2 * i + 1, 64) == await host.wide("BASE", i)
        assert field(regions, 2 * i, 64) == await host.wide("LIMIT", i)
    for t in range(TILES):
        assert field(programs, t, 64) == await host.wide("TILE_PROGRAM", t)
        assert field(words, t, 32) == await host.get("TILE_PROGRAM_WORDS", t)


@cocotb.test()
async def counters(dut: Any) -> None:
    """Each event in its own counter of its own tile; low halves latch high ones; the narrow ones stop at the end."""
    host, rng = await setup(dut), random.Random(3)
    want: dict[str, list[int]] = {}

    def add(name: str, value: int, tile: int) -> None:
        want.setdefault(name, [0] * TILES)[tile] += value

    for step in range(400):
        tile, big = rng.randrange(TILES), 0xFFFFFFFF if step % 3 == 0 else 77
        values = {e: rng.getrandbits(4) for e in EVENTS} | {q: rng.randint(0, big) for q in QUANTITIES}
        for name, value in values.items():
            getattr(dut, name).value = value
        dut.count_i.value = 1 << tile
        await tick(dut)
        for e, engine in enumerate(ENGINES):
            for event, what in zip(EVENTS, ("WORDS", "BUSY", "STALL_WAIT", "STALL_PORT", "STALL_EMPTY"), strict=True):
                add(f"TILE_{engine.name}_{what}", values[event] >> e & 1, tile)
        for q, what in zip(QUANTITIES, ("FP16_OVERFLOWS", "NANS", "READ_BYTES", "WRITTEN_BYTES"), strict=True):
            add(f"TILE_{what}", values[q], tile)
    dut.count_i.value = 0
    at, fetched = [rng.getrandbits(32) for _ in range(4)], rng.getrandbits(32)
    dut.at_i.value, dut.fetched_i.value = pack(at, 32), fetched
    wide = {r.name[:-3] for r in REGISTERS if r.name.endswith("_LO")}
    for name, tiles in want.items():
        for t in range(TILES):
            if name in wide:
                assert await host.wide(name, t) == tiles[t], (name, t)
            else:
                assert await host.get(name, t) == min(tiles[t], 0xFFFFFFFF), (name, t)
    assert want["TILE_NANS"][0] > 0xFFFFFFFF, "saturation was not tried"
    for e, engine in enumerate(ENGINES):
        assert await host.get(f"TILE_{engine.name}_AT", 1) == at[e]
    assert await host.get("TILE_FETCHED", 2) == fetched
    # The high half is the one of the moment when the low one was read.
    low = await host.get("TILE_READ_BYTES_LO", 1)
    dut.count_i.value, dut.read_bytes_i.value = 2, 0xFFFFFFFF
    for _ in range(3):
        await tick(dut)
    dut.count_i.value = 0
    await host.get("STATUS")  # a register without a high half leaves the kept one alone
    assert low | await host.get("TILE_READ_BYTES_HI", 1) << 32 == want["TILE_READ_BYTES"][1]
    assert await host.wide("TILE_READ_BYTES", 1) == want["TILE_READ_BYTES"][1] + 3 * 0xFFFFFFFF


@cocotb.test()
async def runs(dut: Any) -> None:
    """START, BUSY, DONE, cycles, the END interrupt; START while busy is ignored."""
    host = await setup(dut)
    await host.set("IRQ_ENABLE", END)
    for length in (1, 50):
        starts = cocotb.start_soon(count_starts(dut, 400))
        cocotb.start_soon(tiles_run(dut, length))
        await host.set("CTRL", START)
        if length > 1:
            assert await host.get("STATUS") == BUSY
            assert await host.get("TILE_BUSY") == (1 << TILES) - 1
            await host.set("CTRL", START)
        while await host.get("STATUS") != DONE:
            pass
        cycles = await host.wide("CYCLES")
        assert length <= cycles <= length + 3 and await host.get("TILE_BUSY") == 0
        assert await host.get("ERROR") == 0
        assert await starts == 1
    assert get(dut.irq_o) == 0 and await host.get("IRQ_STATUS") == 0
    dut.tile_irq_i.value = 2
    await tick(dut)
    dut.tile_irq_i.value = 0
    for _ in range(3):
        await tick(dut)
    assert get(dut.irq_o) == 1
    await host.set("IRQ_STATUS", 2)
    assert await host.get("IRQ_STATUS") == END and get(dut.irq_o) == 1
    await host.set("IRQ_STATUS", END)
    assert await host.get("IRQ_STATUS") == 0 and get(dut.irq_o) == 0


async def count_starts(dut: Any, cycles: int) -> int:
    found = 0
    for _ in range(cycles):
        await settle()
        found += get(dut.tile_start_o)
        await tick(dut)
    return found


async def tiles_run(dut: Any, length: int) -> None:
    """All tiles are busy for `length` cycles from the next start on."""
    while True:
        await settle()
        started = get(dut.tile_start_o)
        await tick(dut)
        if started:
            break
    dut.tile_busy_i.value = dut.tile_progress_i.value = (1 << TILES) - 1
    for _ in range(length):
        await tick(dut)
    dut.tile_busy_i.value = dut.tile_progress_i.value = 0


@cocotb.test()
async def errors(dut: Any) -> None:
    """The first error wins; all tiles stop; reset waits for DRAM; the next run is clean."""
    host = await setup(dut)
    all_tiles = (1 << TILES) - 1
    await host.set("IRQ_ENABLE", 2)
    cocotb.start_soon(tiles_run(dut, 30))
    await host.set("CTRL", START)
    dut.tile_busy_i.value = dut.tile_progress_i.value = all_tiles
    dut.tile_quiet_i.value = all_tiles & ~2
    first, second = report(CODE["REGION"], 3, 77, 0x123456789A), report(CODE["FIELD"], 0, 5, 9)
    dut.tile_fault_i.value = pack([0, first, second], REPORT)  # in one cycle: the lower tile
    await tick(dut)
    dut.tile_fault_i.value = pack([second, first, 0], REPORT)
    for _ in range(40):
        await tick(dut)
    dut.tile_busy_i.value = all_tiles  # a tile that stopped has not ended
    assert get(dut.tile_stop_o) == 1 and get(dut.irq_o) == 1 and get(dut.alive_o) == 1
    assert await host.get("ERROR") == CODE["REGION"] | 1 << 8 | 3 << 16
    assert await host.get("ERROR_WORD") == 77 and await host.wide("ERROR_ADDRESS") == 0x123456789A
    assert await host.get("STATUS") == BUSY | ERROR, "an access is open"
    assert await host.get("IRQ_STATUS") == 2
    await host.set("CTRL", RESET)
    for _ in range(50):
        await settle()
        assert get(dut.alive_o) == 1, "reset with an access open"
        await tick(dut)
    assert await host.get("STATUS") == BUSY | ERROR and await host.get("ERROR_WORD") == 77
    dut.tile_quiet_i.value = all_tiles
    low = 0
    for _ in range(40):
        await settle()
        low += not get(dut.alive_o)
        if low:
            assert get(dut.tile_stop_o) == 0 or low <= 1
        await tick(dut)
    dut.tile_busy_i.value = dut.tile_fault_i.value = dut.tile_progress_i.value = 0
    assert low >= 4
    for name in ("STATUS", "ERROR", "ERROR_WORD", "CYCLES_LO"):
        assert await host.get(name) == 0, name
    await host.set("IRQ_STATUS", 3)
    # Without an open access an error leaves BUSY at once, START is ignored until RESET.
    await host.set("CTRL", START)
    dut.tile_fault_i.value = pack([second, 0, 0], REPORT)
    for _ in range(30):
        await tick(dut)
    dut.tile_fault_i.value = 0
    await host.set("CTRL", RESET)
    while await host.get("STATUS") & BUSY:
        pass
    cocotb.start_soon(tiles_run(dut, 20))
    await host.set("CTRL", START)
    while await host.get("STATUS") != DONE:
        pass
    assert await host.get("ERROR") == 0


@cocotb.test()
async def halted(dut: Any) -> None:
    """After an error: STATUS is ERROR alone once DRAM is quiet, START does nothing, RESET helps."""
    host = await setup(dut)
    cocotb.start_soon(tiles_run(dut, 100))
    await host.set("CTRL", START)
    dut.tile_fault_i.value = pack([0, 0, report(CODE["OPCODE"], 4, 3, 0)], REPORT)
    await tick(dut)
    dut.tile_fault_i.value = 0
    while await host.get("STATUS") != ERROR:
        pass
    starts = cocotb.start_soon(count_starts(dut, 60))
    await host.set("CTRL", START)
    assert await host.get("STATUS") == ERROR
    assert await starts == 0
    assert await host.get("ERROR") == CODE["OPCODE"] | 2 << 8 | 4 << 16
    await host.set("CTRL", RESET | START)
    while await host.get("STATUS"):
        pass


@cocotb.test()
async def watchdog(dut: Any) -> None:
    """No progress for the set number of cycles stops a run; 0 never does; any progress starts anew."""
    host = await setup(dut)
    await host.set("WATCHDOG", 60)
    busy = 6
    dut.tile_stuck_i.value = pack([report(0, 1, 1, 0), report(0, 2, 34, 0), report(0, 0, 2, 0)], REPORT)
    dut.tile_busy_i.value = busy
    await host.set("CTRL", START)
    for i in range(200):  # progress every 50 cycles
        dut.tile_progress_i.value = 4 if i % 50 == 0 else 0
        await tick(dut)
    assert await host.get("STATUS") == BUSY
    for _ in range(80):
        await tick(dut)
    assert await host.get("STATUS") & ERROR
    assert await host.get("ERROR") == CODE["WATCHDOG"] | 1 << 8 | 2 << 16
    assert await host.get("ERROR_WORD") == 34
    await host.set("CTRL", RESET)
    dut.tile_busy_i.value = 0
    while await host.get("STATUS"):
        pass
    await host.set("WATCHDOG", 0)
    dut.tile_busy_i.value = busy
    await host.set("CTRL", START)
    for _ in range(300):
        await tick(dut)
    assert await host.get("STATUS") == BUSY
    await host.set("CTRL", RESET)  # in the middle of a run
    dut.tile_busy_i.value = 0
    while await host.get("STATUS"):
        pass
    assert await host.get("WATCHDOG") == 0, "RESET keeps what the host set"
