"""What cells of a synthesised module take: sites of an UltraScale+ part, or NAND2 equivalents."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict

from ...errors import DpuError

LUTS: dict[str, int] = {
    **{f"LUT{n}": 1 for n in range(1, 7)},
    "INV": 1,
    "MUXF7": 0,
    "MUXF8": 0,
    "MUXF9": 0,
    "CARRY4": 0,
    "CARRY8": 0,
    "GND": 0,
    "VCC": 0,
    "SRL16E": 1,
    "SRLC32E": 1,
    "RAM32X1S": 1,
    "RAM64X1S": 1,
    "RAM128X1S": 2,
    "RAM256X1S": 4,
    "RAM32X1D": 2,
    "RAM64X1D": 2,
    "RAM32M": 4,
    "RAM64M": 4,
    "RAM128X1D": 4,
    "RAM256X1D": 8,
    "RAM32M16": 8,
    "RAM64M8": 8,
    "RAM512X1S": 8,
    "RAM64X8SW": 8,
}
"""LUT sites by cell. Carry chains and wide multiplexers lie beside LUTs. A memory of LUTs takes the sites of its ports
(UG974). No two small functions share a site, as a placer would let them: the count is from above."""

FLIP_FLOPS = ("FDRE", "FDSE", "FDCE", "FDPE")
DSPS = ("DSP48E2",)
BRAM_HALVES = {"RAMB18E2": 1, "RAMB36E2": 2}
URAMS = ("URAM288",)

_NAND2 = 0.798  # um2
_AREAS = {
    "$_NOT_": 0.532,
    "$_NAND_": 0.798,
    "$_NOR_": 0.798,
    "$_AND_": 1.064,
    "$_OR_": 1.064,
    "$_XOR_": 1.596,
    "$_XNOR_": 1.596,
    "$_MUX_": 1.862,
    "$_AOI3_": 1.064,
    "$_OAI3_": 1.064,
    "$_AOI4_": 1.33,
    "$_OAI4_": 1.33,
    "$_BUF_": 0.798,
}
"""um2 of the X1 cells of the Nangate 45 nm Open Cell Library (published; the LEF file in OpenROAD's tests)."""

_DFF, _DFF_ASYNC = 4.522, 5.32  # DFF_X1; DFFR_X1, DFFS_X1
_SYNC = 1.064  # a reset at the clock: an AND2 at D
_ENABLE = 0.43  # an enable: its share of a clock gate (3.458, CLKGATE_X1) for eight bits

SOURCE = (
    "NAND2 equivalents: areas of X1 cells of the Nangate 45 nm Open Cell Library over its NAND2 (0.798 um2; DFF "
    "4.522, with asynchronous reset 5.32); an enable is a clock gate for eight bits; no scan, buffers or sizing"
)


class Sites(BaseModel):
    """Of an UltraScale+ part; BRAM in halves of a RAMB36."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    lut: int = 0
    ff: int = 0
    dsp: int = 0
    bram_halves: int = 0
    uram: int = 0

    @property
    def bram(self) -> float:
        """RAMB36."""
        return self.bram_halves / 2

    def __add__(self, other: Sites) -> Sites:
        return Sites(**{k: getattr(self, k) + getattr(other, k) for k in Sites.model_fields})

    def __mul__(self, n: int) -> Sites:
        return Sites(**{k: getattr(self, k) * n for k in Sites.model_fields})


def sites(cells: Mapping[str, int]) -> Sites:
    """The sites that cells of `synth_xilinx` take.

    Raises:
        DpuError: E428, a cell that no rule knows.
    """
    lut = ff = dsp = halves = uram = 0
    for cell, n in cells.items():
        if cell in LUTS:
            lut += LUTS[cell] * n
        elif cell in FLIP_FLOPS:
            ff += n
        elif cell in DSPS:
            dsp += n
        elif cell in BRAM_HALVES:
            halves += BRAM_HALVES[cell] * n
        elif cell in URAMS:
            uram += n
        else:
            raise _unknown(cell)
    return Sites(lut=lut, ff=ff, dsp=dsp, bram_halves=halves, uram=uram)


def gates(cells: Mapping[str, int]) -> float:
    """NAND2 equivalents of cells of the gate flow (`SOURCE`).

    Raises:
        DpuError: E428, a cell that no rule knows.
    """
    return sum(_area(cell) * n for cell, n in cells.items()) / _NAND2


def flip_flops(cells: Mapping[str, int]) -> int:
    """Flip-flops among cells of the gate flow."""
    return sum(n for cell, n in cells.items() if "DFF" in cell)


def _area(cell: str) -> float:
    if cell in _AREAS:
        return _AREAS[cell]
    kind, _, pins = cell.strip("$_").partition("_")  # as in $_SDFFCE_PN0P_
    shapes = {
        "DFF": _DFF if len(pins) == 1 else _DFF_ASYNC,
        "DFFE": _ENABLE + (_DFF if len(pins) == 2 else _DFF_ASYNC),
        "SDFF": _DFF + _SYNC,
        "SDFFE": _DFF + _SYNC + _ENABLE,
        "SDFFCE": _DFF + _SYNC + _ENABLE,
    }
    if kind not in shapes:
        raise _unknown(cell)
    return shapes[kind]


def _unknown(cell: str) -> DpuError:
    return DpuError(
        "RTL size", f"no rule for a cell '{cell}'", "its size is not known", "add it to rtl/size/cells.py", code="E428"
    )
