"""The wheel: one package `dpu`, with the data that it reads at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_wheel_carries_data_and_nothing_generic(tmp_path: Path) -> None:
    if find_spec("build") is None:
        pytest.skip("needs the package 'build'")
    source = tmp_path / "source"  # setuptools leaves build/ behind, which is not for the checkout
    ignore = {".git", ".venv", "build", "dist", "out", ".mypy_cache", ".ruff_cache", "tests"}
    files = [p for p in ROOT.rglob("*") if p.is_file() and not ignore & set(p.relative_to(ROOT).parts)]
    for p in files:
        target = source / p.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(p.read_bytes())
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {n.split("/")[0] for n in names}
    assert tops == {"dpu", next(t for t in tops if t.endswith(".dist-info"))}
    for needed in (
        "dpu/ir/numerics_tables.json",
        "dpu/configs/arch/dpu_tiny.json",
        "dpu/configs/dram/hbm2_vu47p.json",
        "dpu/simulator/dram/dram_model.cpp",
        "dpu/simulator/dram/dram_model.hpp",
        "dpu/simulator/timing_cpp/run.cpp",
        "dpu/simulator/timing_cpp/timing.hpp",
        "dpu/configs/workload/prompts.json",
        "dpu/configs/workload/sdxl_base/unet.json",
        "dpu/py.typed",
    ):
        assert needed in names
    python = {f"dpu/{p.relative_to(ROOT).as_posix()}" for p in files if p.suffix == ".py"}
    assert python - set(names) == set(), "a folder is missing from `packages` in pyproject.toml"
