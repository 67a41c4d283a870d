"""How rows are cut over tiles and streams: everything once, and between image rows where that is shorter."""

from __future__ import annotations

import random

import pytest
from dpu.passes.tiling import rectangle_sizes, rectangles, slowest_tile, unit_ranges, units


@pytest.mark.parametrize("samples", [1, 2])
@pytest.mark.parametrize("grain", [1, 12])
def test_units_hold_every_row_once(samples: int, grain: int) -> None:
    for tiles in (1, 3, 4, 24):
        found = [u for group in units(samples, 12 * 17, tiles, grain) for u in group]
        rows = sorted((u.b, t) for u in found for t in range(u.lo, u.hi))
        assert rows == [(b, t) for b in range(samples) for t in range(12 * 17)]
        assert all(u.lo % grain == 0 and u.hi % grain == 0 for u in found)


def test_sizes_are_those_of_the_rectangles() -> None:
    draw = random.Random(1)
    for _ in range(300):
        width, most = draw.randint(1, 40), draw.randint(1, 200)
        lo = draw.randint(0, 300)
        hi = lo + draw.randint(1, 600)
        sizes = sorted(n for n, times in rectangle_sizes(lo, hi, width, most) for _ in range(times))
        assert sizes == sorted(r.pixels for r in rectangles(lo, hi, width, most))


def test_convolutions_are_cut_between_image_rows_where_that_is_shorter() -> None:
    """32 rows of 32 over three tiles of 64 x 64: 11 rows are 352 cycles a weight tile; 342 pixels are a part of a row,
    of 64 cycles though shorter, ten rows and another part: 448. Of 7 rows of 200 over three tiles three take 600
    cycles; 467 pixels, which begin or end in the middle of a row, 467 to 500."""
    by_row = slowest_tile(2, (32, 32), 3, 1024, 64)
    assert (by_row.grain, by_row.cycles, by_row.all_rectangles) == (32, 352, 3)
    assert slowest_tile(2, (7, 200), 3, 1024, 64).grain == 1
    assert [hi - lo for cut in unit_ranges(2, 1024, 3, 32) for lo, hi in cut] == [352, 352, 320]
