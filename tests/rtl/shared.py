"""A module or a wrapper of it, Verilated into a shared library together with its C++ bench."""

from __future__ import annotations

import atexit
import ctypes
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpu.rtl import toolchain
from dpu.rtl.model import COVERED

BENCH = toolchain.FOLDER / "bench"

coverage: Path | None = None
"""Where counts of lines and toggles go at exit, a file a library; set by `--rtl-coverage`."""


def library(top: str, parameters: Mapping[str, object], fast: str = "-O1") -> Any:
    """The loaded library of `top`, with assertions, and of the C++ in rtl/bench of the same name, without `_tb`.

    `fast` is how the hot half is compiled; wrappers lie in rtl/bench, too.
    """
    name = top.removesuffix("_tb")
    target = f"{name}.so"
    sources = (BENCH / f"{name}.cpp", *([BENCH / "coverage.cpp"] if coverage else []))
    job = toolchain.Build(
        name=f"bench/{name}",
        top=top,
        files=tuple(toolchain.sources(top, extra=sorted(BENCH.glob("*.sv")))),
        target=target,
        parameters=parameters,
        arguments=(
            *toolchain.LINT,
            *("--exe", "-o", target, "-LDFLAGS", "-shared", "-O3", "--x-assign", "fast"),
            *map(str, sources),
            *(COVERED if coverage else ()),
        ),
        flags={"OPT_FAST": f"{fast} -fPIC", "OPT_SLOW": "-O0 -fPIC", "OPT_GLOBAL": "-O2 -fPIC"},
        inputs=sources,
    )
    built = ctypes.CDLL(str(toolchain.build(job)))
    if coverage is not None:
        atexit.register(built.bench_coverage, os.fsencode(coverage / f"{name}.{job.digest()}.{os.getpid()}.dat"))
    return built
