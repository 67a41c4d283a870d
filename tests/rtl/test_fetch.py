"""Instruction fetch of the RTL."""

from .runner import run_bench


def test_fetch() -> None:
    run_bench("fetch", None, "dpu_fetch", {"FifoWords": 64}, "test_dpu_fetch")
