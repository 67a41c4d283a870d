"""The log of `dpubench policy-search`: policies that were tried, what was found, whether that beats uniform W8A8."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ...files import atomic_write
from ..metrics.bootstrap import LEAST
from .results import Value
from .search_cost import ImageCost

FORMAT: Literal["dpu.quality-search/1"] = "dpu.quality-search/1"
BASE = "w8a8"


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Tried(_Frozen):
    """A policy that was tried: its place on the greedy path (none for a shipped one), the PSNR that adding up layers
    predicts, what its pictures were beside float32 (means over prompts), and its cost an image by the compiler's
    estimate, and by the timing simulation where it is what was searched for. `gain_db` is its PSNR less that of uniform
    W8A8, prompt by prompt: a mean and its interval."""

    name: str
    place: int | None
    digest: str
    predicted_db: float | None
    psnr_db: float | None  # none where a picture is equal
    gain_db: Value
    by_prompt: tuple[float | None, ...]
    flip: float
    right: float  # part of the pictures in which the classifier sees the caption
    cycles: int
    dram_bytes: int
    simulated_cycles: int | None = None
    simulated_dram_bytes: int | None = None


class Found(_Frozen):
    """What the search was for. `beats_w8a8`: at no more of the simulated cost than uniform W8A8 its pictures are better
    in the mean, and by the whole interval; none where there are too few prompts for an interval."""

    what: Literal["cheapest above the floor", "best at no more than w8a8's cost"]
    tried: Tried | None
    beats_w8a8: bool | None


class Search(_Frozen):
    """The log of a search."""

    format: Literal["dpu.quality-search/1"] = FORMAT
    command: str
    arch: str
    cost: Literal["cycles", "dram"]
    floor_psnr_db: float | None
    floor_accuracy: float | None
    prompts: tuple[str, ...]  # of whole policies
    ranking_prompts: tuple[str, ...]  # of single layers
    steps: int
    seed: int
    path: int  # policies on the greedy path
    uniform: tuple[Tried, ...]
    tried: tuple[Tried, ...]  # in the order of the path
    found: tuple[Found, ...]
    provenance: Literal["simulated"] = "simulated"  # pictures; other costs are estimates (assumed)

    def text(self) -> str:
        """The table that `dpubench policy-search` prints, and what was found."""
        base = next(t for t in self.uniform if t.name == BASE)
        head = f"{'PSNR dB':>8} {'predicted':>9} {'dB more than w8a8':>21} {'FLIP':>7} {'right':>6}"
        head += f" {'Mcycles':>9} {'':>7} {'DRAM MB':>9} {'':>7}"
        first = f"{self.arch}, an image of {self.steps} steps; the least {self.cost}; {len(self.prompts)} prompts"
        lines = [first, f"{head}  policy"]
        for t in (*self.uniform, *self.tried):
            predicted = "" if t.predicted_db is None else f"{t.predicted_db:.1f}"
            cycles = f"{t.cycles / 1e6:9.3f} {t.cycles / base.cycles - 1:+7.2%}"
            dram = f"{t.dram_bytes / 1e6:9.1f} {t.dram_bytes / base.dram_bytes - 1:+7.2%}"
            gain = "" if t.name == BASE else t.gain_db.text(3)
            quality = f"{_db(t.psnr_db):>8} {predicted:>9} {gain:>21} {t.flip:7.4f} {t.right:6.1%}"
            lines.append(f"{quality} {cycles} {dram}  {t.name}")
        for f in self.found:
            lines.append(f"{f.what}: {_said(f, base, self.cost)}")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """As JSON, atomically."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")


def _db(value: float | None) -> str:
    return "equal" if value is None else f"{value:.2f}"


def _said(found: Found, base: Tried, cost: str) -> str:
    if found.tried is None:
        return "none that was tried"
    verdict = {
        True: "beats uniform w8a8",
        False: "does not beat uniform w8a8",
        None: f"too few prompts to say whether it beats uniform w8a8 (from {LEAST} on)",
    }[found.beats_w8a8]
    more = simulated(found.tried, cost) / simulated(base, cost) - 1
    gain = f"{found.tried.gain_db.text(3)} dB more than w8a8"
    return f"{found.tried.name}, {gain}, simulated {cost} {more:+.2%}: {verdict}"


def beats(tried: Tried, base: Tried, cost: str) -> bool | None:
    """Whether a policy's pictures are better at no more simulated cost; none where there is no interval."""
    gain = tried.gain_db.value
    if simulated(tried, cost) > simulated(base, cost) or not isinstance(gain, float) or gain <= 0:
        return False
    low = tried.gain_db.low
    return None if low is None else isinstance(low, float) and low > 0


def simulated(tried: Tried, cost: str) -> int:
    """What an image costs by the timing simulation; only what was found and W8A8 were simulated."""
    found = tried.simulated_cycles if cost == "cycles" else tried.simulated_dram_bytes
    assert found is not None
    return found


def with_simulated(tried: Tried, cost: ImageCost) -> Tried:
    """With what an image costs by the timing simulation."""
    return tried.model_copy(update={"simulated_cycles": cost.cycles, "simulated_dram_bytes": cost.dram_bytes})
