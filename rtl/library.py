"""Verilated models as shared libraries: what Verilator and make are told, and the C functions from Python."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import DpuError
from . import toolchain

_ARGUMENTS = ("-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-timing", "-Wno-lint", "-Wno-style")
_FLAGS = {"OPT_FAST": "-O3 -march=native", "OPT_SLOW": "-O0", "OPT_GLOBAL": "-O2"}
_CHECKED_FLAGS = {**_FLAGS, "OPT_FAST": "-O1"}  # built in two thirds of the time, runs at four fifths of the speed
_CFLAGS = "-fPIC -DVL_USER_STOP -DVL_USER_FATAL -DVL_USER_FINISH"

Function = tuple[str, Any, Sequence[Any]]
"""Name, type of the result, types of the arguments: of ctypes."""


def arguments(target: str, include: Sequence[Path], asserts: bool) -> list[str]:
    """Of Verilator, for a library `target` whose C++ finds its headers in `include`."""
    said = [*_ARGUMENTS, "--exe", "-o", target, "-LDFLAGS", "-shared", "-CFLAGS", _CFLAGS]
    said += ["-CFLAGS", " ".join(f"-I{folder}" for folder in include)]
    return [*said, "--assert" if asserts else "--no-assert"]


def flags(quick: bool) -> Mapping[str, str]:
    """Variables of make; `quick` to build, not to run."""
    return _CHECKED_FLAGS if quick else _FLAGS


def bind(path: Path, functions: Iterable[Function]) -> ctypes.CDLL:
    """The library with the types of its functions.

    Raises:
        DpuError: E428, it cannot be loaded.
    """
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as e:
        raise DpuError(toolchain.WHERE, f"cannot load '{path}' ({e})", hint="remove the file", code="E428") from e
    for name, result, given in functions:
        f = getattr(lib, name)
        f.restype, f.argtypes = result, given
    return lib
