"""The HTML around the sections: style for screen, phone and paper, and the script that draws the figures.

plotly.js is in the page once, compressed. Each figure is drawn for the screen, and once more as a picture (SVG) of the
width of a printed page, which is what printing shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape

from ...evidence import Provenance
from ...simulator.report_page import plotly_data
from .draw import Figure
from .marks import mark
from .missing import Missing

STYLE = """
:root { --ink: #222; --soft: #555; --line: #d5d5d5 }
* { box-sizing: border-box }
body { font: 15px/1.5 system-ui, 'DejaVu Sans', sans-serif; color: var(--ink); margin: 0 auto; max-width: 72em;
  padding: 1em 1.2em 4em; overflow-wrap: break-word }
h1 { font-size: 1.5em; line-height: 1.25; margin: .3em 0 .2em }
h2 { font-size: 1.25em; margin: 2.2em 0 .4em; padding-top: .5em; border-top: 2px solid var(--ink) }
h3 { font-size: 1.05em; margin: 1.5em 0 .3em }
p, ul, ol { max-width: 46em } li { margin: .25em 0 }
.task { color: var(--soft); margin-top: 0 }
.verdict { border: 3px solid var(--ink); padding: .8em 1.1em; margin: 1em 0; background: #fff }
.verdict .word { font-size: 1.9em; font-weight: 700; line-height: 1.2; margin: 0 }
.verdict.no-go { border-color: #D55E00 } .verdict.go { border-color: #009E73 }
.verdict.not-proven { border-color: #E69F00 }
.verdict p:last-child { margin-bottom: 0 }
nav { font-size: .93em; margin: 1em 0 } nav a { margin-right: 1em; white-space: nowrap; display: inline-block }
a { color: #005a91 }
.wide { overflow-x: auto; margin: .8em 0 }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .93em }
th, td { padding: .3em .65em; border-bottom: 1px solid var(--line); text-align: right; vertical-align: top }
th { background: #f2f2f2; font-weight: 600; vertical-align: bottom }
th.text, td.text { text-align: left } td.text { min-width: 7em }
tr.here td { background: #fdf3dc }
tr.total td { border-top: 2px solid var(--ink); font-weight: 600 }
.number { white-space: nowrap }
abbr.mark { display: inline-block; min-width: 1.25em; padding: 0 .2em; border: 1px solid #444; border-radius: 3px;
  font-size: .72em; line-height: 1.35; font-weight: 700; text-align: center; text-decoration: none; cursor: help;
  vertical-align: .12em }
abbr.measured { background: #009E73; color: #fff } abbr.simulated { background: #0072B2; color: #fff }
abbr.published { background: #56B4E9; color: #000 } abbr.datasheet { background: #F0E442; color: #000 }
abbr.assumed { background: #fff; color: #000; border-style: dashed }
ul.legend { list-style: none; padding: 0; font-size: .93em } ul.legend li { margin: .1em 0 }
figure { margin: 1em 0 1.6em; max-width: 100% }
figcaption { font-size: .93em; color: var(--soft); max-width: 50em }
figcaption b { color: var(--ink) }
.live { width: 100% } img.still { display: none; width: 100%; height: auto }
.gap { border-left: 5px solid #D55E00; background: #f7f7f7; padding: .5em .9em; max-width: 46em }
code { font: .92em ui-monospace, 'DejaVu Sans Mono', monospace; background: #f2f2f2; padding: .05em .25em;
  overflow-wrap: anywhere }
.status { font-weight: 700; white-space: nowrap }
footer { margin-top: 3em; border-top: 1px solid var(--line); font-size: .88em; color: var(--soft) }
@media (max-width: 600px) {
  body { font-size: 14px; padding: .6em .7em 3em }
  h1 { font-size: 1.25em } .verdict { padding: .6em .7em } .verdict .word { font-size: 1.5em }
  th, td { padding: .25em .4em } ul, ol { padding-left: 1.2em }
  .wide { background: linear-gradient(to left, #fff 40%, transparent) right / 40px 100% no-repeat local,
    linear-gradient(to left, rgba(0, 0, 0, .3), transparent) right / 14px 100% no-repeat scroll }
  table.stack thead { display: none } table.stack td { display: block; border: 0; padding: .1em 0 }
  table.stack tr { display: block; border-bottom: 1px solid var(--line); padding: .45em 0 }
  table.stack td:first-child { font-weight: 600 } table.stack .number { white-space: normal }
}
@page { size: A4; margin: 14mm 13mm }
@media print {
  body { font-size: 10pt; max-width: none; padding: 0 } nav { display: none }
  h2 { margin-top: 1.2em } h2, h3 { break-after: avoid } p, li { orphans: 3; widows: 3 }
  p, ul, ol, .gap { max-width: none }
  p, figure, .wide.short, tr, .gap, .verdict, ul.legend { break-inside: avoid }
  h2 + p, h3 + p { break-after: avoid } thead { display: table-header-group }
  .wide { overflow: visible } table { font-size: 8pt; width: 100% } th, td { padding: .2em .35em }
  td.text { min-width: 0 } .drawn .live { display: none } .drawn img.still { display: block }
  section.page { break-before: page } figcaption { max-width: none; break-before: avoid }
  * { -webkit-print-color-adjust: exact; print-color-adjust: exact }
}
"""

SCRIPT = """
const config = { responsive: true, displayModeBar: false };  // drag zooms, a double click goes back
const PAPER = 700;  // width of a printed figure in pixels
const phone = matchMedia('(max-width: 600px)');
async function library() {
  const raw = Uint8Array.from(atob(document.getElementById('plotly').textContent.trim()), c => c.charCodeAt(0));
  const text = await new Response(new Blob([raw]).stream().pipeThrough(new DecompressionStream('gzip'))).text();
  const script = document.createElement('script');
  script.textContent = text;
  document.head.append(script);
}
function merged(a, b) {
  if (a === null || b === null || typeof a !== 'object' || typeof b !== 'object' || Array.isArray(b)) return b;
  const found = { ...a };
  for (const k in b) found[k] = k in a ? merged(a[k], b[k]) : b[k];
  return found;
}
function fitted(f, small) {
  const narrow = small && f.narrow || {};
  const data = f.data.map((t, i) => merged(t, (narrow.data || {})[i] || {}));
  return structuredClone({ data, layout: merged(f.layout, narrow.layout || {}) });
}
async function draw(small) {
  for (const [name, f] of Object.entries(all)) {
    const now = fitted(f, small);
    await Plotly.react(document.querySelector('#figure-' + name + ' .live'), now.data, now.layout, config);
  }
}
async function stills() {
  for (const [name, f] of Object.entries(all)) {
    const now = fitted(f, false), box = document.getElementById('figure-' + name);
    const size = { width: PAPER, height: f.layout.height };
    box.querySelector('img.still').src = await Plotly.toImage({ data: now.data, layout: { ...now.layout, ...size } },
      { format: 'svg', ...size });
    box.classList.add('drawn');
  }
}
const all = JSON.parse(document.getElementById('figures').textContent);
(async () => {
  await library();
  await draw(phone.matches);
  phone.onchange = () => draw(phone.matches);
  await stills();
  document.body.dataset.ready = 'yes';
})().catch(e => {
  document.body.dataset.ready = 'no';
  document.getElementById('trouble').textContent = 'figures: ' + e;
});
"""


_SHORT = 7
"""Rows of a table that is not cut by the end of a printed page."""


class Book:
    """Figures of the page, numbered as they come."""

    def __init__(self) -> None:
        self.figures: dict[str, Figure] = {}

    def add(self, name: str, figure: Figure, title: str, said: str, *provenance: Provenance) -> str:
        """The place of a figure: its number, title, what it shows, and the letters of what is drawn."""
        self.figures[name] = figure
        letters = " ".join(mark(p) for p in sorted(set(provenance), key=int, reverse=True))
        return f"""<figure id="figure-{name}"><div class="live" style="min-height:{figure["layout"]["height"]}px"></div>
<img class="still" alt="{escape(title)}"><figcaption><b>Figure {len(self.figures)}. {escape(title)}.</b> {said}
Drawn numbers: {letters}</figcaption></figure>"""


def table(
    head: Sequence[tuple[str, bool]],
    rows: Iterable[Sequence[str]],
    here: Sequence[int] = (),
    total: bool = False,
    stack: bool = False,
) -> str:
    """A table of cells that are HTML already. The last cell of a row that has fewer reaches to the end.

    Args:
        head: headings, each with whether its column is text.
        here: rows that are shaded.
        total: whether the last row is a sum.
        stack: whether a phone shows cells of a row below each other; else the table scrolls there.
    """
    kinds = ["text" if words else "" for _, words in head]
    columns = "".join(f'<th class="{k}">{escape(c)}</th>' for (c, _), k in zip(head, kinds, strict=True))
    found = list(rows)
    lines = []
    for i, row in enumerate(found):
        cells = [f'<td class="{k}">{cell}</td>' for cell, k in zip(row, kinds, strict=False)]
        if len(row) < len(head):
            cells[-1] = f'<td class="text" colspan="{len(head) - len(row) + 1}">{row[-1]}</td>'
        name = "here" if i in here else "total" if total and i == len(found) - 1 else ""
        lines.append(f'<tr class="{name}">{"".join(cells)}</tr>')
    body = f"<thead><tr>{columns}</tr></thead><tbody>{''.join(lines)}</tbody>"
    short = " short" if len(found) <= _SHORT else ""
    return f'<div class="wide{short}"><table{" class=stack" if stack else ""}>{body}</table></div>'


def letter(m: Missing) -> str:
    """Behind the reason of what is missing, if it has numbers."""
    return "" if m.provenance is None else f" {mark(m.provenance)}"


def gap(m: Missing) -> str:
    """The sentence in place of what is missing."""
    why, command = escape(m.why[:1].upper() + m.why[1:]) + letter(m), escape(m.command)
    return f'<p class="gap"><b>Missing: {escape(m.what)}.</b> {why}. What makes it: <code>{command}</code></p>'


def page(title: str, body: str, figures: Mapping[str, Figure]) -> str:
    """The whole file."""
    drawings = json.dumps(figures, separators=(",", ":"), allow_nan=False).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title><style>{STYLE}</style></head><body>
{body}
<p id="trouble"></p>
<noscript><p class="gap"><b>Figures need JavaScript.</b> All sentences and tables are here.</p></noscript>
<script type="application/json" id="figures">{drawings}</script>
<script type="text/plain" id="plotly">{plotly_data()}</script>
<script>{SCRIPT}</script></body></html>
"""
