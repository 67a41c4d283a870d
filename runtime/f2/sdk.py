"""A card through the AWS FPGA SDK: `libfpga_mgmt.so` called with ctypes.

Entry points, argument types, constants and struct layouts are facts of the SDK's public interface (aws-fpga, branch f2,
v2.0.2 of 2025-01-06, headers `fpga_mgmt.h`, `fpga_pci.h`, `hal/fpga_common.h`). The library is linked with `fpga_pci`,
so that one load gives all of it. Structs are packed; later versions of the SDK append to the metrics, so what
`describe` fills has room behind it.
"""

from __future__ import annotations

import ctypes
import threading
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np

from ...errors import DpuError
from ..device import Bytes
from .card import ImageInfo
from .sysfs import translation

LIBRARY = "libfpga_mgmt.so"
SLOTS = 8
_APP, _MANAGEMENT = 0, 1  # physical functions
_BAR0, _BAR4 = 0, 4
_BURST_CAPABLE = 1
_GET_METRICS = 1 << 1
_LOAD_POLLS, _LOAD_DELAY_MS = 300, 200  # a minute
_ROOM = 4096

STATES = {
    0: "loaded",
    1: "cleared",
    2: "busy",
    3: "not-programmed",
    4: "afi-cache-in-progress",
    5: "rl-reload-needed-drop-pci-link",
    7: "load-failed",
}
REASONS = {
    0: "ok",
    3: "busy",
    5: "invalid-afi-id",
    6: "afi-load-timeout",
    11: "invalid-afi-cmd-api-version",
    12: "cl-id-mismatch",
    13: "cl-ddr-calib-failed",
    14: "unspecified-error",
    16: "shell-version-not-supported",
    17: "afi-power-violation",
    19: "hardware-busy",
    20: "pci-device-missing",
    24: "software-problem",
    25: "unresponsive",
}
"""Status and qualifier of a slot, as the SDK's commands print them."""

U8, U16, U32, U64, INT = ctypes.c_uint8, ctypes.c_uint16, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_int


class ResourceMap(ctypes.Structure):
    """`fpga_pci_resource_map`, 58 bytes."""

    _pack_ = 1
    _fields_ = (
        ("vendor_id", U16),
        ("device_id", U16),
        ("subsystem_device_id", U16),
        ("subsystem_vendor_id", U16),
        ("domain", U16),
        ("bus", U8),
        ("dev", U8),
        ("func", U8),
        ("resource_burstable", ctypes.c_bool * 5),
        ("resource_size", U64 * 5),
    )


class SlotSpec(ctypes.Structure):
    """`fpga_slot_spec`, 116 bytes: application and management function."""

    _pack_ = 1
    _fields_ = (("map", ResourceMap * 2),)


class MetaIds(ctypes.Structure):
    """`fpga_meta_ids`, 72 bytes."""

    _pack_ = 1
    _fields_ = (
        ("afi_id", ctypes.c_char * 64),
        ("vendor_id", U16),
        ("device_id", U16),
        ("svid", U16),
        ("ssid", U16),
    )


class Metrics(ctypes.Structure):
    """`f2_metrics_common`, 440 bytes."""

    _pack_ = 1
    _fields_ = (
        ("int_status", U32),
        ("pcim_axi_protocol_error_status", U32),
        ("pcim_range_error_addr", U64),
        ("pcim_range_error_count", U32),
        ("pcim_axi_protocol_error_addr", U64),
        ("pcim_axi_protocol_error_count", U32),
        ("pcim_write_count", U64),
        ("pcim_read_count", U64),
        ("dma_pcis_timeout_addr", U64),
        ("dma_pcis_timeout_count", U32),
        ("ocl_slave_timeout_addr", U32),
        ("ocl_slave_timeout_count", U32),
        ("sda_slave_timeout_addr", U64),
        ("sda_slave_timeout_count", U32),
        ("virtual_jtag_slave_timeout_addr", U32),
        ("virtual_jtag_slave_timeout_count", U32),
        ("virtual_jtag_write_count", U32),
        ("virtual_jtag_read_count", U32),
        ("ddr_counts", U64 * 2),
        ("frequency", U64 * 21),
        ("power_mean", U64),
        ("power_max", U64),
        ("power", U64),
        ("cached_agfis", U64 * 16),
        ("flags", U64),
    )


