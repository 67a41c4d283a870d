"""`--target xrt` on the stand-in of pyxrt: the simulator's bytes, its errors, what XRT may refuse, hangs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.container import Base, Program
from dpu.ir.dialects import parse_module
from dpu.ir.isa import Buffer, Engine, Opcode, Words, signal_bit, wait_bit, word
from dpu.rtl.xrt import kernel
from dpu.runtime.device import Region
from dpu.runtime.failures import SeededWeights, compile_module
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.runtime.targets import open_device
from dpu.runtime.xrt.device import XrtDevice

ARCH = load_arch("dpu_tiny")
IO = 4096  # bytes of a region
Open = Callable[..., XrtDevice]

NET = """func.func @net(%x: tensor<2x24x16xf16> {dpu.name = "x"}) -> (tensor<2x24x16xf16> {dpu.name = "y"}) {
  %w = dpu.param "w" : tensor<16x16xf16>
  %a = dpu.linear %x, %w : tensor<2x24x16xf16>, tensor<16x16xf16> -> tensor<2x24x16xf16>
  %y = dpu.linear %a, %w : tensor<2x24x16xf16>, tensor<16x16xf16> -> tensor<2x24x16xf16>
  func.return %y : tensor<2x24x16xf16>
}
"""


def compiled() -> tuple[Program, dict[str, np.ndarray]]:
    module = parse_module(NET)
    emitted, _, inputs = compile_module(module, ARCH, SeededWeights(module))
    return emitted.program, inputs


def dma(opcode: Opcode, **f: object) -> Words:
    return word(opcode, **({"base": Base.IO, "buffer": Buffer.VBUF, "inner": 512, "n": [1, 1, 1], "tag": 3} | f))


def copy(to: int = 2048) -> Words:
    """A stream that copies the first 512 bytes of the region."""
    first = dma(Opcode.LOAD, offset=0, signal=signal_bit(Engine.STORE))
    return np.concatenate([first, dma(Opcode.STORE, offset=to, wait=wait_bit(Engine.LOAD)), word(Opcode.END)])


STUCK = np.concatenate([dma(Opcode.STORE, offset=0, wait=wait_bit(Engine.MXU)), word(Opcode.END)])


def region(device: XrtDevice) -> dict[int, Region]:
    return {int(Base.IO): Region(device.allocate(IO), IO)}


@pytest.mark.parametrize("stall", [0, 100])
def test_a_compiled_program_leaves_the_simulators_bytes(
    xrt_device: Open, pyxrt: Any, monkeypatch: pytest.MonkeyPatch, stall: int
) -> None:
    monkeypatch.setattr(pyxrt, "STALL", stall)
    program, inputs = compiled()
    with Session(program, SimDevice(ARCH)) as sim, Session(program, xrt_device()) as xrt:
        for scale in (1.0, 0.5):
            given = {k: np.asarray(v) * scale for k, v in inputs.items()}
            assert np.array_equal(sim.run("net", given)["y"], xrt.run("net", given)["y"])
        for base, size in program.base_bytes.items():
            assert np.array_equal(sim.peek(base, 0, size), xrt.peek(base, 0, size)), f"base {base}"
        a, b = sim.completions["net"], xrt.completions["net"]
        work = ("words", "macs", "read", "written", "fp16_overflow", "nan")
        assert [getattr(a.total, w) for w in work] == [getattr(b.total, w) for w in work]
        if not stall:  # bounds as of the RTL device: words this short show the pipelines
            assert 0.5 * a.cycles < b.cycles < 1.05 * a.cycles


def test_addresses_use_both_halves(xrt_device: Open, pyxrt: Any) -> None:
    device = xrt_device()
    assert device._commands.address >> 32 and device._commands.address & 1 << 31
    with pytest.raises(TypeError, match="incompatible function arguments"):  # what the halves are for
        device._card._run.set_arg(0, device._commands.address)
    with pytest.raises(TypeError):
        device._card._run.set_arg(0, device._commands.address & 0xFFFFFFFF)
    bases = region(device)
    while bases[int(Base.IO)].address >> 32 == device._commands.address >> 32:  # over the next 4 GiB
        device._card._device._next += 1 << 28
        bases = region(device)
    data = np.arange(512, dtype=np.uint16).astype(np.uint8)
    device.write(bases[int(Base.IO)].address, data)
    device.wait(device.submit(device.load("copy", [copy()]), bases))
    assert np.array_equal(device.read(bases[int(Base.IO)].address + 2048, 512), data)
    device.close()


def test_what_the_card_says_of_itself(xrt_device: Open, pyxrt: Any) -> None:
    device = xrt_device(card=pyxrt.BDF)
    said = device.capability
    assert (said.name, said.arch_digest, said.clock_hz) == ("xrt", ARCH.digest, 100e6)
    assert device.opened == "hw_context"
    assert device.identity.provenance.label == "simulated"
    assert device.identity.marks == {"xclbin_uuid": "00000000-5eed-0000-0000-000000000001", "bdf": pyxrt.BDF}
    device.close()


def test_an_old_xrt_has_no_hardware_contexts(xrt_device: Open, pyxrt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pyxrt, "hw_context")
    device = xrt_device()
    said = "load_xclbin, for this pyxrt has no hw_context"
    assert device.opened == said and device.remarks == [("card", f"stand_in_u50, kernel reached by {said}")]
    device.close()


def test_a_platform_without_hardware_contexts(xrt_device: Open, pyxrt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise RuntimeError("hw_context is not supported: Operation not supported")

    monkeypatch.setattr(pyxrt, "hw_context", refused)
    device = xrt_device()
    assert device.opened == "load_xclbin, for hw_context: hw_context is not supported: Operation not supported"
    device.close()
    monkeypatch.setattr(pyxrt.device, "load_xclbin", refused)
    with pytest.raises(DpuError) as e:
        xrt_device()
    assert str(e.value).replace(str(e.value.where), "tiny.xclbin") == (
        "error[E438]: tiny.xclbin: XRT does not load it (hw_context is not supported: Operation not supported)\n"
        "  why: hw_context: hw_context is not supported: Operation not supported\n"
        "  try: is it for this card and shell?"
    )


def test_without_pyxrt(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyxrt", None)
    (tmp_path / "a.xclbin").write_text("{}")
    with pytest.raises(DpuError) as e:
        open_device("xrt", ARCH, image=str(tmp_path / "a.xclbin"))
    assert str(e.value) == (
        "error[E438]: --target xrt: Python module 'pyxrt' cannot be imported (import of pyxrt halted; None in "
        "sys.modules)\n"
        "  why: it comes with AMD's XRT, not from PyPI, and fits one version of Python\n"
        "  try: install XRT for your card, 'source /opt/xilinx/xrt/setup.sh', and run dpurun with that Python"
    )


@pytest.mark.parametrize(
    ("image", "card", "text"),
    [
        ({"arch": "dpu_tiny"}, "3", "error[E438]: --card 3: XRT opens no such card (No such device '3')"),
        ("no", "0", "error[E438]: IMAGE: XRT reads no device binary from it ("),
        (
            {"arch": "dpu_tiny", "kernels": ["vadd", "vmul"]},
            "0",
            "error[E438]: IMAGE: holds kernels vadd, vmul, not 'dpu'\n  try: dpubench xrt-build makes one",
        ),
        (
            None,
            "0",
            "error[E106]: IMAGE: no such device binary\n  try: dpubench xrt-build makes it; name it with --image",
        ),
    ],
)
def test_images_and_cards_that_do_not_fit(pyxrt: Any, tmp_path: Path, image: object, card: str, text: str) -> None:
    path = tmp_path / "x.xclbin"
    if image is not None:
        path.write_text(json.dumps(image) if isinstance(image, dict) else str(image))
    with pytest.raises(DpuError) as e:
        open_device("xrt", ARCH, image=str(path), card=card)
    assert str(e.value).replace(str(path), "IMAGE").startswith(text)


def test_an_image_of_another_arch_is_refused(pyxrt: Any, tmp_path: Path) -> None:
    path = tmp_path / "x.xclbin"
    path.write_text(json.dumps({"arch": "dpu_tiny"}))
    with pytest.raises(DpuError, match=r"E416.*xrt: register SHAPE is 0x80801, must be 0x104003"):
        open_device("xrt", load_arch("dpu_f2"), image=str(path))


def test_a_failed_run_says_what_the_registers_say_and_the_next_one_runs(xrt_device: Open) -> None:
    device = xrt_device(watchdog=2000)
    bases = region(device)
    with pytest.raises(DpuError) as e:
        device.wait(device.submit(device.load("unet", [copy(to=IO - 64)]), bases))
    assert str(e.value) == (
        "error[E412]: entry 'unet' tile 0 word 1 (STORE, tag 3): REGION: a DRAM access beyond its region\n"
        f"  why: STORE, address {bases[int(Base.IO)].address + IO - 64:#x}\n"
        "  try: dpuc verify names the word at fault; compile the model again"
    )
    with pytest.raises(DpuError, match=r"E414.*WATCHDOG.*STORE at word 0"):
        device.wait(device.submit(device.load("unet", [STUCK]), bases))
    assert device.wait(device.submit(device.load("copy", [copy()]), bases)).total.written == 512
    device.reset()
    assert device.counters().runs == 0
    device.close()


def test_memory_is_exhausted(xrt_device: Open, pyxrt: Any) -> None:
    device = xrt_device()
    device._card._device._next += 8 << 30
    with pytest.raises(DpuError) as e:
        device.allocate(5000)
    assert str(e.value) == (
        "error[E422]: xrt: the card has no 8192 bytes left in one piece (failed to allocate bo: Cannot allocate "
        "memory)\n"
        "  try: compile for a smaller image, or use a device with more memory"
    )
    device.close()


def test_commands_that_cannot_be_read_are_noticed(xrt_device: Open) -> None:
    device = xrt_device()
    commands = device._commands._bo
    device._card._device._model.map(commands.address(), commands._device, fault=True)
    with pytest.raises(DpuError) as e:
        device.reset()
    assert str(e.value) == (
        "error[E439]: xrt: the kernel's report ends with 0x0, run 0x2 was started\n"
        "  why: the kernel could not read its commands or write its report: memory answered with an error\n"
        "  try: reset the card with 'xrt-smi reset' and run again"
    )
    device._card._device._model.map(commands.address(), commands._device)
    device.reset()  # the kernel itself goes on
    device.close()


def test_a_report_that_cannot_be_written_is_noticed(xrt_device: Open) -> None:
    device = xrt_device()
    report = device._report._bo
    device._card._device._model.map(report.address(), report._device, fault=True)
    with pytest.raises(DpuError, match=r"E439.*report ends with 0x0"):
        device.reset()
    device.close()


def test_a_card_that_hangs_is_given_up(xrt_device: Open) -> None:
    device = xrt_device(watchdog=0, timeout=0.2)
    bases = region(device)
    with pytest.raises(DpuError) as e:
        device.wait(device.submit(device.load("unet", [STUCK]), bases))
    assert str(e.value) == (
        "error[E439]: entry 'unet': no end within 0.2 s\n"
        "  why: the card hangs\n"
        "  try: reset the card with 'xrt-smi reset' and run again"
    )
    with pytest.raises(DpuError) as e:
        device.wait(device.submit(device.load("copy", [copy()]), bases))
    assert str(e.value) == (
        "error[E439]: entry 'copy': the card is not usable any more\n"
        "  why: a run of entry 'unet' did not end within 0.2 s\n"
        "  try: reset the card with 'xrt-smi reset' and run again"
    )
    device.close()


def test_a_run_that_xrt_stops_is_an_error(xrt_device: Open, pyxrt: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    device = xrt_device()
    monkeypatch.setattr(pyxrt.run, "wait", lambda *_: pyxrt.ert_cmd_state.ERT_CMD_STATE_ABORT)
    with pytest.raises(DpuError, match=r"E439.*the run ended in state ert_cmd_state.ERT_CMD_STATE_ABORT"):
        device.reset()
    device.close()


def test_closing_stops_a_run_that_does_not_end(xrt_device: Open) -> None:
    device = xrt_device(watchdog=0)
    ticket = device.submit(device.load("unet", [STUCK]), region(device))
    device.close()
    with pytest.raises(DpuError, match=r"E424.*was closed before it ended"):
        device.wait(ticket)


def test_the_generated_package_is_fresh() -> None:
    assert (kernel.FOLDER / "dpu_kernel_pkg.sv").read_text() == kernel.package()
