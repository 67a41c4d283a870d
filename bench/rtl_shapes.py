"""Small DPUs for random programs on the RTL: shapes, and the part of each scratchpad that random words use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from ..ir.arch import Arch, load_arch
from ..ir.isa import Buffer

PART = {"act": 600, "wgt": 520, "acc": 300, "vbuf": 420, "param": 1500}
"""Words: few, so that random words meet; no powers of two. `dpu_tiny` has more, and uses those around the border of two
banks; the other shapes have no others."""

DEEP = {"act": 900, "wgt": 384, "acc": 500, "vbuf": 300, "param": 2048}
"""Other depths: some powers of two times three, PARAM a power of two."""

_BANKS = {"act": 2, "wgt": 2, "acc": 4, "vbuf": 2, "param": 2}


def shape(
    name: str,
    tiles: int,
    cols: int,
    lanes: int,
    words: Mapping[str, int] = PART,
    banks: Mapping[str, int] = _BANKS,
    queues: Mapping[str, int] | None = None,
) -> Arch:
    """`dpu_tiny` with other tiles, array, lanes and scratchpads. `words` a scratchpad."""
    tiny = load_arch("dpu_tiny").model_dump(mode="json")
    unit = {"act": cols, "wgt": cols, "acc": 4 * cols, "vbuf": 2 * cols, "param": 4}
    buffers = {b: {"bytes": n * unit[b], "banks": banks[b]} for b, n in words.items()}
    given = {"name": name, "tiles": tiles, "rows": cols, "cols": cols, "lanes": lanes, "buffers": buffers}
    return Arch.model_validate({**tiny, **given, **({"queues": queues} if queues else {})})


def _large() -> Arch:
    """One tile with the array of `dpu_f2`, scratchpads of an eighth, and `dpu_tiny`'s memory."""
    f2, tiny = (load_arch(n).model_dump(mode="json") for n in ("dpu_f2", "dpu_tiny"))
    buffers = {
        b: {"bytes": x["bytes"] // (1 if b == "param" else 8), "banks": x["banks"]} for b, x in f2["buffers"].items()
    }
    return Arch.model_validate({**f2, "name": "one_of_64", "tiles": 1, "buffers": buffers, "dram": tiny["dram"]})


@cache
def card(name: str) -> Arch:
    """A shape by its name in tests and campaigns.

    Raises:
        KeyError: there is none.
    """
    single = dict.fromkeys(_BANKS, 1)
    odd = {"act": 3, "wgt": 5, "acc": 3, "vbuf": 4, "param": 1}
    match name:
        case "one":
            return load_arch("dpu_tiny")  # shares its library with tests/runtime
        case "three":
            return shape("three_of_8", 3, 8, 4)
        case "two":
            return shape("two_of_16", 2, 16, 8)
        case "small":  # the least array, one bank a scratchpad, queues of two
            return shape("one_of_4", 1, 4, 2, DEEP, single, {"load": 2, "mxu": 2, "vpu": 2, "store": 2})
        case "full":  # as many lanes as columns, banks of unequal size
            return shape("one_of_16", 1, 16, 16, DEEP, odd)
        case "thin":  # one lane
            return shape("two_of_4", 2, 4, 1, PART, odd, {"load": 3, "mxu": 1, "vpu": 5, "store": 1})
        case "pair":  # the cheapest that has tokens between tiles, beats within a row, and scratchpads in banks
            return shape("two_of_4_by_2", 2, 4, 2)
        case "large":
            return _large()
    raise KeyError(name)


@cache
def used(a: Arch) -> dict[str, int]:
    """Words of each scratchpad that random words use: all that the shape has, of `dpu_tiny` and `large` `PART`."""
    return {b: n if n <= max(PART[b], DEEP[b]) else PART[b] for b, n in a.words.items()}


@cache
def part(a: Arch) -> Arch:
    """A DPU as large as what random words use of `a`."""
    return shape(a.name, a.tiles, a.cols, a.lanes, used(a))


@cache
def origin(a: Arch) -> dict[int, int]:
    """First word of that part, by `Buffer`."""
    return {Buffer[b.upper()]: (a.words[b] - n) // 2 for b, n in used(a).items()}