class Info(ctypes.Structure):
    """`fpga_mgmt_image_info`, 708 bytes; the F1 metrics of the same union are 64 longer than those of F2."""

    _pack_ = 1
    _fields_ = (
        ("status", INT),
        ("status_q", INT),
        ("slot_id", INT),
        ("ids", MetaIds),
        ("spec", SlotSpec),
        ("sh_version", U32),
        ("metrics", Metrics),
        ("rest", U8 * 64),
        ("room", U8 * _ROOM),
    )


_HANDLE = INT
_TEXT = ctypes.c_char_p
PROTOTYPES: dict[str, tuple[object, list[object]]] = {
    "fpga_mgmt_init": (INT, []),
    "fpga_mgmt_close": (INT, []),
    "fpga_mgmt_strerror": (_TEXT, [INT]),
    "fpga_mgmt_describe_local_image": (INT, [INT, ctypes.POINTER(Info), U32]),
    "fpga_mgmt_load_local_image_sync": (INT, [INT, _TEXT, U32, U32, ctypes.POINTER(Info)]),
    "fpga_mgmt_clear_local_image_sync": (INT, [INT, U32, U32, ctypes.POINTER(Info)]),
    "fpga_pci_get_slot_spec": (INT, [INT, ctypes.POINTER(SlotSpec)]),
    "fpga_pci_attach": (INT, [INT, INT, INT, U32, ctypes.POINTER(_HANDLE)]),
    "fpga_pci_detach": (INT, [_HANDLE]),
    "fpga_pci_poke": (INT, [_HANDLE, U64, U32]),
    "fpga_pci_peek": (INT, [_HANDLE, U64, ctypes.POINTER(U32)]),
    "fpga_pci_peek64": (INT, [_HANDLE, U64, ctypes.POINTER(U64)]),
    "fpga_pci_write_burst": (INT, [_HANDLE, U64, ctypes.POINTER(U32), U64]),
}
"""Entry points: result and arguments."""


@cache
def library(path: str) -> ctypes.CDLL:
    """The SDK's library with its prototypes.

    Raises:
        DpuError: E432, it cannot be loaded or lacks an entry point.
    """
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        hint = "on an F2 instance: source sdk_setup.sh of aws-fpga; without a card: --card stand-in"
        raise DpuError(
            path, f"cannot be loaded ({e})", "target f2 reaches the card through it", hint, code="E432"
        ) from e
    for name, (result, arguments) in PROTOTYPES.items():
        try:
            f = getattr(lib, name)
        except AttributeError as e:
            raise DpuError(path, f"has no {name}", hint="install the F2 branch of aws-fpga", code="E432") from e
        f.restype, f.argtypes = result, arguments
    return lib


_users: Counter[str] = Counter()
"""Open cards, by library."""
_users_lock = threading.Lock()  # slots open and close on threads of their own


