"""A Verilated F2 card as a Python object: the host's registers, window and memory, and faults to inject."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from enum import IntEnum
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...ir.arch import Arch
from .. import toolchain
from ..library import Function, bind
from .build import library

Bytes = npt.NDArray[np.uint8]
HostWrite = Callable[[int, Bytes, int], bool]
"""Takes a physical address, 64 bytes and their strobe; whether there is such memory."""

_WRITE = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_uint8), ctypes.c_uint64
)


class Fault(IntEnum):
    """What `Card.inject` does: cl_fault of sim/cl_dpu.h, which says what each value means."""

    HANG_HBM = 0
    HANG_PCIM = 1
    DROP_B = 2
    DROP_IRQ = 3
    ERROR_PCIM = 4
    ERROR_HBM = 5
    SLOW_PCIM = 6
    COLD_HBM = 7
    SILENT_IRQ = 8
    POSTED = 9


class Counter(IntEnum):
    """What `Card.count` counts: cl_counter of sim/cl_dpu.h."""

    PCIM_BURSTS = 0
    PCIM_BEATS = 1
    TIMEOUTS = 2
    HBM_READ_BEATS = 3
    HBM_WRITE_BEATS = 4
    IRQS = 5


class BusTimeout(Exception):
    """The shell gave up an access: its read is all ones."""


@cache
def _load(path: Path) -> ctypes.CDLL:
    card, i64, u64, u32, c_int = ctypes.c_void_p, ctypes.c_int64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_int
    data = ctypes.c_void_p
    functions: tuple[Function, ...] = (
        ("cl_new", card, [u64, i64]),
        ("cl_free", None, [card]),
        ("cl_problem", ctypes.c_char_p, [card]),
        ("cl_reset", c_int, [card]),
        ("cl_step", i64, [card, i64, c_int]),
        ("cl_cycle", i64, [card]),
        ("cl_ocl_read", c_int, [card, u32, ctypes.POINTER(u32)]),
        ("cl_ocl_write", c_int, [card, u32, u32]),
        ("cl_pcis_read", c_int, [card, u64, data, i64]),
        ("cl_pcis_write", c_int, [card, u64, data, i64]),
        ("cl_host", None, [card, _WRITE, ctypes.c_void_p]),
        ("cl_irq", i64, [card]),
        ("cl_power", None, [card, c_int]),
        ("cl_inject", None, [card, c_int, i64]),
        ("cl_count", i64, [card, c_int]),
        ("cl_hbm_read", None, [card, u64, data, i64]),
        ("cl_hbm_write", None, [card, u64, data, i64]),
        ("cl_waves", c_int, [card, ctypes.c_char_p]),
    )
    return bind(path, functions)


class Card:
    """A card of `arch` just after its image was loaded.

    `stall` of 256 is how often each channel of shell and HBM pauses, at random by `seed`. `checked` builds with
    assertions, slower. `waves` is a VCD file to write. `extra` are files in place of modules. Times are cycles of the
    main clock, 4 ns.
    """

    def __init__(
        self,
        arch: Arch,
        seed: int = 1,
        stall: int = 0,
        checked: bool = False,
        waves: Path | None = None,
        extra: tuple[Path, ...] = (),
    ) -> None:
        self.arch = arch
        self._lib = lib = _load(library(arch, checked, waves is not None, extra))
        self._card = lib.cl_new(seed, stall)
        self._host: object = None
        if waves is not None and lib.cl_waves(self._card, str(waves).encode()):
            raise DpuError(f"waves '{waves}'", "cannot be written", code="E101")
        self._answer(0)

    def close(self) -> None:
        """Free the model; finish the waves."""
        if self._card:
            self._lib.cl_free(self._card)
        self._card = None

    def __enter__(self) -> Card:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def cycle(self) -> int:
        """Cycles since the card was made."""
        return int(self._lib.cl_cycle(self._card))

    def reset(self) -> None:
        """What loading the image again does; HBM keeps its bytes."""
        self._answer(self._lib.cl_reset(self._card))

    def step(self, cycles: int, irq: bool = False) -> int:
        """Let `cycles` cycles pass, fewer with `irq` when an interrupt comes; how many did."""
        done = int(self._lib.cl_step(self._card, cycles, int(irq)))
        self._answer(min(done, 0))
        return done

    def read(self, address: int) -> int:
        """A register.

        Raises:
            BusTimeout: no answer within 8 us.
            DpuError: E416, the hardware broke a rule.
        """
        value = ctypes.c_uint32()
        self._answer(self._lib.cl_ocl_read(self._card, address, ctypes.byref(value)))
        return value.value

    def write(self, address: int, value: int) -> None:
        """Set a register; errors as of `read`."""
        self._answer(self._lib.cl_ocl_write(self._card, address, value & 0xFFFFFFFF))

    def load(self, address: int, size: int) -> Bytes:
        """`size` bytes from `address` of BAR4; errors as of `read`."""
        data = np.zeros(size, np.uint8)
        self._answer(self._lib.cl_pcis_read(self._card, address, data.ctypes.data, size))
        return data

    def store(self, address: int, data: Bytes) -> None:
        """`data` to `address` of BAR4; errors as of `read`."""
        data = np.ascontiguousarray(data)
        self._answer(self._lib.cl_pcis_write(self._card, address, data.ctypes.data, data.nbytes))

    def host(self, write: HostWrite) -> None:
        """Where PCIM's writes go."""

        def take(_: object, address: int, data: object, strobe: int) -> int:
            beat = np.ctypeslib.as_array(data, (64,))
            return 0 if write(address, beat, strobe) else 1

        self._host = kept = _WRITE(take)  # keeps it alive
        self._lib.cl_host(self._card, kept, None)

    def irqs(self) -> int:
        """Interrupts delivered since the last call."""
        return int(self._lib.cl_irq(self._card))

    def power(self, state: int) -> None:
        """The shell's power state: 0 normal to 3 critical."""
        self._lib.cl_power(self._card, state)

    def inject(self, fault: Fault, value: int) -> None:
        """Make something go wrong."""
        self._lib.cl_inject(self._card, int(fault), value)

    def count(self, counter: Counter) -> int:
        """A count since the card was made."""
        return int(self._lib.cl_count(self._card, int(counter)))

    def peek(self, address: int, size: int) -> Bytes:
        """HBM's bytes behind all hardware."""
        data = np.zeros(size, np.uint8)
        self._lib.cl_hbm_read(self._card, address, data.ctypes.data, size)
        return data

    def poke(self, address: int, data: Bytes) -> None:
        """Set HBM's bytes behind all hardware."""
        data = np.ascontiguousarray(data)
        self._lib.cl_hbm_write(self._card, address, data.ctypes.data, data.nbytes)

    def _answer(self, result: int) -> None:
        text = self._lib.cl_problem(self._card).decode()
        if text:
            raise DpuError(toolchain.WHERE, text, "the hardware broke a rule; this is a bug of it", code="E416")
        if result:
            raise BusTimeout
