"""The description of a DPU: tiles, array, lanes, buffers, queues, memory. One JSON file an arch, in `configs/arch/`.

Units: bytes, cycles of the tile clock, hertz. Buffer capacities are per tile.
"""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, NonNegativeInt, PositiveFloat, PositiveInt, ValidationError, model_validator

from ..errors import DpuError

MAX_TILES = 32  # width of the remote semaphore masks of LOAD and STORE
_EXAMPLE = "configs/arch/dpu_tiny.json shows every field, ir/arch.py says what each means"
MAX_WORDS = 1 << 16  # VEC and stride fields address scratchpad words with 16 bits


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Buffer(_Config):
    """One scratchpad of a tile: its size and the number of independently ported banks."""

    bytes: int
    banks: PositiveInt = 1


class Buffers(_Config):
    act: Buffer
    wgt: Buffer
    acc: Buffer
    vbuf: Buffer
    param: Buffer


class Queues(_Config):
    """Instruction queue depth of each engine."""

    load: PositiveInt = 16
    mxu: PositiveInt = 8
    vpu: PositiveInt = 8
    store: PositiveInt = 8


class Latency(_Config):
    """Cycles that a floorplan decides. All other latencies follow from the array: `ir/cost.py`."""

    remote_signal: PositiveInt = 40  # a token from tile to tile


class Dram(_Config):
    """External memory as the tiles see it. `model` names the timing model of `simulator/memory.py`.

    `hbm2` and `lpddr5x` take their timing from `parameters`, a file of `configs/dram` or a path; of the fields below
    they use `port_bytes_per_cycle` and `base` only. The others serve the estimates, and `ideal` and `simple`.
    """

    model: Literal["ideal", "simple", "hbm2", "lpddr5x"] = "simple"
    parameters: str = ""
    kind: str
    bytes_per_cycle: PositiveFloat  # all tiles together, sustained
    port_bytes_per_cycle: PositiveFloat  # one tile's LOAD or STORE port
    latency: NonNegativeInt  # cycles from a read's address to its first data
    response: NonNegativeInt = 40  # cycles from a write's last data to its response
    burst_bytes: PositiveInt = 4096
    base: NonNegativeInt = 0
    bytes: PositiveInt

    @model_validator(mode="after")
    def _check(self) -> Dram:
        if (self.model in ("hbm2", "lpddr5x")) != bool(self.parameters):
            raise ValueError(f"model '{self.model}' with parameters '{self.parameters}': hbm2 and lpddr5x need a file")
        return self


class Arch(_Config):
    """A DPU. `rows` is the reduction side of the array, `cols` its output side; the tensor layout needs them equal."""

    name: str
    description: str
    tiles: int
    rows: int
    cols: int
    lanes: PositiveInt
    clock_hz: PositiveFloat
    buffers: Buffers
    queues: Queues = Queues()
    latency: Latency = Latency()
    dram: Dram
    l2_bytes: NonNegativeInt = 0  # shared by all tiles, in front of DRAM, for constants; organised as `L2_*` in cost.py

    @model_validator(mode="after")
    def _check(self) -> Arch:
        if not 1 <= self.tiles <= MAX_TILES:
            raise ValueError(f"tiles is {self.tiles}, must be 1 to {MAX_TILES} (remote semaphore masks)")
        if self.rows != self.cols:
            raise ValueError(f"array {self.rows}x{self.cols}: the column-tile layout needs rows == cols")
        if self.cols & (self.cols - 1) or not 4 <= self.cols <= 128:
            raise ValueError(f"cols is {self.cols}, must be a power of two from 4 to 128")
        if self.cols % self.lanes:
            raise ValueError(f"lanes {self.lanes} must divide cols {self.cols}")
        for name, words in self.words.items():
            if not 0 < words <= MAX_WORDS:
                raise ValueError(f"{name} holds {words} words, must be 1 to {MAX_WORDS} (16-bit addresses)")
            if (banks := getattr(self.buffers, name).banks) > words:
                raise ValueError(f"{name} has {banks} banks, but only {words} words")
        return self

    @cached_property
    def word_bytes(self) -> dict[str, int]:
        """Bytes of one addressable word of each scratchpad: C int8, C int32, C float16, one float32."""
        c = self.cols
        return {"act": c, "wgt": c, "acc": 4 * c, "vbuf": 2 * c, "param": 4}

    @cached_property
    def words(self) -> dict[str, int]:
        """Addressable words of each scratchpad of one tile."""
        return {k: getattr(self.buffers, k).bytes // w for k, w in self.word_bytes.items()}

    @cached_property
    def peak_macs_per_cycle(self) -> int:
        return self.tiles * self.rows * self.cols

    @cached_property
    def digest(self) -> str:
        """16 hex digits over all fields but the DRAM's timing: a program runs only on the arch it was compiled for."""
        fields = self.model_dump(mode="json")
        del fields["dram"]["model"], fields["dram"]["parameters"]
        text = json.dumps(fields, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def arch_names() -> list[str]:
    """Names of the arch files that ship with the package, sorted."""
    folder = resources.files("dpu.configs").joinpath("arch")
    return sorted(f.name.removesuffix(".json") for f in folder.iterdir() if f.name.endswith(".json"))


def load_arch(name_or_path: str) -> Arch:
    """An arch by shipped name or by path of a JSON file.

    Raises:
        DpuError: no such arch, not JSON, or a field is wrong (the field is named).
    """
    path = Path(name_or_path)
    if path.suffix == ".json":
        source = path
    else:
        source = Path(str(resources.files("dpu.configs"))) / "arch" / f"{name_or_path}.json"
    if not source.is_file():
        raise DpuError(
            name_or_path,
            "no such arch",
            hint=f"one of {', '.join(arch_names())}, or the path of a JSON file",
            code="E505",
        )
    try:
        return Arch.model_validate_json(source.read_text())
    except (OSError, UnicodeDecodeError) as e:
        raise DpuError(str(source), f"not a readable JSON file ({e})", hint=_EXAMPLE, code="E502") from e
    except ValidationError as e:
        first = e.errors()[0]
        field = ".".join(str(x) for x in first["loc"])
        what = first["msg"].removeprefix("Value error, ")
        if first["type"] == "extra_forbidden":
            what = "there is no such field"
        raise DpuError(str(source), f"field '{field}': {what}" if field else what, hint=_EXAMPLE, code="E502") from e
