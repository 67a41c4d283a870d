"""Stated numbers of configuration files: value, unit, provenance, source, distribution; checked, with located errors.

    "price": {"value": 1.98, "unit": "USD/h", "provenance": "published", "source": "...", "date": "2026-07-20"}

A number is fixed unless `low` and `high` (triangular, or uniform with `"distribution": "uniform"`) or `sd` (normal; of
a lognormal, of its logarithm) say how far it may lie. What is measured or simulated is not stated by hand: it comes
from a results file.
"""

from __future__ import annotations

import json
from math import exp, isfinite, sqrt
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator

from ...errors import DpuError
from ...evidence import Provenance, Quantity
from ...units import UnitError, parse

STATED = ("published", "datasheet", "assumed")
Shape = Literal["fixed", "uniform", "triangular", "normal", "lognormal"]
_DOCUMENTED = "docs/economics.md describes every field"


class Config(BaseModel):
    """A part of a configuration file: no field beyond those named, nothing changes after reading."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Stated(Config):
    """One number that a file states."""

    value: float
    unit: str
    provenance: Literal["published", "datasheet", "assumed"]
    source: str
    date: str = ""
    distribution: Shape | None = None
    low: float | None = None
    high: float | None = None
    sd: float | None = None

    @model_validator(mode="after")
    def _check(self) -> Stated:
        numbers = {"value": self.value, "low": self.low, "high": self.high, "sd": self.sd}
        for name, number in numbers.items():
            if number is not None and not isfinite(number):
                raise ValueError(f"{name} is {number}, allowed: a finite number")
        if not self.source.strip():
            raise ValueError("source is empty, allowed: where the number comes from")
        parse(self.unit)
        ranged, spread = self.low is not None and self.high is not None, self.sd is not None
        if (self.low is None) != (self.high is None) or (ranged and spread):
            raise ValueError("allowed: low and high together, or sd, or neither")
        if ranged and not (self.low or 0) <= self.value <= (self.high or 0):
            raise ValueError(f"value is {self.value:g}, allowed: from its low {self.low:g} to its high {self.high:g}")
        needs = {"uniform": ranged, "triangular": ranged, "normal": spread, "lognormal": spread}
        if self.distribution and not needs.get(self.distribution, not ranged and not spread):
            what = {"uniform": "low and high", "triangular": "low and high", "fixed": "neither range nor sd"}
            raise ValueError(f"distribution is {self.distribution}, allowed: with {what.get(self.distribution, 'sd')}")
        if spread and ((self.sd or 0) < 0 or (self.shape == "lognormal" and self.value <= 0)):
            raise ValueError(f"sd is {self.sd:g} of {self.value:g}, allowed: 0 or more, lognormal of a positive value")
        return self

    @property
    def shape(self) -> Shape:
        """The distribution; stated, or what range or sd mean."""
        return self.distribution or ("triangular" if self.low is not None else "normal" if self.sd else "fixed")

    @property
    def ends(self) -> tuple[float, float]:
        """Where the number may lie: the range, or 1.645 standard deviations (5 to 95 %)."""
        if self.low is not None and self.high is not None:
            return self.low, self.high
        if self.shape == "lognormal":
            return self.value * exp(-1.645 * (self.sd or 0)), self.value * exp(1.645 * (self.sd or 0))
        return self.value - 1.645 * (self.sd or 0), self.value + 1.645 * (self.sd or 0)

    @property
    def deviation(self) -> float | None:
        """One standard deviation of the distribution; none of a fixed number."""
        low, high = self.ends
        if self.shape == "uniform":
            return (high - low) / sqrt(12)
        if self.shape == "triangular":  # variance (a2 + b2 + c2 - ab - ac - bc) / 18
            a, b, c = low, self.value, high
            return sqrt(max(a * a + b * b + c * c - a * b - a * c - b * c, 0.0) / 18)
        if self.shape == "lognormal":  # exp(s2/2) sqrt(exp(s2) - 1) medians
            s2 = (self.sd or 0) ** 2
            return self.value * exp(s2 / 2) * sqrt(exp(s2) - 1)
        return self.sd

    def quantity(self, name: str) -> Quantity:
        """The number as evidence, under a name that the Monte Carlo and the tornado use."""
        date = f" ({self.date})" if self.date else ""
        return Quantity(
            value=self.value,
            unit=self.unit,
            provenance=Provenance[self.provenance.upper()],
            source=f"{self.source}{date}",
            uncertainty=self.deviation,
            name=name,
        )


class Bounds:
    """What a field accepts: numbers of one kind of unit in a range."""

    def __init__(self, unit: str, low: float, high: float, open_low: bool = False) -> None:
        self.unit, self.low, self.high, self.open_low = unit, low, high, open_low

    @property
    def text(self) -> str:
        """The range in words."""
        unit = "" if self.unit == "1" else f" {self.unit}"
        return f"{'above ' if self.open_low else ''}{self.low:g} to {self.high:g}{unit}"

    def __call__(self, number: Stated) -> Stated:
        try:
            factor = parse(number.unit).factor_to(parse(self.unit))
        except UnitError as e:
            raise ValueError(f"unit is '{number.unit}', allowed: {self.text}") from e
        spread = 4 * (number.sd or 0) if number.shape == "normal" else 0.0
        ends = (number.low, number.high) if number.low is not None else (number.value - spread, number.value + spread)
        for value in (number.value, *ends):
            inside = self.low < (value or 0.0) * factor if self.open_low else self.low <= (value or 0.0) * factor
            if not inside or (value or 0.0) * factor > self.high:
                raise ValueError(f"value is {value:g} {number.unit}, allowed: {self.text}")
        return number


def _within(unit: str, low: float, high: float, open_low: bool = False) -> AfterValidator:
    return AfterValidator(Bounds(unit, low, high, open_low))


Share = Annotated[Stated, _within("1", 0, 1)]
Utilisation = Annotated[Stated, _within("1", 0, 1, open_low=True)]
Factor = Annotated[Stated, _within("1", 0.01, 100)]
LaneMacs = Annotated[Stated, _within("1", 1, 1000)]
Ratio = Annotated[Stated, _within("1", 1, 10)]
HourlyPrice = Annotated[Stated, _within("USD/h", 0, 1e4)]
Price = Annotated[Stated, _within("USD", 0, 1e10)]
Rate = Annotated[Stated, _within("image/s", 0, 1e4, open_low=True)]
Seconds = Annotated[Stated, _within("s", 0, 1e6)]
Power = Annotated[Stated, _within("W", 0, 1e5)]
ImageEnergy = Annotated[Stated, _within("J/image", 0, 1e7)]
Years = Annotated[Stated, _within("year", 0.1, 30)]
YearlyShare = Annotated[Stated, _within("1/year", 0, 1)]
EnergyPrice = Annotated[Stated, _within("USD/kWh", 0, 5)]
ImageBytes = Annotated[Stated, _within("MB/image", 0, 1000)]
Bytes = Annotated[Stated, _within("GB", 0, 1e5)]
ByteRate = Annotated[Stated, _within("GB/s", 0, 1e5, open_low=True)]
Devices = Annotated[Stated, _within("device", 1, 1e9)]
WaferPrice = Annotated[Stated, _within("USD/wafer", 100, 1e6)]
DiePrice = Annotated[Stated, _within("USD/die", 0, 1e5)]
AreaPrice = Annotated[Stated, _within("USD/mm2", 0, 100)]
BytePrice = Annotated[Stated, _within("USD/GB", 0, 1e3)]
Defects = Annotated[Stated, _within("1/cm2", 0, 10)]
Cluster = Annotated[Stated, _within("1", 0.1, 100)]
Length = Annotated[Stated, _within("mm", 0, 500)]
Area = Annotated[Stated, _within("mm2", 0, 1e4)]
MacArea = Annotated[Stated, _within("um2/MAC", 1, 1e5)]
SramArea = Annotated[Stated, _within("mm2/MiB", 0.01, 100)]
MacEnergy = Annotated[Stated, _within("pJ/MAC", 0.001, 1000)]
BitEnergy = Annotated[Stated, _within("pJ/bit", 0.001, 1000)]

C = TypeVar("C", bound=Config)


def read_json(path: Path, schema: str, hint: str = _DOCUMENTED) -> dict[str, Any]:
    """The object of a JSON file whose `format` is the one this version reads.

    Raises:
        DpuError: unreadable, no object, or of another schema or version.
    """
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError as e:
        raise DpuError(str(path), "no such file", code="E106") from e
    except (OSError, ValueError) as e:
        raise DpuError(str(path), f"is no readable JSON ({e})", hint=hint, code="E520") from e
    if not isinstance(content, dict):
        raise DpuError(str(path), f"holds a {type(content).__name__}, expected an object", hint=hint, code="E520")
    if (seen := content.get("format")) != schema:
        raise DpuError(str(path), f"field 'format': value is {seen!r}, allowed: '{schema}'", hint=hint, code="E521")
    return content


def load(path: Path, model: type[C], schema: str) -> C:
    """A configuration file, checked field by field.

    Raises:
        DpuError: a field is missing, unknown, of the wrong unit or outside its range: file, field, value, range.
    """
    content = read_json(path, schema)
    try:
        return model.model_validate(content)
    except ValidationError as e:
        first = e.errors()[0]
        raise DpuError(
            str(path), f"field '{place(first['loc'])}': {_what(first, model)}", hint=_DOCUMENTED, code="E520"
        ) from e


def place(location: tuple[int | str, ...]) -> str:
    """A field's path with dots."""
    return ".".join(str(x) for x in location)


