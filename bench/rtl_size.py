"""`dpubench rtl-size`: how large each engine of the RTL is, on the FPGA of an F2 card and in gates, and what fits.

Units (a module with its parameters) are synthesised one by one and kept in the result file with a digest of all that
they come from: a run that was stopped goes on, and one after a change does what changed only. From units come engines,
from engines tiles, from tiles what fits into a die region; what has not all of its units for the RTL as it is, is left
out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..errors import DpuError
from ..evidence import Provenance
from ..files import atomic_write
from ..ir.arch import Arch, load_arch
from ..rtl.size import cells, device, memories, tree
from ..rtl.size.yosys import Flow, Unit, digest, synthesise, yosys_version
from .resumed import read_record

Say = Callable[[str], None]

SHAPES: dict[str, tuple[str, int, int]] = {
    "dpu_tiny": ("dpu_tiny", 8, 8),
    "16x16": ("dpu_f2", 16, 8),
    "32x32": ("dpu_f2", 32, 16),
    "dpu_f2": ("dpu_f2", 64, 16),
    "64x64-l32": ("dpu_f2", 64, 32),
    "64x64-l8": ("dpu_f2", 64, 8),
    "dpu_32tops": ("dpu_32tops", 64, 64),
}
"""Name: arch that it is made from, columns, lanes. Smaller arrays have `dpu_f2`'s SRAM for each cell."""

FLOWS: tuple[Flow, ...] = ("fpga", "gates")


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class EngineRow(_Model):
    """One engine of a tile (or the host side): sites of the FPGA, gates, bits. None: not synthesised."""

    engine: str
    lut: int | None = None
    ff: int | None = None
    dsp: int | None = None
    bram: float | None = None  # RAMB36, buffers included
    uram: int | None = None
    gates: int | None = None  # NAND2 equivalents
    registers: int | None = None  # flip-flops among the gates
    array_bits: int | None = None  # memories in an engine that are neither gates nor buffers, a copy for each reader


class MacroRow(_Model):
    """Banks of a buffer: one read and one write port each."""

    words: int
    bits: int
    count: int


class ShapeRow(_Model):
    """All engines of one shape; `macros` are the buffers of one tile."""

    name: str
    arch: str
    cols: int
    lanes: int
    engines: tuple[EngineRow, ...]
    macros: tuple[MacroRow, ...]

    @property
    def sram_bits(self) -> int:
        return sum(m.words * m.bits * m.count for m in self.macros)

    @property
    def flows(self) -> tuple[Flow, ...]:
        """Those it was sized with."""
        tile = self.tile()
        return tuple(f for f, n in zip(FLOWS, (tile.lut, tile.gates), strict=True) if n is not None)

    def tile(self) -> EngineRow:
        """The sum over a tile's engines; None where one is missing."""
        rows = [e for e in self.engines if e.engine != tree.HOST]
        found: dict[str, float | None] = {}
        for name in EngineRow.model_fields:
            if name != "engine":
                values = [getattr(e, name) for e in rows]
                found[name] = None if any(v is None for v in values) else sum(values)
        return EngineRow.model_validate({"engine": "tile", **found})


class Candidate(_Model):
    """`dpu_f2` with other tiles and lanes: one SDXL image of `STEPS` steps, estimated by the compiler."""

    tiles: int
    lanes: int
    seconds: float
    utilisation: float  # MACs of the graphs over what the arrays could do in that time


class SizeResult(_Model):
    """The file: units, and what is made of them."""

    provenance: str = Provenance.SIMULATED.label
    about: str = (
        "synthesised by Yosys, not placed, routed or timed: an estimate of a tool, as near to measured as the "
        "project's words come"
    )
    command: str
    yosys: str
    gates_are: str = cells.SOURCE
    regions_are: str = device.SOURCE
    regions: tuple[device.Region, ...] = device.REGIONS
    shapes: tuple[ShapeRow, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    units: tuple[Unit, ...] = ()

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(exclude_none=True) + "\n")

    def shape(self, name: str) -> ShapeRow | None:
        """A shape by its name, if it is there."""
        return next((s for s in self.shapes if s.name == name), None)