class SdkCard:
    """The FPGA in `slot`.

    Raises:
        DpuError: E432, no library, no such slot, or no permission.
    """

    def __init__(self, slot: int, path: str = LIBRARY, sysfs: Path = Path("/sys")) -> None:
        self._lib = lib = library(path)
        self.slot, self.where, self.simulated = slot, f"slot {slot}", hasattr(lib, "dpu_standin")
        self._sysfs = sysfs
        self._handles: dict[int, int] = {}
        if not 0 <= slot < SLOTS:
            raise DpuError(self.where, "no such slot", hint=f"slots are 0 to {SLOTS - 1}", code="E432")
        with _users_lock:
            if not _users[path]:
                self._need(lib.fpga_mgmt_init(), "the SDK does not start")
            _users[path] += 1
        self._path = path

    def describe(self, metrics: bool = False) -> ImageInfo:
        """Status, image and shell; with `metrics` power too."""
        info = Info()
        flags = _GET_METRICS if metrics else 0
        result = self._lib.fpga_mgmt_describe_local_image(self.slot, ctypes.byref(info), flags)
        self._need(result, "management does not describe it")
        watts = (int(info.metrics.power), int(info.metrics.power_mean), int(info.metrics.power_max))
        return ImageInfo(
            STATES.get(info.status, f"status {info.status}"),
            REASONS.get(info.status_q, f"qualifier {info.status_q}"),
            info.ids.afi_id.decode(errors="replace"),
            info.sh_version,
            *(watts if metrics else (None, None, None)),
        )

    def load(self, image: str) -> None:
        """Load `image` (an agfi id), wait up to a minute; the SDK renews the PCI device where its ids change."""
        self.detach()
        info = Info()
        result = self._lib.fpga_mgmt_load_local_image_sync(
            self.slot, image.encode(), _LOAD_POLLS, _LOAD_DELAY_MS, ctypes.byref(info)
        )
        if result:
            what = f"image {image} does not load: {self._error(result)}"
            hint = "aws ec2 describe-fpga-images shows whether it is available here; give another one with --image"
            raise DpuError(self.where, what, hint=hint, code="E433")

    def clear(self) -> None:
        """Take the image away."""
        self.detach()
        result = self._lib.fpga_mgmt_clear_local_image_sync(self.slot, _LOAD_POLLS, _LOAD_DELAY_MS, None)
        self._need(result, "the image is not cleared")

    def attach(self) -> None:
        """BAR0, and BAR4 with write combining."""
        self.detach()
        for bar, flags in ((_BAR0, 0), (_BAR4, _BURST_CAPABLE)):
            handle = _HANDLE(-1)
            result = self._lib.fpga_pci_attach(self.slot, _APP, bar, flags, ctypes.byref(handle))
            self._need(result, f"BAR{bar} cannot be attached")
            self._handles[bar] = handle.value

    def detach(self) -> None:
        """Release both."""
        for handle in self._handles.values():
            self._lib.fpga_pci_detach(handle)
        self._handles.clear()

    def peek(self, offset: int) -> int:
        """32 bits of BAR0."""
        value = U32()
        self._need(self._lib.fpga_pci_peek(self._handle(_BAR0), offset, ctypes.byref(value)), f"peek of {offset:#x}")
        return value.value

    def poke(self, offset: int, value: int) -> None:
        """Set 32 bits of BAR0."""
        self._need(self._lib.fpga_pci_poke(self._handle(_BAR0), offset, value), f"poke of {offset:#x}")

    def burst(self, offset: int, data: Bytes) -> None:
        """Write to BAR4."""
        source = np.ascontiguousarray(data)
        pointer = source.ctypes.data_as(ctypes.POINTER(U32))
        result = self._lib.fpga_pci_write_burst(self._handle(_BAR4), offset, pointer, source.nbytes // 4)
        self._need(result, f"a burst to {offset:#x}")

    def loads(self, offset: int, size: int) -> Bytes:
        """BAR4, 8 bytes a load."""
        found = np.empty(-(-size // 8), np.uint64)
        value = U64()
        for i in range(len(found)):
            at = offset + 8 * i
            self._need(self._lib.fpga_pci_peek64(self._handle(_BAR4), at, ctypes.byref(value)), f"a load of {at:#x}")
            found[i] = value.value
        return found.view(np.uint8)[:size]

    def untranslated(self) -> str:
        """Of the kernel's view of this device, found by its PCI address."""
        spec = SlotSpec()
        self._need(self._lib.fpga_pci_get_slot_spec(self.slot, ctypes.byref(spec)), "no PCI device")
        app = spec.map[_APP]
        return translation(self._sysfs, f"{app.domain:04x}:{app.bus:02x}:{app.dev:02x}.{app.func:x}")

    def close(self) -> None:
        """Release the BARs; with the last card, the SDK."""
        self.detach()
        if self._path:
            with _users_lock:
                _users[self._path] -= 1
                if not _users[self._path]:
                    self._lib.fpga_mgmt_close()
            self._path = ""

    def _handle(self, bar: int) -> int:
        if bar not in self._handles:
            raise DpuError(self.where, f"BAR{bar} is not attached", code="E432")
        return self._handles[bar]

    def _error(self, result: int) -> str:
        text = self._lib.fpga_mgmt_strerror(result)
        return f"{text.decode(errors='replace')} ({result})" if text else str(result)

    def _need(self, result: int, what: str) -> None:
        if result:
            raise DpuError(self.where, f"{what}: {self._error(result)}", hint=_ROOT, code="E432")


_ROOT = "run as root on an F2 instance; fpga-describe-local-image-slots lists the slots"
