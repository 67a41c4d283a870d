"""The kernel's contract: commands, control registers, arguments and ports, defined once for RTL, driver and packaging.

The runtime's Python binding reads and writes no registers and passes scalars of 32 signed bits. So the host leaves a
list of commands in device memory and starts the kernel with the list's address: the kernel does to the registers of
`dpu_top` what the list says, and writes what it read, the report, back to device memory.

A command is 8 bytes, little endian: the operation in bits 31:28 and a register's byte address in bits 13:0 of the low
word, and a value, the high word. Eight make a beat; list and report start on a multiple of 64 bytes.

Control registers are those of `ap_ctrl_hs` (AMD UG1701 and UG1702, 2025.2, "RTL Kernel"; the same in UG1393 since
2020.2): CTRL has start (bit 0, stays until the run ends), done (1, cleared by reading), idle (2) and ready (3, as
done); GIE, IER, ISR (toggle on write) the interrupt; arguments begin at 0x10.

`dpu_kernel_pkg.sv` is generated from here by `python -m dpu.rtl.xrt.kernel`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path

from ...files import atomic_write
from ...ir.regmap import SPACE_BYTES

FOLDER = Path(__file__).parent
NAME = "dpu"
"""Of the kernel, of its top module and in the device binary."""
TOP = "dpu_kernel"
"""The module that `kernel.top` gives the flat ports which the packager can read."""
VENDOR, LIBRARY, VERSION = "dpu.dev", "kernel", "1.0"

BEAT = 64  # bytes
COMMAND = 8  # bytes
CONTROL_BITS = 12  # of the control registers' byte addresses
CTRL, GIE, IER, ISR = 0x00, 0x04, 0x08, 0x0C
START, DONE, IDLE, READY = 1, 2, 4, 8  # bits of CTRL; DONE >> 1 and READY >> 2 are those of IER and ISR


class Op(IntEnum):
    """What a command does to a register of `dpu_top`."""

    END = 0
    """Append the value to the report, write the rest of the report, end the run. No register is touched."""
    WRITE = 1
    """Write the value."""
    WAIT = 2
    """Read until (register & value) == 0."""
    READ = 3
    """Append the register to the report."""


@dataclass(frozen=True)
class Argument:
    """One argument of the kernel. `port` is the AXI port that a pointer belongs to; scalars have none."""

    name: str
    offset: int
    bytes: int
    port: str = ""


SCALARS = ("commands_lo", "commands_hi", "report_lo", "report_hi")
"""Two 64-bit addresses, in halves that the binding can pass. Arguments 0 to 3."""


def tile_port(index: int) -> str:
    """Name of port `index`: tiles first, then that of commands and report."""
    return f"m{index:02}_axi"


def arguments(tiles: int) -> list[Argument]:
    """Of a kernel of `tiles` tiles, by number. Pointers only tell linker and runtime which memory a port reaches: the
    hardware takes every address from the commands."""
    scalars = [Argument(name, 0x10 + 4 * i, 4) for i, name in enumerate(SCALARS)]
    pointers = ["memory", *(f"tile{t}" for t in range(tiles))]
    ports = [tile_port(tiles), *(tile_port(t) for t in range(tiles))]
    return scalars + [Argument(n, 0x20 + 8 * i, 8, p) for i, (n, p) in enumerate(zip(pointers, ports, strict=True))]


MEMORY = len(SCALARS)
"""Number of the pointer argument whose memory group buffers come from."""


def signed(word: int) -> int:
    """A 32-bit word as the C `int` that the binding takes."""
    assert 0 <= word < 1 << 32
    return word - (1 << 32) if word >> 31 else word


def command(op: Op, address: int = 0, value: int = 0) -> int:
    """The 64 bits of a command."""
    assert 0 <= address < SPACE_BYTES and address % 4 == 0 and 0 <= value < 1 << 32
    return value << 32 | op << 28 | address


def package() -> str:
    """The text of `dpu_kernel_pkg.sv`."""
    ops = ",\n".join(f"    Op{o.name.capitalize():<5} = 4'd{o.value}" for o in Op)
    return f"""\
// What the kernel's commands and control registers mean.
// Generated from rtl/xrt/kernel.py by `python -m dpu.rtl.xrt.kernel`; do not edit.
// A command is 64 bits: value, operation, zeros, byte address of a register of dpu_top.

package dpu_kernel_pkg;

  // Waiver: a module uses some of these only.
  /* verilator lint_off UNUSEDPARAM */
  parameter int unsigned ControlBits = {CONTROL_BITS};
  parameter int unsigned CtrlAddr    = {CTRL};
  parameter int unsigned GieAddr     = {GIE};
  parameter int unsigned IerAddr     = {IER};
  parameter int unsigned IsrAddr     = {ISR};
  parameter int unsigned ArgAddr     = {arguments(0)[0].offset};
  parameter int unsigned Scalars     = {len(SCALARS)};
  /* verilator lint_on UNUSEDPARAM */

  typedef enum logic [3:0] {{
{ops}
  }} op_e;

  typedef struct packed {{
    logic [31:0]                                   value;
    op_e                                           op;
    logic [27:$clog2(dpu_isa_pkg::RegSpaceBytes)]  zero;
    logic [$clog2(dpu_isa_pkg::RegSpaceBytes)-1:0] address;
  }} command_t;

endpackage
"""


def main() -> None:
    """Write the package."""
    with atomic_write(FOLDER / "dpu_kernel_pkg.sv") as path:
        path.write_text(package())


if __name__ == "__main__":
    main()
