"""A chip from its arch file: area, dies, yield, price of a card, NRE, power. Constants: configs/economics/silicon.json.

area = (MACs x area + lanes x area + SRAM x area + PHYs x area + fixed) / layout
die  = wafer / (dies a wafer x yield)
card = ((die + package + test) / assembly yield + memory + board) x vendor's markup + share of the host
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import DpuError
from ...evidence import Quantity, assumed, function
from ...ir.arch import Arch
from ..dram.params import load_dram
from .cost import Platform, Terms
from .inputs import Silicon
from .workload import ImageWork

_BITS = 64  # of one PHY as `phy_area` counts them


@function("dies_per_wafer", ("mm2", "mm", "mm", "mm"), "die/wafer")
def dies_per_wafer(area: Any, diameter: Any, edge: Any, scribe: Any) -> Any:
    """Square dies of `area` with a scribe line: pi (d/2)^2 / A - pi d / sqrt(2 A), d without the edge exclusion."""
    d = np.asarray(diameter) - 2 * np.asarray(edge)
    a = (np.sqrt(area) + scribe) ** 2
    return np.maximum(np.pi * (d / 2) ** 2 / a - np.pi * d / np.sqrt(2 * a), 0.0)


@function("yield_negative_binomial", ("mm2", "1/mm2", "1"), "1")
def negative_binomial(area: Any, defects: Any, cluster: Any) -> Any:
    """(1 + A D / alpha)^-alpha: defects in clusters."""
    return (1 + np.asarray(area) * defects / cluster) ** -np.asarray(cluster)


@function("yield_murphy", ("mm2", "1/mm2"), "1")
def murphy(area: Any, defects: Any) -> Any:
    """((1 - exp(-A D)) / (A D))^2: a triangular distribution of defect densities."""
    x = np.maximum(np.asarray(area) * defects, 1e-12)
    return (-np.expm1(-x) / x) ** 2


@function("yield_poisson", ("mm2", "1/mm2"), "1")
def poisson(area: Any, defects: Any) -> Any:
    """exp(-A D): defects that know nothing of each other."""
    return np.exp(-np.asarray(area) * defects)


def interface_bits(arch: Arch) -> int:
    """Width of the memory interface.

    Raises:
        DpuError: the arch's memory is none whose interface and price are known.
    """
    if arch.dram.model != "lpddr5x":
        raise DpuError(
            f"arch {arch.name}",
            f"field 'dram.model': value is '{arch.dram.model}', allowed: 'lpddr5x'",
            why="area and price of a chip are known for LPDDR5X only",
            hint="choose an arch with LPDDR5X, or describe the card that carries it in configs/card",
            code="E525",
        )
    return 16 * load_dram(arch.dram.parameters).number("channels")


def chip(arch: Arch, work: ImageWork, silicon: Silicon, terms: Terms) -> Platform:
    """The arch as a chip on a card at the scenario's node, doing the work of an image in its cycles.

    Raises:
        DpuError: no such node, a die that no scanner can expose, or a memory that has no price.
    """
    node_name = terms.scenario.asic.node
    if node_name not in silicon.nodes:
        raise DpuError(
            f"scenario {terms.scenario.name}",
            f"field 'asic.node': value is '{node_name}', allowed: {', '.join(silicon.nodes)}",
            hint="choose a node of configs/economics/silicon.json, or add one",
            code="E520",
        )
    node, name = silicon.nodes[node_name], arch.name

    def common(field: str) -> Quantity:
        q: Quantity = getattr(silicon, field).quantity(f"silicon.{field}")
        return q

    def of_node(field: str) -> Quantity:
        q: Quantity = getattr(node, field).quantity(f"silicon.nodes.{node_name}.{field}")
        return q

    def of_arch(value: float, unit: str, field: str) -> Quantity:
        return assumed(value, unit, f"arch file {name}: a design choice", f"{name}.arch.{field}")

    buffers = sum(getattr(arch.buffers, b).bytes for b in ("act", "wgt", "acc", "vbuf", "param"))
    macs = of_arch(arch.peak_macs_per_cycle, "MAC", "macs")
    sram = of_arch((arch.tiles * buffers + arch.l2_bytes) / 2**20, "MiB", "sram")
    lanes = of_arch(arch.tiles * arch.lanes, "MAC", "lanes")
    phys = of_arch(interface_bits(arch) / _BITS, "1", "phys_of_64_bits")
    blocks = {
        "macs": (macs * of_node("mac_area")).to("mm2"),
        "lanes": (lanes * of_node("lane_macs") * of_node("mac_area")).to("mm2"),
        "sram": (sram * of_node("sram_area")).to("mm2"),
        "phy": phys * of_node("phy_area"),
        "fixed": of_node("fixed_area"),
    }
    blocks = {k: q.called(f"{name}.area.{k}") if q.op else q for k, q in blocks.items()}
    area = blocks["macs"] + blocks["lanes"] + blocks["sram"] + blocks["phy"] + blocks["fixed"]
    area = (area / common("layout")).called(f"{name}.die_area", "(MACs + lanes + SRAM + PHY + fixed) / layout")
    reticle = common("reticle")
    if area.value > reticle.to("mm2").value:
        raise DpuError(
            f"arch {name}",
            f"die at {node_name} nm: value is {area.value:.0f} mm2, allowed: 0 to {reticle.to('mm2').value:g} mm2",
            why="a scanner exposes no larger field",
            hint="take fewer tiles, smaller scratchpads or a smaller node",
            code="E525",
        )
    dies = dies_per_wafer(area, common("wafer_diameter"), common("edge_exclusion"), common("scribe"))
    dies = dies.called(f"{name}.dies_per_wafer")
    good = negative_binomial(area, of_node("defects"), common("cluster")).called(f"{name}.die_yield")
    die = (of_node("wafer") / (dies * good)).called(f"{name}.cost_of_good_die", "wafer / (dies x yield)")
    package = common("package") + (common("package_area") * area).to("USD")
    packaged = ((die + common("test")).counted("die") + package) / common("assembly_yield")
    memory = (of_arch(arch.dram.bytes / 1e9, "GB", "memory") * common("memory")).to("USD")
    bom = (packaged + memory + common("board")).called(
        f"{name}.cost_of_card", "(die + test + package) / assembly_yield + memory + board"
    )
    plan = terms.asic
    card = (bom * plan["vendor_markup"]).called(f"{name}.price_of_card", "cost_of_card x vendor_markup")
    nre = (of_node("masks") + of_node("design") + common("software")).called(f"{name}.nre", "masks + design + software")

    dynamic = (work.executed * of_node("mac_energy")).to("J/image") * common("chip_overhead")
    dram = (work.dram_bytes * common("memory_energy")).to("J/image")
    energy = (dynamic + dram).called(f"{name}.chip_energy_per_image", "MACs x energy x overhead + DRAM bytes x energy")
    rate = (1 / work.seconds).counted("image").called(f"{name}.images_per_second", "1 / seconds of an image")
    chip_power = ((energy * rate).to("W") / common("conversion")).called(
        f"{name}.busy_card_power", "chip energy x rate / efficiency of conversion"
    )
    owned = terms.scenario.tenure == "owned"
    return Platform(
        name=name,
        title=f"{arch.tiles} x {arch.rows}x{arch.cols} at {arch.clock_hz / 1e6:g} MHz, {node_name} nm",
        kind="asic",
        rate=rate,
        busy=(chip_power + plan["host_power"]).called(f"{name}.busy_wall_power"),
        idle=(chip_power * common("idle") + plan["host_power"]).called(f"{name}.idle_wall_power"),
        latency=work.seconds,
        hardware=(card + plan["host_price"]).called(f"{name}.hardware", "price_of_card + share of the host"),
        owned=owned,
        margin=None if owned else plan["cloud_markup"],
        nre=nre,
        volume=plan["volume"],
        details={
            "die_area": area,
            **{f"area.{k}": q for k, q in blocks.items()},
            "dies_per_wafer": dies,
            "die_yield": good,
            "cost_of_good_die": die,
            "cost_of_card": bom,
            "price_of_card": card,
            "chip_energy_per_image": energy,
        },
    )
