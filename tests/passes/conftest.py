"""Exported graphs and what the compiler makes of them, for the tests of the graph passes."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def tiny_folder_20(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny pipeline of `tiny_folder` at opset 20, where GroupNorm and attention are spelled out."""
    from dpu.frontend.sdxl import export_tiny

    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent
    out = base / "tiny-exported-20"
    with (base / "tiny-exported-20.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        export_tiny(out, opset=20)
    return out


@pytest.fixture(params=[20, 23], ids=["opset20", "opset23"])
def folder(request: pytest.FixtureRequest) -> Path:
    """The tiny pipeline at each of the two opsets."""
    name = "tiny_folder" if request.param == 23 else "tiny_folder_20"
    path: Path = request.getfixturevalue(name)
    return path
