"""The page: sections in the order in which a decision is made, and the file they end up in."""

from __future__ import annotations

from html import escape
from pathlib import Path

from ...files import atomic_write
from . import say_doubt, say_evidence, say_tapeout, say_verdict
from .frame import Book, letter, page, table
from .gather import Findings
from .marks import legend, short_commit

_NOT_MODELLED = (
    "loading of a model before its first request, and devices that are switched off",
    "redundancy in the die, binning, learning curves of yield and price",
    "taxes and resale",
    "correlation of inputs: spreads of ratios are too wide rather than too narrow",
    "the price of GPUs falling while a chip is designed",
)
"""As docs/economics.md has it."""


def html(f: Findings, command: str) -> str:
    """The whole page; the same findings give the same bytes."""
    book = Book()
    title = f"{f.decision.verdict}: should this DPU become a chip?"
    sections = [
        ("cases", "Every DPU, every scenario", say_verdict.everywhere(f)),
        ("evidence", "Does the evidence hold?", say_evidence.conditions(f)),
        ("roofs", "Rooflines: how much of the silicon works", say_evidence.roofs(f, book)),
        ("cost", "What an image costs", say_evidence.cost(f, book)),
        ("frontier", "Quality, speed, cost", say_evidence.frontier(f, book)),
        ("doubt", "How sure is that?", say_doubt.uncertainty(f, book)),
        ("break-even", "Where would it break even?", say_doubt.breaks_even(f, book)),
        ("service", "Utilisation: a service of real requests", say_doubt.service(f, book)),
        ("tape-out", f"Tape-out of {f.detail.arch}", say_tapeout.tapeout(f, book)),
        ("missing", "What is missing", _missing(f)),
    ]
    links = "".join(f'<a href="#{name}">{escape(words)}</a>' for name, words, _ in sections)
    body = "".join(
        f'<section id="{name}"{_new_page(name)}><h2>{escape(words)}</h2>{text}</section>'
        for name, words, text in sections
    )
    marks = f"<h3>Letters behind numbers say where they come from</h3>{legend()}"
    at = f" at commit {escape(short_commit(f.commit))}" if f.commit else ""
    top = (
        "<h1>Should this DPU become a chip?</h1>"
        '<p class="task">The DPU is a processor for diffusion models. This page sets images that it would make against'
        " the same images on GPUs that can be rented or bought today."
        f" One image: {escape(f.task.text)}. Made by <code>{escape(command)}</code>{at}.</p>"
    )
    foot = (
        "<footer><p>Money is US dollars. Most numbers are rounded to three digits; <code>dpubench explain</code> shows"
        " where each one comes from. Ranges and sources of all inputs are in configs/, how the gate decides in"
        " docs/economics.md.</p></footer>"
    )
    whole = f"{top}{say_verdict.head(f)}{marks}<nav>{links}</nav>{body}{foot}"
    return page(title, whole, book.figures)


def _new_page(name: str) -> str:
    return ' class="page"' if name == "tape-out" else ""


def _missing(f: Findings) -> str:
    rows = [[escape(m.what), escape(m.why) + letter(m), f"<code>{escape(m.command)}</code>"] for m in f.missing]
    absent = table([("missing", True), ("what is said about it", True), ("what makes it", True)], rows, stack=True)
    left = "".join(f"<li>{escape(x)}</li>" for x in _NOT_MODELLED)
    return f"{absent if rows else '<p>No evidence is missing.</p>'}<h3>Not modelled</h3><ul>{left}</ul>"


def write(f: Findings, path: Path, command: str) -> None:
    """The file, atomically."""
    content = html(f, command)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        temporary.write_text(content)
