"""Cycles of the timing model against those of the RTL: programs, layers, engines, and the words that differ first.

Both run the same words on the same DRAM model. The rules of the timing model were found on `dpu_tiny`, one on `f2_x1`
(operands of a last tile); the other arrays are there to show that they hold elsewhere. `cycles_run.py` makes the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import ceil
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ..evidence import Provenance
from ..files import atomic_write
from ..ir.arch import Arch, load_arch
from ..ir.container import Base, Entry, Program, Slot
from ..ir.isa import Engine
from ..simulator.dram.params import config
from ..simulator.memory import dram_file
from ..simulator.plan import ENGINES
from ..simulator.timing import simulate
from ..simulator.timing_result import TileTiming, Timing

START = 2
"""Cycles from the host's write of CTRL, where the harness begins to count, to the start of the tiles."""

LEAST = 10_000
LONG, SHORT, WHOLE = 0.01, 100, 0.005
"""The criterion: a layer from `LEAST` cycles on within 1 %, a shorter one within 100 cycles, a forward within 0.5 %."""
WORST = 5  # layers of a length class that are kept of each program

SIZE = (64, 64)

Ints = npt.NDArray[np.int64]


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EngineCycles(_Model):
    """Words of one engine: how many take, from start to done, as long in the model as in the RTL."""

    engine: str
    words: int
    exact: int
    error: int  # sum of the differences, model less RTL


class LayerCycles(_Model):
    """One graph operation on one tile, from the first start to the last done."""

    name: str
    tile: int
    rtl: int
    model: int

    @property
    def error(self) -> float:
        return (self.model - self.rtl) / self.rtl


class Misses(_Model):
    """Layers of one length class: how many, how many beyond the bound, the worst."""

    count: int
    beyond: int
    worst: tuple[LayerCycles, ...]


def misses(some: Sequence[LayerCycles]) -> tuple[Misses, Misses]:
    """The layers from `LEAST` cycles on, and the shorter ones."""
    long, short = [x for x in some if x.rtl >= LEAST], [x for x in some if x.rtl < LEAST]
    return (
        _misses(long, lambda x: abs(x.error), LONG),
        _misses(short, lambda x: abs(x.model - x.rtl), SHORT),
    )


def _misses(some: Sequence[LayerCycles], error: Callable[[LayerCycles], float], bound: float) -> Misses:
    order = sorted(some, key=lambda x: -error(x))
    return Misses(count=len(order), beyond=sum(error(x) > bound for x in order), worst=tuple(order[:WORST]))


class Row(_Model):
    """One entry of a program on one arch and memory."""

    arch: str
    dram: str
    entry: str
    words: int
    rtl: int
    model: int
    median: float  # of the absolute errors of the long layers, relative
    long: Misses
    short: Misses
    engines: tuple[EngineCycles, ...]
    made_of: str = ""  # `made_of` of the words; empty: not to be taken up

    @property
    def case(self) -> tuple[str, str, str]:
        """Which row of the table it is."""
        return self.arch, self.dram, self.entry

    @property
    def error(self) -> float:
        return (self.model - self.rtl) / self.rtl

    @property
    def agrees(self) -> bool:
        return abs(self.error) <= WHOLE and not self.long.beyond and not self.short.beyond


class Cycles(_Model):
    """The table."""

    provenance: str = Provenance.SIMULATED.label
    command: str
    seen: tuple[str, ...]  # archs whose RTL times were looked at when the rules were written
    long_bound: float = LONG
    short_bound_cycles: int = SHORT
    whole_bound: float = WHOLE
    rows: tuple[Row, ...]

    @property
    def agrees(self) -> bool:
        return all(r.agrees for r in self.rows)

    def text(self) -> str:
        lines = [
            f"{'arch':10} {'memory':17} {'entry':15} {'RTL':>10} {'model':>10} {'error':>8}   "
            f"{'layers':>6} {'median':>7} {'worst':>7}  {'short':>5} {'worst':>5}   words exact  ok"
        ]
        for r in self.rows:
            worst = max((abs(x.error) for x in r.long.worst), default=0.0)
            short = max((abs(x.model - x.rtl) for x in r.short.worst), default=0)
            exact = sum(e.exact for e in r.engines) / max(1, sum(e.words for e in r.engines))
            lines.append(
                f"{r.arch:10} {r.dram:17} {r.entry:15} {r.rtl:10,} {r.model:10,} {100 * r.error:+7.3f}%   "
                f"{r.long.count:6} {100 * r.median:6.2f}% {100 * worst:6.2f}%  {r.short.count:5} {short:5}   "
                f"{100 * exact:10.1f}%  {'yes' if r.agrees else 'NO'}"
            )
        beyond = [
            line for r in self.rows for line in beyond_bounds(f"{r.arch}, {r.entry} on {r.dram}", r.long, r.short)
        ]
        return "\n".join([*lines, *(["beyond the bounds:", *beyond] if beyond else [])])

    def save(self, path: Path) -> None:
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")


