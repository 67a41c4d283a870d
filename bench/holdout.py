"""`dpubench cycles-holdout`: timing model against RTL on what no rule was found on: other arch, programs and seeds.

The rules of the timing model come from `dpu_tiny`, and `cycles.RUNS` looks at three more archs with the tiny pipeline
at 64 x 64. Here array, lanes, depths, banks and queues are others, the pipeline has another image size, and layers are
drawn from seeds. Nothing of `HELD_OUT` may be used to change a rule. When a miss there has led to one, the arch goes to
`REGRESSION`, whose rows only show that what was mended stays so, and another arch with other seeds comes in its place.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel, ConfigDict

from ..errors import DpuError
from ..evidence import Provenance
from ..files import atomic_write
from ..ir.arch import Arch, load_arch
from ..ir.container import Program
from ..ir.dialects import parse_module
from ..runtime.failures import SeededWeights, compile_module
from ..simulator.memory import with_dram
from .cycles import LEAST, LONG, SHORT, WHOLE, LayerCycles, Misses, beyond_bounds, layers, misses, run
from .holdout_nets import KINDS, net

REGRESSION = {"holdout_16": 1000, "holdout_32": 1000}
HELD_OUT = {"holdout_32x8": 2000}
"""Archs, and the first seed of their nets."""
FIRST_SEED = REGRESSION | HELD_OUT
SEEDS = 3  # nets of each kind
MEMORIES = ("ideal", "hbm2_vu47p", "lpddr5x_8533_128")
ENTRIES = ("text_encoder", "unet")
SIZE = (96, 64)  # of the image: other row lengths than the 64 x 64 of the seen runs


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class HoldoutRow(_Model):
    """One entry of a program on one memory."""

    arch: str
    held_out: bool  # no rule was found on it
    program: str
    dram: str
    words: int
    rtl: int
    model: int
    whole: bool  # a whole forward of a network, not a few layers
    long: Misses
    short: Misses

    @property
    def error(self) -> float:
        return (self.model - self.rtl) / self.rtl

    @property
    def agrees(self) -> bool:
        forward = not self.whole or abs(self.error) <= WHOLE
        return forward and not self.long.beyond and not self.short.beyond


class Holdout(_Model):
    """The table."""

    provenance: str = Provenance.SIMULATED.label
    command: str
    seeds: dict[str, int]  # the first of each arch
    archs: tuple[Arch, ...]
    long_bound: float = LONG
    short_bound_cycles: int = SHORT
    whole_bound: float = WHOLE
    rows: tuple[HoldoutRow, ...]

    @property
    def agrees(self) -> bool:
        return all(r.agrees for r in self.rows)

    def text(self) -> str:
        """A line a program and memory; layers beyond the bounds below."""
        lines = [
            f"{'arch':12} {'held out':8} {'program':20} {'memory':17} {'RTL':>11} {'model':>11} {'error':>8}  "
            f"{'layers':>6} {'worst':>7}  {'short':>5} {'worst':>6}  ok"
        ]
        beyond = []
        for r in self.rows:
            long = max((abs(x.error) for x in r.long.worst), default=0.0)
            short = max((abs(x.model - x.rtl) for x in r.short.worst), default=0)
            lines.append(
                f"{r.arch:12} {'yes' if r.held_out else 'no':8} {r.program:20} {r.dram:17} "
                f"{r.rtl:11,} {r.model:11,} {100 * r.error:+7.3f}%  "
                f"{r.long.count:6} {100 * long:6.2f}%  {r.short.count:5} {short:6}  {'yes' if r.agrees else 'NO'}"
            )
            beyond += beyond_bounds(f"{r.arch}, {r.program} on {r.dram}", r.long, r.short)
        return "\n".join([*lines, *(["beyond the bounds:", *beyond] if beyond else [])])

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")


def archs() -> dict[str, Arch]:
    """16 x 16 with 4 lanes, 32 x 32 with 16 and with 8; depths that are no powers of two, other banks, other queues."""
    words = {"act": 3072, "wgt": 2048, "acc": 1536, "vbuf": 2560, "param": 12288}
    banks = {"act": 3, "wgt": 4, "acc": 2, "vbuf": 5, "param": 1}
    queues = {"load": 8, "mxu": 4, "vpu": 6, "store": 4}
    first = (_arch(f"holdout_{c}", c, lanes, words, banks, queues) for c, lanes in ((16, 4), (32, 16)))
    words = {"act": 2560, "wgt": 1536, "acc": 1152, "vbuf": 1792, "param": 10240}
    banks = {"act": 5, "wgt": 2, "acc": 3, "vbuf": 2, "param": 1}
    queues = {"load": 5, "mxu": 3, "vpu": 4, "store": 6}
    return {a.name: a for a in (*first, _arch("holdout_32x8", 32, 8, words, banks, queues))}


def _arch(
    name: str, cols: int, lanes: int, words: dict[str, int], banks: dict[str, int], queues: dict[str, int]
) -> Arch:
    unit = {"act": cols, "wgt": cols, "acc": 4 * cols, "vbuf": 2 * cols, "param": 4}
    buffers = {b: {"bytes": words[b] * unit[b], "banks": banks[b]} for b in words}
    shape = {"name": name, "tiles": 1, "rows": cols, "cols": cols, "lanes": lanes, "buffers": buffers, "queues": queues}
    text = f"Only for the timing model against the RTL: {cols} x {cols}, {lanes} lanes."
    return Arch.model_validate(load_arch("dpu_tiny").model_dump(mode="json") | shape | {"description": text})


def _row(arch: str, name: str, dram: str, whole: bool, rtl: Any, model: Any, some: Sequence[LayerCycles]) -> HoldoutRow:
    long, short = misses(some)
    return HoldoutRow(
        arch=arch,
        held_out=arch in HELD_OUT,
        program=name,
        dram=dram,
        words=sum(len(t.start) for t in model.tiles),
        rtl=rtl.cycles,
        model=model.cycles,
        whole=whole,
        long=long,
        short=short,
    )


def layer_programs(arch: Arch) -> Iterator[tuple[str, Program]]:
    """The nets of all kinds and seeds, compiled."""
    first = FIRST_SEED[arch.name]
    for kind in KINDS:
        for seed in range(first, first + SEEDS):
            module = parse_module(net(kind, seed))
            yield f"{kind} {seed}", compile_module(module, arch, SeededWeights(module))[0].program


def pipeline(arch: Arch, work: Path) -> Program:
    """The tiny pipeline for the holdout's image size."""
    from ..codegen.driver import compile_folder
    from ..frontend.sdxl import export_tiny
    from ..runtime.calibrate import calibrate_folder

    folder, statistics, path = work / "tiny", work / "calib.safetensors", work / "arch.json"
    export_tiny(folder)
    calibrate_folder(folder, statistics, prompts=1, steps=4, size=SIZE)
    path.write_text(arch.model_dump_json())
    return compile_folder(folder, arch=str(path), calibration=statistics, size=SIZE).program


