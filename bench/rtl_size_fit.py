"""What fits into a die region of the VU47P, and how well a small shape predicts a large one: from `rtl_size`'s rows."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from ..rtl.size import device
from .rtl_size import EngineRow, ShapeRow, SizeResult

CAPS = {"lut": 0.80, "ff": 0.80, "dsp": 0.96, "bram": 1.0, "uram": 1.0}
"""The share of a region's sites that tiles may take (LUT, DSP: the project's rule for what a router gets through)."""


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Fit(_Model):
    """One shape in one region: shares of its sites that a tile takes, and how many tiles stay below the caps."""

    shape: str
    region: str
    shares: dict[str, float]
    tiles: int

    @property
    def over(self) -> list[str]:
        """What one tile takes too much of."""
        return [k for k, v in self.shares.items() if v > CAPS[k]]


class Law(_Model):
    """A number of an engine at 64x64, L = 32, as 16x16 and 32x32 predict it, and as it was synthesised."""

    engine: str
    what: str
    predicted: float
    found: float

    @property
    def error(self) -> float:
        """Predicted over found, less one."""
        return self.predicted / self.found - 1 if self.found else 0.0


def fits(result: SizeResult) -> list[Fit]:
    """Every shape with FPGA sites in every region."""
    found = []
    for shape in result.shapes:
        tile = shape.tile()
        if tile.lut is not None:
            found += [_fit(shape, tile, region) for region in result.regions]
    return found


def _fit(shape: ShapeRow, tile: EngineRow, region: device.Region) -> Fit:
    need = {k: float(getattr(tile, k)) for k in CAPS}
    have = {k: float(getattr(region, k)) for k in CAPS}
    return Fit(
        shape=shape.name,
        region=region.name,
        shares={k: need[k] / have[k] for k in CAPS},
        tiles=min(int(CAPS[k] * have[k] // need[k]) for k in CAPS if need[k]),
    )


def laws(result: SizeResult) -> list[Law]:
    """How well 16x16 and 32x32 (L = C / 2) predict 64x64: linear in C; the array as a C^2 + b C."""
    small, middle, large = (result.shape(n) for n in ("16x16", "32x32", "64x64-l32"))
    if small is None or middle is None or large is None:
        return []
    found = []
    by_name = [{e.engine: e for e in s.engines} for s in (small, middle, large)]
    for engine in by_name[2]:
        for what in ("lut", "ff", "dsp", "gates"):
            a, b, c = (getattr(rows.get(engine), what, None) for rows in by_name)
            if a is None or b is None or not c:
                continue
            predicted = predict(a, b, square=engine == "MXU array")
            found.append(Law(engine=engine, what=what, predicted=predicted, found=c))
    return found


def predict(at_16: float, at_32: float, square: bool) -> float:
    """The value at 64 of a + b C, or of a C^2 + b C, through those at 16 and 32."""
    if not square:
        return at_32 + 2 * (at_32 - at_16)
    a = (at_32 - 2 * at_16) / 512
    return 4096 * a + 64 * (at_16 - 256 * a) / 16
