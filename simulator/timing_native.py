"""The compiled event loop: `timing_cpp/`, with the DRAM model compiled in; built on first use (`native_library.py`)."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..ir import cost
from ..ir.arch import Arch
from ..ir.cost import Ports
from ..ir.isa import WORD_BYTES, Engine, Words
from .decode import SEMAPHORES, deadlock_error, semaphore_name
from .dram import native as dram
from .dram.core import Counters, L2Counters
from .dram.params import config
from .memory import dram_file, rates
from .native_library import Library
from .plan import DMA_WORK, ENGINES, MM_WORK, VEC_WORK, Places, Plan, addresses
from .timing_loop import END
from .timing_result import Outcome, TileOutcome

ENVIRONMENT = "DPU_TIMING"
"""`python` or `native` in this variable decides which of the two loops runs; by default the compiled one if it can,
unless `DPU_DRAM` asks for the DRAM model in Python."""

_FOLDER = Path(__file__).parent / "timing_cpp"
_DRAM = dram.LIBRARY

LIBRARY = Library(
    name="timing",
    subject="timing model",
    environment=ENVIRONMENT,
    slower=70,
    sources=(_FOLDER / "api.cpp", _FOLDER / "run.cpp", *_DRAM.sources),
    headers=(
        *(_FOLDER / f"{n}.hpp" for n in ("timing", "walk", "ports", "fetch", "mxu", "vpu", "memory", "state", "run")),
        *_DRAM.headers,
    ),
)

CONSTANTS = (
    *("BEAT_BYTES", "WORDS_OUTSTANDING", "FETCH_BURST", "FETCH_WORDS", "READ_ADDRESS", "MXU_CHECK"),
    *("VPU_CHECK", "VPU_FETCH", "VPU_AHEAD", "VPU_READ", "VPU_DRAIN", "VPU_WORDS", "VPU_SUMS"),
    *("VPU_RESULT", "VPU_ROWS", "VPU_COLUMNS"),
    *("DMA_CHECK", "DMA_ADDRESS", "LOAD_RING_BEATS", "LOAD_WRITE", "STORE_READ", "STORE_BEAT", "STORE_ANSWER"),
)
"""Of ir/cost.py, as `Config` in timing.hpp begins."""

REASONS = (
    *("dispatch", "memory", "drain"),
    *(f"semaphore {e.name}" for e in Engine),
    *("semaphore remote", "port"),
    *(f"queue-full {e.name}" for e in Engine),
    "fetch",
)
"""Why an engine waits, as `Reason` in timing.hpp."""

_MODELS = {"ideal": 0, "simple": 1}  # else bursts


class _Stream(ctypes.Structure):
    """`Stream` in timing.hpp."""

    _fields_ = [
        ("words", ctypes.c_int64),
        ("address", ctypes.c_int64),
        *((n, ctypes.c_void_p) for n in ("engine", "drain", "wait", "signal", "remote", "slot")),
        *((n, ctypes.c_void_p) for n in ("mm", "vec", "dma", "span_at", "spans")),
        *((n, ctypes.c_void_p) for n in ("start", "begin", "issued", "visible")),
    ]


def config_words(arch: Arch, ports: Ports) -> list[int]:
    """`Config` in timing.hpp."""
    blocks, q = cost.mxu_blocks(arch), arch.queues
    return [
        *(int(getattr(cost, name)) for name in CONSTANTS),
        WORD_BYTES,
        END,
        *(arch.tiles, arch.rows, blocks, cost.mxu_drain(arch), max(blocks, arch.cols // arch.lanes)),
        *(arch.dram.latency, arch.dram.response, arch.latency.remote_signal),
        *(max(1, depth) for depth in (q.load, q.mxu, q.vpu, q.store)),
        *(ports.bank_words[k] for k in range(len(cost.PORTS))),
        _MODELS.get(arch.dram.model, 2),
    ]


@cache
def _library() -> ctypes.CDLL:
    lib = LIBRARY.load()
    word, real, pointer = ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
    for name, result, arguments in (
        ("sizes", None, [pointer]),
        ("new", pointer, [pointer, real, pointer, pointer]),
        ("free", None, [pointer]),
        ("run", word, [pointer]),
        ("tile", None, [pointer, word, pointer, pointer, pointer]),
        ("waiting", None, [pointer, word, pointer, pointer]),
        ("log_size", word, [pointer]),
        ("log", None, [pointer, pointer, pointer]),
        ("flows", None, [pointer, pointer]),
        ("channel", None, [pointer, word, pointer]),
        ("l2", None, [pointer, pointer]),
    ):
        function = getattr(lib, f"dpu_timing_{name}")
        function.restype, function.argtypes = result, arguments
    sizes = np.zeros(7, np.int64)
    lib.dpu_timing_sizes(sizes.ctypes.data)
    fields = len(CONSTANTS) + 15 + len(cost.PORTS)
    mine = [
        8 * fields,
        MM_WORK.itemsize,
        VEC_WORK.itemsize,
        DMA_WORK.itemsize,
        24,
        ctypes.sizeof(_Stream),
        len(REASONS),
    ]
    assert sizes.tolist() == mine, f"timing.hpp has {sizes.tolist()}, this file {mine}"
    assert [int(e) for e in Engine] == list(range(5)) and sorted(cost.PORTS.values()) == list(range(5))
    return lib


def chosen(native: bool | None = None) -> bool:
    """Whether the compiled loop runs."""
    if native is None and not os.environ.get(ENVIRONMENT) and os.environ.get(dram.ENVIRONMENT) == "python":
        return False
    return LIBRARY.chosen(native)


def regular(p: Plan) -> bool:
    """Whether all operands at shared ports hold a word, and VEC words that read ACC say where.

    What no program that the verifier passes has is left to Python and its exceptions."""
    if (p.spans[:, 2] <= p.spans[:, 1]).any():
        return False
    index = np.repeat(np.arange(len(p)), np.diff(p.span_at))
    reads = np.zeros(len(p), np.bool_)
    reads[index[p.spans[:, 0] == cost.ACC_READ]] = True
    return bool(reads[p.engine == Engine.VPU][p.vec["acc"] > 0].all())


def run(arch: Arch, plans: Sequence[Plan], entry: str, ports: Ports, places: Places | None = None) -> Outcome:
    """Run the loop; what `timing_loop.Loop` gives.

    Raises:
        DpuError: E414 a deadlock, E427 the library cannot be had, E502 clocks without a common multiple.
    """
    lib, file = _library(), dram_file(arch)
    streams = addresses(arch, plans, places) if file is not None else [0] * len(plans)
    times = [np.zeros((4, len(p)), np.int64) for p in plans]
    kept: list[npt.NDArray[np.generic]] = []

    def at(array: npt.ArrayLike, dtype: npt.DTypeLike = np.int64) -> int:
        kept.append(np.ascontiguousarray(array, dtype))
        return kept[-1].ctypes.data

    given = (_Stream * len(plans))(
        *(
            _Stream(
                *(len(p), address, at(p.engine, np.uint8), at(p.drain, np.uint8)),
                *(at(p.wait, np.uint16), at(p.signal, np.uint16), at(p.remote, np.uint32), at(p.slot, np.int32)),
                *(at(p.mm, MM_WORK), at(p.vec, VEC_WORK), at(p.dma, DMA_WORK)),
                *(at(p.span_at, np.int32), at(p.spans)),
                *(row.ctypes.data for row in t),
            )
            for p, address, t in zip(plans, streams, times, strict=True)
        )
    )
    model = lib.dpu_timing_new(
        at(config_words(arch, ports)),
        float(arch.dram.bytes_per_cycle),
        None if file is None else at(config(file, arch.clock_hz, 4 * arch.tiles, arch.l2_bytes).words),
        ctypes.addressof(given),
    )
    try:
        cycles = lib.dpu_timing_run(model)
        if cycles < 0:
            raise deadlock_error(entry, list(_waiting(lib, model, plans)))
        tiles = [TileOutcome(t[0], t[1], t[2], t[3], *_tile(lib, model, k)) for k, t in enumerate(times)]
        size = lib.dpu_timing_log_size(model)
        if file is None:
            cycle, rate = np.zeros(size, np.int64), np.zeros(size)
            lib.dpu_timing_log(model, cycle.ctypes.data, rate.ctypes.data)
            return Outcome(cycles, tiles, list(zip(cycle.tolist(), rate.tolist(), strict=True)), None, None)
        flows, counters = np.zeros((size, 3), np.int64), np.zeros(len(Counters._fields), np.int64)
        lib.dpu_timing_flows(model, flows.ctypes.data)
        channels = []
        for number in range(file.number("channels")):
            lib.dpu_timing_channel(model, number, counters.ctypes.data)
            channels.append(Counters._make(counters.tolist()))
        l2 = np.zeros(len(L2Counters._fields), np.int64)
        lib.dpu_timing_l2(model, l2.ctypes.data)
        cached = L2Counters._make(l2.tolist()) if arch.l2_bytes else None
        return Outcome(cycles, tiles, rates(flows), tuple(channels), cached)
    finally:
        lib.dpu_timing_free(model)


def _tile(lib: ctypes.CDLL, model: int, number: int) -> tuple[list[int], dict[Engine, dict[str, int]]]:
    """Of a tile: busy cycles by engine, and stalls, reasons in the order in which they were first booked."""
    busy = np.zeros(len(Engine), np.int64)
    cycles, order = (np.zeros((len(Engine), len(REASONS)), np.int64) for _ in range(2))
    lib.dpu_timing_tile(model, number, busy.ctypes.data, cycles.ctypes.data, order.ctypes.data)
    stalls = {e: {REASONS[r]: int(cycles[e, r]) for r in order[e].tolist() if r >= 0} for e in Engine}
    return busy.tolist(), stalls


def _waiting(lib: ctypes.CDLL, model: int, plans: Sequence[Plan]) -> Iterator[tuple[int, int, Words, str]]:
    """What waits for ever, as `deadlock_error` takes it."""
    for number, p in enumerate(plans):
        word, missing = np.zeros(len(ENGINES), np.int64), np.zeros(len(ENGINES), np.int64)
        lib.dpu_timing_waiting(model, number, word.ctypes.data, missing.ctypes.data)
        for i, k in zip(word.tolist(), missing.tolist(), strict=True):
            if i >= 0:
                name = f"tile {k - SEMAPHORES}" if k >= SEMAPHORES else semaphore_name(k)
                yield number, i, p.words[i], f"a token of {name}" if k >= 0 else ""
