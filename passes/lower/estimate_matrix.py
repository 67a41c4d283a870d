"""Segments of convolutions, for estimates: the templates of `conv.py`."""

from __future__ import annotations

from ...ir.arch import Arch
from ...ir.isa import RED_COLUMNS, Op2, Operand, pack
from ..int4 import run_bytes
from ..tiling import (
    Blocks,
    Rect,
    Slowest,
    cdiv,
    conv_blocks,
    rectangles,
    reduction_step,
    slowest_tile,
    unit_ranges,
)
from .estimate_linear import Panels, timed
from .estimate_shapes import ConvShape
from .estimate_words import (
    ACC,
    ALL,
    BLOCK,
    COL,
    INT4,
    ITEM,
    NONE,
    PAIR,
    VEC16,
    VEC32,
    At,
    Builder,
    Slot,
    pitch,
)


def conv_plan(s: ConvShape, where: str, arch: Arch) -> tuple[Blocks, tuple[int, int]]:
    """Blocks of a convolution and the grid of pixels that its rectangles cut, as `conv.plan_conv`.

    Raises:
        DpuError: E230, one pixel does not fit.
    """
    c = arch.cols
    cts, nt = tuple(cdiv(k, c) for k in s.widths), cdiv(s.n, c)
    kh, kw = s.kernel
    more = (s.planes, reduction_step(arch, s.bits))
    if s.upsample:
        return conv_blocks(where, cts, 4, 3, 1, s.size[1], nt, arch, *more), s.size
    return conv_blocks(where, cts, kh * kw, max(kh, kw), s.stride, s.out[1], nt, arch, *more), s.out


def _slowest(s: ConvShape, blocks: Blocks, grid: tuple[int, int], arch: Arch) -> Slowest:
    return slowest_tile(s.samples, grid, arch.tiles, blocks.rows, arch.rows)


def conv_parts(s: ConvShape, where: str, arch: Arch) -> int:
    """Partials of a convolution's column statistics in one sample."""
    blocks, grid = conv_plan(s, where, arch)
    return _slowest(s, blocks, grid, arch).all_rectangles * (4 if s.upsample else 1)


def conv(e: Builder, s: ConvShape, where: str) -> None:
    """Write a convolution as its slowest tile runs it."""
    blocks, grid = conv_plan(s, where, e.arch)
    worst = _slowest(s, blocks, grid, e.arch)
    tile = worst.tile
    e.program.tiles = worst.all_rectangles / worst.rectangles  # each rectangle reads all weights
    ranges = unit_ranges(s.samples, grid[0] * grid[1], e.arch.tiles, worst.grain)[tile]
    first = ranges[0][0]
    units = [(b, *ranges[0]) for b in range(s.samples)] if s.samples > 1 else [(0, *r) for r in ranges]
    made: dict[tuple[int, ...], int] = {}
    mains: dict[tuple[int, int], Panels] = {}
    inputs: list[Slot] = [-1] * len(s.widths)
    phases = 4 if s.upsample else 1
    halo = grid[1] + 1 if s.kernel != (1, 1) else 0
    block, end = 0, -1
    for number, (sample, lo, hi) in enumerate(units):
        rects = rectangles(lo, hi, grid[1], blocks.rows)
        edges = [tile > 0 and r.y * grid[1] + r.x < first + halo for r in rects]
        keys = [(r.ny, r.nx, *_pads(s, r), int(edge)) for r, edge in zip(rects, edges, strict=True)]
        for i, ends, extra, window in timed(keys):
            rect, key = rects[i], keys[i]
            if key not in made:
                for k, width in enumerate(s.widths):
                    inputs[k] = _input(e, s, rect, key[2:6], k, width, inputs[k], edges[i])
                made[key] = e.end()
            if key[:2] not in mains:
                mains[rect.ny, rect.nx] = _panels(e, s, blocks, rect, inputs)
            a = rect.y * grid[1] + rect.x - first
            at = At(block, number, sample, (a, a + rect.pixels))
            e.step(made[key], 1, at, 1, (a - halo, a + rect.pixels + halo))
            if extra:
                e.mark(0, ends, extra, window, at)
            e.panels(mains[rect.ny, rect.nx] * phases, at)
            if end < 0:
                e.release(e.program.blocked)
                end = e.end()
            e.step(end, 1, at)
            block += 1


def _extent(s: ConvShape, rect: Rect) -> tuple[int, int]:
    """Rows and columns of input pixels under a rectangle."""
    halo = (3, 3) if s.upsample else s.kernel
    return (rect.ny - 1) * s.stride + halo[0], (rect.nx - 1) * s.stride + halo[1]


def _pads(s: ConvShape, rect: Rect) -> tuple[int, int, int, int]:
    """Cells outside of the image: left, right, top, bottom."""
    y0, x0 = rect.y * s.stride + s.origin[0], rect.x * s.stride + s.origin[1]
    rows, columns = _extent(s, rect)
    return max(0, -x0), max(0, x0 + columns - s.size[1]), max(0, -y0), max(0, y0 + rows - s.size[0])


