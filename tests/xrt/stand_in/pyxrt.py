"""A stand-in for AMD's `pyxrt`: its names, as strict about argument types as pybind11, over the Verilated kernel.

It is imported in place of the module: `PYTHONPATH=tests/xrt/stand_in dpurun x.dpu --target xrt --image x.xclbin`. A
device binary is here a JSON file, {"arch": "dpu_tiny"}, with "kernels" and "uuid" if they are others than usual.

Names, overloads and types are those of XRT's Python binding (src/python/pybind11/src/pyxrt.cpp, 2024.1 to 2026-08):
a C int has 32 bits, sizes are not negative, enumerations are not numbers, nothing is a keyword. Host and device copy of
a buffer are two arrays, so that a forgotten sync shows. Addresses start where both halves of one are awkward.
"""

from __future__ import annotations

import json
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np
from dpu.ir.arch import load_arch
from dpu.rtl.model import KERNEL, Model
from dpu.rtl.xrt.kernel import CTRL, DONE, GIE, IER, ISR, NAME, START, arguments

STAND_IN = "the Verilated kernel"
FIRST = 0x1_F000_0000  # below 2^33: the next gigabyte changes the upper half
GROUP = 7
BDF = "0000:03:00.1"
STALL = 0
"""Of 256 cycles, in how many each AXI channel pauses, of devices opened from now on."""

xclBOSyncDirection = Enum("xclBOSyncDirection", "XCL_BO_SYNC_BO_TO_DEVICE XCL_BO_SYNC_BO_FROM_DEVICE")
ert_cmd_state = Enum(
    "ert_cmd_state",
    [f"ERT_CMD_STATE_{s}" for s in ("NEW", "QUEUED", "COMPLETED", "ERROR", "ABORT", "SUBMITTED", "TIMEOUT")],
)
xrt_info_device = Enum("xrt_info_device", "bdf name max_clock_frequency_mhz electrical thermal memory platform")
_Flags = Enum("flags", "normal cacheable device_only host_only p2p svm")
_Access = Enum("cu_access_mode", "exclusive shared none")


def _is(value: object, kind: object) -> bool:
    if kind == "int":  # C int
        return type(value) is int and -(1 << 31) <= value < 1 << 31
    if kind == "unsigned":
        return type(value) is int and 0 <= value < 1 << 32
    if kind == "size":
        return type(value) is int and 0 <= value < 1 << 64
    return type(value) is kind


def _one_of(given: tuple[object, ...], *overloads: tuple[object, ...]) -> int:
    """Which overload fits; none is pybind11's error."""
    for i, kinds in enumerate(overloads):
        if len(kinds) == len(given) and all(_is(v, k) for v, k in zip(given, kinds, strict=True)):
            return i
    raise TypeError(f"incompatible function arguments: {', '.join(type(v).__name__ for v in given)}: {given}")


class uuid:
    def __init__(self, text: str) -> None:
        _one_of((text,), (str,))
        self._text = text

    def to_string(self) -> str:
        return self._text


class _Kernel:
    def __init__(self, name: str) -> None:
        self._name = name

    def get_name(self) -> str:
        return self._name


class xclbin:
    def __init__(self, path: str) -> None:
        _one_of((path,), (str,))
        try:
            said = json.loads(Path(path).read_text())
            self._arch = load_arch(said["arch"])
        except (ValueError, KeyError) as e:
            raise RuntimeError("Invalid argument: not an xclbin") from e
        self._kernels = [_Kernel(name) for name in said.get("kernels", [NAME])]
        self._uuid = uuid(said.get("uuid", "00000000-5eed-0000-0000-000000000001"))

    def get_kernels(self) -> list[_Kernel]:
        return self._kernels

    def get_uuid(self) -> uuid:
        return self._uuid


class device:
    def __init__(self, which: object) -> None:
        if which != (0 if _one_of((which,), ("unsigned",), (str,)) == 0 else BDF):
            raise RuntimeError(f"No such device '{which}'")
        self._registered: dict[str, xclbin] = {}
        self._model: Model | None = None
        self._next = FIRST

    def register_xclbin(self, binary: xclbin) -> uuid:
        _one_of((binary,), (xclbin,))
        self._registered[binary.get_uuid().to_string()] = binary
        return binary.get_uuid()

    def load_xclbin(self, binary: object) -> uuid:
        if _one_of((binary,), (str,), (xclbin,)) == 0:
            binary = xclbin(str(binary))
        found = self.register_xclbin(binary)  # type: ignore[arg-type]
        self._program(found)
        return found

    def get_info(self, key: Any) -> str:
        _one_of((key,), (xrt_info_device,))
        said = {"bdf": BDF, "name": "stand_in_u50", "max_clock_frequency_mhz": "100"}
        return said.get(key.name, "{}")

    def _program(self, which: uuid) -> None:
        binary = self._registered[which.to_string()]
        self._arch = binary._arch
        if self._model is None:
            self._model = Model(binary._arch, checked=True, stall=STALL, seed=STALL + 1, top=KERNEL)

    def __del__(self) -> None:
        if getattr(self, "_model", None) is not None:
            self._model.close()


