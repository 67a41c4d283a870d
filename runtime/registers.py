"""What the host's registers say, by name: of the build, of a run's work, of its error. The same for every device that
has them; each gives its own way to read one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import BASE_REGISTERS, Engine, Words
from ..ir.regmap import ENGINES, ERRORS, MAGIC, register
from ..simulator.decode import where
from .device import Capability, Region

START, RESET = 1, 2
"""Bits of CTRL."""
BUSY, DONE, ERROR = 1, 2, 4
"""Bits of STATUS."""

_CODES = {
    "OPCODE": "E410",
    "FIELD": "E410",
    "SCRATCHPAD": "E411",
    "REGION": "E412",
    "FETCH": "E410",
    "NUMERIC": "E415",
    "DRAM": "E412",
    "WATCHDOG": "E414",
}


ENGINE_COUNTERS = ("BUSY", "STALL_WAIT", "STALL_PORT", "STALL_EMPTY")
"""Of each engine of a tile: TILE_<engine>_<counter>, 64 bits."""


@dataclass(frozen=True)
class Placed:
    """A program whose words lie in device memory: one stream a tile."""

    entry: str
    streams: tuple[Words, ...]
    addresses: tuple[int, ...]


@dataclass(frozen=True)
class Setting:
    """A register to write; `wide`: of 64 bits."""

    name: str
    value: int
    index: int
    wide: bool


def run_settings(program: Placed, bases: Mapping[int, Region]) -> Iterator[Setting]:
    """What a run needs before START: the regions of all base registers, and each tile's program."""
    for base in range(BASE_REGISTERS):
        region = bases.get(base, Region(0, 0))
        yield Setting("BASE", region.address, base, True)
        yield Setting("LIMIT", region.bytes, base, True)
    for tile, (address, words) in enumerate(zip(program.addresses, program.streams, strict=True)):
        yield Setting("TILE_PROGRAM", address, tile, True)
        yield Setting("TILE_PROGRAM_WORDS", len(words), tile, False)


class Registers:
    """Reads registers through `read`, from byte address to 32-bit value."""

    def __init__(self, read: Callable[[int], int]) -> None:
        self._read = read

    def get(self, name: str, index: int = 0, *, wide: bool = False) -> int:
        """A register; `wide`: of 64 bits, LO before HI."""
        if wide:
            return self.get(f"{name}_LO", index) | self.get(f"{name}_HI", index) << 32
        return self._read(register(name).address(index))

    def capability(self, device: str, arch: Arch) -> Capability:
        """What a device says of itself; clock and memory are the arch's."""
        digest = f"{self.get('ARCH_DIGEST', wide=True):016x}"
        return Capability(device, arch.name, digest, self.get("ABI"), arch.clock_hz, arch.dram.bytes)

    def check(self, device: str, arch: Arch) -> None:
        """Whether what is there is what was meant.

        Raises:
            DpuError: E416, the magic number or the shape is another.
        """
        shape = arch.tiles | arch.cols << 8 | arch.lanes << 16
        for name, want in (("ID", MAGIC), ("SHAPE", shape)):
            if (found := self.get(name)) != want:
                raise DpuError(device, f"register {name} is {found:#x}, must be {want:#x}", code="E416")

    def work(self, tiles: int) -> dict[str, int]:
        """Words, bytes and exceptions since START, of all tiles: fields of `TagWork`."""
        found = dict.fromkeys(("words", "read", "written", "fp16_overflow", "nan"), 0)
        for t in range(tiles):
            found["words"] += self.get("TILE_FETCHED", t)
            found["read"] += self.get("TILE_READ_BYTES", t, wide=True)
            found["written"] += self.get("TILE_WRITTEN_BYTES", t, wide=True)
            found["fp16_overflow"] += self.get("TILE_FP16_OVERFLOWS", t)
            found["nan"] += self.get("TILE_NANS", t)
        return found

    def failure(self, entry: str, streams: Sequence[Words], status: int) -> DpuError:
        """The error of a run that ended with STATUS `status`, from the error registers."""
        if not status & ERROR:
            return DpuError(f"entry '{entry}'", f"STATUS is {status:#x}: neither done nor failed", code="E416")
        said, index = self.get("ERROR"), self.get("ERROR_WORD")
        address = self.get("ERROR_ADDRESS", wide=True)
        code, tile, engine = said & 0xFF, said >> 8 & 0xFF, said >> 16 & 0xFF
        name, meaning = ERRORS.get(code, (f"code {code}", "the register map does not know it"))
        stuck = self.stuck(len(streams)) if name == "WATCHDOG" else ""
        place = f"entry '{entry}' tile {tile}"
        if name not in ("FETCH", "WATCHDOG") and tile < len(streams) and index < len(streams[tile]):
            place = where(entry, tile, index, streams[tile][index])
        unit = Engine(engine).name if engine in [e.value for e in Engine] else f"engine {engine}"
        what = f"{name}: {meaning}" + (f"; {stuck}" if stuck else "")
        return DpuError(place, what, f"{unit}, address {address:#x}", code=_CODES.get(name, "E416"))

    def stuck(self, tiles: int) -> str:
        """Where the engines of each tile stand."""
        return "; ".join(
            f"tile {t}: " + ", ".join(f"{e.name} at word {self.get(f'TILE_{e.name}_AT', t)}" for e in ENGINES)
            for t in range(tiles)
        )
