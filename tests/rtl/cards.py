"""Small DPUs for whole programs: shapes, their libraries, and the part of each scratchpad that random words use."""

from __future__ import annotations

from functools import cache

from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import Buffer

PART = {"act": 600, "wgt": 520, "acc": 300, "vbuf": 420, "param": 1500}
"""Words: few, so that random words meet; no powers of two. `dpu_tiny` has more, and uses those around the border of two
banks; the other shapes have no others."""


def shape(name: str, tiles: int, cols: int, lanes: int) -> Arch:
    tiny = load_arch("dpu_tiny").model_dump(mode="json")
    unit = {"act": cols, "wgt": cols, "acc": 4 * cols, "vbuf": 2 * cols, "param": 4}
    buffers = {b: {"bytes": n * unit[b], "banks": 4 if b == "acc" else 2} for b, n in PART.items()}
    given = {"name": name, "tiles": tiles, "rows": cols, "cols": cols, "lanes": lanes, "buffers": buffers}
    return Arch.model_validate({**tiny, **given})


def large() -> Arch:
    """One tile with the array of `dpu_f2`, scratchpads of an eighth, and `dpu_tiny`'s memory."""
    f2, tiny = (load_arch(n).model_dump(mode="json") for n in ("dpu_f2", "dpu_tiny"))
    buffers = {
        b: {"bytes": x["bytes"] // (1 if b == "param" else 8), "banks": x["banks"]} for b, x in f2["buffers"].items()
    }
    return Arch.model_validate({**f2, "name": "one_of_64", "tiles": 1, "buffers": buffers, "dram": tiny["dram"]})


@cache
def card(name: str) -> Arch:
    match name:
        case "one":
            return load_arch("dpu_tiny")  # shares its library with tests/runtime
        case "three":
            return shape("three_of_8", 3, 8, 4)
        case "two":
            return shape("two_of_16", 2, 16, 8)
        case "large":
            return large()
    raise KeyError(name)


def part(a: Arch) -> Arch:
    """A DPU as large as what random words use of `a`."""
    return shape(a.name, a.tiles, a.cols, a.lanes)


def origin(a: Arch) -> dict[Buffer, int]:
    """First word of that part."""
    return {Buffer[b.upper()]: (a.words[b] - n) // 2 for b, n in PART.items()}
