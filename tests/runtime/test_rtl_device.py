"""The RTL as a device: the simulator's bytes under any timing of memory, its errors, waves. `test_session.py` has the
protocol that all devices share."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir import isa
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Base, Program
from dpu.ir.dialects import parse_module
from dpu.ir.isa import Buffer, Engine, Flag, Format, Opcode, pack, signal_bit, wait_bit, word
from dpu.runtime import registers
from dpu.runtime.device import Region
from dpu.runtime.failures import SeededWeights, compile_module
from dpu.runtime.rtl_device import RtlDevice
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.runtime.targets import open_device
from dpu.simulator.memory import with_dram

pytestmark = pytest.mark.usefixtures("rtl_tools")

TINY = load_arch("dpu_tiny")
TWO = Arch.model_validate(TINY.model_dump() | {"name": "dpu_two", "tiles": 2})
END = word(Opcode.END)
IO = 4096  # bytes of the region

NET = """func.func @net(%x: tensor<2x24x16xf16> {dpu.name = "x"}) -> (tensor<2x24x16xf16> {dpu.name = "y"}) {
  %w = dpu.param "w" : tensor<16x16xf16>
  %a = dpu.linear %x, %w : tensor<2x24x16xf16>, tensor<16x16xf16> -> tensor<2x24x16xf16>
  %y = dpu.linear %a, %w : tensor<2x24x16xf16>, tensor<16x16xf16> -> tensor<2x24x16xf16>
  func.return %y : tensor<2x24x16xf16>
}
"""


def dma(opcode: Opcode, **f: object) -> np.ndarray:
    return word(opcode, **({"base": Base.IO, "buffer": Buffer.VBUF, "inner": 512, "n": [1, 1, 1], "tag": 3} | f))


load, store = partial(dma, Opcode.LOAD), partial(dma, Opcode.STORE)


def copy(at: int = 0, to: int = 2048) -> np.ndarray:
    """A stream that copies 512 bytes inside the region."""
    return np.concatenate(
        [load(offset=at, signal=signal_bit(Engine.STORE)), store(offset=to, wait=wait_bit(Engine.LOAD)), END]
    )


def compiled(arch: Arch) -> tuple[Program, dict[str, np.ndarray]]:
    module = parse_module(NET)
    emitted, _, inputs = compile_module(module, arch, SeededWeights(module))
    return emitted.program, inputs


@pytest.fixture(scope="module")
def tiny() -> Iterator[RtlDevice]:
    device = RtlDevice(TINY, checked=True, watchdog=2000)
    yield device
    device.close()


def test_what_it_says_of_itself(tiny: RtlDevice) -> None:
    said = tiny.capability
    assert (said.name, said.arch, said.arch_digest, said.abi) == ("rtl", "dpu_tiny", TINY.digest, isa.ABI_VERSION)


@pytest.mark.parametrize(
    ("dram", "stall"), [("ideal", 0), ("ideal", 100), ("simple", 30), ("hbm2_vu47p", 0), ("lpddr5x_8533_128", 60)]
)
def test_a_compiled_program_leaves_the_simulators_bytes(dram: str, stall: int) -> None:
    program, inputs = compiled(TINY)
    arch = with_dram(TINY, dram)
    devices = SimDevice(arch), RtlDevice(arch, checked=True, stall=stall, seed=stall + 1)
    with Session(program, devices[0]) as sim, Session(program, devices[1]) as rtl:
        want, have = sim.run("net", inputs), rtl.run("net", inputs)
        assert np.array_equal(want["y"], have["y"])
        for base, size in program.base_bytes.items():
            assert np.array_equal(sim.peek(base, 0, size), rtl.peek(base, 0, size)), f"base {base}"
        a, b = sim.completions["net"], rtl.completions["net"]
        work = ("words", "macs", "read", "written", "fp16_overflow", "nan")
        assert [getattr(a.total, w) for w in work] == [getattr(b.total, w) for w in work]
        if not stall:
            assert 0.5 * a.cycles < b.cycles < 1.05 * a.cycles  # words this short show the pipelines, modelled longer


def test_times_of_every_word(tiny: RtlDevice) -> None:
    region = Region(tiny.allocate(IO), IO)
    done = tiny.wait(tiny.submit(tiny.load("copy", [copy()]), {Base.IO: region}))
    timing = tiny.timings["copy"]
    (tile,) = timing.tiles
    assert timing.cycles == done.cycles
    assert 0 < tile.start[0] < tile.visible[0] <= tile.start[1] < tile.visible[1] <= done.cycles
    assert tile.visible[0] - tile.start[0] >= TINY.dram.latency + 512 // 16  # VBUF takes 16 bytes a cycle
    assert tile.busy[Engine.LOAD] >= 512 // 16 and tile.stalls[Engine.STORE]["semaphore"] > 0
    assert (done.total.words, done.total.read, done.total.written) == (3, 512, 512)


ILLEGAL = np.concatenate([load(), END])
ILLEGAL["opcode"][0] = 77
CASES = {
    "region": ("E412", 1, [copy(to=IO - 64)]),
    "scratchpad": ("E411", 0, [np.concatenate([load(sram=TINY.words["vbuf"] - 1), END])]),
    "buffer": ("E410", 0, [np.concatenate([load(buffer=Buffer.ACC), END])]),
    "opcode": ("E410", 0, [ILLEGAL]),
    "no end": ("E410", None, [copy()[:-1]]),
    "constants": ("E412", 1, [np.concatenate([copy()[:1], store(base=Base.CONST, wait=wait_bit(Engine.LOAD)), END])]),
    "trap": (
        "E415",
        1,
        [
            np.concatenate(
                [
                    load(buffer=Buffer.PARAM, inner=32, signal=signal_bit(Engine.VPU)),
                    word(
                        Opcode.VEC,
                        valid=8,
                        rows=1,
                        tiles=1,
                        tag=3,
                        flags=int(Flag.TRAP),
                        a_src=pack(Buffer.PARAM, Format.F32),
                        d_src=pack(Buffer.VBUF, Format.F16),
                        wait=wait_bit(Engine.LOAD),
                    ),
                    END,
                ]
            )
        ],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("kind", ["sim", "rtl"])
def test_errors_are_those_of_the_simulator(tiny: RtlDevice, kind: str, name: str) -> None:
    code, index, streams = CASES[name]
    device = SimDevice(TINY) if kind == "sim" else tiny
    data = np.full(IO, 0x7F, np.uint8)  # NaN as float32, and as float16
    bases = {Base.IO: Region(device.allocate(IO), IO), Base.CONST: Region(device.allocate(IO), IO)}
    device.write(bases[Base.IO].address, data)
    with pytest.raises(DpuError) as e:
        device.wait(device.submit(device.load("unet", streams), bases))
    assert e.value.code == code
    assert "entry 'unet' tile 0" in e.value.where
    assert index is None or f"word {index} (" in e.value.where
    done = device.wait(device.submit(device.load("copy", [copy()]), bases))  # a failed run does not stop the device
    assert done.total.written == 512
    assert np.array_equal(device.read(bases[Base.IO].address + 2048, 512), data[:512])


def test_errors_verbatim(tiny: RtlDevice) -> None:
    region = {Base.IO: Region(tiny.allocate(IO), IO)}
    with pytest.raises(DpuError) as e:
        tiny.wait(tiny.submit(tiny.load("unet", [copy(to=IO - 64)]), region))
    assert str(e.value) == (
        "error[E412]: entry 'unet' tile 0 word 1 (STORE, tag 3): REGION: a DRAM access beyond its region\n"
        f"  why: STORE, address {region[Base.IO].address + IO - 64:#x}\n"
        "  try: dpuc verify names the word at fault; compile the model again"
    )


def test_a_token_that_never_comes_ends_in_the_watchdog(tiny: RtlDevice) -> None:
    stream = np.concatenate([store(wait=wait_bit(Engine.MXU)), END])
    with pytest.raises(DpuError, match=r"E414.*WATCHDOG.*STORE at word 0"):
        tiny.wait(tiny.submit(tiny.load("unet", [stream]), {Base.IO: Region(tiny.allocate(IO), IO)}))


def test_dram_that_answers_with_an_error_is_named(tiny: RtlDevice) -> None:
    region = Region(tiny.allocate(IO), IO)
    tiny._model.map(region.address, tiny._memory[region.address], fault=True)
    with pytest.raises(DpuError, match=r"E412.*word 0 \(LOAD, tag 3\): DRAM"):
        tiny.wait(tiny.submit(tiny.load("unet", [copy()]), {Base.IO: region}))


def test_constants_are_used_in_place(tiny: RtlDevice) -> None:
    data = np.arange(IO, dtype=np.uint32).astype(np.uint8)
    data.flags.writeable = False
    address = tiny.allocate(IO)
    tiny.write(address, data)
    assert tiny._memory[address] is data or np.shares_memory(tiny._memory[address], data)
    bases = {Base.CONST: Region(address, IO), Base.IO: Region(tiny.allocate(IO), IO)}
    stream = np.concatenate([load(base=Base.CONST, signal=signal_bit(Engine.STORE)), copy()[1:]])
    tiny.wait(tiny.submit(tiny.load("copy", [stream]), bases))
    assert np.array_equal(tiny.read(bases[Base.IO].address + 2048, 512), data[:512])


def test_reset_starts_afresh() -> None:
    device = RtlDevice(TINY, checked=True)
    bases = {Base.IO: Region(device.allocate(IO), IO)}
    handle = device.load("copy", [copy()])
    first = device.wait(device.submit(handle, bases))
    device.reset()
    assert device.counters().runs == 0
    assert device.wait(device.submit(handle, bases)).cycles == first.cycles
    device.close()


def test_closing_stops_a_run_that_does_not_end() -> None:
    device = RtlDevice(TINY, checked=True, watchdog=0)
    stream = np.concatenate([store(wait=wait_bit(Engine.MXU)), END])
    ticket = device.submit(device.load("unet", [stream]), {Base.IO: Region(device.allocate(IO), IO)})
    device.close()
    with pytest.raises(DpuError, match=r"E424.*was closed before it ended"):
        device.wait(ticket)


def test_hardware_that_is_not_what_was_meant_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registers, "MAGIC", 1)
    with pytest.raises(DpuError) as e:
        RtlDevice(TINY, checked=True)
    assert str(e.value) == (
        "error[E416]: rtl: register ID is 0x44505530, must be 0x1\n"
        "  try: this is a bug of the hardware: report it with the program"
    )


@pytest.mark.slow
def test_tiles_wait_for_each_other() -> None:
    there = np.concatenate([load(), store(offset=1024, remote=0b10), load(offset=2048, remote=0b10), END])
    there[1:2] = store(offset=1024, remote=0b10, wait=wait_bit(Engine.LOAD))
    there[0:1] = load(signal=signal_bit(Engine.STORE))
    back = [
        load(offset=1024, remote=0b01, signal=signal_bit(Engine.STORE)),
        store(offset=2048, remote=0b01, wait=wait_bit(Engine.LOAD)),
        END,
    ]
    device = RtlDevice(TWO, checked=True)
    region = Region(device.allocate(IO), IO)
    data = np.random.default_rng(0).integers(0, 256, 512, np.uint8)
    device.write(region.address, data)
    done = device.wait(device.submit(device.load("unet", [there, np.concatenate(back)]), {Base.IO: region}))
    assert np.array_equal(device.read(region.address + 2048, 512), data)
    assert done.cycles > 2 * TWO.latency.remote_signal
    device.close()
    program, inputs = compiled(TWO)
    with Session(program, SimDevice(TWO)) as sim, Session(program, RtlDevice(TWO, checked=True)) as rtl:
        assert np.array_equal(sim.run("net", inputs)["y"], rtl.run("net", inputs)["y"])


@pytest.mark.slow
def test_waves(tmp_path: Path) -> None:
    waves = tmp_path / "waves.vcd"
    device = open_device("rtl", TINY, waves)
    device.wait(device.submit(device.load("copy", [copy()]), {Base.IO: Region(device.allocate(IO), IO)}))
    device.close()
    text = waves.read_text()
    assert "$scope module" in text and "m_axi_araddr_o" in text and text.count("\n#") > 200
