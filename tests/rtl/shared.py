"""A module or a wrapper of it, Verilated into a shared library together with its C++ bench."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Any

from dpu.rtl import toolchain

BENCH = toolchain.FOLDER / "bench"


def library(top: str, parameters: Mapping[str, object], fast: str = "-O1") -> Any:
    """The loaded library of `top`, with assertions, and of the C++ in rtl/bench of the same name, without `_tb`.

    `fast` is how the hot half is compiled; wrappers lie in rtl/bench, too.
    """
    name = top.removesuffix("_tb")
    source, target = BENCH / f"{name}.cpp", f"{name}.so"
    job = toolchain.Build(
        name=f"bench/{name}",
        top=top,
        files=tuple(toolchain.sources(top, extra=sorted(BENCH.glob("*.sv")))),
        target=target,
        parameters=parameters,
        arguments=(
            *toolchain.LINT,
            *("--exe", "-o", target, "-LDFLAGS", "-shared", "-O3", "--x-assign", "fast"),
            str(source),
        ),
        flags={"OPT_FAST": f"{fast} -fPIC", "OPT_SLOW": "-O0 -fPIC", "OPT_GLOBAL": "-O2 -fPIC"},
        inputs=(source,),
    )
    return ctypes.CDLL(str(toolchain.build(job)))
