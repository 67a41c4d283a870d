"""Everything here needs Verilator and a C++ compiler, and is skipped with the reason where they are not."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _tools(rtl_tools: None) -> None:
    pytest.importorskip("cocotb")
