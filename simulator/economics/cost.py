"""The cost of an image, by one formula for GPU, FPGA card and chip, rented or owned.

    cost of an image = (rent + capital + maintenance + energy + storage + margin) / (rate x utilisation)
                       + network + NRE / images of the whole volume

the bracket per hour and device. Capital is (device + share of the host) x (1 + spares) x annuity(interest, lifetime);
energy is the mean power at the wall, u x busy + (1 - u) x idle, times PUE and the price of electricity. Who rents pays
rent, storage and network; capital, maintenance and energy are in the rent. NRE is that of a chip only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...evidence import Quantity, function, total
from .inputs import Accelerator, Scenario
from .schema import Stated

KINDS = {"gpu": "GPU", "fpga": "FPGA card", "asic": "chip"}


class MissingField(Exception):
    """A field that a device's file does not state and the scenario needs; its text is the field's name."""


@function("annuity", ("1/year", "year"), "1/year")
def annuity(interest: Any, years: Any) -> Any:
    """What a loan of 1 costs each year: r / (1 - (1 + r)^-n), and 1 / n without interest."""
    safe = np.where(np.asarray(interest) < 1e-9, 1e-9, interest)
    return np.where(np.asarray(interest) < 1e-9, 1 / np.asarray(years), safe / -np.expm1(-years * np.log1p(safe)))


@dataclass(frozen=True)
class Terms:
    """The numbers of a scenario as evidence, made once so that all platforms share them."""

    scenario: Scenario
    utilisation: Quantity
    ownership: dict[str, Quantity]
    rented: dict[str, Quantity]
    asic: dict[str, Quantity]
    loading: dict[str, Quantity]

    @classmethod
    def of(cls, scenario: Scenario) -> Terms:
        """Named `scenario.<field>`."""

        def part(name: str, *skip: str) -> dict[str, Quantity]:
            group = getattr(scenario, name)
            fields = [f for f in type(group).model_fields if f not in skip]
            return {f: getattr(group, f).quantity(f"scenario.{name}.{f}") for f in fields}

        return cls(
            scenario=scenario,
            utilisation=scenario.utilisation.quantity("scenario.utilisation"),
            ownership=part("ownership"),
            rented=part("rented"),
            asic=part("asic", "node"),
            loading=part("loading"),
        )


@dataclass(frozen=True)
class Platform:
    """One device as the formula sees it. Powers are at the wall with the host's share; prices are a device's."""

    name: str
    title: str
    kind: str
    rate: Quantity  # image/s
    busy: Quantity  # W
    idle: Quantity  # W
    latency: Quantity | None = None  # s
    rent: Quantity | None = None  # USD/h
    hardware: Quantity | None = None  # USD, device and share of the host
    owned: bool = False  # by whoever runs it, or by the provider that rents it out
    margin: Quantity | None = None  # the provider's price over its cost
    nre: Quantity | None = None  # USD
    volume: Quantity | None = None  # devices that share the NRE
    details: dict[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True)
class Cost:
    """What the formula gives for one platform. `parts` add up to `image`."""

    platform: Platform
    hourly: dict[str, Quantity]
    parts: dict[str, Quantity]
    image: Quantity  # USD/image, with NRE
    marginal: Quantity  # USD/image, without
    thousand: Quantity
    life: Quantity  # image/device
    energy: Quantity  # J/image at the wall, idle time included
    busy_energy: Quantity  # J/image at the wall, while busy
    rate_per_dollar: Quantity | None  # image/(s*USD)
    first_image: Quantity | None  # s

    def outputs(self) -> dict[str, Quantity]:
        """Every output under `<platform>.<output>`."""
        name = self.platform.name
        found = {
            "cost_per_image": self.image,
            "cost_per_1000_images": self.thousand,
            "marginal_cost_per_image": self.marginal,
            "energy_per_image": self.energy,
            "busy_energy_per_image": self.busy_energy,
            "images_per_second": self.platform.rate,
            "images_per_device": self.life,
            **{f"cost_per_image.{k}": q for k, q in self.parts.items()},
            **{f"cost_per_hour.{k}": q for k, q in self.hourly.items()},
            **self.platform.details,
        }
        optional = {
            "images_per_second_per_hardware_dollar": self.rate_per_dollar,
            "time_to_first_image": self.first_image,
            "latency": self.platform.latency,
            "hardware": self.platform.hardware,
            "nre": self.platform.nre,
        }
        found |= {k: q for k, q in optional.items() if q is not None}
        return {f"{name}.{k}": q for k, q in found.items()}


def from_accelerator(
    a: Accelerator, terms: Terms, dpu: Quantity | None = None, measured: Mapping[str, Quantity] | None = None
) -> Platform:
    """A GPU, or a card whose rate is one over the DPU's seconds an image.

    `measured` are numbers of a results file that take the place of stated fields, by the field's name.

    Raises:
        MissingField: the scenario needs a price that the file does not state.
    """
    scenario, name = terms.scenario, a.name
    found = dict(measured or {})

    def stated(field_name: str) -> Quantity | None:
        if field_name in found:
            return found[field_name]
        number: Stated | None = getattr(a, field_name)
        return None if number is None else number.quantity(f"{name}.{field_name}")

    def needed(field_name: str) -> Quantity:
        number = stated(field_name)
        if number is None:
            raise MissingField(field_name)
        return number

    if dpu is not None:
        rate = (1 / dpu).counted("image").called(f"{name}.images_per_second", "1 / seconds of an image")
        latency: Quantity | None = dpu
    else:
        under_load = scenario.rate == "online" and a.online is not None and "offline" not in found
        rate, latency = needed("online" if under_load else "offline"), stated("latency")
    host_power = needed("host_power")
    wall = None if "busy_power" in found else stated("wall_energy")
    busy = needed("busy_power") + host_power if wall is None else (wall * rate).to("W")
    idle = needed("idle_power") + host_power
    rent: Quantity | None = None
    if scenario.tenure != "owned":
        offer: Stated | None = getattr(a.rental, scenario.tenure)
        if offer is None:
            raise MissingField(f"rental.{scenario.tenure}")
        rent = offer.quantity(f"{name}.rental.{scenario.tenure}")
    else:
        needed("purchase")
    hardware = None
    if (purchase := stated("purchase")) is not None:
        hardware = (purchase + needed("host_price")).called(f"{name}.hardware", "purchase + share of the host")
    return Platform(
        name=name,
        title=a.title,
        kind=a.kind,
        rate=rate,
        busy=busy.called(f"{name}.busy_wall_power"),
        idle=idle.called(f"{name}.idle_wall_power"),
        latency=latency,
        rent=rent,
        hardware=hardware,
        owned=scenario.tenure == "owned",
    )


def cost(p: Platform, terms: Terms) -> Cost:
    """The formula at the head of this file."""
    u, own = terms.utilisation, terms.ownership
    busy_images = (p.rate * u).to("image/h").called(f"{p.name}.images_per_hour", "rate x utilisation")
    idle_share = 1 - u
    power = (p.busy * u + p.idle * idle_share).called(f"{p.name}.mean_wall_power", "u x busy + (1 - u) x idle")
    hourly: dict[str, Quantity] = {}
    if p.rent is not None:
        hourly["rent"] = p.rent
    else:
        assert p.hardware is not None
        capital = p.hardware * (own["spares"] + 1)
        hourly["capital"] = (capital * annuity(own["interest"], own["lifetime"])).to("USD/h")
        hourly["maintenance"] = (capital * own["maintenance"]).to("USD/h")
        hourly["energy"] = (power * own["pue"] * own["electricity"]).to("USD/h")
    extra = own if p.owned else terms.rented
    hourly["storage"] = extra["storage"].to("USD/h")
    if p.margin is not None:
        hourly["margin"] = total(hourly[k] for k in ("capital", "maintenance", "energy")) * (p.margin - 1)
    hourly = {k: q.called(f"{p.name}.cost_per_hour.{k}") if q.op else q for k, q in hourly.items()}
    parts = {k: (q / busy_images).to("USD/image") for k, q in hourly.items()}
    parts["network"] = (terms.loading["image"] * extra["network"]).to("USD/image")
    marginal = total(parts.values()).called(f"{p.name}.marginal_cost_per_image", " + ".join(parts))
    life = (busy_images * own["lifetime"]).counted("1/device").to("image/device")
    life = life.called(f"{p.name}.images_per_device", "images an hour x lifetime")
    if p.nre is not None and p.volume is not None:
        parts["nre"] = (p.nre / (life * p.volume)).to("USD/image")
    parts = {k: q.called(f"{p.name}.cost_per_image.{k}") for k, q in parts.items()}
    image = total(parts.values()).called(f"{p.name}.cost_per_image", " + ".join(parts))
    thousand = image.to("USD/(1000 image)").called(f"{p.name}.cost_per_1000_images", "1,000 x cost_per_image")
    first = None
    if p.latency is not None:
        weights = terms.loading["weights_gpu" if p.kind == "gpu" else "weights_dpu"]
        first = (weights / terms.loading["rate"]).to("s") + p.latency.to("s")
    return Cost(
        platform=p,
        hourly=hourly,
        parts=parts,
        image=image,
        marginal=marginal,
        thousand=thousand,
        life=life,
        energy=(power / busy_images).to("J/image").called(f"{p.name}.energy_per_image", "mean wall power / images"),
        busy_energy=(p.busy / p.rate).to("J/image").called(f"{p.name}.busy_energy_per_image", "busy power / rate"),
        rate_per_dollar=None if p.hardware is None else p.rate.to("image/s") / p.hardware,
        first_image=first,
    )