def _input(
    e: Builder, s: ConvShape, rect: Rect, pads: tuple[int, int, int, int], role: int, width: int, slot: Slot, edge: bool
) -> Slot:
    rows, columns = _extent(s, rect)
    words = s.planes * rows * columns * cdiv(width, e.c)
    if slot < 0:
        slot = e.slot("act", words, BLOCK)
    else:
        e.again(slot, "act", words)
    left, right, top, bottom = pads
    p = pitch(s.planes * width, 1)
    dims = 1 + s.planes  # columns, rows, and planes where there are two
    n = (columns - left - right, rows - top - bottom, s.planes)[:dims]
    strides = (p, s.size[1] * p, width)[:dims]
    e.load(slot, "act", width, n, strides, role=role, mode=ALL if edge or s.upsample else 0, pad=pads)
    return slot


def _panels(e: Builder, s: ConvShape, b: Blocks, rect: Rect, inputs: list[Slot]) -> Panels:
    """Panels of one phase."""
    nt = cdiv(s.n, e.c)
    full, rest = divmod(nt, b.panel)
    tail = (s.n - 1) % e.c + 1
    runs = [(b.panel, full, e.c), (rest, 1, tail)] if rest else [(b.panel, full - 1, e.c), (b.panel, 1, tail)]
    if not rest and tail == e.c:
        runs = [(b.panel, full, tail)]
    return [
        (_product(e, s, b, rect, g, inputs), _epilogue(e, s, rect, g, last), times) for g, times, last in runs if times
    ]


def _product(e: Builder, s: ConvShape, b: Blocks, rect: Rect, g: int, inputs: list[Slot]) -> int:
    """As `ConvLowering._product`."""
    c, r, pixels, named = e.c, e.arch.rows, rect.pixels, e.program.named
    tile, taps = r * c, s.kernel[0] * s.kernel[1]
    if "product" in named:
        e.again(named["product"], "acc", s.planes * g * pixels)
    else:
        named["product"] = e.slot("acc", s.planes * g * pixels, ITEM)
    acc = named["product"]
    started = False
    for width, source in zip(s.widths, inputs, strict=True):
        ct = cdiv(width, c)
        for c0 in range(0, ct, b.chunk):
            nc = min(b.chunk, ct - c0)
            wgt = e.slot("wgt", g * taps * nc * r)
            if s.bits == 4:
                size = run_bytes(ct, r, c)
                e.load(wgt, "wgt", run_bytes(nc, r, c), (taps, g), (size, taps * size), fmt=INT4)
            elif nc == ct:
                e.load(wgt, "wgt", g * taps * ct * tile)
            else:
                e.load(wgt, "wgt", nc * tile, (taps, g), (ct * tile, taps * ct * tile))
            for _ in range(s.planes):
                e.product(source, wgt, acc, pixels, taps * nc, g, accumulate=started)
            started = True
    return e.end()


def _epilogue(e: Builder, s: ConvShape, rect: Rect, g: int, tail: int) -> int:
    """As `ConvLowering._epilogue`."""
    c, pixels, acc = e.c, rect.pixels, e.program.named["product"]
    valid = (g - 1) * c + tail
    product, kind = (e.combine(acc, pixels, g, tail), VEC32) if s.planes > 1 else (acc, ACC)
    vectors = e.slot("param", 2 * g * c)
    e.load(vectors, "param", 4 * g * c, (2,), (pitch(cdiv(s.n, c) * c, 4),))
    reads, m2, op2, source_b = [product, vectors], 0, 0, NONE
    if s.temb:
        temb = e.slot("param", g * c)
        e.load(temb, "param", 4 * valid, role=2, mode=ALL)
        reads.append(temb)
        m2 = pack(0, COL)
    p = pitch(s.n, 2)
    step = 2 if s.upsample else 1
    strides = (step * p, step * s.out[1] * p)
    if s.residual:
        res = e.slot("vbuf", pixels * g)
        e.load(res, "vbuf", 2 * valid, (rect.nx, rect.ny), strides, role=3)
        reads.append(res)
        op2, source_b = pack(Op2.ADD, Operand.ELEM), VEC16
    d = e.slot("vbuf", pixels * g)
    red, into = 0, [d]
    stats = -1
    if s.stats:
        stats = e.slot("param", 2 * g * c)
        red, into = PAIR | RED_COLUMNS, [d, stats]
    e.vec(reads, into, pixels, g, tail, kind, VEC16, m1=pack(COL, COL), m2=m2, op2=op2, b=source_b, red=red)
    e.store(d, "vbuf", 2 * valid, (rect.nx, rect.ny), strides, role=0)
    if stats >= 0:
        e.store(stats, "param", 4 * valid, (2,), (4 * s.n,), role=1)
    e.frees.append(acc)
    e.free_at[-1] = len(e.frees)
    return e.end()
