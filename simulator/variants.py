"""An arch with some of its numbers changed: what sweeps and `dpuc explain` try."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from ..errors import DpuError
from ..ir.arch import Arch
from .dram.params import load_dram

SPECIAL = {"array": "rows and cols, and lanes in proportion", "dram.bits": "width of the LPDDR5X, and its bytes"}
"""Settings that change several fields."""
CHANNEL_BITS = 16
GIB = 1 << 30

Settings = Sequence[tuple[str, float]]


def numbers(fields: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    """Names of the numbers of an arch, as settings name them."""
    for name, value in fields.items():
        if isinstance(value, dict):
            yield from numbers(value, f"{prefix}{name}.")
        elif isinstance(value, int | float):
            yield f"{prefix}{name}"


def number(arch: Arch, name: str) -> float | None:
    """The value of a setting; none where an arch has no such number."""
    if name == "array":
        return arch.rows
    if name == "dram.bits":
        return dram_bits(arch)
    inner: Any = arch.model_dump()
    for key in name.split("."):
        inner = inner.get(key) if isinstance(inner, dict) else None
    return inner if isinstance(inner, int | float) else None


def dram_bits(arch: Arch) -> int | None:
    """Width of an LPDDR5X; none of another memory."""
    if arch.dram.model != "lpddr5x":
        return None
    return CHANNEL_BITS * load_dram(arch.dram.parameters).number("channels")


def with_bits(arch: Arch, bits: int, least: int, folder: Path) -> Arch:
    """The arch with another width of its LPDDR5X, whose timing file is written into `folder`.

    Memory is 1 GiB a channel, the smallest packages, and `least` bytes or more.

    Raises:
        DpuError: the memory is no LPDDR5X, or the width no power of two of channels.
    """
    narrow = dram_bits(arch)
    if narrow is None:
        what = f"arch {arch.name} has '{arch.dram.model}', allowed: 'lpddr5x'"
        raise DpuError("dram.bits", what, hint="vary an arch with LPDDR5X", code="E501")
    channels = bits // CHANNEL_BITS
    if bits % CHANNEL_BITS or channels < 1 or channels & (channels - 1):
        what = f"value is {bits}, allowed: {CHANNEL_BITS} bits times a power of two"
        raise DpuError("dram.bits", what, hint="such as 64, 128, 256", code="E502")
    file = load_dram(arch.dram.parameters)
    path = folder / f"lpddr5x_{bits}.json"
    path.write_text(file.model_copy(update={"name": path.stem}).replace(channels=channels).model_dump_json())
    fields: dict[str, Any] = arch.model_dump()
    fields["dram"] |= {
        "parameters": str(path),
        "kind": f"LPDDR5X {bits}-bit, as {arch.dram.kind}",
        "bytes_per_cycle": arch.dram.bytes_per_cycle * bits / narrow,
        "bytes": max(least, GIB * channels),
    }
    return Arch.model_validate(fields)


def vary(base: Arch, settings: Settings, least: int, folder: Path) -> Arch:
    """The arch with other numbers, named after them. A clock keeps the memory's bytes and delays a second.

    `least` and `folder` are those of `with_bits`.

    Raises:
        DpuError: E501, there is no such number; E502, the arch would be none.
    """
    given = dict(settings)
    bits = given.pop("dram.bits", None)
    arch = base if bits is None else with_bits(base, int(bits), least, folder)
    fields: dict[str, Any] = arch.model_dump()
    if (array := given.pop("array", None)) is not None:
        fields |= {"rows": int(array), "cols": int(array), "lanes": max(int(base.lanes * array // base.rows), 1)}
    if (clock := given.get("clock_hz")) is not None:
        fields["dram"]["bytes_per_cycle"] *= base.clock_hz / clock
        for name in ("latency", "response"):
            fields["dram"][name] = round(fields["dram"][name] * clock / base.clock_hz)
    for name, value in given.items():
        if number(base, name) is None:
            known = ", ".join([*numbers(base.model_dump()), *SPECIAL])
            raise DpuError(name, "there is no such number in an arch", hint=f"one of {known}", code="E501")
        *parents, last = name.split(".")
        inner: Any = fields
        for key in parents:
            inner = inner[key]
        inner[last] = value
    said = ",".join(f"{n}={v:.12g}" for n, v in settings)
    name = f"{base.name}[{said}]" if said else base.name
    try:
        return Arch.model_validate(fields | {"name": name})
    except ValidationError as e:
        first = e.errors()[0]
        field, what = ".".join(map(str, first["loc"])), first["msg"].removeprefix("Value error, ")
        raise DpuError(f"arch {name}", f"field '{field}': {what}" if field else what, code="E502") from e
