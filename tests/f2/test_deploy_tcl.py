"""The Tcl and the constraints of the F2 build, run by tclsh with Vivado's commands as stubs (`tcl.py`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from dpu.ir.arch import load_arch
from dpu.rtl import toolchain
from dpu.rtl.deploy import f2, steps

from .tcl import run_tcl

HEADER, FOOTER = "synth_cl_header.tcl", "synth_cl_footer.tcl"


@pytest.fixture
def prepared(tmp_path: Path) -> dict[str, str]:
    """A design folder as `f2-build` makes it, with an HDK of empty scripts: the variables that its build sets."""
    shell = tmp_path / "aws-fpga" / "hdk" / "common" / "shell_stable"
    scripts = shell / "build" / "scripts"
    scripts.mkdir(parents=True)
    for name in (HEADER, FOOTER, *f2.OF_THE_HDK):
        (scripts / name).write_text("")
    for step in f2.build_plan(load_arch("dpu_tiny"), tmp_path / "aws-fpga", tmp_path, "t")[:-1]:
        assert not isinstance(step, steps.Run)
        step.perform(lambda _: None)
    build = tmp_path / f2.TOP / "build"
    (build / "src_post_encryption").mkdir()
    return {
        "CL": f2.TOP,
        "DEVICE_TYPE": "xcvu47p-fsvh2892-2-e",
        "HDK_SHELL_DIR": str(shell),
        "design_dir": str(tmp_path / f2.TOP / "design"),
        "build_dir": str(build),
        "constraints_dir": str(build / "constraints"),
        "src_post_enc_dir": str(build / "src_post_encryption"),
    }


def test_sources_are_collected_and_synthesised(prepared: dict[str, str]) -> None:
    build = Path(prepared["build_dir"])
    stale = build / "src_post_encryption" / "old.sv"
    stale.write_text("")
    run_tcl(build / "scripts" / "encrypt.tcl", variables=prepared)
    assert not stale.exists()
    calls = run_tcl(build / "scripts" / "synth_cl_dpu.tcl", variables=prepared)

    read = [Path(c[-1]) for c in calls if c[0] == "read_verilog"]
    assert all(p.is_file() for p in read)
    names = [p.name for p in read]
    assert names[-1] == "cl_dpu.sv" and len(names) == len(set(names)) > 60
    packages = [n for n in names if n.endswith("_pkg.sv")]
    assert names[: len(packages)] == packages  # before what uses them

    constraints = [Path(c[-1]) for c in calls if c[0] == "read_xdc"]
    assert [p.name for p in constraints] == ["cl_synth_user.xdc", "cl_timing_user.xdc"]
    assert all(p.is_file() for p in constraints)

    (synthesis,) = (c for c in calls if c[0] == "synth_design")
    options = dict(zip(synthesis[1::2], synthesis[2::2], strict=False))
    assert options["-top"] == "cl_dpu" and options["-part"] == "xcvu47p-fsvh2892-2-e"
    assert options["-mode"] == "out_of_context"
    generics = [synthesis[i + 1] for i, word in enumerate(synthesis) if word == "-generic"]
    given = dict(g.split("=") for g in generics)
    declared = set(
        re.findall(r"parameter\s+[\w\s\[\]:]*?(\w+)\s*=", (toolchain.FOLDER / "f2" / "cl_dpu.sv").read_text())
    )
    assert set(given) <= declared and given["Tiles"] == "1"


def test_the_hbm_ip_is_what_the_rtl_instantiates(prepared: dict[str, str]) -> None:
    build = Path(prepared["build_dir"])
    calls = run_tcl(build / "scripts" / "hbm.tcl", variables={**prepared, "ip_dir": str(build)})
    (made,) = (c for c in calls if c[0] == "create_ip")
    name = made[made.index("-module_name") + 1]
    assert re.search(rf"^\s*{name} u_hbm \(", (toolchain.FOLDER / "f2" / "dpu_f2_hbm.sv").read_text(), re.M)
    (settings,) = (c[2].split() for c in calls if c[:2] == ["set_property", "-dict"])
    values = dict(zip(settings[::2], settings[1::2], strict=True))
    assert values["CONFIG.USER_MON_APB_EN"] == "TRUE"  # without it AWS makes no AFI
    assert (values["CONFIG.USER_HBM_DENSITY"], values["CONFIG.USER_HBM_STACK"]) == ("16GB", "2")
    assert not any("ADDR_MAP" in key or "MANUAL" in key for key in values)  # the shell's errata


@pytest.mark.parametrize("name", f2.CONSTRAINTS)
def test_constraints_are_commands_that_vivado_has(name: str) -> None:
    run_tcl(f2.FOLDER / name)


def test_constraints_name_what_is_in_the_rtl() -> None:
    """Every instance that a constraint names is one of the sources'."""
    text = "\n".join(p.read_text() for p in toolchain.sources(f2.TOP))
    instances = set(re.findall(r"\b(u_\w+)\s*\(", text))
    for name in f2.CONSTRAINTS:
        code = re.sub(r"#.*", "", (f2.FOLDER / name).read_text())
        for found in re.findall(r"\bu_\w+", code):
            prefix = found.rstrip("_")
            assert found in instances or any(i.startswith(found) for i in instances), (name, prefix)
        for register in re.findall(r"/(\w+_q)_reg", code):
            assert re.search(rf"\b{register}\b", text), register
    assert "gen_tile" in text and " mem [" in text


def test_the_floorplan_stays_in_the_customers_area() -> None:
    """No clock region twice, none that the shell has: right of X5 in SLR1 and beside the HBM's side in SLR0."""
    calls = run_tcl(f2.FOLDER / "small_shell_cl_pnr_user.xdc")
    taken: dict[tuple[int, int], str] = {}
    for call in (c for c in calls if c[0] == "resize_pblock"):
        for x0, y0, x1, y1 in re.findall(r"CLOCKREGION_X(\d+)Y(\d+):CLOCKREGION_X(\d+)Y(\d+)", call[-1]):
            for x in range(int(x0), int(x1) + 1):
                for y in range(int(y0), int(y1) + 1):
                    assert (x, y) not in taken, (x, y)
                    taken[x, y] = call[1]
    slr = {block: {y // 4 for (_, y), b in taken.items() if b == block} for block in set(taken.values())}
    assert slr == {"pblock_dpu_slr0": {0}, "pblock_dpu_slr1": {1}, "pblock_dpu_slr2": {2}}
    assert sum(b == "pblock_dpu_slr2" for b in taken.values()) == 32  # all of it is the customer's
    assert all(x <= 5 for (x, y), b in taken.items() if b == "pblock_dpu_slr1")
    children = [c[1:4] for c in calls if c[:2] == ["set_property", "parent"]]
    assert [c[1] for c in children] == ["pblock_CL"] * 3


def test_a_stub_refuses_what_vivado_would(tmp_path: Path) -> None:
    script = tmp_path / "bad.tcl"
    for text, error in (("synth_design -tpo x", "has no option -tpo"), ("place_all", "invalid command name")):
        script.write_text(text)
        with pytest.raises(AssertionError, match=error):
            run_tcl(script)
