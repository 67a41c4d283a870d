"""The compiled model: built on first use (`native_library.py`)."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from ...errors import DpuError
from ..native_library import Library, compiler
from .core import NEVER, Core, Counters, L2Counters, Note, PythonCore
from .params import FIELDS, Config

__all__ = ["ENVIRONMENT", "LIBRARY", "NativeCore", "compiler", "core", "source_folder"]

ENVIRONMENT = "DPU_DRAM"
"""`python` or `native` in this variable decides which of the two models runs; by default the compiled one if it can."""

_LIMIT = 1 << 44  # cycles; times units stay far below 64 bits


def source_folder() -> Path:
    """Where the C++ sources lie, for benches that compile them in."""
    return Path(__file__).parent


LIBRARY = Library(
    name="dram",
    subject="DRAM model",
    environment=ENVIRONMENT,
    slower=50,
    sources=(source_folder() / "dram_model.cpp",),
    headers=(source_folder() / "dram_model.hpp",),
)


@cache
def _library() -> ctypes.CDLL:
    lib = LIBRARY.load()
    word, words, model = ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_void_p
    lib.dpu_dram_new.restype, lib.dpu_dram_new.argtypes = model, [words, word]
    lib.dpu_dram_free.restype, lib.dpu_dram_free.argtypes = None, [model]
    lib.dpu_dram_request.restype, lib.dpu_dram_request.argtypes = word, [model] + [word] * 13
    lib.dpu_dram_open.restype, lib.dpu_dram_open.argtypes = word, [model, word, word]
    lib.dpu_dram_submit.restype, lib.dpu_dram_submit.argtypes = word, [model] + [word] * 5
    lib.dpu_dram_step.restype, lib.dpu_dram_step.argtypes = word, [model, word, words]
    lib.dpu_dram_counters.restype, lib.dpu_dram_counters.argtypes = None, [model, word, words]
    lib.dpu_dram_l2.restype, lib.dpu_dram_l2.argtypes = None, [model, words]
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
        cached: bool = False,
    ) -> int:
        self._due = self._lib.dpu_dram_request(
            self._model, cycle, port, int(write), floor, address, inner, *n, *stride, int(cached)
        )
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

    def l2(self) -> L2Counters:
        out = (ctypes.c_int64 * len(L2Counters._fields))()
        self._lib.dpu_dram_l2(self._model, out)
        return L2Counters(*out)


def core(config: Config, native: bool | None = None) -> Core:
    """A fresh model. `native` None: what `$DPU_DRAM` says, else compiled if there is a compiler.

    Raises:
        DpuError: E427, the compiled model was asked for and cannot be had.
    """
    return NativeCore(config) if LIBRARY.chosen(native) else PythonCore(config)