class _Context:
    def __init__(self, *given: object) -> None:
        _one_of(given, (device, uuid))
        self._device = given[0]
        self._device._program(given[1])  # type: ignore[attr-defined]


hw_context = _Context  # the name that a test takes away, as of an old version


class kernel:
    exclusive, shared, none = _Access.exclusive, _Access.shared, _Access.none

    def __init__(self, *given: Any) -> None:
        which = _one_of(given, (_Context, str), (device, uuid, str), (device, uuid, str, _Access))
        self._device: device = given[0]._device if which == 0 else given[0]
        if which and self._device._model is None:
            raise RuntimeError("no xclbin is loaded")
        if given[1 if which == 0 else 2] != NAME:
            raise RuntimeError("No such kernel")
        self._arguments = arguments(self._device._arch.tiles)

    def group_id(self, number: int) -> int:
        _one_of((number,), ("int",))
        if not self._arguments[number].port:
            raise RuntimeError("argument has no memory")
        return GROUP


class bo:
    normal, cacheable, device_only = _Flags.normal, _Flags.cacheable, _Flags.device_only
    host_only, p2p, svm = _Flags.host_only, _Flags.p2p, _Flags.svm

    def __init__(self, *given: Any) -> None:
        _one_of(given, (device, "size", _Flags, "unsigned"), (_Context, "size", _Flags, "unsigned"))
        owner, size, flags, group = given
        owner = owner._device if isinstance(owner, _Context) else owner
        if group != GROUP or flags is not _Flags.normal or not size:
            raise RuntimeError("failed to allocate userptr bo: Invalid argument")
        if owner._next + size > FIRST + (8 << 30):
            raise RuntimeError("failed to allocate bo: Cannot allocate memory")
        self._host, self._device = np.full(size, 0xA5, np.uint8), np.full(size, 0x5A, np.uint8)
        self._address = owner._next
        owner._next += -(-size // 4096) * 4096
        owner._model.map(self._address, self._device)

    def address(self) -> int:
        return self._address

    def size(self) -> int:
        return len(self._host)

    def map(self) -> memoryview:
        return memoryview(self._host)

    def sync(self, *given: Any) -> None:
        whole = _one_of(given, (xclBOSyncDirection,), (xclBOSyncDirection, "size", "size")) == 0
        size, offset = (len(self._host), 0) if whole else given[1:]
        if offset + size > len(self._host):
            raise RuntimeError("Invalid argument")
        there, here = self._device[offset : offset + size], self._host[offset : offset + size]
        if given[0] is xclBOSyncDirection.XCL_BO_SYNC_BO_TO_DEVICE:
            there[:] = here
        else:
            here[:] = there


class run:
    def __init__(self, of: kernel) -> None:
        _one_of((of,), (kernel,))
        self._kernel, self._model = of, of._device._model
        self._values = [0] * len(of._arguments)
        self._running = False

    def set_arg(self, *given: Any) -> None:
        which = _one_of(given, ("int", bo), ("int", "int"))
        number, value = given
        if bool(self._kernel._arguments[number].port) != (which == 0):
            raise RuntimeError(f"Bad argument {number}")
        self._values[number] = value.address() if which == 0 else value & 0xFFFFFFFF

    def start(self) -> None:
        if self._running:
            raise RuntimeError("bad command state, can't launch")
        for argument, value in zip(self._kernel._arguments, self._values, strict=True):
            for word in range(argument.bytes // 4):
                self._model.write(argument.offset + 4 * word, value >> 32 * word)
        self._model.write(GIE, 1)
        self._model.write(IER, DONE >> 1)
        self._model.write(CTRL, START)
        self._running = True

    def wait(self, *given: Any) -> Any:
        _one_of(given, (), ("unsigned",))
        if not self._running:
            return ert_cmd_state.ERT_CMD_STATE_COMPLETED
        limit = given[0] if given else 0
        cycles = round((limit or 1 << 30) * self._kernel._device._arch.clock_hz / 1e3)
        while not self._model.irq and cycles > 0:
            cycles -= self._model.run(min(cycles, 1 << 20), irq=True)
        if not self._model.irq:
            return ert_cmd_state.ERT_CMD_STATE_TIMEOUT
        self._model.write(ISR, self._model.read(ISR))
        assert self._model.read(CTRL) & DONE and not self._model.irq
        self._running = False
        return ert_cmd_state.ERT_CMD_STATE_COMPLETED
