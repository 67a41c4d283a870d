"""Names of numbers and parts of a cost in plain words."""

from __future__ import annotations

import re
from textwrap import wrap

PARTS = {
    "rent": "rent",
    "capital": "hardware",
    "maintenance": "maintenance",
    "energy": "electricity",
    "storage": "storage",
    "margin": "provider's margin",
    "network": "network",
    "nre": "development (NRE)",
}
"""Parts of the cost of an image, in the order in which they are drawn."""

_NUMBERS = {
    "scenario.utilisation": "utilisation",
    "scenario.asic.volume": "cards that share the NRE",
    "scenario.asic.vendor_markup": "price of a card over its cost",
    "scenario.asic.cloud_markup": "rent over the owner's cost",
    "scenario.asic.host_price": "host's price, a card's share",
    "scenario.asic.host_power": "host's power, a card's share",
    "scenario.ownership.lifetime": "lifetime of the hardware",
    "scenario.ownership.interest": "interest",
    "scenario.ownership.maintenance": "maintenance",
    "scenario.ownership.electricity": "price of electricity",
    "scenario.ownership.pue": "PUE of the building",
    "scenario.ownership.spares": "spares",
    "scenario.loading.image": "bytes of an image",
    "scenario.rented.network": "price of the network",
    "scenario.rented.storage": "price of storage",
    "silicon.software": "software (NRE)",
    "silicon.memory": "price of LPDDR5X",
    "silicon.board": "price of the board",
    "silicon.chip_overhead": "chip's energy over its MACs",
    "silicon.layout": "share of the die that is filled",
    "silicon.idle": "power when idle",
    "silicon.cluster": "clustering of defects",
    "silicon.memory_energy": "energy of the memory",
}
_NODES = {
    "design": "design (NRE)",
    "masks": "mask set (NRE)",
    "wafer": "price of a wafer",
    "defects": "defect density",
    "mac_area": "area of a MAC",
    "sram_area": "area of SRAM",
    "lane_macs": "area of a vector lane",
    "phy_area": "area of a memory PHY",
    "fixed_area": "area of host interface, pads",
    "mac_energy": "energy of a MAC",
}


def of_number(name: str) -> str:
    """What an input of the economics is: `design (NRE), 7 nm` of `silicon.nodes.7.design`."""
    if name in _NUMBERS:
        return _NUMBERS[name]
    if found := re.fullmatch(r"silicon\.nodes\.(\w+)\.(\w+)", name):
        return f"{_NODES.get(found[2], found[2].replace('_', ' '))}, {found[1]} nm"
    if name.endswith(".error"):
        return "true cycles over the estimate"
    owner, _, rest = name.rpartition(".") if name.count(".") == 1 else name.partition(".")
    said = rest.replace("ownership.", "").replace(".", " ").replace("_", " ")
    return said if owner in ("scenario", "silicon") else f"{owner}: {said}"


def wrapped(text: str, width: int = 22) -> str:
    """Text with `<br>` between words where a line would be longer than `width`."""
    return "<br>".join(wrap(text, width, break_long_words=False, break_on_hyphens=False))
