"""Parameter files of DRAM: what they hold, with a source for each number, and the integers that the model runs on."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from importlib import resources
from math import ceil, gcd, lcm
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ...errors import DpuError
from ...ir.cost import BEAT_BYTES, L2_LATENCY, L2_LINE, L2_SLICE_BYTES, L2_SLICES, L2_WAYS

NS = Fraction(1, 1_000_000_000)
MAX_UNITS_PER_SECOND = 10**13  # so that a day of units fits 64 bits

Names = tuple[str, ...]

_ORGANISATION: Names = ("channels", "bank_groups", "banks", "access_bytes", "page_bytes", "rows")
_MAPPING: Names = ("interleave_bytes", "bank_stripe", "order", "bank_xor", "channel_hash")
_TIMING: Names = (
    *("tBL", "tRL", "tWL", "tRCDRD", "tRCDWR", "tRP", "tRAS", "tRC", "tRTP", "tWR", "tRRD_S", "tRRD_L", "tFAW"),
    *("tCCD_S", "tCCD_L", "tWTR_S", "tWTR_L", "tTURN", "tREFI", "tRFC", "tPBR2PBR", "tPBR2ACT"),
)
_CONTROLLER: Names = (
    *("refresh", "refresh_banks", "refresh_stagger", "window", "batch", "reorder"),
    *("request_path", "response_path"),
)
_PORT: Names = ("axi_burst_bytes", "outstanding", "buffer_bytes")
_BUS: Names = ("command_buses", "act_clocks")
NAMES = ("clock", *_ORGANISATION, *_MAPPING, *_TIMING, *_CONTROLLER, *_PORT, *_BUS)
"""Every parameter that a file must have."""

ORDERS = ("row:bank:column:channel", "bank:row:column:channel")
_POWERS: Names = (
    *("channels", "bank_groups", "banks", "access_bytes", "page_bytes", "interleave_bytes", "bank_stripe"),
    "axi_burst_bytes",
)


class Parameter(BaseModel):
    """One number and where it comes from. `assumed` in the source: nobody has shown it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    value: int | float | str | bool
    unit: Literal["", "B", "Hz", "clocks", "ns"] = ""
    source: str


