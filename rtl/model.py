"""The Verilated tile of an arch as a Python object: built on first use, driven through ctypes."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.arch import Arch
from ..simulator.dram import native
from ..simulator.dram.params import FIELDS, config, load_dram
from . import library, toolchain

TOP = "dpu_top"
KERNEL = "dpu_kernel"
"""The same as a kernel of Xilinx's runtime: registers and memory ports are those of `rtl/xrt`."""
SIM = toolchain.FOLDER / "sim"
MODES = {"ideal": 0, "simple": 1}
_BURSTS = 2
_ONE = 65536  # rates are in parts of a byte a cycle
_NEVER = 1 << 61  # without limit; the memory adds two of them in 64 bits

COVERED = ("--coverage-line", "--coverage-toggle", "-Wno-UNOPTFLAT")
"""Verilator's options for counts of lines and toggles: counters keep it from ordering the parts of a bus."""

Times = npt.NDArray[np.int64]


def parameters(arch: Arch) -> dict[str, object]:
    """Those of `dpu_top`, by name."""
    words, banks, queues = arch.words, arch.buffers, arch.queues
    return {
        "Tiles": arch.tiles,
        "Cols": arch.cols,
        "Lanes": arch.lanes,
        **{f"{b.capitalize()}Words": words[b] for b in ("act", "wgt", "acc", "vbuf", "param")},
        **{f"{b.capitalize()}Banks": getattr(banks, b).banks for b in ("act", "wgt", "acc", "vbuf")},
        **{f"{q.capitalize()}Queue": getattr(queues, q) for q in ("load", "mxu", "vpu", "store")},
        "ArchDigest": f"64'h{arch.digest}",
        "RemoteLatency": arch.latency.remote_signal,
    }


def job(
    arch: Arch,
    checked: bool = False,
    waves: bool = False,
    extra: tuple[Path, ...] = (),
    coverage: bool = False,
    top: str = TOP,
) -> toolchain.Build:
    """The build of the library. `extra` are files that stand in for modules, and C++ that they call; `coverage` counts
    lines and toggles; `top` is `TOP` or `KERNEL`."""
    files = toolchain.sources(top, extra=[p for p in extra if p.suffix != ".cpp"])
    dram = native.source_folder()
    more = tuple(p for p in extra if p.suffix == ".cpp")
    sources = (SIM / "harness.cpp", SIM / "memory.cpp", dram / "dram_model.cpp", *more)
    said = library.arguments("libdpu.so", (SIM, dram), checked or waves)
    said += ["--trace-vcd"] if waves else []
    said += COVERED if coverage else []
    return toolchain.Build(
        name=f"{'sim' if top == TOP else top}/{arch.name}",
        top=top,
        files=tuple(files),
        target="libdpu.so",
        parameters=parameters(arch),
        arguments=(*said, *map(str, sources)),
        flags=library.flags(checked or waves or coverage),
        inputs=(*sources, SIM / "memory.hpp", dram / "dram_model.hpp"),
    )


@cache
def _library(path: Path) -> ctypes.CDLL:
    handle, i64, u64, u32, c_int = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int
    words = ctypes.POINTER(ctypes.c_int64)
    functions: tuple[library.Function, ...] = (
        ("dpu_new", handle, [i64, words, words]),
        ("dpu_free", None, [handle]),
        ("dpu_problem", ctypes.c_char_p, [handle]),
        ("dpu_dram_fields", i64, []),
        ("dpu_waves", c_int, [handle, ctypes.c_char_p]),
        ("dpu_coverage", c_int, [handle, ctypes.c_char_p]),
        ("dpu_close_waves", None, [handle]),
        ("dpu_map", None, [handle, u64, u64, handle, c_int]),
        ("dpu_reset", c_int, [handle]),
        ("dpu_read", c_int, [handle, u32, ctypes.POINTER(u32)]),
        ("dpu_write", c_int, [handle, u32, u32]),
        ("dpu_run", i64, [handle, i64, c_int]),
        ("dpu_wait", c_int, [handle, u32, u32, i64, i64]),
        ("dpu_irq", c_int, [handle]),
        ("dpu_cycle", i64, [handle]),
        ("dpu_memory_busy", c_int, [handle]),
        ("dpu_record", None, [handle, i64, i64, words, words]),
    )
    return library.bind(path, functions)


def timing(arch: Arch, stall: int = 0, seed: int = 1) -> list[int]:
    """The words of the harness's `Timing` for the arch's DRAM model."""
    d = arch.dram
    bursts = d.model not in MODES
    return [
        MODES.get(d.model, _BURSTS),
        max(1, d.latency),
        1 if bursts else max(1, arch.dram.response),
        _NEVER if bursts else round(d.port_bytes_per_cycle * _ONE),
        _NEVER if bursts else round(d.bytes_per_cycle * _ONE),
        stall,
        seed,
    ]


