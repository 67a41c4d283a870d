"""The pictures side by side with maps of their differences: one HTML file that needs nothing else."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...files import atomic_write
from ...runtime.sqnr import psnr
from ..metrics.images import Pixels
from .results import Quality

AMPLIFIED = 4
"""A map shows absolute differences times this, so that a tenth of the range is well seen."""
_STYLE = """body{font:14px system-ui,sans-serif;margin:24px;color:#222}table{border-collapse:collapse}
th,td{padding:4px 8px;text-align:left;vertical-align:top;font-weight:normal}img{display:block;width:128px;
height:128px;image-rendering:pixelated}pre{font-size:12px;overflow:auto}.wrong{color:#b00}h2{font-size:16px}
figure{margin:0 0 2px}small{color:#555}.scroll{overflow-x:auto}"""


class Shown(NamedTuple):
    """One prompt and seed: pictures by precision, and whether the classifier sees the caption, where there is one."""

    caption: str
    seed: int
    pictures: Mapping[str, Pixels]
    right: Mapping[str, bool] = {}


def difference(a: Pixels, b: Pixels) -> Pixels:
    """Absolute difference of two pictures, amplified."""
    found = np.abs(a.astype(np.int16) - b.astype(np.int16)) * AMPLIFIED
    return np.asarray(np.clip(found, 0, 255), np.uint8)


def choose(worst: Sequence[tuple[float, int, int]], prompts: int, count: int) -> list[tuple[int, int]]:
    """(prompt, seed) of pictures to show: half are those with the lowest PSNR, one a prompt, the rest evenly spread.

    `worst` has (PSNR, prompt, seed) of every picture.
    """
    chosen: list[tuple[int, int]] = []
    for _, prompt, seed in sorted(worst):
        if len(chosen) < count // 2 and prompt not in {p for p, _ in chosen}:
            chosen.append((prompt, seed))
    left = [p for p in range(prompts) if p not in {p for p, _ in chosen}]
    more = min(count - len(chosen), len(left))
    return chosen + [(left[i * len(left) // more], 0) for i in range(more)]


class About(NamedTuple):
    """What a page says around its pictures. `says` is a paragraph, `table` text with columns."""

    title: str
    says: str
    table: str
    reference: str  # the precision that all others are compared with
    side: int = 0  # pictures are scaled down to so many pixels, each way; 0: they are not


def write_gallery(q: Quality, shown: Sequence[Shown], steps: int, path: Path) -> None:
    """The page of the small model."""
    write_html(gallery_html(q, shown, steps), path)


def write_html(text: str, path: Path) -> None:
    """A page, atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def gallery_html(q: Quality, shown: Sequence[Shown], steps: int) -> str:
    """The page of the small model as text; every picture is inside."""
    says = (
        f"Model {q.model_sha256[:12]}, programs for {q.arch}. {q.provenance}. Half of the rows have the lowest"
        f" PSNR. Under each picture: the absolute difference from {q.reference} times {AMPLIFIED}, its PSNR, whether"
        " the classifier sees the caption."
    )
    return page_html(About(f"Precisions side by side, {steps} steps", says, q.text(), q.reference), shown)


def page_html(about: About, shown: Sequence[Shown]) -> str:
    """As text; every picture is inside."""
    names = list(dict.fromkeys(n for s in shown for n in s.pictures))
    head = "".join(f"<th>{escape(n)}</th>" for n in names)
    body = "".join(_rows(s, names, about) for s in shown)
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{escape(about.title)}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_style(about.side)}</style>'
        f"<h1>{escape(about.title)}</h1><p>{escape(about.says)}</p><pre>{escape(about.table)}</pre>"
        f'<div class="scroll"><table><tr><th></th>{head}</tr>{body}</table></div></html>\n'
    )


def _style(side: int) -> str:
    return _STYLE if not side else _STYLE.replace("128px", f"{side}px").replace("image-rendering:pixelated", "")


def _rows(s: Shown, names: Sequence[str], about: About) -> str:
    base = s.pictures[about.reference]
    cells = []
    for name in names:
        picture = s.pictures[name]
        alt = escape(f"{name}: {s.caption}")
        inside = _image(picture, alt, about.side)
        said = []
        if name != about.reference:
            said.append(f"{psnr(base, picture):.1f} dB")
            inside += _image(difference(base, picture), f"difference of {alt}", about.side)
        if name in s.right:
            said.append("caption right" if s.right[name] else '<span class="wrong">caption wrong</span>')
        cells.append(f"<td>{inside}<small>{', '.join(said)}</small></td>")
    return f"<tr><td>{escape(s.caption)}<br><small>seed {s.seed}</small></td>{''.join(cells)}</tr>"


def _image(pixels: Pixels, alt: str, side: int) -> str:
    from PIL import Image

    out, image = BytesIO(), Image.fromarray(pixels)
    if side:
        image.thumbnail((side, side), Image.Resampling.LANCZOS)
    image.save(out, format="PNG", optimize=True)
    return f'<figure><img alt="{alt}" src="data:image/png;base64,{b64encode(out.getvalue()).decode()}"></figure>'
