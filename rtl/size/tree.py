"""The units that a DPU is made of, with their number, by engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from ...ir.arch import Arch
from ..model import TOP, parameters
from .memories import Macro
from .yosys import MEMORY, PAIR, Array, Flow, Unit

ENGINES = {
    "dpu_tile": "monitor",
    "dpu_sequencer": "sequencer",
    "dpu_load": "LOAD",
    "dpu_store": "STORE",
    "dpu_mxu": "MXU control",
    "dpu_mxu_array": "MXU array",
    "dpu_vpu": "VPU control",
    "dpu_vpu_lanes": "VPU lanes",
    "dpu_vpu_tables": "VPU lanes",
    "dpu_vpu_reduce": "VPU reductions",
    "dpu_buffers": "buffers",
}
"""The module with which an engine begins; what is below belongs to it, too."""

HOST, TILE = "host", "dpu_tile"

LAWS: dict[str, tuple[int, int, int]] = {"dpu_vpu_tables": (1, 2, 1)}
"""Modules on which Yosys 0.70 runs out of its 4 GiB where there are many lanes: sized with two numbers of lanes and
continued from there as a + b L^n. `dpu_vpu_tables` has a read port a lane."""

Size = Callable[[str, Mapping[str, int], Flow], Unit]


class Placed(NamedTuple):
    """A unit, how often it is there, and whose it is."""

    engine: str
    unit: Unit
    number: int


class Tree(NamedTuple):
    """The host side and one tile: units, banks of the buffers by engine, DSPs that are no unit's cells."""

    units: list[Placed]
    banks: dict[str, list[Macro]]
    pairs: dict[str, int]


def top_parameters(arch: Arch) -> dict[str, int]:
    """Those of `dpu_top`; the digest of the arch, a constant that a register gives, is left at zero."""
    return {k: int(str(v)) for k, v in parameters(arch).items() if k != "ArchDigest"}


def walk(arch: Arch, flow: Flow, size: Size, packed: bool) -> Tree:
    """The units of an arch, of one of its tiles. `size` gives each, synthesised or kept.

    `packed`: two columns of the array on one DSP, `dpu_top`'s parameter `Packed`.
    """
    units: dict[tuple[str, str, tuple[tuple[str, int], ...]], Placed] = {}
    banks: Counter[tuple[str, int, int]] = Counter()
    pairs: Counter[str] = Counter()

    def visit(module: str, given: Mapping[str, int], engine: str, count: int) -> None:
        engine = ENGINES.get(module, engine)
        key = (engine, module, tuple(sorted(given.items())))
        if module in LAWS and given["Lanes"] > LAWS[module][1]:
            unit = _continued(size, module, given, flow)
        else:
            unit = size(module, given, flow)
        known = units.get(key)
        units[key] = Placed(engine, unit, count + (known.number if known else 0))
        for child in unit.children:
            times = 1 if child.module == TILE else child.count * count
            if child.module == MEMORY:
                banks[engine, child.parameters["Words"], child.parameters["Width"]] += times
            elif child.module == PAIR:
                pairs[engine] += times
            else:
                visit(child.module, child.parameters, engine, times)

    visit(TOP, {**top_parameters(arch), "Packed": int(packed)}, HOST, 1)
    by_engine: dict[str, list[Macro]] = {}
    for (engine, words, bits), n in sorted(banks.items()):
        by_engine.setdefault(engine, []).append(Macro(words, bits, n))
    return Tree(list(units.values()), by_engine, dict(pairs))


def _continued(size: Size, module: str, given: Mapping[str, int], flow: Flow) -> Unit:
    """A unit of L lanes from those of two smaller numbers, by the module's law.

    There are as many black boxes a lane, and a buffer has as many words a lane, so that its banks are the same.
    """
    first, second, power = LAWS[module]
    lanes = given["Lanes"]

    def smaller(n: int) -> Unit:
        words = {"Words": given["Words"] * n // lanes} if "Words" in given else {}
        return size(module, {**given, **words, "Lanes": n}, flow)

    def at(a: int, b: int, power: int) -> int:
        x, y, z = (float(n) ** power for n in (first, second, lanes))
        return max(0, round(a + (z - x) / (y - x) * (b - a)))

    one, two = smaller(first), smaller(second)
    cells = {c: at(one.cells.get(c, 0), two.cells.get(c, 0), power) for c in sorted({*one.cells, *two.cells})}
    times = tuple(
        c.model_copy(update={"count": at(c.count, d.count, 1)}) for c, d in zip(one.children, two.children, strict=True)
    )
    return two.model_copy(update={"parameters": dict(given), "cells": cells, "children": times})


def arrays(placed: Placed) -> list[Array]:
    """The memories of a placed unit that the gate flow left, as often as they are there."""
    return [a for a in placed.unit.arrays for _ in range(placed.number)]
