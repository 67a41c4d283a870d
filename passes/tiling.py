"""How an operation's rows are cut: over tiles, over the two streams, into blocks that fit the scratchpads.

Rows (tokens, pixels) are split, never columns: LayerNorm and per-token scales stay local to a tile, and three tiles
cost no padding. A convolution's pixels are split between image rows where that keeps the array no longer: a part of a
row is a block of its own, of at least as many cycles a weight tile as the array has rows. The two streams are the two
guidance images, or the two halves of a tile's rows when there is one image. Column statistics are one partial for each
block, so these cuts are part of a program's numerics (docs/numerics.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from itertools import pairwise

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.numerics import W4_GROUP

MAX_PARTIAL_ROWS = 1024  # rows of one column-statistics partial


def cdiv(a: int, b: int) -> int:
    """a / b rounded up."""
    return -(-a // b)


def balanced(n: int, parts: int) -> list[tuple[int, int]]:
    """[0, n) cut into `parts` contiguous ranges whose sizes differ by at most one, longest first."""
    size, extra = divmod(n, parts)
    edges = [0]
    for i in range(parts):
        edges.append(edges[-1] + size + (i < extra))
    return list(pairwise(edges))


@dataclass(frozen=True)
class Unit:
    """Rows [lo, hi) of sample `b` on `tile`, worked on by `stream`."""

    tile: int
    stream: int
    b: int
    lo: int
    hi: int


def units(samples: int, tokens: int, tiles: int, grain: int = 1) -> list[list[Unit]]:
    """Groups of units that run side by side, one a tile, in program order: sample by sample, or half by half.

    They are cut at multiples of `grain` tokens, of which there is a whole number.
    """
    ranges = unit_ranges(samples, tokens, tiles, grain)
    if samples > 1:
        return [[Unit(t, b % 2, b, *r) for t, (r,) in enumerate(ranges)] for b in range(samples)]
    halves: list[list[Unit]] = [[], []]
    for t, cut in enumerate(ranges):
        for s, (lo, hi) in enumerate(cut):
            halves[s].append(Unit(t, s, 0, lo, hi))
    return [h for h in halves if h]


def unit_ranges(samples: int, tokens: int, tiles: int, grain: int = 1) -> list[list[tuple[int, int]]]:
    """Of each tile that has any, the rows of the units of one sample."""
    shares = [r for r in balanced(tokens // grain, tiles) if r[1] > r[0]]
    if samples > 1:
        return [[(lo * grain, hi * grain)] for lo, hi in shares]
    halves = [[(lo + a, lo + z) for a, z in balanced(hi - lo, 2) if z > a] for lo, hi in shares]
    return [[(lo * grain, hi * grain) for lo, hi in cut] for cut in halves]


def row_blocks(unit: Unit, rows: int) -> list[tuple[int, int]]:
    """The unit's rows in blocks of at most `rows`, as equal as possible."""
    n = unit.hi - unit.lo
    return [(unit.lo + a, unit.lo + z) for a, z in balanced(n, cdiv(n, rows))]


@dataclass(frozen=True)
class Rect:
    """Pixels (y .. y+ny-1) x (x .. x+nx-1)."""

    y: int
    x: int
    ny: int
    nx: int

    @property
    def pixels(self) -> int:
        return self.ny * self.nx