class DramFile(BaseModel):
    """A file of `configs/dram`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    kind: Literal["hbm2", "lpddr5x"]
    description: str
    parameters: dict[str, Parameter]

    @model_validator(mode="after")
    def _check(self) -> DramFile:
        missing = [n for n in NAMES if n not in self.parameters]
        extra = [n for n in self.parameters if n not in NAMES]
        if missing or extra:
            raise ValueError(f"missing {', '.join(missing) or 'none'}, unknown {', '.join(extra) or 'none'}")
        for name, p in self.parameters.items():
            if name not in ("order", "refresh"):
                try:
                    ok = 0 <= Fraction(str(int(p.value) if isinstance(p.value, bool) else p.value)) < 1 << 63
                except (ValueError, ZeroDivisionError):
                    ok = False
                if not ok or (name != "clock" and isinstance(p.value, str)):
                    raise ValueError(f"{name} is {p.value!r}, must be a number from 0")
        for name in ("clock", "tBL", "tCCD_S", "refresh_banks", "act_clocks"):
            if not Fraction(str(self.value(name))):
                raise ValueError(f"{name} is 0")
        for name in _POWERS:
            n = self.number(name)
            if n < 1 or n & (n - 1):
                raise ValueError(f"{name} is {n}, must be a power of two")
        if self.value("order") not in ORDERS:
            raise ValueError(f"order is '{self.value('order')}', must be one of {', '.join(ORDERS)}")
        if self.value("refresh") not in ("none", "all", "bank"):
            raise ValueError(f"refresh is '{self.value('refresh')}', must be none, all or bank")
        stripe, groups = self.number("bank_stripe"), self.number("bank_groups")
        if not stripe <= groups <= self.number("banks"):
            raise ValueError(f"bank_stripe {stripe}, bank_groups {groups} and banks must not decrease")
        if 1 < stripe < Fraction(self.clocks("tCCD_L"), self.clocks("tCCD_S")):
            raise ValueError(f"bank_stripe {stripe} is 1 or at least tCCD_L / tCCD_S")
        if self.number("banks") % self.number("refresh_banks"):
            raise ValueError("refresh_banks must divide banks")
        if self.value("refresh") == "bank" and self.number("refresh_banks") % stripe:
            raise ValueError(
                f"refresh_banks must be a multiple of bank_stripe {stripe}: one refresh for all of a piece"
            )
        if self.number("axi_burst_bytes") > 4096:
            raise ValueError("an AXI burst may not cross 4096 bytes")
        return self

    @property
    def clock(self) -> Fraction:
        """DRAM clocks a second."""
        return Fraction(str(self.parameters["clock"].value))

    def value(self, name: str) -> int | float | str | bool:
        """A parameter as it stands in the file."""
        return self.parameters[name].value

    def number(self, name: str) -> int:
        """A parameter that is a whole number."""
        return int(self.parameters[name].value)

    def clocks(self, name: str) -> int:
        """A time in whole DRAM clocks, rounded up."""
        p = self.parameters[name]
        return ceil(Fraction(str(p.value)) * NS * self.clock) if p.unit == "ns" else int(p.value)

    @property
    def peak_bytes_per_second(self) -> Fraction:
        """What the data buses of all channels move when they never wait."""
        return self.number("channels") * self.number("access_bytes") * self.clock / self.clocks("tBL")

    def replace(self, **values: int | float | str | bool) -> DramFile:
        """The same with other values, for experiments; units stay."""
        new = {
            n: Parameter(value=values[n], unit=p.unit, source="assumed: replaced by an experiment")
            if n in values
            else p
            for n, p in self.parameters.items()
        }
        return DramFile(name=self.name, kind=self.kind, description=self.description, parameters=new)


@dataclass(frozen=True)
class Config:
    """What the model runs on, in the order of `Config` in dram_model.hpp. Times in DRAM clocks (ticks) or units."""

    tick: int  # units a DRAM clock
    cycle: int  # units a user cycle
    channels: int
    banks: int
    groups: int
    stripe: int
    access: int
    page: int
    interleave: int
    rows: int
    bank_major: int
    bank_xor: int
    channel_hash: int
    bl: int
    rl: int
    wl: int
    rcd_read: int
    rcd_write: int
    rp: int
    ras: int
    rc: int
    rtp: int
    wr: int
    rrd_s: int
    rrd_l: int
    faw: int
    ccd_s: int
    ccd_l: int
    wtr_s: int
    wtr_l: int
    rtw: int
    refresh_groups: int
    refresh_interval: int
    rfc: int
    stagger: int
    window: int
    batch: int
    reorder: int
    request: int  # units
    response: int  # units
    beat: int
    burst: int
    outstanding: int
    buffer: int
    ports: int
    pbr2pbr: int
    pbr2act: int
    one_bus: int
    act_clocks: int
    l2_line: int  # bytes
    l2_sets: int  # 0: no L2
    l2_ways: int
    l2_slices: int
    l2_rate: int  # bytes a user cycle of a slice
    l2_latency: int  # units

    @property
    def words(self) -> list[int]:
        """All fields, in order."""
        return [int(getattr(self, f)) for f in FIELDS]

    @property
    def refresh_period(self) -> Fraction:
        """User cycles after which refresh begins again; 0 without refresh."""
        return Fraction(self.refresh_groups * self.refresh_interval * self.tick, self.cycle)


FIELDS = tuple(f.name for f in fields(Config))


def config(file: DramFile, user_hz: float | Fraction, ports: int, l2_bytes: int = 0) -> Config:
    """The integers for a user of `user_hz` with `ports` ports behind an L2 of `l2_bytes` (0: none).

    Raises:
        DpuError: E502, the two clocks have no common multiple below 10 THz.
    """
    user = Fraction(user_hz).limit_denominator(1000)
    clock = file.clock
    unit = Fraction(lcm(user.numerator, clock.numerator), gcd(user.denominator, clock.denominator))
    if unit > MAX_UNITS_PER_SECOND:
        raise DpuError(
            f"DRAM '{file.name}'",
            f"clocks of {float(clock):g} Hz and {float(user):g} Hz have the common multiple {float(unit):g} Hz",
            why="times are whole units of that multiple, in 64 bits",
            hint="use round clock rates",
            code="E502",
        )
    per_ns = unit * NS
    banks, mode = file.number("banks"), file.value("refresh")
    groups = {"none": 0, "all": 1, "bank": banks // file.number("refresh_banks")}[str(mode)]
    t = file.clocks
    ways = min(L2_WAYS, max(1, l2_bytes // L2_LINE))
    cycle = int(unit / user)
    return Config(
        tick=int(unit / clock),
        cycle=cycle,
        channels=file.number("channels"),
        banks=banks,
        groups=file.number("bank_groups"),
        stripe=file.number("bank_stripe"),
        access=file.number("access_bytes"),
        page=file.number("page_bytes"),
        interleave=file.number("interleave_bytes"),
        rows=file.number("rows"),
        bank_major=ORDERS.index(str(file.value("order"))),
        bank_xor=file.number("bank_xor"),
        channel_hash=file.number("channel_hash"),
        bl=t("tBL"),
        rl=t("tRL"),
        wl=t("tWL"),
        rcd_read=t("tRCDRD"),
        rcd_write=t("tRCDWR"),
        rp=t("tRP"),
        ras=t("tRAS"),
        rc=t("tRC"),
        rtp=t("tRTP"),
        wr=t("tWR"),
        rrd_s=t("tRRD_S"),
        rrd_l=t("tRRD_L"),
        faw=t("tFAW"),
        ccd_s=t("tCCD_S"),
        ccd_l=t("tCCD_L"),
        wtr_s=t("tWTR_S"),
        wtr_l=t("tWTR_L"),
        rtw=t("tRL") + t("tBL") + t("tTURN") - t("tWL"),
        refresh_groups=groups,
        refresh_interval=t("tREFI") // groups if groups else 0,
        rfc=t("tRFC"),
        stagger=file.number("refresh_stagger"),
        window=file.number("window"),
        batch=file.number("batch"),
        reorder=file.number("reorder"),
        request=ceil(Fraction(str(file.value("request_path"))) * per_ns),
        response=ceil(Fraction(str(file.value("response_path"))) * per_ns),
        beat=BEAT_BYTES,
        burst=file.number("axi_burst_bytes"),
        outstanding=file.number("outstanding"),
        buffer=file.number("buffer_bytes"),
        ports=ports,
        pbr2pbr=t("tPBR2PBR"),
        pbr2act=t("tPBR2ACT"),
        one_bus=int(file.number("command_buses") == 1),
        act_clocks=file.number("act_clocks"),
        l2_line=L2_LINE,
        l2_sets=max(1, l2_bytes // (L2_LINE * ways)) if l2_bytes else 0,
        l2_ways=ways,
        l2_slices=L2_SLICES,
        l2_rate=L2_SLICE_BYTES,
        l2_latency=L2_LATENCY * cycle,
    )


def dram_names() -> list[str]:
    """Names of the parameter files that ship with the package, sorted."""
    folder = resources.files("dpu.configs").joinpath("dram")
    return sorted(f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json"))


@cache
def load_dram(name_or_path: str) -> DramFile:
    """A parameter file by shipped name or by path.

    Raises:
        DpuError: E505 no such file, E502 a field is wrong (it is named).
    """
    path = Path(name_or_path)
    if path.suffix != ".json":
        path = Path(str(resources.files("dpu.configs"))) / "dram" / f"{name_or_path}.json"
    if not path.is_file():
        raise DpuError(
            name_or_path or "dram.parameters",
            "no such DRAM parameter file",
            hint=f"one of {', '.join(dram_names())}, or the path of a JSON file",
            code="E505",
        )
    try:
        return DramFile.model_validate_json(path.read_text())
    except (OSError, UnicodeDecodeError) as e:
        raise DpuError(str(path), f"not a readable JSON file ({e})", code="E502") from e
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(x) for x in first["loc"]) or "parameters"
        raise DpuError(str(path), f"field '{field}': {re.sub('^Value error, ', '', first['msg'])}", code="E502") from e
