"""What a run launches, in order: recorded once while the host decodes and checks the words, then started from a table.

Which words are launched, with how many items and in which order, does not depend on data. So the first run of an entry
records a `Plan`, and the others start its launches by `launcher.cpp`, or one by one in Python where there is no C++
compiler or `DPU_LAUNCHER=python` asks for it; both start the same launches. Words that the host executes are steps of
the plan between launches.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...ir.isa import WORD_BYTES, Engine, Words
from ..decode import Decoded
from ..native_library import compiler
from ..state import Tally
from .library import MATRIX_THREADS, NAMES, THREADS, Context, Kernels, Word, shared_library

SWITCH = "DPU_LAUNCHER"
SOURCE = Path(__file__).with_name("launcher.cpp")
LAUNCH = np.dtype(
    [
        ("word", f"V{WORD_BYTES}"),
        ("number", "<u8"),
        ("count", "<i8"),
        ("kernel", "<i4"),
        ("tile", "<i4"),
        ("base", "<i4"),  # region that the context points to, or -1
        ("reserved", "<i4"),
    ]
)
KERNEL = {name: i for i, name in enumerate(NAMES)}
BASES = 8
AT = 40  # bits of a word's index in its number; the tile is above

Launches = npt.NDArray[np.void]
Pending = tuple[int, int, int, int, int]
"""(kernel, tile, index of the word, items, base)."""


@dataclass(frozen=True)
class HostStep:
    """A word that the host executes."""

    tile: int
    at: int
    decoded: Decoded


@dataclass
class Plan:
    """One run of an entry. `tags` has what its launches count by themselves; host steps count anew in each run.

    `tables` says, by tile and slot, whether there was a table that an earlier run left: the launches depend on it.
    """

    streams: Sequence[Words]  # kept, so that no others get their identity
    steps: list[Launches | HostStep] = field(default_factory=list)
    words: dict[Engine, int] = field(default_factory=dict)
    tags: dict[int, Tally] = field(default_factory=dict)
    tables: dict[tuple[int, int], bool] = field(default_factory=dict)
    loaded: set[tuple[int, int]] = field(default_factory=set)

    def need(self, tile: int, slot: int, known: bool) -> None:
        """A word asks for a table that this run has not loaded."""
        if (tile, slot) not in self.loaded:
            self.tables.setdefault((tile, slot), known)

    def add(self, pending: Sequence[Pending]) -> Launches:
        """Append launches; the table of them."""
        made = np.zeros(len(pending), LAUNCH)
        columns = np.array(pending, np.int64).reshape(-1, 5)
        for i, name in enumerate(("kernel", "tile")):
            made[name] = columns[:, i]
        made["count"], made["base"] = columns[:, 3], columns[:, 4]
        made["number"] = columns[:, 1] << AT | columns[:, 2]
        for tile in np.unique(columns[:, 1]).tolist():
            here = np.flatnonzero(columns[:, 1] == tile)
            words = np.ascontiguousarray(self.streams[tile][columns[here, 2]])
            made["word"][here] = words.view(f"V{WORD_BYTES}")
        self.steps.append(made)
        return made


class Launcher:
    """Starts tables of launches on the kernels of one device. `native` says how."""

    def __init__(self, kernels: Kernels) -> None:
        self._kernels = kernels
        self.native = os.environ.get(SWITCH) != "python" and compiler() is not None
        if self.native:
            library = _library()
            self._start_all = library.start_all
            functions, start, self._stream = kernels.addresses()
            self._functions = (ctypes.c_void_p * len(functions))(*functions)
            self._start = ctypes.c_void_p(start or ctypes.cast(library.start_on_cpu, ctypes.c_void_p).value)
            blocks = [MATRIX_THREADS if name == "matrix" else THREADS for name in NAMES]
            self._threads = (ctypes.c_uint * len(blocks))(*blocks)

    def __call__(self, launches: Launches, contexts: Sequence[Context], regions: Sequence[int]) -> None:
        """Start `launches` in order; contexts are those of the tiles, regions the addresses of the bases.

        Raises:
            DpuError: E430, the driver refuses one.
        """
        if not self.native:
            self._one_by_one(launches, contexts, regions)
            return
        status = ctypes.c_int()
        done = self._start_all(
            self._start,
            self._functions,
            self._threads,
            ctypes.c_void_p(self._stream),
            (ctypes.c_void_p * len(contexts))(*(ctypes.addressof(c) for c in contexts)),
            ctypes.c_longlong(Context.dram.offset),
            ctypes.c_longlong(Context.number.offset),
            (ctypes.c_void_p * BASES)(*regions),
            launches.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_longlong(len(launches)),
            ctypes.byref(status),
        )
        if done < len(launches):
            raise DpuError("--device cuda", f"the CUDA driver answers {status.value}", code="E430")

    def _one_by_one(self, launches: Launches, contexts: Sequence[Context], regions: Sequence[int]) -> None:
        word = Word()
        for raw, number, count, kernel, tile, base, _ in launches.tolist():
            context = contexts[tile]
            if base >= 0:
                context.dram = regions[base]
            context.number = number
            ctypes.memmove(word.b, raw, WORD_BYTES)
            self._kernels.launch(NAMES[kernel], word, context, count)


@cache
def _library() -> Any:
    library = shared_library("launcher", SOURCE.read_text(encoding="utf-8"))
    library.start_all.restype = ctypes.c_longlong
    return library
