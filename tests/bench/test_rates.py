"""`dpubench rates`: what it prints, and the RTL of another checkout beside this one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dpu.bench.rates import Machine, Rate, Rates, Rtl, _stand_ins
from dpu.errors import DpuError
from dpu.rtl import toolchain
from dpu.rtl.model import TOP


def rates(before: Rtl | None = None) -> Rates:
    machine = Machine(processor="a CPU", processors=2, load=0.5, versions={})
    forms = (("RTL (Verilator)", 10.0), ("functional simulator", 0.5), ("timing model", 2.0))
    rows = tuple(Rate(form=form, cycles=5_000_000, cpu_seconds=s, wall_seconds=s) for form, s in forms)
    return Rates(
        command="dpubench rates a.dpu",
        program="a.dpu",
        program_sha256="0" * 64,
        arch="dpu_tiny",
        entry="unet",
        words=7,
        bytes_compared=1024,
        machine=machine,
        rates=(rows[0], rows[1], rows[2]),
        before=before,
    )


def test_the_ratio_to_the_rtl_before_is_of_cycles_a_cpu_second() -> None:
    slow = Rate(form="RTL (Verilator)", cycles=4_000_000, cpu_seconds=16.0, wall_seconds=20.0)
    found = rates(Rtl(sources="0" * 16, rate=slow))
    assert found.speedup == 2.0 and rates().speedup == 1.0
    assert found.text().splitlines()[-3:] == [
        "RTL now : before = 2.00 : 1 in cycles a CPU second (250,000 before, 4,000,000 cycles in 16.00 CPU s)",
        "RTL : simulator = 4.0 : 1 in CPU time (20.0 functional, 5.0 timing)",
        "1,024 bytes of all regions are equal; provenance: measured",
    ]
    assert "before" not in rates().text()
    assert Rates.model_validate_json(found.model_dump_json()) == found


def test_modules_of_the_other_folder_stand_in(tmp_path: Path) -> None:
    now = toolchain.digest(toolchain.sources(TOP))
    shutil.copytree(
        toolchain.FOLDER, tmp_path / "rtl", ignore=lambda _, names: [n for n in names if n == "__pycache__"]
    )
    old = _stand_ins(tmp_path / "rtl")
    used = toolchain.sources(TOP, extra=old)
    assert all(p.is_relative_to(tmp_path) for p in used) and toolchain.digest(used) == now
    fifo = tmp_path / "rtl" / "common" / "dpu_fifo.sv"
    fifo.write_text(fifo.read_text() + "// as it was\n")
    assert toolchain.digest(toolchain.sources(TOP, extra=old)) != now
    assert _stand_ins(None) == ()


def test_a_folder_without_the_top_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        _stand_ins(tmp_path)
    assert e.value.text() == (
        f"error[E106]: {tmp_path}: has no dpu_top.sv\n  try: give the folder rtl of another checkout"
    )
