"""Registers and control of the RTL."""

import pytest

from .runner import run_bench

pytest.importorskip("cocotb")


def test_host() -> None:
    parameters = {"Tiles": 3, "Cols": 16, "Lanes": 8, "Watchdog": 1000}
    run_bench("host", None, "dpu_host_tb", parameters, "test_dpu_host")
