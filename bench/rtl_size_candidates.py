"""Tiles and lanes for `dpu_f2`: what each choice takes of the FPGA, and what an image then takes.

A tile goes into a die region of its own. A choice of two tiles leaves out the region that is shortest of room.
"""

from __future__ import annotations

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict

from ..ir.arch import Arch, load_arch
from .rtl_size import Candidate, SizeResult
from .rtl_size_fit import Fit, fits

STEPS = 20
CHOICES = ((3, 8), (3, 16), (3, 32), (2, 16), (2, 32))
"""Tiles, lanes. Lanes divide 64 columns (`ir/arch.py`): 12 and 24 do not."""


class Choice(BaseModel):
    """A candidate, and its tile in each region that it needs, the roomiest first; none where it was not sized."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    candidate: Candidate
    shape: str
    regions: tuple[Fit, ...]

    @property
    def fits(self) -> bool:
        """Whether a tile stays below the caps in each of them."""
        return bool(self.regions) and not any(r.over for r in self.regions)


def choice_arch(tiles: int, lanes: int) -> Arch:
    """`dpu_f2` with these tiles and lanes; each tile has a memory port."""
    fields = load_arch("dpu_f2").model_dump(mode="json")
    fields["dram"]["bytes_per_cycle"] = tiles * fields["dram"]["port_bytes_per_cycle"]
    return Arch.model_validate({**fields, "name": f"{tiles} tiles, {lanes} lanes", "tiles": tiles, "lanes": lanes})


def estimated(result: SizeResult, say: Callable[[str], None] = lambda _: None) -> SizeResult:
    """The result with a row for each choice, from the compiler's estimate of full-size SDXL."""
    from .estimate_cycles import estimate

    archs = [choice_arch(*c) for c in CHOICES]
    rows = []
    for arch, found in zip(archs, estimate(archs, STEPS, say), strict=True):
        cycles = found.sums("cycles")
        rows.append(
            Candidate(
                tiles=arch.tiles,
                lanes=arch.lanes,
                seconds=cycles / arch.clock_hz,
                utilisation=found.sums("macs") / (arch.peak_macs_per_cycle * cycles),
            )
        )
    return result.model_copy(update={"candidates": tuple(rows)})


def choices(result: SizeResult) -> list[Choice]:
    """The candidates, the fastest first, with their tiles in the regions."""
    by_shape: dict[str, list[Fit]] = {}
    for f in fits(result):
        by_shape.setdefault(f.shape, []).append(f)
    lanes = {s.lanes: s.name for s in result.shapes if s.cols == 64 and s.arch == "dpu_f2"}
    found = []
    for c in sorted(result.candidates, key=lambda c: c.seconds):
        name = lanes.get(c.lanes, "")
        roomy = sorted(by_shape.get(name, []), key=lambda f: f.shares["lut"])[: c.tiles]
        found.append(Choice(candidate=c, shape=name, regions=tuple(roomy)))
    return found
