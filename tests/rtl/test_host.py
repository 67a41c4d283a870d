"""Registers and control of the RTL."""

from .runner import run_bench


def test_host() -> None:
    parameters = {"Tiles": 3, "Cols": 16, "Lanes": 8, "Watchdog": 1000}
    run_bench("host", None, "dpu_host_tb", parameters, "test_dpu_host")
