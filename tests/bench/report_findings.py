"""What the tests of the report share: findings of the evidence that is kept here, and pages taken apart."""

from __future__ import annotations

import json
import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from dpu.bench.report.gather import Findings, Request, gather
from dpu.bench.report.page import html

ROOT = Path(__file__).parents[2]
COMMAND = "dpubench report"


def request(**changes: Any) -> Request:
    """A small one: two DPUs, two scenarios, one traffic."""
    given: dict[str, Any] = {
        "workload": ROOT / "results" / "sdxl.json",
        "archs": ("dpu_f2", "dpu_asic"),
        "economics": ("scenario_a", "scenario_b"),
        "traffics": ("steady",),
        "runs": 2,
        "samples": 400,
    }
    return Request(**(given | changes))


@cache
def findings() -> Findings:
    """Of the evidence in results/."""
    return gather(request())


@cache
def page() -> str:
    """Its page."""
    return html(findings(), COMMAND)


def figures(text: str) -> dict[str, Any]:
    """The figures of a page."""
    found = re.search(r'<script type="application/json" id="figures">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return dict(json.loads(found[1]))


class Taken(HTMLParser):
    """A page taken apart: open tags that stay open, ids, links, and blocks of text with the letters in them."""

    VOID = ("meta", "img", "br")
    BLOCKS = ("p", "li", "td", "figcaption", "h1", "h2", "h3")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.blocks: list[tuple[str, int]] = []  # text, how many letters of provenance
        self._text: list[list[Any]] = []
        self._quiet = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.ids += [found["id"] or ""] if "id" in found else []
        self.links += [found["href"] or ""] if "href" in found else []
        if tag in self.VOID:
            return
        self.open.append(tag)
        if tag in self.BLOCKS:
            self._text.append(["", 0])
        if tag in ("script", "style", "abbr"):
            self._quiet += 1
        if tag == "abbr" and self._text:
            self._text[-1][1] += 1

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)
        if tag in self.BLOCKS:
            text, letters = self._text.pop()
            self.blocks.append((" ".join(text.split()), letters))
        if tag in ("script", "style", "abbr"):
            self._quiet -= 1

    def handle_data(self, data: str) -> None:
        if self._text and not self._quiet:
            self._text[-1][0] += data
