"""The Verilated custom logic with shell and HBM around it, as a shared library: sim/cl_dpu.h has its functions."""

from __future__ import annotations

from pathlib import Path

from ...ir.arch import Arch
from .. import library as shared
from .. import toolchain
from ..model import parameters

TOP = "cl_dpu"
FOLDER = Path(__file__).parent
SIM = FOLDER / "sim"


def values(arch: Arch) -> dict[str, object]:
    """Parameters of `cl_dpu`, by name."""
    return {**parameters(arch), "MemoryMib": arch.dram.bytes >> 20}


def job(arch: Arch, checked: bool = False, waves: bool = False, extra: tuple[Path, ...] = ()) -> toolchain.Build:
    """The build of the library. `checked` and `waves` have assertions; `extra` are files that stand in for modules."""
    sources = tuple(SIM / name for name in ("cl_dpu.cpp", "shell.cpp", "hbm.cpp"))
    said = shared.arguments("libcl_dpu.so", (SIM,), checked or waves)
    said += ["--trace-vcd"] if waves else []
    return toolchain.Build(
        name=f"f2/{arch.name}",
        top=TOP,
        files=tuple(toolchain.sources(TOP, extra=extra)),
        target="libcl_dpu.so",
        parameters=values(arch),
        arguments=(*said, *map(str, sources)),
        flags=shared.flags(checked or waves),
        inputs=(*sources, *(SIM / name for name in ("cl_dpu.h", "shell.hpp", "hbm.hpp"))),
    )


def library(arch: Arch, checked: bool = False, waves: bool = False, extra: tuple[Path, ...] = ()) -> Path:
    """The library of `arch`; built on first use, a minute or two. Options are those of `job`.

    Raises:
        DpuError: E428, something is missing or a tool fails.
    """
    said = f"building the F2 model of {arch.name} (once; Verilator and C++, a minute or more) ..."
    return toolchain.build(job(arch, checked, waves, extra), said)
