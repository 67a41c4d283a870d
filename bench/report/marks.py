"""Numbers as the page prints them: digits, unit, and the letter of their provenance."""

from __future__ import annotations

from html import escape
from math import isfinite

from ...evidence import Provenance, Quantity

LETTERS = {
    Provenance.MEASURED: "M",
    Provenance.SIMULATED: "S",
    Provenance.PUBLISHED: "P",
    Provenance.DATASHEET: "D",
    Provenance.ASSUMED: "A",
}
MEANINGS = {
    Provenance.MEASURED: "our code measured it on real hardware and kept the samples",
    Provenance.SIMULATED: "a model of ours computed it",
    Provenance.PUBLISHED: "somebody else reports it",
    Provenance.DATASHEET: "the maker promises it",
    Provenance.ASSUMED: "nobody has shown it; what is made from an assumed number is assumed too",
}


def mark(provenance: Provenance, source: str = "") -> str:
    """The letter in its box; the source is its tooltip."""
    said = f"{provenance.label}: {source}" if source else provenance.label
    return f'<abbr class="mark {provenance.label}" title="{escape(said)}">{LETTERS[provenance]}</abbr>'


def legend() -> str:
    """What the letters mean, strongest first."""
    items = (f"<li>{mark(p)} <b>{p.label}</b>: {MEANINGS[p]}</li>" for p in sorted(Provenance, key=int, reverse=True))
    return f'<ul class="legend">{"".join(items)}</ul>'


def digits(value: float, count: int = 3) -> str:
    """`count` significant digits with thousands separators, never an exponent: 1,234,000; 0.0123; 2 of exactly 2."""
    if not isfinite(value):
        return "never" if value > 0 else "-"
    if value == 0:
        return "0"
    scientific = f"{value:.{count - 1}e}"
    rounded, places = float(scientific), count - 1 - int(scientific.partition("e")[2])
    said = f"{rounded:,.{max(0, places)}f}"
    exact = abs(value - rounded) < 1e-9 * abs(value)
    return said.rstrip("0").rstrip(".") if exact and "." in said else said


def short_commit(commit: str) -> str:
    """Twelve digits, and the `+` of a checkout in which files differ from it."""
    return commit[:12] + ("+" if commit.endswith("+") else "")


def money(value: float) -> str:
    """$1.65, $1,605, $62.0 million, $7.05 billion."""
    sign = "-" if value < 0 else ""
    size = abs(value)
    for factor, name in ((1e9, " billion"), (1e6, " million")):
        if size >= factor:
            return f"{sign}${digits(size / factor)}{name}"
    return f"{sign}${size:,.0f}" if size >= 1000 else f"{sign}${digits(size)}"


def percent(value: float) -> str:
    """A share; what is small but not zero is not shown as zero."""
    if 0 < value < 0.005:
        return "<0.5 %"
    return ">99.5 %" if 0.995 < value < 1 else f"{100 * value:.0f} %"


def times(value: float) -> str:
    """A ratio: 1.05x."""
    return f"{digits(value)}x"


def marked(text: str, provenance: Provenance, source: str = "") -> str:
    """A number in words with its letter; they stay on one line."""
    return f'<span class="number">{escape(text)}&nbsp;{mark(provenance, source)}</span>'


def shown(q: Quantity, unit: str = "", name: str = "") -> str:
    """A quantity: converted to `unit`, which prints as `name` (the unit itself without one)."""
    found = q.to(unit) if unit else q
    words = name or ("" if found.unit == "1" else found.unit)
    return marked(f"{digits(found.value)} {words}".strip(), q.provenance, q.source)


def priced(q: Quantity) -> str:
    """A quantity in dollars."""
    return marked(money(q.to("USD").value), q.provenance, q.source)
