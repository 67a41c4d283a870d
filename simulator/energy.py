"""Energy of a timed entry point: counts of the executed words times published or assumed constants.

    energy = sum(count x constant) + leakage power x time

The counts are simulated. The constants are those of standard cells and SRAM at one node (`NODES`), the DRAM's by its
kind; each carries unit, source and provenance (`evidence.py`), and a result is as weak as its weakest input: assumed.
No arch file states a node, so the node is an argument: 45 nm has published arithmetic, 7 nm is from memory throughout.
Nothing here describes an FPGA, whose fabric takes several times more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from math import exp, log
from typing import Literal

from pydantic import BaseModel, ConfigDict

from ..evidence import Provenance, Quantity, assumed, derived, simulated
from ..ir.arch import Arch
from ..ir.isa import Buffer
from .traffic import BUFFERS

Group = Literal["MAC", "VPU", "SRAM", "DRAM", "leakage"]
GROUPS: tuple[Group, ...] = ("MAC", "VPU", "SRAM", "DRAM", "leakage")

NOT_COUNTED = (
    "clock tree, control, instruction fetch, wires between scratchpads and engines",
    "DRAM standby, refresh and row activation beyond the pJ a bit of its kind",
    "host, board, power conversion",
    "data-dependent switching: every operation costs the same",
)

WITH_L2 = ("what the shared L2 saves: reads that it serves are priced as reads of DRAM, an upper bound",)

_HOROWITZ = "Horowitz, Computing's Energy Problem, ISSCC 2014, 45 nm"
_RECALLED = "Horowitz, ISSCC 2014, 45 nm, cache table; from memory, not re-checked"
_JOUPPI = "Jouppi et al., Ten Lessons, ISCA 2021, table 2, 7 nm; from memory, not re-checked"
_REGISTERS = "stillwater-sc/esim, switching-energy tables (an estimate)"
_PICO = 1e-12


def published(value: float, unit: str, source: str) -> Quantity:
    """A number that somebody else reports."""
    return Quantity(value=value, unit=unit, provenance=Provenance.PUBLISHED, source=source)


class Node(BaseModel):
    """Constants of one process node. `sram` are (bytes of a bank, pJ a byte); between them a power law."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    nm: int
    mac: Quantity  # int8 multiplication and int32 addition
    registers: Quantity  # the array's, for each MAC
    multiply: Quantity  # float32
    add: Quantity
    sram: tuple[tuple[int, float], ...]
    sram_source: str
    sram_leakage: Quantity  # W a MiB
    cell_leakage: Quantity  # W a MAC unit
    lane_leakage: Quantity  # W a vector lane


NODES: dict[int, Node] = {
    45: Node(
        nm=45,
        mac=published(0.2 + 0.1, "pJ", f"{_HOROWITZ}: int8 multiplication 0.2, int32 addition 0.1"),
        registers=assumed(0.3, "pJ", f"40 bits at 8 fJ, twice the 28 nm value of {_REGISTERS}"),
        multiply=published(3.7, "pJ", f"{_HOROWITZ}: float32 multiplication"),
        add=published(0.9, "pJ", f"{_HOROWITZ}: float32 addition"),
        sram=((8 << 10, 10 / 8), (32 << 10, 20 / 8), (1 << 20, 100 / 8)),
        sram_source=f"{_RECALLED}: 64 bits of 8 KB 10, 32 KB 20, 1 MB 100 pJ",
        sram_leakage=assumed(20e-3, "W/MiB", "no source: the order of a low-leakage bit cell at 45 nm"),
        cell_leakage=assumed(2e-6, "W", "no source: a MAC unit of about 500 gates at 45 nm"),
        lane_leakage=assumed(40e-6, "W", "no source: 20 MAC units"),
    ),
    7: Node(
        nm=7,
        mac=assumed(0.07 + 0.03, "pJ", f"{_JOUPPI}: int8 multiplication 0.07, int32 addition 0.03"),
        registers=assumed(0.05, "pJ", f"40 bits at 1.3 fJ, {_REGISTERS}"),
        multiply=assumed(1.31, "pJ", f"{_JOUPPI}: float32 multiplication"),
        add=assumed(0.38, "pJ", f"{_JOUPPI}: float32 addition"),
        sram=((8 << 10, 7.5 / 8), (32 << 10, 8.5 / 8), (1 << 20, 14 / 8)),
        sram_source=f"{_JOUPPI}: 64 bits of 8 KB 7.5, 32 KB 8.5, 1 MB 14 pJ",
        sram_leakage=assumed(10e-3, "W/MiB", "no source: half of the 45 nm value"),
        cell_leakage=assumed(0.5e-6, "W", "no source: a quarter of the 45 nm value"),
        lane_leakage=assumed(10e-6, "W", "no source: 20 MAC units"),
    ),
}
DEFAULT_NODE = 45