class Model:
    """The tiles of `arch` in reset, with memory that nothing is mapped into.

    `waves` is a VCD file to write. `checked` builds with assertions, a third slower. `stall` of 256 is how often each
    AXI channel pauses. `extra`: files in place of modules. `coverage` is a file that `close` writes: counts of lines
    and toggles, in Verilator's text form. `top`: as of `job`.
    """

    def __init__(
        self,
        arch: Arch,
        waves: Path | None = None,
        checked: bool = False,
        stall: int = 0,
        seed: int = 1,
        extra: tuple[Path, ...] = (),
        coverage: Path | None = None,
        top: str = TOP,
    ) -> None:
        said = f"building the RTL model of {arch.name} (once; Verilator and C++, a minute or more) ..."
        self.arch = arch
        built = toolchain.build(job(arch, checked, waves is not None, extra, coverage is not None, top), said)
        self._lib = lib = _library(built)
        self._coverage = coverage
        self._mapped: dict[int, npt.NDArray[np.uint8]] = {}
        self._records: list[tuple[Times, Times]] = []
        fields: list[int] | None = None
        if arch.dram.model not in MODES:
            fields = config(load_dram(arch.dram.parameters), arch.clock_hz, 4 * arch.tiles).words
            assert len(fields) == len(FIELDS) == lib.dpu_dram_fields()
        ports = arch.tiles + (top == KERNEL)  # a kernel reads its commands through one of its own
        self._handle = lib.dpu_new(ports, _words(timing(arch, stall, seed)), _words(fields) if fields else None)
        if waves is not None and not lib.dpu_waves(self._handle, str(waves).encode()):
            raise DpuError(f"--waves {waves}", "cannot be written", code="E101")
        self._answer(lib.dpu_reset(self._handle))

    def close(self) -> None:
        """Free the model; finish the waves and the counts."""
        if self._handle:
            if self._coverage is not None:
                self._lib.dpu_coverage(self._handle, str(self._coverage).encode())
            self._lib.dpu_free(self._handle)
        self._handle = None
        self._mapped.clear()

    def __enter__(self) -> Model:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cycle(self) -> int:
        """Cycles since the model was made."""
        return int(self._lib.dpu_cycle(self._handle))

    @property
    def irq(self) -> bool:
        """The interrupt line."""
        return bool(self._lib.dpu_irq(self._handle))

    @property
    def memory_busy(self) -> bool:
        """An AXI access is open."""
        return bool(self._lib.dpu_memory_busy(self._handle))

    def map(self, address: int, data: npt.NDArray[np.uint8], fault: bool = False) -> None:
        """Bytes from `address` are those of `data`, used in place. With `fault` every access is an error."""
        assert data.dtype == np.uint8 and data.flags.c_contiguous and address % 64 == 0
        self._mapped[address] = data  # keeps it alive
        flags = int(data.flags.writeable) | 2 * int(fault)
        self._lib.dpu_map(self._handle, address, data.nbytes, data.ctypes.data, flags)

    def read(self, address: int) -> int:
        """A register."""
        value = ctypes.c_uint32()
        self._answer(self._lib.dpu_read(self._handle, address, ctypes.byref(value)))
        return value.value

    def write(self, address: int, value: int) -> None:
        """Set a register."""
        self._answer(self._lib.dpu_write(self._handle, address, value & 0xFFFFFFFF))

    def run(self, cycles: int, irq: bool = False) -> int:
        """Let `cycles` cycles pass, fewer with `irq` when the interrupt comes; how many did."""
        done = int(self._lib.dpu_run(self._handle, cycles, int(irq)))
        self._answer(min(done, 0))
        return done

    def wait(self, address: int, mask: int, cycles: int, interval: int = 1024) -> bool:
        """Until the bits `mask` of a register are zero, at most about `cycles` cycles; looked at every `interval`."""
        done = self._lib.dpu_wait(self._handle, address, mask, interval, cycles)
        self._answer(min(done, 0))
        return bool(done)

    def record(self, words: Mapping[int, int]) -> dict[int, tuple[Times, Times]]:
        """Note from now on the cycle in which each word of a tile starts and is done: -1 until then. By tile."""
        found = {}
        for tile, n in words.items():
            start, done = np.full(n, -1, np.int64), np.full(n, -1, np.int64)
            self._lib.dpu_record(self._handle, tile, n, _pointer(start), _pointer(done))
            found[tile] = (start, done)
        self._records = list(found.values())  # keeps them alive
        return found

    def _answer(self, result: int) -> None:
        if result < 0:
            text = self._lib.dpu_problem(self._handle).decode()
            raise DpuError(toolchain.WHERE, text, "the hardware broke a rule; this is a bug of it", code="E416")
        if result:
            raise DpuError(toolchain.WHERE, f"AXI4-Lite answered {result}", code="E416")


def _words(values: list[int]) -> ctypes.Array[ctypes.c_int64]:
    return (ctypes.c_int64 * len(values))(*values)


def _pointer(array: Times) -> object:
    return array.ctypes.data_as(ctypes.POINTER(ctypes.c_int64))
