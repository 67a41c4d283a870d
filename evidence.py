"""Numbers that enter a report: a value with its unit, its uncertainty and where it comes from.

    cycles = simulated(5.39e6, "cycle", "dpu_tiny, commit abc, unet entry", name="cycles")
    clock = assumed(100e6, "Hz", "dpu_tiny arch file", name="clock")
    seconds = (cycles / clock).to("s")     # checked: a sum of dollars and seconds is refused
    seconds.provenance                     # as weak as its weakest input: assumed

A number is only as good as the weakest it was made from. `measured` needs the record of a measurement
(`measurement.py`): nothing here makes one. Arithmetic keeps its operation and inputs, so that a result can be
explained, recomputed by whoever reads it, and computed again for arrays of other inputs (`evaluate`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from math import isfinite, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, PrivateAttr, field_serializer, field_validator, model_validator

from .units import Unit, parse

Array = npt.NDArray[np.float64]


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
    and commit, which page, which machine; of a derived number, its formula. `inputs` are what it was derived from by
    `op` (with `constant`). `record` is the digest of the measurement that a measured number comes from.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: float
    unit: str
    provenance: Provenance
    source: str
    uncertainty: float | None = None
    name: str = ""
    op: str = ""
    constant: float | None = None
    record: str = ""
    inputs: tuple[Quantity, ...] = ()
    _spread: dict[object, float] = PrivateAttr(default_factory=dict)
    """Standard deviation of each uncertain leaf times the derivative by it."""

    @field_validator("source")
    @classmethod
    def _named(cls, source: str) -> str:
        if not source.strip():
            raise ValueError("a number without a source is no evidence")
        return source

    @field_validator("unit")
    @classmethod
    def _known(cls, unit: str) -> str:
        parse(unit)
        return unit

    @field_validator("provenance", mode="before")
    @classmethod
    def _label(cls, provenance: object) -> object:
        if isinstance(provenance, str):
            if provenance.upper() not in Provenance.__members__:
                raise ValueError(f"'{provenance}' is none of {', '.join(p.label for p in Provenance)}")
            return Provenance[provenance.upper()]
        return provenance

    @field_serializer("provenance")
    def _write_label(self, provenance: Provenance) -> str:
        return provenance.label

    @model_validator(mode="after")
    def _honest(self) -> Quantity:
        if self.inputs and self.provenance > weakest(*self.inputs):
            raise ValueError(f"{self.provenance.label} cannot come from {weakest(*self.inputs).label} inputs")
        if not self.inputs and self.provenance is Provenance.MEASURED and not self.record:
            raise ValueError("a measured number needs the record of its measurement (Measurement.quantity)")
        if self.uncertainty is not None and not (isfinite(self.uncertainty) and self.uncertainty >= 0):
            raise ValueError(f"uncertainty {self.uncertainty} is no standard deviation")
        return self

    def explain(self, depth: int = 0) -> str:
        """The tree of what this number was made from, one line each."""
        line = f"{'  ' * depth}{self.line()}"
        return "\n".join([line, *(q.explain(depth + 1) for q in self.inputs)])

    def line(self) -> str:
        """This number in one line: name, value, unit, provenance, source."""
        spread = "" if self.uncertainty is None else f" +- {self.uncertainty:g}"
        name = f"{self.name} = " if self.name else ""
        return f"{name}{self.value:g}{spread} {self.unit} [{self.provenance.label}] {self.source}"

    @property
    def text(self) -> str:
        """How a formula names this number."""
        if self.name:
            return self.name
        return (f"({self.source})" if len(self.source) < 60 else "(...)") if self.op else f"{self.value:g} {self.unit}"

    def called(self, name: str, source: str = "") -> Quantity:
        """The same number under a name, and with a formula in words."""
        return self.model_copy(update={"name": name, "source": source or self.source})

    def to(self, unit: str) -> Quantity:
        """The same quantity in another unit.

        Raises:
            UnitError: it measures something else.
        """
        factor = parse(self.unit).factor_to(parse(unit))
        return self if unit == self.unit else combine("convert", unit, self, constant=factor, source=self.source)

    def counted(self, unit: str) -> Quantity:
        """The same number, of one `unit`: 2 1/s counted in `image` are 2 image/s. A definition, no evidence."""
        whole = str(parse(self.unit).times(parse(unit)))
        return combine("scale", whole, self, constant=1.0, source=self.source)

    def __add__(self, other: Quantity | float) -> Quantity:
        if isinstance(other, Quantity):
            return combine("add", self.unit, self, other.to(self.unit), source=f"{self.text} + {other.text}")
        parse(self.unit).factor_to(Unit())
        return combine("shift", self.unit, self, constant=float(other), source=f"{self.text} + {other:g}")

    def __radd__(self, other: float) -> Quantity:
        return self + other

    def __sub__(self, other: Quantity | float) -> Quantity:
        if isinstance(other, Quantity):
            return combine("subtract", self.unit, self, other.to(self.unit), source=f"{self.text} - {other.text}")
        return self + (-other)

    def __rsub__(self, other: float) -> Quantity:
        return (-self) + other

    def __neg__(self) -> Quantity:
        return combine("scale", self.unit, self, constant=-1.0, source=f"-{self.text}")

    def __mul__(self, other: Quantity | float) -> Quantity:
        if isinstance(other, Quantity):
            unit = str(parse(self.unit).times(parse(other.unit)))
            return combine("multiply", unit, self, other, source=f"{self.text} x {other.text}")
        return combine("scale", self.unit, self, constant=float(other), source=f"{other:g} x {self.text}")

    def __rmul__(self, other: float) -> Quantity:
        return self * other

    def __truediv__(self, other: Quantity | float) -> Quantity:
        if isinstance(other, Quantity):
            unit = str(parse(self.unit).times(parse(other.unit), -1))
            return combine("divide", unit, self, other, source=f"{self.text} / {other.text}")
        return combine("scale", self.unit, self, constant=1 / other, source=f"{self.text} / {other:g}")

    def __rtruediv__(self, other: float) -> Quantity:
        return combine("invert", str(parse(self.unit).to_power(-1)), self, source=f"1 / {self.text}") * float(other)


class _Op(NamedTuple):
    """`apply(constant, *values)` on floats or arrays, and the derivatives by the values."""

    apply: Callable[..., Any]
    partials: Callable[..., tuple[float, ...]]


_OPS: dict[str, _Op] = {
    "add": _Op(lambda c, a, b: a + b, lambda c, a, b: (1.0, 1.0)),
    "subtract": _Op(lambda c, a, b: a - b, lambda c, a, b: (1.0, -1.0)),
    "multiply": _Op(lambda c, a, b: a * b, lambda c, a, b: (b, a)),
    "divide": _Op(lambda c, a, b: a / b, lambda c, a, b: (1 / b, -a / b**2)),
    "invert": _Op(lambda c, a: 1 / a, lambda c, a: (-1 / a**2,)),
    "scale": _Op(lambda c, a: c * a, lambda c, a: (c,)),
    "convert": _Op(lambda c, a: c * a, lambda c, a: (c,)),
    "shift": _Op(lambda c, a: a + c, lambda c, a: (1.0,)),
}


class Function(NamedTuple):
    """A named formula of several numbers: the units that it takes and gives, and itself, on floats or arrays."""

    units: tuple[str, ...]
    unit: str
    apply: Callable[..., Any]


FUNCTIONS: dict[str, Function] = {}
"""Formulas that trees of numbers may use, by name (`function` adds one)."""


def function(name: str, units: tuple[str, ...], unit: str) -> Callable[[Callable[..., Any]], Callable[..., Quantity]]:
    """Make a numpy formula one of quantities: arguments are converted to `units`, the result is in `unit`."""

    def register(apply: Callable[..., Any]) -> Callable[..., Quantity]:
        FUNCTIONS[name] = Function(units, unit, apply)

        def call(*given: Quantity) -> Quantity:
            source = f"{name}({', '.join(q.text for q in given)})"
            return combine(name, unit, *(q.to(u) for q, u in zip(given, units, strict=True)), source=source)

        return call

    return register


def is_operation(name: str) -> bool:
    """Whether trees of numbers may use it."""
    return name in _OPS or name in FUNCTIONS


def _apply(op: str, constant: float | None, values: Sequence[Any]) -> Any:
    return _OPS[op].apply(constant, *values) if op in _OPS else FUNCTIONS[op].apply(*values)


def _partials(op: str, constant: float | None, values: Sequence[float]) -> Sequence[float]:
    """Derivatives by each input; of a named formula, by central differences."""
    if op in _OPS:
        return _OPS[op].partials(constant, *values)
    found = []
    for i, value in enumerate(values):
        step = 1e-6 * (abs(value) or 1.0)
        ends = [_apply(op, constant, [*values[:i], value + sign * step, *values[i + 1 :]]) for sign in (1, -1)]
        found.append(float(ends[0] - ends[1]) / (2 * step))
    return found


def combine(op: str, unit: str, *inputs: Quantity, constant: float | None = None, source: str) -> Quantity:
    """The result of an operation: value, provenance of the weakest input, first-order uncertainty.

    Leaves of the same name, value and source are one number: what they add to the uncertainty is added with its sign.

    Raises:
        ValueError: the result is no finite number.
    """
    values = [q.value for q in inputs]
    try:
        value = float(_apply(op, constant, values))
    except ZeroDivisionError:
        value = float("nan")
    if not isfinite(value):
        raise ValueError(f"{source} is no finite number")
    spread: dict[object, float] = {}
    if any(q.uncertainty for q in inputs):
        for q, slope in zip(inputs, _partials(op, constant, values), strict=True):
            own = q._spread or ({(q.name, q.source, q.value, q.unit): q.uncertainty} if q.uncertainty else {})
            for leaf, sigma in own.items():
                spread[leaf] = spread.get(leaf, 0.0) + slope * sigma
    known = any(q.uncertainty is not None for q in inputs)
    result = Quantity(
        value=value,
        unit=unit,
        provenance=weakest(*inputs),
        source=source,
        uncertainty=sqrt(sum(s * s for s in spread.values())) if known else None,
        op=op,
        constant=constant,
        inputs=inputs,
    )
    result._spread = spread
    return result


def total(terms: Iterable[Quantity]) -> Quantity:
    """The sum of one or more numbers, in the unit of the first."""
    first, *others = terms
    for q in others:
        first = first + q
    return first


def recomputed(q: Quantity) -> float:
    """The value that the operation of a derived number gives for its inputs; its own value if it has none."""
    return float(_apply(q.op, q.constant, [i.value for i in q.inputs])) if q.op else q.value


def evaluate(outputs: Sequence[Quantity], given: Mapping[str, Any]) -> list[Array]:
    """The outputs, each in its unit, where numbers named in `given` have other values: arrays that broadcast.

    What a derived number was made from no longer counts when it is given itself.

    Raises:
        KeyError: no output depends on a number of such a name.
    """
    done: dict[int, Any] = {}
    used: set[str] = set()

    def walk(q: Quantity) -> Any:
        if id(q) not in done:
            if q.name in given:
                used.add(q.name)
                done[id(q)] = np.asarray(given[q.name], dtype=np.float64)
            elif q.op:
                done[id(q)] = _apply(q.op, q.constant, [walk(i) for i in q.inputs])
            else:
                done[id(q)] = q.value
        return done[id(q)]

    found = [np.asarray(walk(q), dtype=np.float64) for q in outputs]
    if missing := sorted(set(given) - used):
        raise KeyError(f"no number is named {', '.join(missing)}")
    return found


def leaves(*outputs: Quantity) -> dict[str, Quantity]:
    """The named numbers that nothing was computed for, of all trees, by name.

    Raises:
        ValueError: two different numbers have one name.
    """
    found: dict[str, Quantity] = {}
    seen: set[int] = set()
    stack = list(outputs)
    while stack:
        q = stack.pop()
        if id(q) in seen:
            continue
        seen.add(id(q))
        stack += q.inputs
        if not q.inputs and q.name and (other := found.setdefault(q.name, q)) != q:
            raise ValueError(f"two numbers are named {q.name}: {other.line()}; {q.line()}")
    return found


def weakest(*inputs: Quantity) -> Provenance:
    """The provenance of what is made from `inputs`.

    Raises:
        ValueError: there are none.
    """
    if not inputs:
        raise ValueError("a derived number needs inputs")
    return min(q.provenance for q in inputs)


def assumed(value: float, unit: str, source: str, name: str = "") -> Quantity:
    """A number nobody has shown yet."""
    return Quantity(value=value, unit=unit, provenance=Provenance.ASSUMED, source=source, name=name)


def simulated(value: float, unit: str, source: str, name: str = "") -> Quantity:
    """A number that a model of ours computed."""
    return Quantity(value=value, unit=unit, provenance=Provenance.SIMULATED, source=source, name=name)


def derived(value: float, unit: str, *inputs: Quantity, source: str = "derived") -> Quantity:
    """A number made from others by a formula that is not kept: as weak as the weakest of them."""
    return Quantity(value=value, unit=unit, provenance=weakest(*inputs), source=source, inputs=inputs)
