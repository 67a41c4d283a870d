"""DRAM behind the AXI ports: when beats come, what is answered, and which rules of AXI are watched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from dpu.rtl.model import SIM
from dpu.simulator.dram import native
from dpu.simulator.dram.params import config, dram_names, load_dram

SOURCE = Path(__file__).parent / "data" / "memory_test.cpp"
CASES = [
    "read_latency",
    "port_rate",
    "shared_rate",
    "instructions_first",
    "responses",
    "reads_early_writes_late",
    "pauses",
    "rules",
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = native.compiler()
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    out = tmp_path_factory.mktemp("memory") / "test"
    dram = native.source_folder()
    sources = [str(SOURCE), str(SIM / "memory.cpp"), str(dram / "dram_model.cpp")]
    flags = ["-std=c++20", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined"]
    done = subprocess.run(
        [compiler, *flags, f"-I{SIM}", f"-I{dram}", *sources, "-o", str(out)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return out


@pytest.mark.parametrize("case", CASES)
def test_memory(program: Path, case: str) -> None:
    done = subprocess.run([str(program), case], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", dram_names())
def test_bursts_take_the_time_of_the_dram_model(program: Path, name: str) -> None:
    fields = " ".join(map(str, config(load_dram(name), 250e6, 4).words))
    done = subprocess.run([str(program), "bursts", fields], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