def rectangles(lo: int, hi: int, width: int, pixels: int) -> list[Rect]:
    """Pixels [lo, hi) of an image as rectangles of at most `pixels`: a part of a row, or some full rows."""
    rects: list[Rect] = []
    while lo < hi:
        y, x = divmod(lo, width)
        if x == 0 and hi - lo >= width and pixels >= width:
            full = (hi - lo) // width
            count = cdiv(full, cdiv(full, pixels // width))
            rects.append(Rect(y, 0, count, width))
            lo += count * width
        else:
            end = min(hi, (y + 1) * width)
            n = cdiv(end - lo, cdiv(end - lo, pixels))
            rects.append(Rect(y, x, 1, n))
            lo += n
    return rects


def rectangle_sizes(lo: int, hi: int, width: int, most: int) -> list[tuple[int, int]]:
    """What `rectangles` cuts, by size: (pixels, how many)."""
    found: dict[int, int] = {}

    def add(n: int, times: int = 1) -> None:
        left = n
        while left > 0:
            part = cdiv(left, cdiv(left, most))
            found[part] = found.get(part, 0) + times
            left -= part

    head = min(-lo % width, hi - lo)
    if head:
        add(head)
    full = (hi - lo - head) // width
    rest = hi - lo - head - full * width
    if full and most >= width:
        left = full
        while left > 0:
            count = cdiv(left, cdiv(left, most // width))
            found[count * width] = found.get(count * width, 0) + 1
            left -= count
    elif full:
        add(width, full)
    if rest:
        add(rest)
    return list(found.items())


@dataclass(frozen=True)
class Slowest:
    """The tile whose rectangles keep the array longest: cycles a weight tile, its rectangles, those of all tiles, of
    one sample. Its units are cut at multiples of `grain` pixels."""

    tile: int
    cycles: int
    rectangles: int
    all_rectangles: int
    grain: int


@cache
def slowest_tile(samples: int, grid: tuple[int, int], tiles: int, rows: int, height: int) -> Slowest:
    """How the pixels of a grid (height, width) are best cut: between image rows, unless the array takes longer so.

    Rectangles are of at most `rows` pixels; the array has `height` rows. Many convolutions share these numbers.
    """
    by_row, by_pixel = (_slowest(samples, grid, tiles, rows, height, grain) for grain in (grid[1], 1))
    return by_row if by_row.cycles <= by_pixel.cycles else by_pixel


def _slowest(samples: int, grid: tuple[int, int], tiles: int, rows: int, height: int, grain: int) -> Slowest:
    worst, total = Slowest(0, -1, 0, 0, grain), 0
    seen: dict[tuple[tuple[int, int], ...], tuple[int, int]] = {}
    for tile, cut in enumerate(unit_ranges(samples, grid[0] * grid[1], tiles, grain)):
        key = tuple((lo % grid[1], hi - lo) for lo, hi in cut)
        if key not in seen:
            parts = [p for lo, hi in cut for p in rectangle_sizes(lo, hi, grid[1], rows)]
            seen[key] = (sum(max(n, height) * times for n, times in parts), sum(times for _, times in parts))
        cycles, count = seen[key]
        total += count
        if cycles > worst.cycles:
            worst = Slowest(tile, cycles, count, 0, grain)
    return replace(worst, all_rectangles=total)


def part_index(samples: int, tokens: int, tiles: int, grain: int = 1) -> list[Unit]:
    """Units in the order in which a tensor's column-statistics partials are numbered: sample, tile, stream."""
    flat = [u for group in units(samples, tokens, tiles, grain) for u in group]
    return sorted(flat, key=lambda u: (u.b, u.tile, u.lo))


def reduction_step(arch: Arch, bits: int) -> int:
    """A LOAD of a part of the reduction begins at a multiple of so many tiles: one of int4 weights with a group."""
    return max(1, W4_GROUP // arch.rows) if bits == 4 else 1


def _need(ok: bool, where: str, what: str, arch: Arch) -> None:
    if not ok:
        raise DpuError(
            where,
            what,
            why=f"one row must fit the scratchpads of arch '{arch.name}'",
            hint="use an arch with larger buffers",
            code="E230",
        )


@dataclass(frozen=True)
class Blocks:
    """Sizes of a matrix operation's blocks: `rows` of a block, `panel` column tiles at a time, `sub` rows of a
    prologue pass, `chunk` reduction tiles of one weight load."""

    rows: int
    panel: int
    sub: int
    chunk: int


def _chunk(where: str, what: str, most: int, lines: int, step: int, arch: Arch) -> int:
    """Reduction tiles of a weight panel that are loaded at once: all, `most`, or a multiple of `step`.

    All are halved until they fit a third of WGT; each takes `lines` words of it.

    Raises:
        DpuError: the fewest do not fit.
    """
    room = arch.words["wgt"] // 3
    chunk = most
    while chunk * lines > room:
        _need(chunk > 1, where, f"a weight panel of {what}", arch)
        chunk = cdiv(chunk, 2)
    if chunk < most:
        chunk = max(step, chunk // step * step)
    _need(chunk * lines <= room, where, f"an int4 panel of {what}", arch)
    return chunk


def vector_bound(arch: Arch) -> bool:
    """Whether the lanes take longer for the exponentials of a block of scores, of 8 bits, than the array for the two
    products with it, each a cycle a row and column tile."""
    return cdiv(arch.cols, arch.lanes) > 2


def longest_product(arch: Arch, kind: str) -> int:
    """Cycles that a product of a linear's section takes at most, if it is longer than that of one group.

    Where `weave_attention` runs it between those of an attention, the next scores must not wait for it: what the vector
    unit takes for a block of scores in a quarter of ACC. GEGLU stands beside no attention.
    """
    return arch.words["acc"] // 4 * cdiv(arch.cols, arch.lanes) if vector_bound(arch) and kind != "geglu" else 1 << 60


ACT_PARTS = 3


def act_parts(rows: int, line: int, arch: Arch) -> list[tuple[int, int]]:
    """The rows of a linear's block, of `line` words each, in ACT: one buffer, or three of at most a seventh of it each.

    Two blocks of three sevenths fit in parts, wherever the ring begins.
    """
    return balanced(rows, 1 if rows * line <= arch.words["act"] // 3 else ACT_PARTS)


def linear_blocks(
    where: str, kt: int, nt: int, rows: int, group: int, arch: Arch, longest: int, planes: int = 1, step: int = 1
) -> Blocks:
    """Blocks of a linear: `kt` reduction tiles, `nt` column tiles, at most `rows` rows, panels in multiples of `group`
    whose product takes at most `longest` cycles.

    Each scratchpad is used by at most: the block at work, the next block's prologue, and what drains. Of `planes` 2,
    products and their epilogue take twice the room. A part of the reduction is a multiple of `step` tiles.

    Raises:
        DpuError: one row does not fit.
    """
    w = arch.words
    sub = min(rows, w["vbuf"] // 8 // kt)
    wide = planes * group
    limit, most = (
        min(rows, MAX_PARTIAL_ROWS, room // (planes * kt), w["vbuf"] // 8 // wide, w["acc"] // 4 // wide)
        for room in (w["act"] // 3, w["act"] * 3 // 7)
    )
    if limit >= 1 and most == rows >= ACT_PARTS * arch.rows:
        limit = rows  # all in one block: weights come once
    _need(sub >= 1 and limit >= 1, where, f"{kt} reduction tiles of {arch.cols} channels", arch)
    limit = min(limit, w["param"] // 32)
    chunk = _chunk(where, f"{group} column tiles", kt, arch.rows * group, step, arch)
    panel = group
    while (
        panel + group <= nt
        and (panel + group) * limit <= min(w["vbuf"] // 5, w["acc"] // 4) // planes
        and (panel + group) * kt * arch.rows <= w["wgt"] // 3
        and (panel + group) * arch.cols * 2 <= w["param"] // 32
        and (panel + group) * limit * kt <= longest
    ):
        panel += group
    return Blocks(limit, panel, sub, chunk)


def conv_blocks(
    where: str,
    cts: tuple[int, ...],
    taps: int,
    kernel: int,
    stride: int,
    width: int,
    nt: int,
    arch: Arch,
    planes: int = 1,
    step: int = 1,
) -> Blocks:
    """Blocks of a convolution over images `width` pixels wide; `cts` are the channel tiles of each source.

    `planes` and `step` as in `linear_blocks`.

    Raises:
        DpuError: one pixel's receptive field does not fit.
    """
    w = arch.words
    ct = sum(cts)
    limit = min(MAX_PARTIAL_ROWS, w["vbuf"] // 8 // planes, w["acc"] // 4 // planes)

    def input_words(pixels: int) -> int:
        ny, nx = (pixels // width, width) if pixels >= width else (1, pixels)
        return ((ny - 1) * stride + kernel) * ((nx - 1) * stride + kernel) * planes * ct

    while limit > 1 and input_words(limit) > w["act"] // 3:
        limit = limit - width if limit > width else cdiv(limit, 2)
        limit = max(limit, 1)
    _need(input_words(1) <= w["act"] // 3, where, f"{ct} channel tiles under a {kernel}x{kernel} kernel", arch)
    chunk = _chunk(where, f"{taps} taps", max(cts), taps * arch.rows, step, arch)
    panel = 1
    while (
        panel < nt
        and (panel + 1) * limit <= min(w["vbuf"] // 5, w["acc"] // 4) // planes
        and (panel + 1) * ct * taps * arch.rows <= w["wgt"] // 3
        and (panel + 1) * arch.cols * 2 <= w["param"] // 32
    ):
        panel += 1
    return Blocks(limit, panel, limit, chunk)