Points = dict[str, list[tuple[int, int]]]
"""(RTL, model) cycles of every layer, by memory."""


def measure(
    names: Sequence[str], whole: bool = True, say: Callable[[str], None] = lambda _: None
) -> tuple[tuple[HoldoutRow, ...], Points]:
    """All nets on the archs and all memories, and with `whole` the pipeline's entries on those held out.

    Assertions of the RTL are on.

    Raises:
        DpuError: E428, the RTL cannot be built; E505, no such arch.
    """
    rows, known = list[HoldoutRow](), archs()
    points: Points = {m: [] for m in MEMORIES}
    if unknown := [n for n in names if n not in known]:
        raise DpuError(unknown[0], "no such holdout arch", hint=f"one of {', '.join(known)}", code="E505")

    def take(arch: Arch, name: str, program: Program, entries: Sequence[str], forward: bool) -> None:
        for dram in MEMORIES:
            for entry, rtl, model in run(program, with_dram(arch, dram), entries, checked=True):
                some = list(layers(rtl, model, entry))
                points[dram] += [(x.rtl, x.model) for x in some]
                title = f"{name} {entry.name}" if forward else name
                rows.append(_row(arch.name, title, dram, forward, rtl, model, some))
                say(f"{arch.name}: {title} on {dram}: RTL {rtl.cycles:,}, model {model.cycles:,}")

    for key in names:
        for name, program in layer_programs(known[key]):
            take(known[key], name, program, ["net"], False)
        if whole and key in HELD_OUT:
            with tempfile.TemporaryDirectory() as work:
                take(known[key], "tiny", pipeline(known[key], Path(work)), ENTRIES, True)
    return tuple(rows), points


def plot(points: Points, path: Path) -> None:
    """Cycles of every layer in the RTL against those of the model, and the error below: a small PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (above, below) = pyplot.subplots(
        2, 1, figsize=(5.2, 5.6), sharex=True, height_ratios=(3, 1.4), layout="constrained"
    )
    everything = np.array([x for some in points.values() for x in some], np.float64)
    ends = everything[:, 0].min() / 1.3, everything[:, 0].max() * 1.3
    worst = np.abs(100 * (everything[:, 1] / everything[:, 0] - 1)).max()
    for (dram, some), mark in zip(points.items(), "ox+", strict=True):
        rtl, model = np.array(some, np.float64).T
        above.plot(rtl, model, mark, markersize=3, alpha=0.5, label=f"{dram} ({len(some)} layers)")
        below.plot(rtl, 100 * (model - rtl) / rtl, mark, markersize=3, alpha=0.5)
    above.plot(ends, ends, "k-", linewidth=0.6)
    above.set(xscale="log", yscale="log", ylabel="timing model, cycles", xlim=ends, ylim=ends)
    above.legend(fontsize=8, frameon=False)
    bound = np.geomspace(*ends, 200)
    limit = np.where(bound >= LEAST, 100 * LONG, 100 * SHORT / bound)
    below.plot(bound, limit, "k--", bound, -limit, "k--", linewidth=0.6)
    top = max(2.0, 1.1 * worst)
    below.set(xscale="log", ylim=(-top, top), xlabel="RTL, cycles", ylabel="error, %")
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as temporary:
        figure.savefig(temporary, format="png", dpi=90)
    pyplot.close(figure)
