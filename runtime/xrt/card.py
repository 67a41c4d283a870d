"""An Alveo card through `pyxrt`: image, kernel, buffers, runs. All that knows the module's API is here.

The API as of XRT 2.13 (202210) to 2.20: `src/python/pybind11/src/pyxrt.cpp`. Two of its traps decide the form of the
calls: an integer argument is a C `int` of 32 bits, so addresses are passed as two halves, as signed numbers; and
`kernel(...)` swallows what it cannot convert, so arguments are set one by one.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import DpuError, reason, refusing
from ...rtl.xrt.kernel import MEMORY, NAME, SCALARS, signed

Bytes = npt.NDArray[np.uint8]
PAGE = 4096  # bytes; buffers start and end on one


def load_pyxrt() -> Any:
    """The module.

    Raises:
        DpuError: E438, it is not installed, or for another Python.
    """
    try:
        return importlib.import_module("pyxrt")
    except ImportError as e:
        raise DpuError(
            "--target xrt",
            f"Python module 'pyxrt' cannot be imported ({reason(e)})",
            "it comes with AMD's XRT, not from PyPI, and fits one version of Python",
            "install XRT for your card, 'source /opt/xilinx/xrt/setup.sh', and run dpurun with that Python",
            code="E438",
        ) from e


class Buffer:
    """Memory of the card with its copy on the host; `bytes` is the copy, `push` and `pull` move it."""

    def __init__(self, module: Any, bo: Any) -> None:
        self._bo, self._direction = bo, module.xclBOSyncDirection
        self.address = int(bo.address())
        self.bytes: Bytes = np.frombuffer(bo.map(), np.uint8)

    def push(self, size: int, offset: int = 0) -> None:
        """Host to card."""
        self._bo.sync(self._direction.XCL_BO_SYNC_BO_TO_DEVICE, size, offset)

    def pull(self, size: int, offset: int = 0) -> None:
        """Card to host."""
        self._bo.sync(self._direction.XCL_BO_SYNC_BO_FROM_DEVICE, size, offset)


class Card:
    """Card `card` (index or BDF) with the device binary `image` on it.

    `opened` says how the kernel was reached: by a hardware context, or by loading, with the reason. `stand_in` says
    what takes the card's place, if the module says that it is none.

    Raises:
        DpuError: E106, no such image; E438, no module, no card, another kernel in the image, or XRT refuses.
    """

    def __init__(self, image: Path, card: str) -> None:
        if not image.is_file():
            hint = "dpubench xrt-build makes it; name it with --image FILE.xclbin"
            raise DpuError(str(image), "no such device binary", hint=hint, code="E106")
        self._pyxrt = pyxrt = load_pyxrt()
        self.stand_in = str(getattr(pyxrt, "STAND_IN", ""))
        with refusing(f"--card {card}", "XRT opens no such card", hint="'xrt-smi examine' lists them", code="E438"):
            self._device = pyxrt.device(int(card) if card.isdigit() else card)
        with refusing(str(image), "XRT reads no device binary from it", hint="build it again", code="E438"):
            xclbin = pyxrt.xclbin(str(image))
            names = [k.get_name() for k in xclbin.get_kernels()]
        if NAME not in names:
            what = f"holds kernels {', '.join(names) or '(none)'}, not '{NAME}'"
            raise DpuError(str(image), what, hint="dpubench xrt-build makes one", code="E438")
        self.uuid = str(xclbin.get_uuid().to_string())
        self._kernel, self.opened = self._open(image, xclbin)
        self._group = self._kernel.group_id(MEMORY)
        self._run = pyxrt.run(self._kernel)

    def _open(self, image: Path, xclbin: Any) -> tuple[Any, str]:
        pyxrt = self._pyxrt
        why = "this pyxrt has no hw_context"
        if hasattr(pyxrt, "hw_context"):
            try:
                context = pyxrt.hw_context(self._device, self._device.register_xclbin(xclbin))
                return pyxrt.kernel(context, NAME), "hw_context"
            except RuntimeError as e:
                why = f"hw_context: {reason(e)}"
        with refusing(str(image), "XRT does not load it", why, "is it for this card and shell?", code="E438"):
            uuid = self._device.load_xclbin(xclbin)
            return pyxrt.kernel(self._device, uuid, NAME, pyxrt.kernel.exclusive), f"load_xclbin, for {why}"

    def info(self, key: str) -> str:
        """What XRT says of the card: a value of `xrt_info_device` by name."""
        return str(self._device.get_info(getattr(self._pyxrt.xrt_info_device, key)))

    def buffer(self, size: int) -> Buffer:
        """Memory that the kernel reaches.

        Raises:
            DpuError: E422, XRT has no more.
        """
        size = -(-max(size, 1) // PAGE) * PAGE
        with refusing("xrt", f"the card has no {size} bytes left in one piece", code="E422"):
            return Buffer(self._pyxrt, self._pyxrt.bo(self._device, size, self._pyxrt.bo.normal, self._group))

    def start(self, commands: int, report: int) -> None:
        """Start the kernel with the addresses of its commands and of its report."""
        halves = [half for address in (commands, report) for half in (address & 0xFFFFFFFF, address >> 32)]
        for i, half in zip(range(len(SCALARS)), halves, strict=True):
            self._run.set_arg(i, signed(half))
        self._run.start()

    def wait(self, milliseconds: int) -> bool:
        """Whether the run ended within that time.

        Raises:
            DpuError: E439, XRT gives it up.
        """
        states = self._pyxrt.ert_cmd_state
        state = self._run.wait(milliseconds)
        if state == states.ERT_CMD_STATE_COMPLETED:
            return True
        if state == states.ERT_CMD_STATE_TIMEOUT:
            return False
        raise DpuError("xrt", f"the run ended in state {state}", "XRT stopped it", code="E439")