def shape_arch(name: str) -> Arch:
    """The arch of a shape.

    Raises:
        DpuError: E502, there is none of that name.
    """
    if name not in SHAPES:
        raise DpuError(
            "--shapes", f"no shape '{name}'", f"there are: {', '.join(SHAPES)}", "name one of these", code="E502"
        )
    base, cols, lanes = SHAPES[name]
    arch = load_arch(base)
    if (arch.cols, arch.lanes) == (cols, lanes):
        return arch
    part = arch.cols // cols
    buffers = {
        b: {"bytes": x["bytes"] // (part if b == "param" else part * part), "banks": x["banks"]}
        for b, x in arch.model_dump(mode="json")["buffers"].items()
    }
    given = {"name": name, "rows": cols, "cols": cols, "lanes": lanes, "buffers": buffers}
    return Arch.model_validate({**arch.model_dump(mode="json"), **given})


class NotKept(Exception):
    """A unit that would have to be synthesised."""


class Store:
    """Units by digest: kept ones are taken, others synthesised and written at once."""

    def __init__(self, result: SizeResult, out: Path | None, say: Say) -> None:
        self.units = {u.digest: u for u in result.units}
        self.result, self.out, self.say = result, out, say

    def size(self, module: str, parameters: Mapping[str, int], flow: Flow) -> Unit:
        """The unit of a module.

        Raises:
            DpuError: E428, Yosys is missing or fails.
        """
        key = digest(module, parameters, flow)
        if key not in self.units:
            self._add(synthesise(module, parameters, flow))
        return self.units[key]

    def _add(self, unit: Unit) -> None:
        given = ", ".join(f"{k} {v}" for k, v in unit.parameters.items())
        self.units[unit.digest] = unit
        self.say(f"{unit.module} ({given}), {unit.flow}: {unit.seconds:.0f} CPU s")
        if self.out is not None:
            self.kept().save(self.out)

    def fill(self, archs: Sequence[Arch], flows: Sequence[Flow], jobs: int) -> None:
        """Size what the archs lack, `jobs` units at a time; what is below a unit is known once it is there.

        Raises:
            DpuError: E428, Yosys is missing or fails.
        """
        under_way: dict[Future[Unit], str] = {}
        with ThreadPoolExecutor(jobs) as pool:
            while True:
                for key, given in self._lacking(archs, flows).items():
                    if key not in under_way.values():
                        under_way[pool.submit(synthesise, *given)] = key
                if not under_way:
                    return
                try:
                    for done in wait(under_way, return_when=FIRST_COMPLETED).done:
                        self._add(done.result())
                        del under_way[done]
                except BaseException:
                    pool.shutdown(wait=False, cancel_futures=True)
                    raise

    def _lacking(self, archs: Sequence[Arch], flows: Sequence[Flow]) -> dict[str, tuple[str, dict[str, int], Flow]]:
        """Units that are not there, as far as they are known, by their digest."""
        lacking: dict[str, tuple[str, dict[str, int], Flow]] = {}

        def look(module: str, given: Mapping[str, int], flow: Flow) -> Unit:
            key = digest(module, given, flow)
            if key in self.units and module not in tree.LAWS:
                return self.units[key]
            if key not in self.units:
                lacking[key] = (module, dict(given), flow)
            return Unit(module=module, parameters=dict(given), flow=flow, digest=key, cells={})

        for arch in archs:
            for flow in flows:
                _walk(arch, flow, look)
        return lacking

    def find(self, module: str, parameters: Mapping[str, int], flow: Flow) -> Unit:
        """The unit of a module, if it is there.

        Raises:
            NotKept: it is not, or only that of another RTL.
        """
        unit = self.units.get(digest(module, parameters, flow))
        if unit is None:
            raise NotKept
        return unit

    def kept(self) -> SizeResult:
        """The result with all units, old ones too."""
        order = sorted(self.units.values(), key=lambda u: (u.module, u.flow, sorted(u.parameters.items())))
        return self.result.model_copy(update={"units": tuple(order)})


def measure(
    names: Sequence[str], flows: Sequence[Flow], out: Path | None, command: str, say: Say = lambda _: None,
    jobs: int = 1,
) -> SizeResult:  # fmt: skip
    """Size the shapes, `jobs` units at a time; `out` is continued and written after each unit.

    Shapes and flows that are not asked for stay where all units are those of the RTL as it is; `say` names the others.

    Raises:
        DpuError: E502, an unknown shape, or `out` is no file of this command; E101, it cannot be read; E428, Yosys is
            missing or fails.
    """
    archs = {n: shape_arch(n) for n in names}
    old = _load(out)
    start = SizeResult(command=command, yosys=yosys_version(), units=old.units, candidates=old.candidates)
    store = Store(start, out, say)
    trees = {n: _kept(shape_arch(n), store) for n in SHAPES}
    for shape in old.shapes:
        for flow in shape.flows:
            if flow not in trees.get(shape.name, {}) and not (shape.name in archs and flow in flows):
                say(f"{shape.name}, {flow}: left out, not all of its units are of the RTL as it is")
    store.result = _shown(store.result, trees)
    if jobs > 1:
        store.fill(list(archs.values()), flows, jobs)
    for name, arch in archs.items():
        trees[name] |= {f: _walk(arch, f, store.size) for f in flows}
        store.result = _shown(store.result, trees)
        if out is not None:
            store.kept().save(out)
    return store.kept()


def _walk(arch: Arch, flow: Flow, size: tree.Size) -> tree.Tree:
    return tree.walk(arch, flow, size, packed=flow == "fpga")


def _kept(arch: Arch, store: Store) -> dict[Flow, tree.Tree]:
    """The shape by flow, where all units are there."""
    found: dict[Flow, tree.Tree] = {}
    for flow in FLOWS:
        with suppress(NotKept):
            found[flow] = _walk(arch, flow, store.find)
    return found


def _load(out: Path | None) -> SizeResult:
    fresh = SizeResult(command="", yosys="")
    if out is None or not out.exists():
        return fresh
    return read_record(out, SizeResult, "units that are in the output are kept")


def _shown(result: SizeResult, trees: Mapping[str, Mapping[Flow, tree.Tree]]) -> SizeResult:
    """The result with a row for each shape that has a flow."""
    return result.model_copy(update={"shapes": tuple(_row(n, found) for n, found in trees.items() if found)})


def _row(name: str, trees: Mapping[Flow, tree.Tree]) -> ShapeRow:
    """The shape's row; empty where a flow is missing."""
    engines: dict[str, dict[str, float]] = {}
    banks: Mapping[str, list[memories.Macro]] = {}
    for flow, found in trees.items():
        banks = found.banks
        if flow == "gates":
            _add_gates(engines, found)
        else:
            _add_sites(engines, found)
    macros = tuple(MacroRow(words=m.words, bits=m.bits, count=m.number) for ms in banks.values() for m in ms)
    order = [tree.HOST, *[e for e in dict.fromkeys(tree.ENGINES.values()) if e in engines]]
    rows = tuple(EngineRow.model_validate({**engines[e], "engine": e}) for e in order)
    base, cols, lanes = SHAPES[name]
    return ShapeRow(name=name, arch=base, cols=cols, lanes=lanes, engines=rows, macros=macros)


def _add_sites(engines: dict[str, dict[str, float]], found: tree.Tree) -> None:
    total: dict[str, cells.Sites] = {}
    for p in found.units:
        total[p.engine] = total.get(p.engine, cells.Sites()) + cells.sites(p.unit.cells) * p.number
    for engine, n in found.pairs.items():
        total[engine] = total.get(engine, cells.Sites()) + cells.Sites(dsp=n)
    used = cells.Sites()
    for engine, s in total.items():
        used = used + s if engine != tree.HOST else used
    bram, uram = (min(getattr(r, k) for r in device.REGIONS) for k in ("bram", "uram"))
    for engine, macros in found.banks.items():
        total[engine] = total.get(engine, cells.Sites()) + memories.place(macros, bram, uram, used)
    for engine, s in total.items():
        row = engines.setdefault(engine, {})
        row.update(lut=s.lut, ff=s.ff, dsp=s.dsp, bram=s.bram, uram=s.uram)


def _add_gates(engines: dict[str, dict[str, float]], found: tree.Tree) -> None:
    for engine in {p.engine for p in found.units}:
        mine = [p for p in found.units if p.engine == engine]
        bits = sum(a.words * a.bits * a.copies for p in mine for a in tree.arrays(p))
        engines.setdefault(engine, {}).update(
            gates=round(sum(cells.gates(p.unit.cells) * p.number for p in mine)),
            registers=sum(cells.flip_flops(p.unit.cells) * p.number for p in mine),
            array_bits=bits,
        )
