"""The configuration files of the economics: accelerators (GPU or FPGA card), scenarios, silicon.

docs/economics.md describes the fields.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import PositiveInt

from ...errors import DpuError
from .schema import (
    Area,
    AreaPrice,
    BitEnergy,
    BytePrice,
    ByteRate,
    Bytes,
    Cluster,
    Config,
    Defects,
    Devices,
    DiePrice,
    EnergyPrice,
    Factor,
    HourlyPrice,
    ImageBytes,
    ImageEnergy,
    LaneMacs,
    Length,
    MacArea,
    MacEnergy,
    Power,
    Price,
    Rate,
    Ratio,
    Seconds,
    Share,
    SramArea,
    Stated,
    Utilisation,
    WaferPrice,
    YearlyShare,
    Years,
    load,
)

ACCELERATOR, SCENARIO, SILICON = "dpu.accelerator/1", "dpu.economics/1", "dpu.silicon/1"

Tenure = Literal["on_demand", "committed", "owned"]


class Task(Config):
    """What one image is: the experiment that every platform runs."""

    model: str
    resolution: PositiveInt
    steps: PositiveInt
    guidance: bool
    scheduler: str

    @property
    def text(self) -> str:
        """In one line."""
        guided = "guided" if self.guidance else "no guidance"
        return f"{self.model}, {self.resolution}x{self.resolution}, {self.steps} {self.scheduler} steps, {guided}"


class Rental(Config):
    """Prices of one device's share of an instance."""

    on_demand: HourlyPrice | None = None
    committed: HourlyPrice | None = None


class Accelerator(Config):
    """One device with its share of a host. `archs` are the DPUs that it can carry; then it states no rates."""

    format: Literal["dpu.accelerator/1"]
    name: str
    title: str
    kind: Literal["gpu", "fpga"]
    archs: tuple[str, ...] = ()
    task: Task | None = None
    precision: str = ""
    offline: Rate | None = None  # throughput with all requests at hand
    online: Rate | None = None  # throughput under a latency bound
    latency: Seconds | None = None  # of one image alone, or under load as its source says
    wall_energy: ImageEnergy | None = None  # whole system while busy; else busy_power and host_power
    busy_power: Power | None = None  # the device alone
    idle_power: Power
    host_power: Power  # the host's share, always on; 0 where wall_energy includes it
    host_price: Price
    rental: Rental = Rental()
    purchase: Price | None = None
    fid: Stated | None = None
    clip: Stated | None = None
    notes: tuple[str, ...] = ()


class Ownership(Config):
    """What owning a device costs beside its price."""

    lifetime: Years
    interest: YearlyShare
    pue: Ratio
    electricity: EnergyPrice
    spares: Share
    maintenance: YearlyShare
    network: BytePrice  # of what leaves the data centre
    storage: HourlyPrice


class Rented(Config):
    """What renting costs beside the price of the instance."""

    network: BytePrice  # of what leaves the data centre
    storage: HourlyPrice


class AsicPlan(Config):
    """How the chip would be made and sold."""

    node: str
    volume: Devices
    vendor_markup: Ratio  # price of the card over its cost
    cloud_markup: Ratio  # hourly price over the owner's cost, where the scenario rents
    host_price: Price
    host_power: Power


class Loading(Config):
    """Bytes that move: weights from storage to a cold device, images to whoever asked for them."""

    image: ImageBytes
    weights_gpu: Bytes
    weights_dpu: Bytes
    rate: ByteRate


class Scenario(Config):
    """Where images are made: by whom, how busy, at what prices."""

    format: Literal["dpu.economics/1"]
    name: str
    title: str
    description: str
    tenure: Tenure
    rate: Literal["offline", "online"]
    utilisation: Utilisation
    ownership: Ownership
    rented: Rented
    asic: AsicPlan
    loading: Loading


class Node(Config):
    """One process node: prices, defects, areas, energy. NRE is masks, design and the first engineering wafers."""

    wafer: WaferPrice
    masks: Price
    design: Price
    defects: Defects
    mac_area: MacArea
    sram_area: SramArea
    lane_macs: LaneMacs  # area of a vector lane, in MACs
    phy_area: Area  # LPDDR PHY and controller, of 64 bits
    fixed_area: Area  # PCIe, management, pads
    mac_energy: MacEnergy  # an 8-bit MAC with its overhead inside the unit


class Silicon(Config):
    """Nodes and what is common to them."""

    format: Literal["dpu.silicon/1"]
    wafer_diameter: Length
    edge_exclusion: Length
    scribe: Length
    reticle: Area  # no die is larger
    cluster: Cluster  # alpha of the negative binomial
    layout: Share  # of the die that blocks fill
    package: Price
    package_area: AreaPrice
    test: DiePrice
    assembly_yield: Share
    board: Price
    memory: BytePrice
    memory_energy: BitEnergy
    chip_overhead: Factor  # energy of the chip over that of its MAC units
    conversion: Share  # efficiency from the wall to the chip
    idle: Share  # of the busy power
    software: Price  # NRE that does not depend on the node
    nodes: dict[str, Node]


def folder() -> Path:
    """Where the files that ship with the package are."""
    return Path(str(resources.files("dpu.configs")))


def shipped(kind: str) -> list[str]:
    """Names of the files of a folder of `configs`, sorted; those that begin with `_` are templates."""
    return sorted(p.stem for p in (folder() / kind).glob("*.json") if not p.stem.startswith("_"))


def find(kind: str, name_or_path: str) -> Path:
    """The path of a shipped file by name, or of any file by path.

    Raises:
        DpuError: there is neither.
    """
    path = Path(name_or_path)
    if path.suffix != ".json":
        path = folder() / kind / f"{name_or_path}.json"
    if not path.is_file():
        known = [n for n in shipped(kind) if n != "silicon"]
        raise DpuError(
            name_or_path, f"no such file in configs/{kind}", hint=f"one of {', '.join(known)}, or a path", code="E106"
        )
    return path


def accelerator(name_or_path: str, kind: str = "gpu") -> Accelerator:
    """A GPU, or with `kind="card"` a card that carries a DPU.

    Raises:
        DpuError: no such file, or a field is wrong.
    """
    path = find(kind, name_or_path)
    found = load(path, Accelerator, ACCELERATOR)
    rates = (found.task, found.offline)
    if not found.archs and None in rates:
        missing = "task" if found.task is None else "offline"
        raise DpuError(
            str(path),
            f"field '{missing}': is missing",
            why="a device that carries no DPU states its rates",
            code="E520",
        )
    if found.wall_energy is None and found.busy_power is None:
        raise DpuError(
            str(path), "field 'busy_power': is missing, allowed: 0 to 100000 W, or a wall_energy", code="E520"
        )
    return found


def scenario(name_or_path: str) -> Scenario:
    """A scenario.

    Raises:
        DpuError: no such file, or a field is wrong.
    """
    return load(find("economics", name_or_path), Scenario, SCENARIO)


def silicon(name_or_path: str = "silicon") -> Silicon:
    """The constants of making chips.

    Raises:
        DpuError: no such file, or a field is wrong.
    """
    return load(find("economics", name_or_path), Silicon, SILICON)


def card_for(arch: str) -> Accelerator | None:
    """The shipped card that carries an arch; none for a chip of its own."""
    for name in shipped("card"):
        found = accelerator(name, "card")
        if arch in found.archs:
            return found
    return None
