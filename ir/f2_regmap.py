"""Addresses of the custom logic (`rtl/f2/cl_dpu.sv`) as the host sees them: for its driver, its model and tests.

In the form of `regmap.py`. BAR0 (OCL, AXI4-Lite): the DPU's own registers from 0, those of the custom logic from
`CL_BASE`. BAR4 (PCIS, AXI4 of 512 bits): device memory, from `HBM_BASE`. Addresses without a register read as
0xDEAD0000 | address[15:0]; all ones is what the shell answers for logic that does not.
"""

from __future__ import annotations

from .regmap import Field, Register

CL_BASE = 0x0010_0000
HBM_BASE = 0x10_0000_0000
HBM_BYTES = 16 << 30
CL_MAGIC = 0x44505546  # "DPUF"
CL_VERSION = 1  # major; a minor one adds registers only
ALL_ONES = 0xFFFF_FFFF
BEAT = 64  # bytes; what the copy engine and device memory move at a time

HBM_READY, MEMORY_LOST = 1, 16  # STATUS
SOFT_RESET, PAUSE = 1, 2  # CONTROL
COPY_START, COPY_ABORT = 1, 2  # COPY_CONTROL
COPY_BUSY, COPY_DONE, COPY_ERROR = 1, 2, 4  # COPY_STATUS
IRQ_DONE, IRQ_ERROR, IRQ_ALL = 1, 2, 31  # IRQ_ENABLE, IRQ_PENDING

CL_REGISTERS = (
    Register("CL_ID", 0x00, "ro", CL_MAGIC, "identifies the custom logic: 'DPUF' in ASCII"),
    Register(
        "CL_VERSION",
        0x04,
        "ro",
        None,
        "of this map",
        (Field("MINOR", 0, 16, "adds registers"), Field("MAJOR", 16, 16, "changes them")),
    ),
    Register("CL_ARCH_DIGEST_LO", 0x08, "ro", None, "digest of the arch, low 8 hex digits"),
    Register("CL_ARCH_DIGEST_HI", 0x0C, "ro", None, "digest of the arch, high 8 hex digits"),
    Register("CL_TILES", 0x10, "ro", None, "tiles that were built"),
    Register("CL_MEMORY_MIB", 0x14, "ro", None, "device memory, MiB"),
    Register(
        "CL_STATUS",
        0x18,
        "ro",
        0,
        "state of the card; writing one clears POWER, PCIM_TIMEOUT and PCIS_ERROR",
        (
            Field("HBM_READY", 0, 1, "memory has finished its start-up"),
            Field("POWER", 1, 1, "the shell has warned of power"),
            Field("PCIM_TIMEOUT", 2, 1, "the shell did not take a write to host memory"),
            Field("PCIS_ERROR", 3, 1, "the host accessed an address that is no memory"),
            Field("MEMORY_LOST", 4, 1, "device memory does not answer the host until the image is loaded again"),
            Field("PWR_STATE", 8, 2, "0: normal; 3: critical"),
        ),
    ),
    Register(
        "CL_CONTROL",
        0x1C,
        "rw",
        0,
        "actions of the host",
        (
            Field("RESET", 0, 1, "resets DPU and copy engine, clears itself"),
            Field("PAUSE", 1, 1, "tiles start nothing"),
        ),
    ),
    Register("CL_COPY_SRC_LO", 0x20, "rw", 0, "device memory byte address, a multiple of 64"),
    Register("CL_COPY_SRC_HI", 0x24, "rw", 0, "its upper half"),
    Register("CL_COPY_DST_LO", 0x28, "rw", 0, "host physical byte address, a multiple of 64"),
    Register("CL_COPY_DST_HI", 0x2C, "rw", 0, "its upper half"),
    Register("CL_COPY_BYTES", 0x30, "rw", 0, "a multiple of 64"),
    Register("CL_COPY_CONTROL", 0x34, "w1s", 0, "bit 0 starts a copy, bit 1 aborts it"),
    Register(
        "CL_COPY_STATUS",
        0x38,
        "w1c",
        0,
        "the copy engine",
        (
            Field("BUSY", 0, 1, "a copy is under way"),
            Field("DONE", 1, 1, "all bytes are in host memory"),
            Field("ERROR", 2, 1, "the copy failed"),
            Field("CODE", 8, 8, "why"),
        ),
    ),
    Register("CL_COPY_DONE_BYTES", 0x3C, "ro", 0, "bytes that the host has acknowledged"),
    Register("CL_IRQ_ENABLE", 0x40, "rw", 0, "which events raise the interrupt"),
    Register("CL_IRQ_PENDING", 0x44, "w1c", 0, "events: DPU done, DPU error, copy done, copy error, power warning"),
    Register("CL_SCRATCH", 0x48, "rw", 0, "what the host likes, to test the bus"),
    Register("CL_GLOBAL_COUNT_LO", 0x4C, "ro", 0, "4 ns since the shell's counter started, low half"),
    Register("CL_GLOBAL_COUNT_HI", 0x50, "ro", 0, "its upper half"),
)
"""Registers of the custom logic; offsets are from `CL_BASE`."""

COUNT_HZ = 250e6
"""Of CL_GLOBAL_COUNT and the tiles: the period of the shell's counter is 4 ns, as is that of its clock."""

_OFFSETS = {r.name: CL_BASE + r.offset for r in CL_REGISTERS}


def cl(name: str) -> int:
    """BAR0 address of a register of the custom logic.

    Raises:
        KeyError: there is none.
    """
    return _OFFSETS[name]
