"""Numbers that enter a report: a value with its unit, its uncertainty and where it comes from.

    cycles = simulated(5.39e6, "cycle", "dpu_tiny, commit abc, unet entry")
    clock = assumed(100e6, "Hz", "dpu_tiny arch file")
    seconds = derived(cycles.value / clock.value, "s", cycles, clock)     # as weak as its weakest input: assumed

A number is only as good as the weakest it was made from. `measured` is set by code that measures, never by hand.
"""

from __future__ import annotations

from enum import IntEnum

from pydantic import BaseModel, ConfigDict, field_serializer, field_validator


class Provenance(IntEnum):
    """Where a number comes from, weakest first."""

    ASSUMED = 0  # nobody has shown it
    SIMULATED = 1  # a model of ours computed it
    PUBLISHED = 2  # somebody else reports it
    DATASHEET = 3  # the maker promises it
    MEASURED = 4  # our code measured it, and kept the samples

    @property
    def label(self) -> str:
        """The word that reports print."""
        return self.name.lower()


class Quantity(BaseModel):
    """One number of a report.

    `uncertainty` is one standard deviation in the unit of the value; none when nobody knows. `source` says which arch
    and commit, which page, which machine. `inputs` are what it was derived from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    unit: str
    provenance: Provenance
    source: str
    uncertainty: float | None = None
    inputs: tuple[Quantity, ...] = ()

    @field_validator("source")
    @classmethod
    def _named(cls, source: str) -> str:
        if not source.strip():
            raise ValueError("a number without a source is no evidence")
        return source

    @field_validator("provenance", mode="before")
    @classmethod
    def _label(cls, provenance: object) -> object:
        return Provenance[provenance.upper()] if isinstance(provenance, str) else provenance

    @field_serializer("provenance")
    def _write_label(self, provenance: Provenance) -> str:
        return provenance.label

    def explain(self, depth: int = 0) -> str:
        """The tree of what this number was made from, one line each."""
        spread = "" if self.uncertainty is None else f" +- {self.uncertainty:g}"
        line = f"{'  ' * depth}{self.value:g}{spread} {self.unit} [{self.provenance.label}] {self.source}"
        return "\n".join([line, *(q.explain(depth + 1) for q in self.inputs)])


def weakest(*inputs: Quantity) -> Provenance:
    """The provenance of what is made from `inputs`.

    Raises:
        ValueError: there are none.
    """
    if not inputs:
        raise ValueError("a derived number needs inputs")
    return min(q.provenance for q in inputs)


def assumed(value: float, unit: str, source: str) -> Quantity:
    """A number nobody has shown yet."""
    return Quantity(value=value, unit=unit, provenance=Provenance.ASSUMED, source=source)


def simulated(value: float, unit: str, source: str) -> Quantity:
    """A number that a model of ours computed."""
    return Quantity(value=value, unit=unit, provenance=Provenance.SIMULATED, source=source)


def derived(value: float, unit: str, *inputs: Quantity, source: str = "derived") -> Quantity:
    """A number made from others: as weak as the weakest of them."""
    return Quantity(value=value, unit=unit, provenance=weakest(*inputs), source=source, inputs=inputs)
