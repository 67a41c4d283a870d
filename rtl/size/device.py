"""What AWS's small shell leaves in each die region (SLR) of the VU47P (xcvu47p-fsvh2892-2-e) of an F2 card.

Sites were counted in the floorplan of the shell's customer region (aws/aws-fpga v2.0.2,
hdk/common/shell_stable/build/constraints/small_shell_level_1_fp_cl.xdc): clock regions, rectangles of SLICE, DSP48E2,
RAMB36 and URAM288. The part has 32 columns of DSPs (18 rows in the lowest row of clock regions, 24 in the others:
9,024), 14 of RAMB36 (2,016), 5 of URAM288 (960) and 233 of slices. SLR2 is the customer's whole, of SLR1 and SLR0 the
shell keeps clock regions on the right. The sums are 88.8 % of the DSPs, 89.3 % of the RAMB36, 90.0 % of the URAMs: AWS
says 88 %.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

SOURCE = (
    "aws-fpga v2.0.2, small_shell_level_1_fp_cl.xdc: sites of the customer region counted; slices as rectangles times "
    "162,960 / 167,760 (the part's slices over its grid, which has holes: assumed to be spread evenly)"
)

_PER_SLICE = 8  # LUTs; twice as many flip-flops
_GRID, _SLICES = 233 * 720, 162_960


class Region(BaseModel):
    """Sites of a die region that a customer's logic may take."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    lut: int
    ff: int
    dsp: int
    bram: int
    uram: int


def _region(name: str, grid: int, dsp: int, bram: int, uram: int) -> Region:
    lut = round(grid * _SLICES / _GRID) * _PER_SLICE
    return Region(name=name, lut=lut, ff=2 * lut, dsp=dsp, bram=bram, uram=uram)


# Columns of a row of clock regions, X0-X3 / X4 / X5 / X6 / X7: slices 117 / 29 / 30 / 30 / 27, DSP 16 / 4 / 5 / 5 / 2,
# RAMB36 8 / 2 / 1 / 1 / 2, URAM 2 / 1 / 1 / 1 / 0. A clock region has 60 rows of slices, 12 of RAMB36, 16 of URAM288.
REGIONS = (
    _region("SLR0", 117 * 240 + (29 + 28 + 26 + 29) * 60 + 30 * 240 + 30 * 120 + (27 + 26) * 60, 2544, 600, 288),
    _region("SLR1", (117 + 29 + 30) * 240 - (3 + 2) * 60, 2400, 528, 256),
    _region("SLR2", 233 * 240, 3072, 672, 320),
)
"""From bottom to top; SLR1 has the shell's PCIe side."""
