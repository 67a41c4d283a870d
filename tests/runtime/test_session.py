"""Device and session on the simulator, on the RTL and on the stand-ins of cards, with a program written by hand: copy
the input to the output."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir import isa
from dpu.ir.arch import load_arch
from dpu.ir.container import Base, Entry, Program, Slot, SourceOp
from dpu.ir.isa import Buffer, Engine, Opcode
from dpu.ir.regmap import register
from dpu.runtime.device import Region
from dpu.runtime.f2.device import F2Device
from dpu.runtime.rtl_device import RtlDevice
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.runtime.targets import open_device
from dpu.runtime.tensors import host_input, pack, unpack
from dpu.runtime.xrt.device import XrtDevice

AnyDevice = SimDevice | RtlDevice | F2Device | XrtDevice
ARCH = load_arch("dpu_tiny")
IN = Slot(
    name="sample", shape=(2, 4, 3), dtype="f16", base=Base.IO, offset=0, row_bytes=64, layout="NCHW", height=2, width=2
)
OUT = IN.model_copy(update={"name": "out_sample", "offset": IN.bytes})


def _copy(to: Base, offset: int, source: Base = Base.IO, at: int = 0) -> isa.Words:
    """Load 512 bytes into VBUF, store them elsewhere."""
    n = IN.bytes
    return np.concatenate(
        [
            isa.word(
                Opcode.LOAD,
                tag=0,
                signal=isa.signal_bit(Engine.STORE),
                base=source,
                offset=at,
                buffer=Buffer.VBUF,
                inner=n,
                n=[1, 1, 1],
            ),
            isa.word(
                Opcode.STORE,
                tag=0,
                wait=isa.wait_bit(Engine.LOAD),
                base=to,
                offset=offset,
                buffer=Buffer.VBUF,
                inner=n,
                n=[1, 1, 1],
            ),
            isa.word(Opcode.END),
        ]
    )


def _program() -> Program:
    source = SourceOp(tag=0, name="copy", kind="test", nodes=(), macs=0)
    kept = OUT.model_copy(update={"base": int(Base.STATE), "offset": 0})
    return Program(
        arch=ARCH,
        entries=[
            Entry(name="keep", inputs=(IN,), outputs=(kept,), sources=(source,), once=True),
            Entry(name="recall", inputs=(), outputs=(OUT,), sources=(source,)),
        ],
        words={"keep": [_copy(Base.STATE, 0)], "recall": [_copy(Base.IO, OUT.offset, Base.STATE)]},
        constants=np.zeros(64, np.uint8),
        base_bytes={int(Base.CONST): 64, int(Base.STATE): IN.bytes, int(Base.IO): 2 * IN.bytes},
    )


@pytest.fixture(params=["sim", "rtl", "f2", "xrt"])
def device(request: pytest.FixtureRequest) -> Iterator[AnyDevice]:
    if request.param != "sim":
        request.getfixturevalue("rtl_tools")
    if request.param == "xrt":
        device: AnyDevice = request.getfixturevalue("xrt_device")()
    elif request.param == "f2":
        device = open_device("f2", ARCH, card="stand-in")
    else:
        device = SimDevice(ARCH) if request.param == "sim" else RtlDevice(ARCH, checked=True)
    yield device
    device.close()


def test_state_lives_from_one_entry_to_the_next(device: AnyDevice) -> None:
    session = Session(_program(), device)
    image = np.arange(24, dtype=np.float32).reshape(2, 3, 2, 2)
    assert session.run("keep", {"sample": image, "unused": 1.0}) == {}
    out = session.run("recall", {})
    assert np.array_equal(out["out_sample"], image)
    done = session.completions["recall"]
    if isinstance(device, XrtDevice):
        counted = device.registers.get("CYCLES", wide=True)
    elif isinstance(device, F2Device):
        counted = device.bus.wide(register("CYCLES_LO").address())
    else:
        counted = device.timings["recall"].cycles
    assert done.cycles == counted > ARCH.dram.latency
    assert done.total.read == done.total.written == IN.bytes
    assert device.counters().runs == 2
    device.reset()
    assert device.counters().runs == 0


def test_overflow_on_the_way_in_is_counted(device: AnyDevice) -> None:
    session = Session(_program(), device)
    image = np.full((2, 3, 2, 2), 1e6, np.float32)
    session.run("keep", {"sample": image})
    assert session.input_overflows == 24
    assert session.run("recall", {})["out_sample"].max() == 65504


def test_submit_returns_before_the_run_and_errors_surface_at_wait(device: AnyDevice) -> None:
    gate = threading.Event()
    device.on_store = lambda tile, word, tag: gate.wait(10) and None
    handle = device.load("copy", [_copy(Base.IO, IN.bytes)])
    outside = device.load("outside", [_copy(Base.IO, 10 * IN.bytes)])
    io = {int(Base.IO): Region(device.allocate(2 * IN.bytes), 2 * IN.bytes)}
    first, second = device.submit(handle, io), device.submit(outside, io)
    gate.set()
    assert device.wait(first).entry == "copy"
    with pytest.raises(DpuError, match="entry 'outside'"):
        device.wait(second)
    with pytest.raises(DpuError, match="already waited"):
        device.wait(first)
    assert device.wait(device.submit(handle, io)).entry == "copy"  # a failed run does not stop the device


def test_memory_is_checked(device: AnyDevice) -> None:
    address = device.allocate(100)
    device.write(address + 10, np.arange(5, dtype=np.uint8))
    assert device.read(address + 9, 7).tolist() == [0, 0, 1, 2, 3, 4, 0]
    with pytest.raises(DpuError, match="in no allocation"):
        device.read(address + 90, 20)
    with pytest.raises(DpuError, match="do not fit"):
        device.allocate(ARCH.dram.bytes + 1)


def test_a_program_for_another_arch_is_refused(device: AnyDevice) -> None:
    program = _program()
    program.arch = load_arch("dpu_f2")
    with pytest.raises(DpuError, match="the device is 'dpu_tiny'"):
        Session(program, device)


def test_missing_entries_inputs_and_targets_are_named(device: AnyDevice) -> None:
    session = Session(_program(), device)
    with pytest.raises(DpuError, match="one of keep, recall"):
        session.run("step", {})
    with pytest.raises(DpuError, match="'sample' is missing"):
        session.run("keep", {})
    with pytest.raises(DpuError, match="--target gpu: runs the model, not a compiled program"):
        open_device("gpu", ARCH)


@pytest.mark.parametrize("dtype", ["f16", "f32", "i8", "i32"])
def test_pack_and_unpack_are_inverse(dtype: str) -> None:
    slot = Slot(name="x", shape=(2, 5, 3), dtype=dtype, base=0, offset=0, row_bytes=64)
    x = np.random.default_rng(0).integers(-100, 100, (2, 5, 3)).astype(np.float32)
    data, overflows = pack(slot, x)
    assert data.shape == (slot.bytes,)
    assert overflows == 0
    assert not data.reshape(10, 64)[:, 12:].any()
    assert np.array_equal(unpack(slot, data), x)


def test_an_embedding_is_computed_from_its_scalars() -> None:
    ids = np.arange(12, dtype=np.float32).reshape(2, 6)
    found = host_input("time_ids.sinusoid", (2, 1, 24), {"time_ids": ids})
    assert found.shape == (2, 1, 24)
    np.testing.assert_allclose(found[1, 0, 4:6], np.cos([7, 7 / 100]), rtol=1e-6)
    time = host_input("timestep.sinusoid", (2, 1, 4), {"timestep": np.array([500.0])})
    np.testing.assert_allclose(time[1, 0], [np.cos(500), np.cos(5), np.sin(500), np.sin(5)], rtol=1e-4)
    with pytest.raises(DpuError, match="6 scalars do not fill the 4 channels"):
        host_input("time_ids.sinusoid", (2, 1, 4), {"time_ids": ids})
