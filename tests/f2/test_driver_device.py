"""The F2 driver over a card in Python: the protocol of devices, what it checks first, what it mends, what it says."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Base, Program
from dpu.ir.dialects import parse_module
from dpu.ir.f2_regmap import ALL_ONES, cl
from dpu.ir.isa import Buffer, Engine, Opcode, signal_bit, wait_bit, word
from dpu.ir.regmap import register
from dpu.runtime.device import Region
from dpu.runtime.f2.card import ImageInfo
from dpu.runtime.f2.device import F2Device
from dpu.runtime.failures import SeededWeights, compile_module
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice

from tests.f2.model_card import Host, ModelCard

TINY = load_arch("dpu_tiny")
NET = """func.func @net(%x: tensor<2x24x16xf16> {dpu.name = "x"}) -> (tensor<2x24x16xf16> {dpu.name = "y"}) {
  %w = dpu.param "w" : tensor<16x16xf16>
  %a = dpu.linear %x, %w : tensor<2x24x16xf16>, tensor<16x16xf16> -> tensor<2x24x16xf16>
  %y = dpu.linear %a, %w : tensor<2x24x16xf16>, tensor<16x16xf16> -> tensor<2x24x16xf16>
  func.return %y : tensor<2x24x16xf16>
}
"""
IO = 4096
STATUS, START = register("STATUS").address(), register("CTRL").address()


def compiled(arch: Arch) -> tuple[Program, dict[str, np.ndarray]]:
    module = parse_module(NET)
    emitted, _, inputs = compile_module(module, arch, SeededWeights(module))
    return emitted.program, inputs


def copy(to: int = 2048, base: Base = Base.IO) -> np.ndarray:
    """A stream that copies the first 512 bytes of IO."""
    moved = {"buffer": Buffer.VBUF, "inner": 512, "n": [1, 1, 1], "tag": 3}
    return np.concatenate(
        [
            word(Opcode.LOAD, base=Base.IO, signal=signal_bit(Engine.STORE), **moved),
            word(Opcode.STORE, base=base, offset=to, wait=wait_bit(Engine.LOAD), **moved),
            word(Opcode.END),
        ]
    )


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


@pytest.fixture
def card(host: Host) -> ModelCard:
    return ModelCard(TINY, host)


@pytest.fixture
def device(card: ModelCard, host: Host) -> Iterator[F2Device]:
    device = F2Device(TINY, card, host.settings)
    yield device
    device.close()


def once(n: int, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[np.ndarray], np.ndarray]:
    """Change the n-th thing that comes by, nothing else."""
    seen = 0

    def hook(data: np.ndarray) -> np.ndarray:
        nonlocal seen
        seen += 1
        return change(data) if seen == n else data

    return hook


def flip(data: np.ndarray) -> np.ndarray:
    data[len(data) // 2] ^= 4
    return data


def test_a_program_gives_the_simulators_bytes(device: F2Device) -> None:
    program, inputs = compiled(TINY)
    with Session(program, SimDevice(TINY)) as sim, Session(program, device) as f2:
        assert np.array_equal(sim.run("net", inputs)["y"], f2.run("net", inputs)["y"])
        for base, size in program.base_bytes.items():
            assert np.array_equal(sim.peek(base, 0, size), f2.peek(base, 0, size)), f"base {base}"
        assert f2.completions["net"].total.macs == sim.completions["net"].total.macs
        assert (f2.completions["net"].cycles, device.counters().runs) == (1000, 1)
    assert device.bus.noise.text() == ""
    said = device.capability
    assert (said.name, said.arch, said.arch_digest) == ("f2", "dpu_tiny", TINY.digest)
    assert said.clock_hz == 250e6 != TINY.clock_hz  # the shell's
    assert device.bus.dpu("WATCHDOG") == 25_000  # half of the stall: 2e-4 s


def test_memory_is_checked_and_kept(device: F2Device, card: ModelCard) -> None:
    address = device.allocate(10_000)
    device.write(address + 10, np.arange(5, dtype=np.uint8))
    assert device.read(address + 9, 7).tolist() == [0, 0, 1, 2, 3, 4, 0]
    assert card.memory[address + 9 : address + 16].tolist() == [0, 0, 1, 2, 3, 4, 0]
    with pytest.raises(DpuError, match=r"E425.*in no allocation"):
        device.read(address + 9_990, 20)
    with pytest.raises(DpuError, match=r"E422.*do not fit"):
        device.allocate(TINY.dram.bytes + 1)
    data = np.arange(3 * 4096 + 64, dtype=np.uint32).astype(np.uint8)  # more pieces than there are pairs of buffers
    data.flags.writeable = False
    address = device.allocate(len(data))
    device.write(address, data)
    assert np.array_equal(card.memory[address : address + len(data)], data)
    bases = {Base.IO: Region(address, IO)}
    with pytest.raises(DpuError, match=r"E425.*bound to read-only"):
        device.submit(device.load("copy", [copy()]), bases)


def test_scratch_is_read_from_the_card(device: F2Device) -> None:
    bases = {base: Region(device.allocate(IO), IO) for base in (Base.IO, Base.WORK)}
    data = np.random.default_rng(0).integers(0, 256, 512, np.uint8)
    device.write(bases[Base.IO].address, data)
    device.wait(device.submit(device.load("copy", [copy(64, Base.WORK)]), bases))
    work = bases[Base.WORK].address
    assert np.array_equal(device.read(work + 70, 500), data[6:506])
    device.write(work + 70, np.zeros(3, np.uint8))
    assert device.read(work + 69, 5).tolist() == [data[5], 0, 0, 0, data[9]]


def test_a_store_to_constants_never_starts(device: F2Device) -> None:
    bases = {base: Region(device.allocate(IO), IO) for base in (Base.IO, Base.CONST)}
    with pytest.raises(DpuError) as e:
        device.wait(device.submit(device.load("unet", [copy(0, Base.CONST)]), bases))
    assert str(e.value) == (
        "error[E412]: entry 'unet' tile 0 word 1 (STORE, tag 3): REGION: a STORE to constants\n"
        "  try: dpuc verify names the word at fault; compile the model again"
    )


def test_other_memory_is_written_while_a_run_goes_on(device: F2Device, card: ModelCard) -> None:
    running, written = threading.Event(), threading.Event()

    def peeked(address: int, value: int) -> int:
        if address == STATUS and value == 1:
            running.set()
            card.hangs = lambda: not written.is_set()
        return value

    card.peeked = peeked
    bases = {Base.IO: Region(device.allocate(IO), IO)}
    other = device.allocate(IO)
    ticket = device.submit(device.load("copy", [copy()]), bases)
    assert running.wait(10)
    device.write(other, np.ones(IO, np.uint8))
    assert card.memory[other] == 1
    written.set()
    assert device.wait(ticket).entry == "copy"


@pytest.mark.parametrize(
    ("image", "peeked", "text"),
    [
        (
            "",
            None,
            "error[E433]: slot 0: is cleared\n"
            "  try: give the id of an image that was built for this arch: --image agfi-0123456789abcdef0",
        ),
        (
            "agfi-model",
            {"CL_ID": 0x1D0F},
            "error[E433]: slot 0: the image says 0x00001d0f where a DPU says 0x44505546\n"
            "  why: the slot is loaded, image agfi-model\n"
            "  try: load the image that was built for it: --image AGFI",
        ),
        (
            "agfi-model",
            {"CL_VERSION": 0x00020000},
            "error[E433]: slot 0: the image's register map has version 2, this driver knows 1\n"
            "  try: build the image from this version, or use the driver of that one",
        ),
        (
            "agfi-model",
            {"CL_ARCH_DIGEST_LO": 0x1234, "CL_ARCH_DIGEST_HI": 0},
            "error[E420]: slot 0: the image is of an arch with 1 tiles and digest 0000000000001234\n"
            f"  why: the program is for 'dpu_tiny', 1 tiles, {TINY.digest}\n"
            "  try: load the image that was built for it: --image AGFI",
        ),
        (
            "agfi-model",
            {"ABI": 9},
            "error[E421]: slot 0: the image has ABI 9, this driver 1\n  try: build the image from this version",
        ),
        (
            "agfi-model",
            {"CL_MEMORY_MIB": 1024},
            "error[E422]: slot 0: has 1073741824 bytes of device memory, the arch names 4294967296\n"
            "  try: compile for a smaller image, or use a device with more memory",
        ),
    ],
)
def test_another_image_is_refused(host: Host, image: str, peeked: dict[str, int] | None, text: str) -> None:
    card = ModelCard(TINY, host, image)
    wrong = {cl(n) if n.startswith("CL_") else register(n).address(): v for n, v in (peeked or {}).items()}
    card.peeked = lambda address, value: wrong.get(address, value)
    with pytest.raises(DpuError) as e:
        F2Device(TINY, card, host.settings)
    assert str(e.value) == text
    assert not card.memory.any()


def test_the_image_that_was_asked_for_is_loaded(host: Host) -> None:
    card = ModelCard(TINY, host, "agfi-other")
    F2Device(TINY, card, host.settings, "agfi-mine").close()
    assert card.loads_of == ["agfi-mine"]


def test_an_iommu_forbids_physical_addresses(host: Host, card: ModelCard) -> None:
    card.iommu = "an IOMMU translates its addresses (group type DMA)"
    with pytest.raises(DpuError) as e:
        F2Device(TINY, card, host.settings)
    assert str(e.value) == (
        "error[E436]: slot 0: an IOMMU translates its addresses (group type DMA)\n"
        "  why: the card writes results to host memory by physical address\n"
        "  try: boot with iommu=pt, or set DPU_F2_READ=loads and be patient"
    )
    device = F2Device(TINY, card, replace(host.settings, read="loads"))
    program, inputs = compiled(TINY)
    with Session(program, device) as slow, Session(program, SimDevice(TINY)) as sim:
        assert np.array_equal(slow.run("net", inputs)["y"], sim.run("net", inputs)["y"])
    assert ("slow read-back", "results are read by loads, about 3 MB/s (DPU_F2_READ)") in device.remarks


# What is mended without losing anything


def faulty(device: F2Device, sow: Callable[[], None]) -> str:
    """What was mended in a run whose results are right all the same."""
    program, inputs = compiled(TINY)
    with Session(program, SimDevice(TINY)) as sim, Session(program, device) as f2:
        assert np.array_equal(sim.run("net", inputs)["y"], f2.run("net", inputs)["y"])
        sow()
        other = {"x": inputs["x"][::-1]}
        assert np.array_equal(sim.run("net", other)["y"], f2.run("net", other)["y"])
    return device.bus.noise.text()


def test_a_flipped_bit_on_the_way_back(device: F2Device, card: ModelCard) -> None:
    io = device.allocate(IO)
    card.copied = once(2, flip)
    device.write(io, np.full(IO, 7, np.uint8))  # one copy compares it
    assert (card.memory[io : io + IO] == 7).all()

    def sow() -> None:
        card.copied = once(3, flip)  # the first is of the input

    assert "1 received" in faulty(device, sow)


def test_a_short_write(device: F2Device, card: ModelCard) -> None:
    def sow() -> None:
        card.sent = once(1, lambda data: data[:-64])

    assert faulty(device, sow) == "1 sent"


def test_a_lost_start(device: F2Device, card: ModelCard) -> None:
    def sow() -> None:
        lost = []

        def poked(address: int, value: int) -> bool:
            if address == START and value == 1 and not lost:
                lost.append(value)
                return False
            return True

        card.poked = poked

    assert faulty(device, sow) == "1 starts"


def test_a_register_that_reads_wrong_once(device: F2Device, card: ModelCard) -> None:
    def sow() -> None:
        seen = []

        def peeked(address: int, value: int) -> int:
            if address == STATUS and value == 1 and len(seen) < 3:
                seen.append(value)
                return 2 if len(seen) == 3 else value
            return value

        card.peeked = peeked

    assert faulty(device, sow) == "1 reads"


def test_a_run_that_hangs_is_repeated_after_a_reset(device: F2Device, card: ModelCard) -> None:
    def sow() -> None:
        before = card.resets
        card.hangs = lambda: card.resets == before

    assert faulty(device, sow) == "1 resets"


def test_an_image_that_is_lost_comes_back_with_its_memory(device: F2Device, card: ModelCard) -> None:
    def sow() -> None:
        lost = []

        def peeked(address: int, value: int) -> int:
            if address == STATUS and value == 1 and not lost:
                lost.append(value)
                card.clear()
                card.memory[:] = 0xEE
                return ALL_ONES
            return value

        card.peeked = peeked

    assert faulty(device, sow) == "1 reloads"
    assert card.loads_of == ["agfi-model"]


def test_a_power_warning_pauses_the_tiles(device: F2Device, card: ModelCard) -> None:
    def sow() -> None:
        looks = []
        card.hangs = lambda: len(looks) < 3

        def peeked(address: int, value: int) -> int:
            if address == cl("CL_STATUS"):
                looks.append(card.registers.get(cl("CL_CONTROL"), 0))
                return value | 0x200 if len(looks) < 6 else value
            return value

        card.peeked = peeked

    assert faulty(device, sow) == "1 pauses"


# What cannot be mended


def lost(device: F2Device) -> str:
    bases = {Base.IO: Region(device.allocate(IO), IO)}
    handle = device.load("unet", [copy()])
    with pytest.raises(DpuError) as e:
        device.wait(device.submit(handle, bases))
    return str(e.value)


def test_a_dead_bus_verbatim(device: F2Device, card: ModelCard) -> None:
    dead = []

    def peeked(address: int, value: int) -> int:
        if address == STATUS and value == 1:
            dead.append(value)
        return ALL_ONES if dead else value

    card.peeked = peeked
    assert lost(device) == (
        "error[E434]: entry 'unet' on slot 0: the bus is dead: register 0x18 reads as all ones; "
        "then the bus is dead: register 0x100000 reads as all ones\n"
        "  why: after 2 reloads\n"
        "  try: stop and start the instance; if that does not help, take another one"
    )


def test_a_hang_verbatim(device: F2Device, card: ModelCard) -> None:
    card.hangs = lambda: True
    text = lost(device)
    assert text.startswith("error[E435]: entry 'unet' on slot 0: the card hangs: no progress for 0.2")
    assert text.endswith(
        " ms of the card's time; tile 0: LOAD at word 0, MXU at word 0, VPU at word 0, STORE at word 0\n"
        "  why: after 1 reset and 2 reloads\n"
        "  try: run dpuc verify on the program; if it is sound, the image or the card is not: try another slot"
    )


def test_a_power_violation_verbatim(device: F2Device, card: ModelCard) -> None:
    def peeked(address: int, value: int) -> int:
        if address == STATUS and value == 1:
            card.info = ImageInfo("loaded", "afi-power-violation", "agfi-model")
            return ALL_ONES
        return value if card.info.loaded else ALL_ONES

    card.peeked = peeked
    assert lost(device) == (
        "error[E440]: entry 'unet' on slot 0: the shell has stopped the clocks over a power violation: "
        "register 0x18 reads as all ones; the slot is loaded (afi-power-violation), image agfi-model\n"
        "  why: after 2 reloads\n"
        "  try: use an image with fewer tiles or a slower clock; fpga-describe-local-image -S SLOT -M has watts"
    )


def test_data_that_never_agrees_verbatim(device: F2Device, card: ModelCard) -> None:
    count = [0]

    def copied(data: np.ndarray) -> np.ndarray:
        count[0] += 1
        data[0] = count[0] % 251
        return data

    address = device.allocate(IO)
    card.copied = copied
    with pytest.raises(DpuError) as e:
        device.write(address, np.full(IO, 255, np.uint8))
    assert str(e.value) == (
        f"error[E437]: slot 0: data changed on the way: {IO} bytes of device memory at {address:#x} "
        "are not what was written\n"
        "  why: after 1 reset and 2 reloads\n"
        "  try: try another slot; if it stays, the image's timing is not met: build it again"
    )


def test_a_card_that_never_answered(host: Host, card: ModelCard) -> None:
    card.peeked = lambda address, value: ALL_ONES
    with pytest.raises(DpuError) as e:
        F2Device(TINY, card, host.settings)
    assert str(e.value) == (
        "error[E434]: slot 0: the bus is dead: register 0x100000 reads as all ones\n"
        "  why: after 1 reload\n"
        "  try: stop and start the instance; if that does not help, take another one"
    )


def test_closing_ends_a_run(host: Host, card: ModelCard) -> None:
    device = F2Device(TINY, card, replace(host.settings, stall_seconds=1e9))
    card.hangs = lambda: True
    ticket = device.submit(device.load("unet", [copy()]), {Base.IO: Region(device.allocate(IO), IO)})
    device.close()
    with pytest.raises(DpuError, match=r"E424.*was closed before it ended"):
        device.wait(ticket)
