"""The result of `dpubench attention` as text and as a page in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ...files import atomic_write
from .cost import Cost
from .study import Row, Study

_COLUMNS = """- **keys in use**: median over queries of 1 / sum a^2, a the softmax. **rounded to 0**: its share
  that 8 bits lose.
- **int8 q, k, v** is the SQNR with exact probabilities; **8 bit** and **15 bit** that of the device as a whole; **of it
  P** the share of the noise that comes from the probabilities (and what follows them: tables, float32, float16).
- **P alone** is the SQNR of the 8-bit probabilities by themselves, **expected** what the formula of
  `bench/attention/study.py` gives for errors that do not depend on the values. Near-equal keys do better: the error
  that all have in common is multiplied by values whose mean was taken away.
- The signal is what attention adds to the mean of the values, which passes through unharmed."""
_TITLES = ["scores", "keys", "keys in use", "rounded to 0", "int8 q, k, v"]
_TITLES += ["8 bit", "of it P", "P alone", "expected", "15 bit", "of it P", "gain"]


def save(found: Study, path: Path) -> None:
    """Write the result as JSON, and the page beside it."""
    found.save(path)
    with atomic_write(path.with_suffix(".md")) as temporary:
        temporary.write_text(page(found), encoding="utf-8")


def page(found: Study) -> str:
    """All of it."""
    parts = [
        "# Attention: 8- or 15-bit probabilities?",
        f"Made by `{found.command}`; do not edit. Provenance: {found.provenance} ({found.about}). Blocks of keys are "
        f"those of {found.arch}. SQNR in dB.",
        "\n".join(conclusions(found)),
        "## Synthetic scores",
        _table([r for r in found.rows if r.source == "synthetic"]),
    ]
    if real := [r for r in found.rows if r.source != "synthetic"]:
        parts += ["## Real weights", _sources(real), _table(real)]
    parts += ["## Columns", _COLUMNS]
    if found.costs:
        parts += ["## What 15 bits cost", _costs(found.costs)]
    return "\n\n".join(parts) + "\n"


def conclusions(found: Study) -> Iterator[str]:
    """The worst of each kind first, then costs, in one line each."""
    kinds = {
        "synthetic scores": [r for r in found.rows if r.source == "synthetic"],
        "real weights": [r for r in found.rows if r.source != "synthetic"],
    }
    for kind, rows in kinds.items():
        if not rows:
            continue
        lost = max(rows, key=lambda r: r.gain)
        worst = min(rows, key=lambda r: r.width(8).sqnr_db)
        yield (
            f"- On {kind} 8 bits lose up to {lost.gain:.1f} dB to 15 ({_at(lost)}: {lost.width(8).sqnr_db:.1f} instead "
            f"of {lost.width(15).sqnr_db:.1f} dB), and the lowest SQNR of an attention is {worst.width(8).sqnr_db:.1f} "
            f"dB ({_at(worst)}; {worst.width(15).sqnr_db:.1f} with 15)."
        )
        small = sum(r.gain < 1 for r in rows)
        yield f"- In {small} of {len(rows)} rows of {kind} it is less than 1 dB."
    for eight, fifteen in _pairs(found.costs):
        more = fifteen.unet_cycles / eight.unet_cycles - 1
        yield (
            f"- 15 bits take {eight.arch} {more:+.1%} cycles a UNet forward of full-size SDXL "
            f"({fifteen.image_seconds:.2f} instead of {eight.image_seconds:.2f} s an image; {eight.provenance})."
        )


def text(found: Study) -> str:
    """For people."""
    lines = [f"{'scores':<62}{'keys':>6}{'in use':>9}{'q, k, v':>9}{'8 bit':>8}{'of it P':>9}{'15 bit':>8}{'gain':>7}"]
    for r in found.rows:
        w = r.width(8)
        lines.append(
            f"{r.scores[-61:]:<62}{r.keys:>6}{r.effective_keys:>9.1f}{r.operands_db:>9.1f}{w.sqnr_db:>8.1f}{w.share:>9.0%}"
            f"{r.width(15).sqnr_db:>8.1f}{r.gain:>7.1f}"
        )
    return "\n".join([*lines, *conclusions(found)])


def _at(row: Row) -> str:
    return f"{row.scores}, {row.keys:,} keys"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _table(rows: Sequence[Row]) -> str:
    lines = [_line(_TITLES), "|---" + "|--:" * (len(_TITLES) - 1) + "|"]
    for r in rows:
        e, f = r.width(8), r.width(15)
        cells = [r.scores, f"{r.keys:,}", f"{r.effective_keys:,.1f}", f"{r.lost:.1%}", f"{r.operands_db:.1f}"]
        cells += [f"{e.sqnr_db:.1f}", f"{e.share:.0%}", f"{e.probabilities_db:.1f}", f"{e.expected_db:.1f}"]
        lines.append(_line([*cells, f"{f.sqnr_db:.1f}", f"{f.share:.0%}", f"{r.gain:.1f}"]))
    return "\n".join(lines)


def _sources(rows: Sequence[Row]) -> str:
    names = sorted({r.source for r in rows})
    return (
        "Trained weights, seeded noise: " + "; ".join(names) + ". Rows with more keys are those of the larger pictures."
    )


def _pairs(costs: Sequence[Cost]) -> Iterator[tuple[Cost, Cost]]:
    for eight in costs:
        if eight.bits == 8:
            yield eight, next(c for c in costs if (c.arch, c.bits) == (eight.arch, 15))


def _costs(costs: Sequence[Cost]) -> str:
    lines = [
        f"Full-size SDXL, 1024x1024 with guidance, 20 steps; {costs[0].provenance}: {costs[0].source}. A second",
        "product of P and V is half of an attention's MACs more.",
        "",
        "| arch | UNet Mcycles | with 15 bits | more | attention's | more | image | with 15 bits |",
        "|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for e, f in _pairs(costs):
        unet, own = f.unet_cycles / e.unet_cycles - 1, f.attention_cycles / e.attention_cycles - 1
        cells = [e.arch, f"{e.unet_cycles / 1e6:.1f}", f"{f.unet_cycles / 1e6:.1f}", f"{unet:+.1%}"]
        cells += [f"{e.attention_cycles / 1e6:.1f}", f"{own:+.1%}"]
        lines.append(_line([*cells, f"{e.image_seconds:.2f} s", f"{f.image_seconds:.2f} s"]))
    return "\n".join(lines)
