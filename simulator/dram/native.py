"""The compiled model: built with the system's C++ compiler on first use, kept in the user's cache by source digest."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...errors import DpuError
from .core import NEVER, Core, Counters, Note, PythonCore
from .params import FIELDS, Config

SOURCES = ("dram_model.hpp", "dram_model.cpp")
FLAGS = ("-std=c++17", "-O2", "-shared", "-fPIC")
ENVIRONMENT = "DPU_DRAM"
"""`python` or `native` in this variable decides which of the two models runs; by default the compiled one if it can."""

_LIMIT = 1 << 44  # cycles; times units stay far below 64 bits


def source_folder() -> Path:
    """Where the C++ sources lie, for benches that compile them in."""
    return Path(__file__).parent


def compiler() -> str | None:
    """The C++ compiler: `$CXX`, or the first of c++, g++, clang++ on the path."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return next((found for n in names if (found := shutil.which(n))), None)


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dpu"


def _digest() -> str:
    h = hashlib.sha256(" ".join((*FLAGS, platform.system(), platform.machine())).encode())
    for name in SOURCES:
        h.update((source_folder() / name).read_bytes())
    return h.hexdigest()[:16]


def build() -> Path:
    """Path of the shared library, compiled now unless the cache has it.

    Raises:
        DpuError: E427, no compiler, it fails, or the library cannot be kept.
    """
    target = _cache_folder() / f"dram-{_digest()}.so"
    if target.is_file():
        return target
    cxx = compiler()
    if cxx is None:
        raise DpuError(
            "DRAM model",
            "no C++ compiler",
            why=f"$CXX, c++, g++ and clang++ were looked for; {ENVIRONMENT}=native asks for the compiled model",
            hint=f"install one, or unset {ENVIRONMENT}: the same model in Python is about 50 times slower",
            code="E427",
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fd, name = tempfile.mkstemp(prefix=".dram-", suffix=".so", dir=target.parent)
    except OSError as e:
        raise DpuError(
            "DRAM model", f"cannot write into '{target.parent}' ({e.strerror})", hint="set XDG_CACHE_HOME", code="E427"
        ) from e
    os.close(fd)
    temporary = Path(name)
    try:
        source = str(source_folder() / "dram_model.cpp")
        done = subprocess.run([cxx, *FLAGS, source, "-o", name], capture_output=True, text=True, check=False)
        if done.returncode:
            raise DpuError(
                "DRAM model", f"{cxx} failed with {done.returncode}", why=done.stderr.strip()[-1000:], code="E427"
            )
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
    return target


@cache
def _library() -> ctypes.CDLL:
    path = build()
    try:
        lib = ctypes.CDLL(str(path))
    except OSError as e:
        raise DpuError("DRAM model", f"cannot load '{path}' ({e})", hint="remove the file", code="E427") from e
    word, words, model = ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p
    lib.dpu_dram_new.restype, lib.dpu_dram_new.argtypes = model, [words, word]
    lib.dpu_dram_free.restype, lib.dpu_dram_free.argtypes = None, [model]
    lib.dpu_dram_request.restype, lib.dpu_dram_request.argtypes = word, [model] + [word] * 12
    lib.dpu_dram_open.restype, lib.dpu_dram_open.argtypes = word, [model, word, word]
    lib.dpu_dram_submit.restype, lib.dpu_dram_submit.argtypes = word, [model] + [word] * 5
    lib.dpu_dram_step.restype, lib.dpu_dram_step.argtypes = word, [model, word, words]
    lib.dpu_dram_counters.restype, lib.dpu_dram_counters.argtypes = None, [model, word, words]
    return lib


class NativeCore:
    """The compiled model; see `Core`."""

    def __init__(self, config: Config) -> None:
        self._lib = lib = _library()
        words = config.words
        self._channels = config.channels
        self._due = NEVER
        self._out = (ctypes.c_int64 * 3)()
        self._step = lib.dpu_dram_step
        self._model = lib.dpu_dram_new((ctypes.c_int64 * len(FIELDS))(*words), len(words))
        if not self._model:
            raise DpuError("DRAM model", f"the library does not take {len(words)} fields", code="E427")

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError):
            self._lib.dpu_dram_free(self._model)

    def due(self) -> int:
        return self._due

    def request(
        self,
        cycle: int,
        port: int,
        write: bool,
        floor: int,
        address: int,
        inner: int,
        n: Sequence[int],
        stride: Sequence[int],
    ) -> int:
        self._due = self._lib.dpu_dram_request(self._model, cycle, port, int(write), floor, address, inner, *n, *stride)
        return self._due

    def open(self, cycle: int, port: int) -> int:
        self._due = self._lib.dpu_dram_open(self._model, cycle, port)
        return self._due

    def submit(self, cycle: int, address: int, size: int, write: bool, tag: int) -> int:
        self._due = self._lib.dpu_dram_submit(self._model, cycle, address, size, int(write), tag)
        return self._due

    def step(self, limit: int) -> tuple[Note, int, int]:
        self._due = self._step(self._model, min(limit, _LIMIT), self._out)
        note, cycle, who = self._out
        return Note(note), cycle, who

    def counters(self) -> list[Counters]:
        out = (ctypes.c_int64 * len(Counters._fields))()
        found = []
        for channel in range(self._channels):
            self._lib.dpu_dram_counters(self._model, channel, out)
            found.append(Counters(*out))
        return found


def core(config: Config, native: bool | None = None) -> Core:
    """A fresh model. `native` None: what `$DPU_DRAM` says, else compiled if there is a compiler.

    Raises:
        DpuError: E427, the compiled model was asked for and cannot be had.
    """
    asked = os.environ.get(ENVIRONMENT, "")
    if native is None and asked in ("python", "native"):
        native = asked == "native"
    if native is None:
        native = (_cache_folder() / f"dram-{_digest()}.so").is_file() or compiler() is not None
    return NativeCore(config) if native else PythonCore(config)