def beyond_bounds(where: str, long: Misses, short: Misses) -> list[str]:
    """A line for each of the worst layers that is beyond its bound."""
    bad = [x for x in long.worst if abs(x.error) > LONG] + [x for x in short.worst if abs(x.model - x.rtl) > SHORT]
    return [f"  {where}: {x.name}, tile {x.tile}: RTL {x.rtl:,}, model {x.model:,}" for x in bad]


def _times(tile: TileTiming, offset: int = 0) -> tuple[Ints, Ints]:
    """Start and done of every word but END."""
    return tile.start[:-1] - offset, tile.visible[:-1] - offset


def layers(rtl: Timing, model: Timing, entry: Entry | None = None) -> Iterator[LayerCycles]:
    """All graph operations of all tiles."""
    names = {s.tag: s.name for s in entry.sources} if entry else {}
    for t, (a, b) in enumerate(zip(rtl.tiles, model.tiles, strict=True)):
        tags = b.tag[:-1]
        for tag in np.unique(tags).tolist():
            pick = tags == tag
            spans = [int(done[pick].max() - start[pick].min()) for start, done in (_times(a), _times(b))]
            yield LayerCycles(name=names.get(tag, f"tag {tag}"), tile=t, rtl=spans[0], model=spans[1])


def engines(rtl: Timing, model: Timing) -> tuple[EngineCycles, ...]:
    """All words, by engine."""
    took = [np.concatenate([done - start for start, done in map(_times, x.tiles)]) for x in (rtl, model)]
    engine = np.concatenate([t.engine[:-1] for t in model.tiles])
    error = took[1] - took[0]
    return tuple(
        EngineCycles(
            engine=e.name,
            words=int((engine == e).sum()),
            exact=int((error[engine == e] == 0).sum()),
            error=int(error[engine == e].sum()),
        )
        for e in ENGINES
    )


def differences(rtl: Timing, model: Timing, count: int) -> list[str]:
    """The first words whose start or done differ."""
    lines = []
    for t, (a, b) in enumerate(zip(rtl.tiles, model.tiles, strict=True)):
        (start, done), (start_m, done_m) = _times(a, START), _times(b)
        for i in np.flatnonzero((start != start_m) | (done != done_m))[:count].tolist():
            lines.append(
                f"tile {t} word {i:6} {Engine(int(b.engine[i])).name:5} tag {int(b.tag[i]):4}: "
                f"RTL {start[i]:9} to {done[i]:9}, model {start_m[i]:9} to {done_m[i]:9} "
                f"({start_m[i] - start[i]:+}, {done_m[i] - done[i]:+})"
            )
    return lines


def compare(rtl: Timing, model: Timing, dram: str, entry: Entry | None = None) -> Row:
    """The row of one entry."""
    some = list(layers(rtl, model, entry))
    errors = [abs(x.error) for x in some if x.rtl >= LEAST]
    long, short = misses(some)
    return Row(
        arch=model.arch.name,
        dram=dram,
        entry=model.entry,
        words=sum(len(t.start) for t in model.tiles),
        rtl=rtl.cycles,
        model=model.cycles,
        median=float(np.median(errors)) if errors else 0.0,
        long=long,
        short=short,
        engines=engines(rtl, model),
    )


def _input(rng: np.random.Generator, slot: Slot) -> npt.NDArray[np.float32]:
    shape = slot.shape
    if slot.layout == "NCHW":
        return rng.standard_normal((shape[0], shape[2], slot.height, slot.width)).astype(np.float32)
    return rng.standard_normal(shape).astype(np.float32)


