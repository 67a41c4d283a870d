"""What AMD's tools get: the packaged top is clean and wired to its names, the XML and the link agree with the contract,
the packaging script does what it should in tclsh with the tools' commands stubbed."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from dpu.ir.arch import Arch, load_arch
from dpu.rtl import lint, toolchain
from dpu.rtl.xrt import packaging
from dpu.rtl.xrt.kernel import FOLDER, NAME, SCALARS, Op, arguments, command, signed, tile_port

from tests.f2.tcl import run_tcl

TINY = load_arch("dpu_tiny")
TWO = Arch.model_validate(TINY.model_dump() | {"name": "dpu_two", "tiles": 2})


@pytest.fixture
def packaged(tmp_path: Path) -> list[Path]:
    """The sources with the packaged top of two tiles."""
    path = tmp_path / "dpu.sv"
    path.write_text(packaging.top(TWO))
    return toolchain.sources(NAME, extra=[path])


def test_the_packaged_top_is_clean(rtl_tools: None, packaged: list[Path]) -> None:
    toolchain.lint(packaged, NAME)
    pytest.importorskip("pyslang")
    assert lint.slang(NAME, packaged)


def test_its_ports_are_those_that_the_packager_looks_for(packaged: list[Path]) -> None:
    pytest.importorskip("pyslang")
    from pyslang import ast, driver

    d = driver.Driver()
    d.addStandardArgs()
    assert d.parseCommandLine(" ".join(["slang", "--top", NAME, *map(str, packaged)])) and d.processOptions()
    assert d.parseAllSources()
    top = d.createCompilation().getRoot().topInstances[0]
    found = [(p.name, p.type.bitWidth, p.direction == ast.ArgumentDirection.Out) for p in top.body.portList]
    assert found == packaging.ports(2)
    named = {name for name, _, _ in found}
    for p in range(3):
        assert {f"{tile_port(p)}_{s}" for s in ("awaddr", "wdata", "bresp", "araddr", "rdata")} <= named
    assert {"ap_clk", "ap_rst_n", "interrupt", "s_axi_control_awaddr"} <= named


def test_the_xml_has_every_argument_and_port() -> None:
    root = ET.fromstring(packaging.kernel_xml(2))
    kernel = root.find("kernel")
    assert kernel is not None and kernel.get("name") == NAME and kernel.get("hwControlProtocol") == "ap_ctrl_hs"
    ports = [p.get("name") for p in root.iter("port")]
    assert ports == ["s_axi_control", "m00_axi", "m01_axi", "m02_axi"]
    given = [(a.get("name"), int(a.get("offset") or "", 16), int(a.get("size") or "", 16)) for a in root.iter("arg")]
    assert given == [(a.name, a.offset, a.bytes) for a in arguments(2)]
    ends = [offset + size for _, offset, size in given]
    assert all(end <= start for end, (_, start, _) in zip(ends, given[1:], strict=False))  # no overlap
    for a in root.iter("arg"):
        assert a.get("port") in ports
        assert (a.get("addressQualifier") == "1") == (a.get("port") != "s_axi_control")
        assert int(a.get("offset") or "", 16) % int(a.get("size") or "", 16) == 0


@pytest.mark.parametrize("card", packaging.PLATFORMS)
def test_the_link_gives_every_port_all_of_the_memory(card: str) -> None:
    text = packaging.link_config(TWO, card)
    assert f"platform={packaging.PLATFORMS[card].shell}\n" in text
    assert "kernel_frequency=100\n" in text
    assert [line for line in text.splitlines() if line.startswith("sp=")] == [
        f"sp=dpu_1.m{p:02}_axi:HBM[0:31]" for p in range(3)
    ]


def test_halves_of_addresses() -> None:
    assert [signed(x) for x in (0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)] == [0, 1, 0x7FFFFFFF, -0x80000000, -1]
    assert len(SCALARS) == 4
    assert command(Op.WRITE, 0x3FFC, 0x80000001) == 0x80000001_10003FFC
    for address in (0x4000, 2):
        with pytest.raises(AssertionError):
            command(Op.READ, address)


def test_the_script_packages_all_sources_in_order(tmp_path: Path) -> None:
    folder = tmp_path / "kernel"
    (folder / "src").mkdir(parents=True)
    names = ["a_pkg.sv", "b.sv", "dpu.sv"]
    for name in names:
        (folder / "src" / name).write_text("")
    (folder / "sources.txt").write_text("\n".join(names) + "\n")
    answers = {"ipx::get_bus_interfaces": "m00_axi m01_axi", "get_property": "m01_axi m00_axi"}
    calls = run_tcl(FOLDER / "package.tcl", [str(folder), "xcu50-fsvh2104-2-e", str(tmp_path / "dpu.xo")], answers)
    added = [c[-1] for c in calls if c[0] == "add_files"]
    assert added == [f"{folder}/src/{n}" for n in names]
    assert ["set_property", "top", "dpu", "<current_fileset>"] in calls
    bound = [c[2] for c in calls if c[0] == "ipx::associate_bus_interfaces" and c[1] == "-busif"]
    assert bound == ["s_axi_control", "m00_axi", "m01_axi"]
    assert calls[-1] == [
        "package_xo", "-force", "-xo_path", str(tmp_path / "dpu.xo"), "-kernel_name", "dpu",
        "-ip_directory", f"{folder}/ip", "-kernel_xml", f"{folder}/kernel.xml",
    ]  # fmt: skip
    order = [c[0] for c in calls]
    assert order.index("ipx::save_core") < order.index("package_xo")


def test_the_script_wants_three_arguments() -> None:
    if not shutil.which("tclsh"):
        pytest.skip("no tclsh")
    with pytest.raises(AssertionError, match=r"package.tcl: 1 arguments, expected FOLDER PART XO"):
        run_tcl(FOLDER / "package.tcl", ["x"], {})
