"""What the tests of the economics share: the workload of the published configs, and files with one field changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dpu.ir.arch import Arch, load_arch
from dpu.simulator.economics.compare import Comparison, compare
from dpu.simulator.economics.inputs import Accelerator, Scenario, accelerator, card_for, folder, scenario, silicon
from dpu.simulator.economics.schema import Stated
from dpu.simulator.economics.workload import Cycles, EntryCycles, Task

TASK = Task(model="sdxl-base-1.0", resolution=1024, steps=20, guidance=True, scheduler="euler")
WORKLOAD: dict[str, Any] = {
    "format": "dpu.workload/1",
    "model": "sdxl-base-1.0",
    "resolution": 1024,
    "steps": 20,
    "scheduler": "euler",
    "guidance": 8.0,
    "parts": [  # MACs of the published configs, one guidance branch
        {"name": "unet", "macs": 3_380_618_000_000, "runs": 40},
        {"name": "text_encoder", "macs": 6_649_000_000, "runs": 2},
        {"name": "text_encoder_2", "macs": 48_932_000_000, "runs": 2},
        {"name": "vae_decoder", "macs": 5_235_196_000_000, "runs": 1},
    ],
}


def stated(value: float, unit: str, **more: Any) -> Stated:
    return Stated(value=value, unit=unit, provenance="assumed", source="a test", **more)


def cycles_of(arch: Arch, seconds: float, sha256: str = "0" * 64) -> Cycles:
    """An image that takes `seconds`: 140 TMAC, 700 GB."""
    entry = EntryCycles(
        entry="unet",
        cycles=round(seconds * arch.clock_hz),
        macs=140 * 10**12,
        executed=137 * 10**12,
        dram_bytes=7 * 10**11,
        runs=1,
    )
    return Cycles(
        format="dpu.cycles/1",
        arch=arch.name,
        arch_sha256=sha256,
        clock_hz=arch.clock_hz,
        provenance="assumed",
        source="a test",
        task=TASK,
        error=stated(1.0, "1", low=1.0, high=1.28),
        entries=(entry,),
    )


def certain(config: Any, **changes: Stated) -> Any:
    """A part of a configuration with every distribution removed, and some numbers changed."""
    found = {}
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, Stated):
            value = value.model_copy(update={"low": None, "high": None, "sd": None, "distribution": None})
        elif hasattr(value, "model_fields"):
            value = certain(value)
        found[name] = value
    return config.model_copy(update=found | changes)


def compared(
    arch: str = "dpu_asic",
    place: str | Scenario = "scenario_b",
    gpus: tuple[str, ...] = ("h200", "rtx_pro_6000"),
    seconds: float = 3.0,
    extra: tuple[Accelerator, ...] = (),
) -> Comparison:
    found = load_arch(arch)
    where = scenario(place) if isinstance(place, str) else place
    devices = [*(accelerator(g) for g in gpus), *extra]
    return compare(where, found, cycles_of(found, seconds), devices, silicon(), card=card_for(arch))


def edited(source: str, path: tuple[str | int, ...], value: object, target: Path) -> Path:
    """A shipped file with one field changed, or taken out where the value is `...`."""
    content = json.loads((folder() / source).read_text())
    inner: Any = content
    for key in path[:-1]:
        inner = inner[key]
    if value is ...:
        del inner[path[-1]]
    else:
        inner[path[-1]] = value
    target.write_text(json.dumps(content))
    return target
