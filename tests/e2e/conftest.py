"""The tiny pipeline, calibrated and compiled once for all tests of this folder. Read only."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpu.codegen.driver import Compiled, compile_folder
from dpu.runtime.calibrate import calibrate_folder

SIZE = (64, 64)


@pytest.fixture(scope="session")
def calibration(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Statistics over the first two calibration prompts."""
    out = tmp_path_factory.mktemp("e2e") / "calib.safetensors"
    calibrate_folder(tiny_folder, out, prompts=2, steps=10, size=SIZE)
    return out


@pytest.fixture(scope="session")
def compiled(tiny_folder: Path, calibration: Path) -> Compiled:
    """The pipeline's program for dpu_tiny, with the graph and the parameters behind it."""
    return compile_folder(tiny_folder, arch="dpu_tiny", calibration=calibration, size=SIZE)


@pytest.fixture(scope="session")
def compiled_f2(tiny_folder: Path, calibration: Path) -> Compiled:
    """The same for the three tiles of dpu_f2."""
    return compile_folder(tiny_folder, arch="dpu_f2", calibration=calibration, size=SIZE)
