"""Units of numbers that enter a report: products and quotients of known symbols, checked and converted.

    parse("USD/kWh").factor_to(parse("USD/J"))     # 2.78e-7
    parse("image/s") == parse("1/s")               # False: an image is no pure number

A small algebra of our own rather than pint: the symbols needed are few and half of them are counts that pint lacks
(image, MAC, cycle, wafer, USD), each a dimension of its own here, so that dollars a wafer cannot be added to dollars a
die. pint 0.25 (BSD, four more packages) takes 0.3 CPU s to load its registry, which is most of what a command may take.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

_COUNTS = (
    *("image", "MAC", "op", "operation", "cycle", "step", "request", "prompt", "token", "word", "element", "row"),
    *("sample", "forward", "call", "run", "layer", "wafer", "die", "device"),
)
_DEFINED: dict[str, tuple[float, dict[str, int]]] = {
    "s": (1.0, {"s": 1}),
    "min": (60.0, {"s": 1}),
    "h": (3600.0, {"s": 1}),
    "day": (86400.0, {"s": 1}),
    "month": (365 * 7200.0, {"s": 1}),  # a twelfth of a year
    "year": (365 * 86400.0, {"s": 1}),  # 8,760 h, as usual in costs of ownership
    "m": (1.0, {"m": 1}),
    "J": (1.0, {"J": 1}),
    "W": (1.0, {"J": 1, "s": -1}),
    "Wh": (3600.0, {"J": 1}),
    "Hz": (1.0, {"cycle": 1, "s": -1}),  # of a clock
    "byte": (1.0, {"byte": 1}),
    "B": (1.0, {"byte": 1}),
    "bit": (0.125, {"byte": 1}),
    "USD": (1.0, {"USD": 1}),
    "dB": (1.0, {"dB": 1}),
    "degC": (1.0, {"degC": 1}),
    "%": (0.01, {}),
    **{name: (1.0, {name: 1}) for name in _COUNTS},
}
_PREFIXES = {"f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "m": 1e-3, "c": 1e-2}
_PREFIXES |= {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_PREFIXED = {"s", "m", "J", "W", "Wh", "Hz", "byte", "B", "bit", "MAC", "op"}
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|([A-Za-z%]+)|(\^?-?\d+)|([*/()^-]))")


class UnitError(ValueError):
    """A unit that nobody knows, or two that do not fit."""


@lru_cache(maxsize=512)
def _symbol(name: str) -> tuple[float, tuple[tuple[str, int], ...]]:
    """(scale to the base symbols, dimensions) of one symbol with its prefix."""
    if name in _DEFINED:
        scale, dims = _DEFINED[name]
        return scale, tuple(dims.items())
    for prefixes, length in ((_BINARY, 2), (_PREFIXES, 1)):
        factor, rest = prefixes.get(name[:length]), name[length:]
        if factor is not None and rest in _PREFIXED:
            return factor * _DEFINED[rest][0], tuple(_DEFINED[rest][1].items())
    raise UnitError(f"unknown unit '{name}'")


@dataclass(frozen=True)
class Unit:
    """A product of symbols with whole exponents and a number: `USD/(1000 image)` is 0.001 USD^1 image^-1."""

    factors: tuple[tuple[str, int], ...] = ()
    number: float = 1.0

    @property
    def scale(self) -> float:
        """How many of the base symbols one of this unit is."""
        scale = self.number
        for name, power in self.factors:
            scale *= _symbol(name)[0] ** power
        return scale

    @property
    def dimensions(self) -> dict[str, int]:
        """Base symbol -> exponent; those that cancel are left out."""
        dims: dict[str, int] = {}
        for name, power in self.factors:
            for base, exponent in _symbol(name)[1]:
                dims[base] = dims.get(base, 0) + power * exponent
        return {k: v for k, v in sorted(dims.items()) if v}

    def factor_to(self, other: Unit) -> float:
        """What a number in this unit is multiplied with to be in `other`.

        Raises:
            UnitError: they measure different things.
        """
        if self.dimensions != other.dimensions:
            raise UnitError(f"'{self}' and '{other}' measure different things")
        return self.scale / other.scale

    def times(self, other: Unit, power: int = 1) -> Unit:
        """The product with `other` to a power; equal symbols cancel."""
        found = dict(self.factors)
        for name, exponent in other.factors:
            found[name] = found.get(name, 0) + power * exponent
        kept = tuple(sorted((k, v) for k, v in found.items() if v))
        return Unit(kept, self.number * other.number**power)

    def to_power(self, power: int) -> Unit:
        """This unit to a whole power."""
        return Unit().times(self, power)

    def __str__(self) -> str:
        up = [_power(n, p) for n, p in self.factors if p > 0]
        down = [_power(n, -p) for n, p in self.factors if p < 0]
        if self.number != 1:
            (up if self.number > 1 else down).insert(0, f"{max(self.number, 1 / self.number):g}")
        top, bottom = "*".join(up) or "1", "*".join(down)
        return f"{top}/({bottom})" if len(down) > 1 else f"{top}/{bottom}" if down else top


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}{power}"


def _tokens(text: str) -> Iterator[str]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if not found:
            raise UnitError(f"cannot read the unit '{text}'")
        at = found.end()
        yield found.group().strip()
    yield ""


class _Parser:
    def __init__(self, text: str) -> None:
        self.text, self.tokens = text, list(_tokens(text))
        self.at = 0

    def take(self) -> str:
        self.at += 1
        return self.tokens[self.at - 1]

    def product(self) -> Unit:
        """Factors with `*` or `/` between them; a number stands before a symbol without `*`."""
        unit, power = self.factor(), 1
        while (token := self.tokens[self.at]) not in ("", ")"):
            if token in ("*", "/"):
                power = 1 if token == "*" else -1
                self.take()
            elif self.at == 0 or not self.tokens[self.at - 1][0].isdigit():
                raise UnitError(f"cannot read the unit '{self.text}'")
            unit = unit.times(self.factor(), power)
        return unit

    def factor(self) -> Unit:
        token = self.take()
        if token == "(":
            unit = self.product()
            if self.take() != ")":
                raise UnitError(f"cannot read the unit '{self.text}'")
            return unit
        if token[:1].isdigit():
            return Unit((), float(token))
        if not token or not (token[0].isalpha() or token == "%"):
            raise UnitError(f"cannot read the unit '{self.text}'")
        name = _named(token)
        if self.tokens[self.at] == "^":
            self.take()
        exponent = self.tokens[self.at]
        if exponent.lstrip("-^").isdigit() and exponent:
            return Unit(((name, int(self.take().lstrip("^"))),))
        return Unit(((name, 1),))


def _named(token: str) -> str:
    """The symbol that a word means: counts may be in the plural."""
    if token not in _DEFINED and token.endswith("s") and token[:-1] in _COUNTS:
        token = token[:-1]
    _symbol(token)
    return token


@lru_cache(maxsize=1024)
def parse(text: str) -> Unit:
    """The unit that a text means; empty text and `1` are pure numbers.

    Raises:
        UnitError: a symbol is unknown, or the text is no product of symbols.
    """
    if text.strip() in ("", "1"):
        return Unit()
    parser = _Parser(text)
    unit = parser.product()
    if parser.take() != "":
        raise UnitError(f"cannot read the unit '{text}'")
    return unit
