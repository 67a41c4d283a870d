"""`kernels.cu` made ready for a device: by NVRTC for a GPU, by the C++ compiler for the CPU."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from ...errors import DpuError
from ...ir.isa import DMA, HEADER, MM, VEC, WORD_BYTES
from ..native_library import build, cache_folder, compiler

SOURCE = Path(__file__).with_name("kernels.cu")
NAMES = (
    *("vec_direct", "vec_values", "vec_store", "vec_tiles", "vec_rows", "vec_eighths", "vec_columns"),
    *("row_max", "matrix", "load_bytes", "load_words", "store_bytes", "store_words", "turn"),
)
THREADS = 128  # of a block
ROWS = 2  # that one thread of a matrix product has
MATRIX_THREADS = 64  # of a block of it: products are small beside a GPU
_FLAGS = ("-O2", "-std=c++17", "-ffp-contract=off", "-fno-strict-aliasing", "-shared", "-fPIC", "-x", "c++", "-")


class Word(ctypes.Structure):
    _fields_ = [("b", ctypes.c_ubyte * WORD_BYTES)]


class Context(ctypes.Structure):
    """As in `kernels.cu`."""

    _fields_ = [
        *((n, ctypes.c_void_p) for n in ("act", "wgt", "acc", "vbuf", "param", "dram", "tables")),
        *((n, ctypes.c_void_p) for n in ("stored", "tap", "sums", "counts", "failed")),
        ("number", ctypes.c_ulonglong),
        ("cols", ctypes.c_longlong),
    ]


class Kernels(Protocol):
    """The functions of `kernels.cu`."""

    def launch(self, name: str, word: Word, context: Context, count: int) -> None:
        """Execute so many items of a kernel, after those launched before."""

    def addresses(self) -> tuple[list[int], int, int]:
        """The functions in the order of `NAMES`, what starts one (0: a call of it), and the stream, as addresses."""


def source() -> str:
    """The text to compile: the offsets of the words' fields, then `kernels.cu`."""
    lines = [f"#define ROWS {ROWS}"]
    for prefix, dtype in (("HEADER", HEADER), ("VEC", VEC), ("MM", MM), ("DMA", DMA)):
        assert dtype.fields is not None
        lines += [f"#define {prefix}_{n} {f[1]}" for n, f in dtype.fields.items() if n != "reserved"]
    return "\n".join([*lines, SOURCE.read_text(encoding="utf-8")])


class CpuKernels:
    """The kernels as a shared library."""

    def __init__(self) -> None:
        self._library = shared_library("kernels", source())

    def launch(self, name: str, word: Word, context: Context, count: int) -> None:
        getattr(self._library, name)(ctypes.byref(word), ctypes.byref(context), ctypes.c_longlong(count))

    def addresses(self) -> tuple[list[int], int, int]:
        """The library's functions, called as they are."""
        return [_address(getattr(self._library, name)) for name in NAMES], 0, 0


def shared_library(name: str, text: str) -> ctypes.CDLL:
    """C++ text as a library, compiled once a text and kept among the user's caches.

    Raises:
        DpuError: E430, there is no C++ compiler; E427, it fails, or the library cannot be kept.
    """
    cxx = compiler()
    if cxx is None:
        raise DpuError("--device cpu", "the kernels' CPU form needs a C++ compiler", hint="install g++", code="E430")
    target = cache_folder() / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
    if not target.is_file():
        build(target, cxx, _FLAGS, f"simulator/cuda: {name}", text)
    return ctypes.CDLL(str(target))


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class GpuKernels:
    """The kernels on the current CUDA device, launched on its current stream."""

    def __init__(self) -> None:
        import torch
        from torch.cuda import _utils as utils

        binary, _ = utils._nvrtc_compile(source(), NAMES[0], nvcc_options=["-fmad=false", "--std=c++17"])
        self._driver: Any = utils._get_cuda_library()
        self._module = ctypes.c_void_p()
        self._check(self._driver.cuModuleLoadData(ctypes.byref(self._module), binary))
        self._functions = {}
        for name in NAMES:
            function = ctypes.c_void_p()
            self._check(self._driver.cuModuleGetFunction(ctypes.byref(function), self._module, name.encode()))
            self._functions[name] = function
        self._start = self._driver.cuLaunchKernel
        self._count = ctypes.c_longlong()
        self._parameters = (ctypes.c_void_p * 3)(None, None, ctypes.addressof(self._count))
        self._stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)

    def _check(self, status: int) -> None:
        if status:
            raise DpuError("--device cuda", f"the CUDA driver answers {status}", code="E430")

    def launch(self, name: str, word: Word, context: Context, count: int) -> None:
        self._count.value = count
        self._parameters[0], self._parameters[1] = ctypes.addressof(word), ctypes.addressof(context)
        threads = MATRIX_THREADS if name == "matrix" else THREADS
        blocks = min(-(-count // threads), 1 << 20)
        shape = (blocks, 1, 1, threads, 1, 1, 0)
        self._check(self._start(self._functions[name], *shape, self._stream, self._parameters, None))

    def addresses(self) -> tuple[list[int], int, int]:
        """The functions of the module, and the driver's `cuLaunchKernel`."""
        functions = [self._functions[name].value or 0 for name in NAMES]
        return functions, _address(self._start), self._stream.value or 0


@cache
def kernels(device: str) -> Kernels:
    """The kernels for `cpu` or `cuda`.

    Raises:
        DpuError: E430, no GPU, or no compiler.
    """
    if device == "cpu":
        return CpuKernels()
    import torch

    if not torch.cuda.is_available():
        raise DpuError(f"--device {device}", "torch finds no CUDA device here", hint="--device cpu", code="E430")
    torch.zeros(1, device=device)  # makes the context
    return GpuKernels()