def _what(error: Any, model: type[BaseModel]) -> str:
    """An error of pydantic in the words of the files: the value seen and what is allowed."""
    kind, seen = error["type"], error["input"]
    if kind == "missing":
        allowed = _allowed(model, error["loc"])
        return f"is missing{f', allowed: {allowed}' if allowed else ''}"
    if kind == "extra_forbidden":
        return "there is no such field"
    if kind == "value_error":
        return str(error["msg"]).removeprefix("Value error, ")
    if kind == "literal_error":
        return f"value is {seen!r}, allowed: {error['ctx']['expected']}"
    shown = repr(seen) if not isinstance(seen, dict | list) else f"a {type(seen).__name__}"
    message = str(error["msg"])
    return f"value is {shown}, allowed: {message.removeprefix('Input should be ')}"


def _allowed(model: Any, location: tuple[int | str, ...]) -> str:
    """The range of the field at a location, if it is a bounded number."""
    allowed = ""
    for step in location:
        field = getattr(model, "model_fields", {}).get(str(step))
        if field is not None:  # else the key of a mapping
            bounds = [m.func for m in field.metadata if isinstance(getattr(m, "func", None), Bounds)]
            allowed, model = bounds[0].text if bounds else "", _model(field.annotation)
    return allowed


def _model(annotation: Any) -> Any:
    """The model inside an optional or a mapping."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((m for m in map(_model, get_args(annotation)) if m is not None), None)
