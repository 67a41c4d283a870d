"""Each module of the custom logic in its bench, with pauses on all channels."""

from __future__ import annotations

import pytest

from tests.rtl.runner import run_bench

pytestmark = pytest.mark.usefixtures("rtl_tools")
pytest.importorskip("cocotb")


def test_async_fifo() -> None:
    env = {"PERIODS": "4000:2222,2222:4000,4000:4000,1000:9998"}
    run_bench("f2_async_fifo", None, "dpu_f2_async_fifo", {"Depth": 8}, "test_dpu_f2_async_fifo", env=env)


@pytest.mark.parametrize("ways", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_split(ways: int) -> None:
    parameters = {"MemoryBytes": "64'h100000", "Ways": ways}
    run_bench("f2_split", None, "dpu_f2_split", parameters, "test_dpu_f2_split")


def test_narrow() -> None:
    run_bench("f2_narrow", None, "dpu_f2_narrow", {}, "test_dpu_f2_narrow")


def test_pcis() -> None:
    run_bench("f2_pcis", None, "dpu_f2_pcis", {"MemoryBytes": "64'h100000", "Timeout": 120}, "test_dpu_f2_pcis")


def test_copy() -> None:
    run_bench("f2_copy", None, "dpu_f2_copy", {"Timeout": 200}, "test_dpu_f2_copy")


def test_ocl() -> None:
    run_bench("f2_ocl", None, "dpu_f2_ocl", {}, "test_dpu_f2_ocl")


def test_irq() -> None:
    run_bench("f2_irq", None, "dpu_f2_irq", {"Patience": 50}, "test_dpu_f2_irq")


def test_reset() -> None:
    run_bench("f2_reset", None, "dpu_f2_reset", {"Cycles": 16}, "test_dpu_f2_reset", expose=["dpu_rst_no"])
