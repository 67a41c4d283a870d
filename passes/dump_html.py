"""`index.html` of a folder of pass dumps: what each pass did, and the difference it made to the text. Self-contained.

Two lines count as equal if they differ in value numbers and locations only, so that one removed operation is one line
and not a renumbering of all that follow. Large texts are not compared, long differences are cut; the page says so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from html import escape
from itertools import pairwise
from pathlib import Path

from ..errors import DpuError
from ..files import atomic_write

MAX_BYTES = 4 << 20  # of a dump that is compared
MAX_LINES = 3000  # beside those at both ends that agree
MAX_SHOWN = 1200  # lines of one difference
MAX_WIDTH = 400  # characters of a shown line
_CONTEXT = 2

_LOC = re.compile(r' loc\((?:[^()"]|"[^"]*"|\((?:[^()"]|"[^"]*")*\))*\)')
_VALUE = re.compile(r"%[\w.$-]+")
_STYLE = """
body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:110em;padding:0 1em;color:#222}
table{border-collapse:collapse}td,th{padding:.15em .8em;text-align:right;border-bottom:1px solid #ddd}
td:first-child,th:first-child,td:last-child,th:last-child{text-align:left}
details{margin:.4em 0;border:1px solid #ccc;border-radius:4px}
summary{cursor:pointer;padding:.3em .6em;background:#f4f4f4}
pre{margin:0;padding:.4em .6em;overflow-x:auto;font:12px/1.4 ui-monospace,monospace}
.add{background:#e3f6e3;display:block}.del{background:#fbe4e4;display:block}.gap{color:#777;display:block}
.note{padding:.3em .6em;color:#7a4b00}
"""


@dataclass(frozen=True)
class Dump:
    """One numbered text of a folder."""

    path: Path
    number: int
    name: str


def dumps(folder: Path) -> list[Dump]:
    """The numbered dumps of a folder, in order."""
    found = []
    for path in folder.glob("*.mlir"):
        number, dash, name = path.stem.partition("-")
        if dash and number.isdecimal():
            found.append(Dump(path, int(number), name))
    return sorted(found, key=lambda d: (d.number, d.name))


def write_pages(folder: Path) -> list[Path]:
    """`index.html` of a folder with dumps, of each of its subfolders with dumps, and links to these; what was written.

    Raises:
        DpuError: there is no dump in it, or it cannot be written.
    """
    if not folder.is_dir():
        raise DpuError(str(folder), "no such folder", hint="dpuc compile --dump-passes writes one", code="E106")
    own = dumps(folder)
    parts = [p for p in sorted(folder.iterdir()) if p.is_dir() and dumps(p)]
    if not own and not parts:
        what = "holds no NN-<pass>.mlir"
        raise DpuError(str(folder), what, hint="dpuc compile --dump-passes writes them", code="E106")
    written = [_write(part, _page(part, dumps(part))) for part in parts]
    if own:
        return [*written, _write(folder, _page(folder, own, [p.name for p in parts]))]
    return [*written, _write(folder, _document("Passes", _links(folder, [p.name for p in parts])))]


def _write(folder: Path, text: str) -> Path:
    with atomic_write(folder / "index.html") as temporary:
        temporary.write_text(text, encoding="utf-8")
    return folder / "index.html"


def _document(title: str, body: str) -> str:
    head = f"<meta charset=utf-8><title>{escape(title)}</title><style>{_STYLE}</style>"
    return f"<!doctype html>\n<html lang=en><head>{head}</head>\n<body><h1>{escape(title)}</h1>\n{body}</body></html>\n"


def _links(folder: Path, parts: Sequence[str]) -> str:
    rows = []
    for part in parts:
        records = _records(folder / part)
        spent = f"{sum(float(str(r.get('seconds', 0))) for r in records):.2f} s" if records else ""
        link = f'<a href="{escape(part)}/index.html">{escape(part)}</a>'
        rows.append(f"<tr><td>{link}<td>{len(dumps(folder / part)) - 1}<td>{spent}<td></tr>")
    return "<table><tr><th>part<th>passes<th>time<th></tr>" + "".join(rows) + "</table>" if rows else ""


def _records(folder: Path) -> list[dict[str, object | float]]:
    """What `summary.json` says of each pass; nothing if the compilation stopped before it was written."""
    try:
        found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return found if isinstance(found, list) else []


def _page(folder: Path, found: Sequence[Dump], parts: Sequence[str] = ()) -> str:
    by_number = dict(enumerate(_records(folder), 1))
    rows, sections = [], []
    for before, after in pairwise(found):
        record = by_number.get(after.number, {})
        title = f"{after.number:02d} {after.name}"
        diff, count = _section(before, after)
        changes = record.get("changes")
        changed = ", ".join(f"{n:+d} {op}" for op, n in sorted(changes.items())) if isinstance(changes, dict) else ""
        cells = (
            f'<a href="#p{after.number}">{escape(title)}</a>',
            f"{record['seconds']:.3f}" if "seconds" in record else "",
            f"{record['peak_mib']:.0f}" if "peak_mib" in record else "",
            str(record.get("ops_before", "")),
            str(record.get("ops_after", "")),
            count,
            escape(changed or ("the same operations" if record else "")),
        )
        rows.append("<tr>" + "".join(f"<td>{c}" for c in cells) + "</tr>")
        summary = f"<summary id=p{after.number}><b>{escape(title)}</b> {count}</summary>"
        sections.append(f"<details>{summary}{diff}</details>")
    heads = ("pass", "s", "MiB", "ops before", "after", "lines", "what changed")
    table = "<table><tr>" + "".join(f"<th>{h}" for h in heads) + "</tr>" + "".join(rows) + "</table>"
    note = "<p>Value numbers and locations are left out of the comparison and locations of the text shown.</p>"
    first = f'<p>Input: <a href="{escape(found[0].path.name)}">{escape(found[0].path.name)}</a></p>'
    return _document(f"Passes of {folder.name}", _links(folder, parts) + first + table + note + "\n".join(sections))


def _section(before: Dump, after: Dump) -> tuple[str, str]:
    """The difference of two dumps as HTML, and a word about its size."""
    link = f'<div class=note>text: <a href="{escape(after.path.name)}">{escape(after.path.name)}</a></div>'
    sizes = [d.path.stat().st_size for d in (before, after)]
    if max(sizes) > MAX_BYTES:
        note = f"not compared: {sizes[0]} and {sizes[1]} bytes, more than {MAX_BYTES}"
        return f"{link}<div class=note>{note}</div>", "not compared"
    old, new = (_LOC.sub("", d.path.read_text(encoding="utf-8")).splitlines() for d in (before, after))
    low, high = _ends(old, new)
    middle = len(old) - low - high, len(new) - low - high
    if max(middle) > MAX_LINES:
        note = f"not compared: {middle[0]} and {middle[1]} lines between equal ends, more than {MAX_LINES}; "
        note += "the new text begins with:"
        start = "".join(f"{_cut(x)}\n" for x in new[low : low + 40])
        return f"{link}<div class=note>{note}</div><pre>{start}</pre>", f"-{middle[0]} +{middle[1]}, not compared"
    lines, removed, added = _difference(old, new, low, high)
    if not removed and not added:
        return f"{link}<div class=note>no difference</div>", "same"
    cut = ""
    if len(lines) > MAX_SHOWN:
        cut = f"<div class=note>the first {MAX_SHOWN} of {len(lines)} lines; the rest is in the text</div>"
    return f"{link}<pre>{''.join(lines[:MAX_SHOWN])}</pre>{cut}", f"-{removed} +{added}"


def _key(line: str) -> str:
    return _VALUE.sub("%", line)


def _ends(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """How many lines agree at the beginning and, beyond these, at the end."""
    most = min(len(old), len(new))
    low = 0
    while low < most and _key(old[low]) == _key(new[low]):
        low += 1
    high = 0
    while high < most - low and _key(old[-1 - high]) == _key(new[-1 - high]):
        high += 1
    return low, high


def _difference(old: Sequence[str], new: Sequence[str], low: int, high: int) -> tuple[list[str], int, int]:
    """Lines of a unified difference as HTML, and how many were removed and added."""
    a, b = ([_key(x) for x in text[low : len(text) - high]] for text in (old, new))
    matcher = SequenceMatcher(None, a, b, autojunk=max(len(a), len(b)) > 500)
    out: list[str] = []
    removed = added = 0
    shown = 0  # lines of `new` that are on the page or skipped with a note
    for kind, i, i2, j, j2 in matcher.get_opcodes():
        if kind == "equal":
            continue
        start = max(low + j - _CONTEXT, shown)
        out += _gap(start - shown) if start > shown else ()
        out += (f" {_cut(x)}\n" for x in new[start : low + j])
        out += (f"<span class=del>-{_cut(x)}</span>" for x in old[low + i : low + i2])
        out += (f"<span class=add>+{_cut(x)}</span>" for x in new[low + j : low + j2])
        removed, added, shown = removed + i2 - i, added + j2 - j, low + j2
        after = new[shown : shown + _CONTEXT]
        out += (f" {_cut(x)}\n" for x in after)
        shown += len(after)
    if out and shown < len(new):
        out += _gap(len(new) - shown)
    return out, removed, added


def _gap(lines: int) -> Iterator[str]:
    yield f"<span class=gap>... {lines} equal line{'s' if lines > 1 else ''}</span>"


def _cut(line: str) -> str:
    return escape(line if len(line) <= MAX_WIDTH else f"{line[:MAX_WIDTH]} ... {len(line) - MAX_WIDTH} more characters")