def dram_constant(arch: Arch) -> Quantity:
    """pJ a bit between tile and DRAM cell, by the kind that the arch names."""
    kind = f"{arch.dram.model} {arch.dram.kind}".lower()
    if "hbm2" in kind:
        return published(6.0, "pJ/bit", "micron.com, ultra-bandwidth solutions: HBM2E 6.0 pJ/bit")
    if "lpddr5" in kind:
        return assumed(5.0, "pJ/bit", "LPDDR5X with PHY 4 to 6 pJ/bit; from memory, not re-checked")
    return assumed(5.0, "pJ/bit", f"the arch names no DRAM ('{arch.dram.kind}'): the middle of 3 to 8 pJ/bit")


def sram_constant(node: Node, arch: Arch, buffer: Buffer) -> Quantity:
    """pJ a byte of a scratchpad, by the size of one bank."""
    if buffer == Buffer.TABLE:
        size = 4 << 10
    else:
        b = getattr(arch.buffers, buffer.name.lower())
        size = b.bytes // b.banks
    sizes = [s for s, _ in node.sram]
    i = min(max(bisect_right(sizes, size) - 1, 0), len(sizes) - 2)
    (s0, e0), (s1, e1) = node.sram[i], node.sram[i + 1]
    value = exp(log(e0) + (log(e1) - log(e0)) * (log(max(size, sizes[0])) - log(s0)) / (log(s1) - log(s0)))
    return assumed(value, "pJ/byte", f"{node.sram_source}; a bank of {size / 1024:g} KiB")


class Counts(BaseModel):
    """What is paid for, of an entry or of one operation."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    macs: int = 0
    multiplications: int = 0
    additions: int = 0
    sram: dict[str, int] = {}  # buffer -> bytes read and written
    dram_bytes: int = 0  # in whole beats, read and written


class Part(BaseModel):
    """One term. `energy.inputs` are the count (or the time) and its constants."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    group: Group
    name: str
    energy: Quantity


class Energy(BaseModel):
    """Of one entry point, one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    node_nm: int
    parts: tuple[Part, ...]
    total: Quantity
    not_counted: tuple[str, ...] = NOT_COUNTED

    def by_group(self) -> dict[str, float]:
        """Joules of each group; they add up to the total."""
        return {g: sum(p.energy.value for p in self.parts if p.group == g) for g in GROUPS}


class Prices:
    """The constants for an arch at a node, in joules."""

    def __init__(self, arch: Arch, node_nm: int = DEFAULT_NODE) -> None:
        self.arch, self.node = arch, NODES[node_nm]
        self.dram = dram_constant(arch)
        self.sram = {b.name: sram_constant(self.node, arch, b) for b in BUFFERS}

    def dynamic(self, c: Counts) -> float:
        """Joules of the counts, without leakage."""
        n = self.node
        pico = c.macs * (n.mac.value + n.registers.value)
        pico += c.multiplications * n.multiply.value + c.additions * n.add.value
        pico += sum(size * self.sram[b].value for b, size in c.sram.items())
        return (pico + 8 * c.dram_bytes * self.dram.value) * _PICO

    def energy(self, c: Counts, seconds: float, source: str) -> Energy:
        """The split of an entry that took `seconds`; `source` names it in the counts."""
        n = self.node
        parts: list[Part] = []

        def add(group: Group, name: str, count: float, unit: str, price: Quantity, factor: float = 1) -> None:
            counted = simulated(count, unit, source)
            energy = derived(
                count * factor * price.value * _PICO, "J", counted, price, source=f"{name}: count x constant"
            )
            parts.append(Part(group=group, name=name, energy=energy))

        add("MAC", "MAC arithmetic", c.macs, "MAC", n.mac)
        add("MAC", "array registers", c.macs, "MAC", n.registers)
        add("VPU", "VPU multiplications", c.multiplications, "operation", n.multiply)
        add("VPU", "VPU additions", c.additions, "operation", n.add)
        for b in BUFFERS:
            add("SRAM", b.name, c.sram.get(b.name, 0), "byte", self.sram[b.name])
        add("DRAM", "DRAM", c.dram_bytes, "byte", self.dram, 8)
        parts += self._leakage(seconds, source)
        inputs = tuple(p.energy for p in parts)
        total = derived(sum(q.value for q in inputs), "J", *inputs, source=f"{source}, constants at {n.nm} nm")
        left_out = NOT_COUNTED + (WITH_L2 if self.arch.l2_bytes else ())
        total = total.model_copy(update={"inputs": ()})
        return Energy(node_nm=n.nm, parts=tuple(parts), total=total, not_counted=left_out)

    def _leakage(self, seconds: float, source: str) -> list[Part]:
        a, n = self.arch, self.node
        time = simulated(seconds, "s", source)
        sizes: Mapping[str, int] = {b: getattr(a.buffers, b).bytes for b in ("act", "wgt", "acc", "vbuf", "param")}
        units = (
            ("scratchpads", a.tiles * sum(sizes.values()) / (1 << 20), n.sram_leakage),
            ("array", a.peak_macs_per_cycle, n.cell_leakage),
            ("lanes", a.tiles * a.lanes, n.lane_leakage),
        )
        return [
            Part(
                group="leakage",
                name=f"leakage, {name}",
                energy=derived(
                    count * price.value * seconds, "J", time, price, source=f"{name}: {count:g} x leakage x time"
                ),
            )
            for name, count, price in units
        ]
