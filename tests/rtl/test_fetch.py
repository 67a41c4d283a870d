"""Instruction fetch of the RTL."""

import pytest

from .runner import run_bench

pytest.importorskip("cocotb")


def test_fetch() -> None:
    run_bench("fetch", None, "dpu_fetch", {"FifoWords": 64}, "test_dpu_fetch")