def run(
    program: Program, arch: Arch, names: Sequence[str], checked: bool = False
) -> Iterator[tuple[Entry, Timing, Timing]]:
    """Entries on the RTL and in the model. Inputs are random: times do not depend on them. `checked`: with assertions.

    Both have words and data at the same places in DRAM and begin in the same phase of its refresh, which no program
    knows: in another one the RTL itself takes half a per cent more or less of a short program.

    Raises:
        DpuError: E428, the RTL cannot be built.
    """
    from ..runtime.rtl_device import RtlDevice
    from ..runtime.session import Session

    rng = np.random.default_rng(1)
    device = RtlDevice(arch, checked=checked)
    device.idle = in_phase(arch)
    with Session(program, device) as session:
        for entry in program.entries:
            if entry.name not in names:
                continue
            session.run(entry.name, {s.name: _input(rng, s) for s in entry.inputs if s.base == Base.IO})
            words, places = program.words[entry.name], device.places[entry.name]
            yield entry, device.timings[entry.name], simulate(arch, words, entry.name, places=places)


def in_phase(arch: Arch) -> Callable[[int], int]:
    """Cycles to wait in a cycle of the RTL, until tiles that are started then start as refresh begins again."""
    file = dram_file(arch)
    period = config(file, arch.clock_hz, 4 * arch.tiles).refresh_period if file else 0

    def idle(cycle: int) -> int:
        first = cycle + START
        return ceil(ceil(first / period) * period) - first if period else 0

    return idle


def archs() -> dict[str, Arch]:
    """The shipped 8 x 8 tile; two that are like it but for array, lanes and number of tiles; one tile of F2."""
    tiny = load_arch("dpu_tiny")
    data = tiny.model_dump(mode="json")
    twice = {b: {**v, "bytes": 2 * v["bytes"]} for b, v in data["buffers"].items() if b != "param"}
    large = {"name": "tiny_16", "rows": 16, "cols": 16, "lanes": 8, "buffers": {**data["buffers"], **twice}}
    two = {"name": "tiny_x2", "tiles": 2, "lanes": 4}
    f2 = load_arch("dpu_f2").model_copy(update={"name": "f2_x1", "tiles": 1})
    return (
        {"dpu_tiny": tiny} | {str(x["name"]): Arch.model_validate({**data, **x}) for x in (large, two)} | {"f2_x1": f2}
    )


ALL = ("time", "context", "unet", "text_encoder", "text_encoder_2", "vae_decoder")
FEW = ("context", "text_encoder")
RUNS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("dpu_tiny", "ideal", ALL),
    ("dpu_tiny", "simple", ("text_encoder",)),
    ("dpu_tiny", "hbm2_vu47p", (*FEW, "unet")),
    ("dpu_tiny", "lpddr5x_8533_128", FEW),
    ("tiny_16", "ideal", ("time", *FEW, "unet")),
    ("tiny_16", "simple", FEW),
    ("tiny_16", "hbm2_vu47p", (*FEW, "unet")),
    ("tiny_16", "lpddr5x_8533_128", FEW),
    ("tiny_x2", "ideal", ("time", *FEW, "unet")),
    ("tiny_x2", "simple", ("text_encoder",)),
    ("tiny_x2", "hbm2_vu47p", ("time", *FEW)),
    ("f2_x1", "ideal", ("time", *FEW, "unet")),
    ("f2_x1", "hbm2_vu47p", ("time", *FEW, "unet")),
)
"""Arch, memory, entries of the tiny pipeline."""

CASES = tuple((arch, dram, entry) for arch, dram, names in RUNS for entry in names)
"""The rows of the table, in order."""


def table(command: str, rows: Iterable[Row]) -> Cycles:
    """The rows as a table."""
    return Cycles(command=command, seen=("dpu_tiny", "f2_x1"), rows=tuple(rows))


def replaced(rows: Iterable[Row], row: Row) -> list[Row]:
    """`rows` with `row` in its place, in the order of the table; rows that are not of it come last."""
    found = {r.case: r for r in rows} | {row.case: row}
    return sorted(found.values(), key=lambda r: CASES.index(r.case) if r.case in CASES else len(CASES))
