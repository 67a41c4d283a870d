"""`dpubench campaign`: random programs on simulator and RTL, over shapes, memories and pauses of AXI.

Program n of a shape is seed n, everywhere and always. The result file is the state: a run that was killed goes on.
"""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from ..errors import DpuError
from ..evidence import Provenance
from ..files import atomic_write
from ..ir.arch import Arch
from ..ir.isa import (
    DMA,
    MM,
    RED_ACCUMULATE,
    RED_COLUMNS,
    RED_INTEGER,
    VEC,
    Buffer,
    DmaFormat,
    Format,
    Function,
    MmMode,
    Op2,
    Opcode,
    Reduce,
    RowMax,
    Words,
)
from ..rtl import toolchain
from ..rtl.model import TOP
from ..simulator.memory import with_dram
from ..simulator.state import Tally
from .resumed import check_same, read_record
from .rtl_compare import Both
from .rtl_dma_words import Bytes
from .rtl_programs import Piece, Program
from .rtl_seeds import BLOCK, drawn, gap, mode, program
from .rtl_shapes import card

SHAPES = ("one", "small", "thin", "three", "two", "full")
ROUND = 100
"""Programs of a shape before the next shape's turn."""


class Side(Protocol):
    """What compares a program on both sides."""

    def difference(self, streams: Sequence[Words], regions: dict[int, Bytes]) -> tuple[str, Tally]: ...


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Mismatch(_Model):
    """A program that the two sides do not have alike."""

    seed: int
    mode: str
    difference: str  # of the shrunk program
    words: int  # of it, besides those that fill and dump the scratchpads
    program: str  # assembler text of these
    note: str = ""


class ShapeResult(_Model):
    """Programs 0 to `programs` - 1 of one shape."""

    shape: str
    tiles: int
    cols: int
    lanes: int
    words_of: dict[str, int]  # of each scratchpad
    banks_of: dict[str, int]
    programs: int = 0
    refused: int = 0  # programs with an illegal word, which both sides must refuse alike
    cycles: int = 0
    cpu_seconds: float = 0.0
    forms: dict[str, int] = Field(default_factory=dict)
    modes: dict[str, int] = Field(default_factory=dict)  # programs of each
    mismatches: list[Mismatch] = Field(default_factory=list)

    def add(self, block: ShapeResult) -> None:
        """Count the programs of a block; `programs` stays."""
        self.refused += block.refused
        self.cycles += block.cycles
        self.cpu_seconds = round(self.cpu_seconds + block.cpu_seconds, 2)
        for counts, more in ((self.forms, block.forms), (self.modes, block.modes)):
            for name, n in more.items():
                counts[name] = counts.get(name, 0) + n


class Campaign(_Model):
    """The result, and the state of a run that goes on."""

    provenance: str = Provenance.SIMULATED.label
    command: str = "dpubench campaign"
    design: str  # digest of the RTL
    generator: str  # digest of what makes programs
    block: int = BLOCK
    shapes: dict[str, ShapeResult] = Field(default_factory=dict)

    @property
    def programs(self) -> int:
        return sum(s.programs for s in self.shapes.values())

    @property
    def mismatches(self) -> int:
        return sum(len(s.mismatches) for s in self.shapes.values())

    def text(self) -> str:
        """For people: a line a shape, then what differed."""
        lines = [f"{'shape':8} {'tiles':>5} {'array':>7} {'lanes':>5} {'programs':>9} {'refused':>8} {'words':>10} "]
        lines[0] += f"{'cycles':>14} {'CPU s':>8}  mismatches"
        for name, s in self.shapes.items():
            words = sum(n for form, n in s.forms.items() if " " not in form)
            lines.append(
                f"{name:8} {s.tiles:5} {f'{s.cols}x{s.cols}':>7} {s.lanes:5} {s.programs:9,} {s.refused:8,} "
                f"{words:10,} {s.cycles:14,} {s.cpu_seconds:8.0f}  {len(s.mismatches)}"
            )
        lines.append(f"{self.programs:,} programs, {self.mismatches} mismatches")
        for name, s in self.shapes.items():
            for m in s.mismatches:
                lines.append(f"{name} seed {m.seed} ({m.mode}): {m.difference} {m.note}\n{m.program}")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")


@cache
def design() -> str:
    """Digest of the RTL's source files."""
    return toolchain.digest(toolchain.sources(TOP))


@cache
def generator() -> str:
    """Digest of the code that turns a seed into a program."""
    here = Path(__file__).parent
    names = ("rtl_dma_words", "rtl_vec_words", "rtl_programs", "rtl_spoiled", "rtl_shapes", "rtl_seeds")
    return toolchain.digest([here / f"{n}.py" for n in names])


def both(shape: str, seed: int, extra: tuple[Path, ...] = (), coverage: Path | None = None) -> Both:
    """The two sides for the block of program `seed`."""
    dram, stall = mode(seed)
    return Both(with_dram(card(shape), dram), stall, gap(seed), extra, coverage)


# What is in them.


def _names(kind: type[Buffer] | type[Format], value: int) -> str:
    try:
        return kind(value).name
    except ValueError:
        return str(value)


def _place(source: int) -> str:
    return f"{_names(Buffer, source & 15)}.{_names(Format, source >> 4)}"


def forms(words: Words) -> Counter[str]:
    """Legal words counted by opcode, and by the forms of each: a key with a space in it is a form."""
    found: Counter[str] = Counter()
    for w in words:
        opcode = Opcode(int(w["opcode"]))
        one = np.atleast_1d(w)
        found[opcode.name] += 1
        if opcode in (Opcode.LOAD, Opcode.STORE):
            d = one.view(DMA)[0]
            what = f"{DmaFormat(int(d['format'])).name} " if opcode == Opcode.LOAD else ""
            found[f"{opcode.name} " + (what + _names(Buffer, int(d["buffer"])) if d["inner"] else "fence")] += 1
            if d["pad"].any():
                found[f"{opcode.name} padded"] += 1
        elif opcode == Opcode.MM:
            m = one.view(MM)[0]
            found[f"MM {MmMode(int(m['mode'])).name} rowmax {RowMax(int(m['rowmax'])).name}"] += 1
        elif opcode == Opcode.VEC:
            v = one.view(VEC)[0]
            found[f"VEC a {_place(int(v['a_src']))}"] += 1
            found[f"VEC d {_place(int(v['d_src']))}"] += 1
            found[f"VEC func {Function(int(v['func']) & 15).name}"] += 1
            if v["op2"] & 15:
                found[f"VEC op2 {Op2(int(v['op2']) & 15).name}"] += 1
            red = int(v["red"])
            if red & 15:
                name = f"VEC red {Reduce(red & 15).name} {'columns' if red & RED_COLUMNS else 'rows'}"
                name += " accumulate" if red & RED_ACCUMULATE else ""
                found[name + (" integer" if red & RED_INTEGER else "")] += 1
    return found


# Smaller programs that fail alike.


def shrink(side: Side, make: Callable[[Sequence[Piece | None]], Program], pieces: Sequence[Piece | None]) -> Mismatch:
    """The fewest words found that still differ: halves, quarters, ... left out, then single words, while any can go."""

    def failure(some: Sequence[Piece | None]) -> str:
        p = make(some)
        return side.difference(p.streams, p.regions)[0]

    left: list[Piece | None] = [p for p in pieces if p is not None]
    last = failure(left)
    if not last:
        return Mismatch(seed=0, mode="", difference="", words=0, program="", note="it failed once, not again")
    step = max(1, len(left) // 2)
    while True:
        k, shorter = 0, False
        while k < len(left):
            less = left[:k] + left[k + step :]
            if text := failure(less):
                left, last, shorter = less, text, True
            else:
                k += step
        if step == 1 and not shorter:
            break
        step = max(1, step // 2) if not shorter or step > 1 else 1
    final = make(left)
    return Mismatch(seed=0, mode="", difference=last, words=final.count, program=str(final))


def _explained(shape: str, seed: int, text: str) -> Mismatch:
    """The mismatch of program `seed`, shrunk on a fresh model; as it was found if it needs what ran before it."""
    dram, stall = mode(seed)
    side = both(shape, seed)
    try:
        found = shrink(side, lambda some: program(shape, seed, some), drawn(shape, seed)[0])
    finally:
        side.close()
    if not found.difference:
        whole = program(shape, seed)
        note = f"only behind the programs of its block, from seed {seed // BLOCK * BLOCK}"
        found = Mismatch(seed=seed, mode="", difference=text, words=whole.count, program=str(whole), note=note)
    return found.model_copy(update={"seed": seed, "mode": f"{dram}, pauses {stall}/256"})


# The campaign.


def _cpu() -> float:
    return sum(sum(resource.getrusage(w)[:2]) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def run_block(
    shape: str,
    first: int,
    last: int,
    result: ShapeResult | None = None,
    extra: tuple[Path, ...] = (),
    coverage: Path | None = None,
    all_of_them: bool = True,
) -> list[tuple[int, str]]:
    """Programs `first` to `last` - 1, of one block; (seed, difference) of those that differ. `result` counts.

    `all_of_them` False: only up to the first that differs.
    """
    dram, stall = mode(first)
    side, found = both(shape, first, extra, coverage), []
    try:
        for seed in range(first, last):
            p = program(shape, seed)
            text, _ = side.difference(p.streams, p.regions)
            if text:
                found.append((seed, text))
                if not all_of_them:
                    break
            if result is not None:
                key = f"{dram}, pauses {stall}/256"
                result.modes[key] = result.modes.get(key, 0) + 1
                result.refused += p.odd is not None
                for name, n in forms(np.concatenate([p.legal(t) for t in range(p.arch.tiles)])).items():
                    result.forms[name] = result.forms.get(name, 0) + n
    finally:
        side.close()
    if result is not None:
        result.cycles += side.cycles
    return found


def _fresh(shape: str) -> ShapeResult:
    a: Arch = card(shape)
    banks = {b: getattr(a.buffers, b).banks for b in a.words}
    return ShapeResult(shape=shape, tiles=a.tiles, cols=a.cols, lanes=a.lanes, words_of=a.words, banks_of=banks)


def start(path: Path | None, command: str = "dpubench campaign") -> Campaign:
    """What `path` holds, or an empty campaign.

    Raises:
        DpuError: E502, the file is no campaign, or of another design or generator: its programs would not be these.
    """
    fresh = Campaign(command=command, design=design(), generator=generator())
    if path is None or not path.is_file():
        return fresh
    found = read_record(path, Campaign, "programs that are in it are added to")
    names = ("design", "generator", "block")
    check_same(path, found, fresh, names, "a campaign", "its programs cannot be added to these")
    return found


def run(
    programs: int,
    shapes: Sequence[str] = SHAPES,
    out: Path | None = None,
    command: str = "dpubench campaign",
    say: Callable[[str], None] = lambda _: None,
    jobs: int = 1,
) -> Campaign:
    """Run until `programs` programs were run in all, the same number of each shape; blocks side by side in `jobs`.

    The result is the same for every `jobs`, but for the CPU seconds.

    Raises:
        DpuError: E501 no such shape, E502 as `start`, E428 the RTL cannot be built.
    """
    for name in shapes:
        if name not in SHAPES:
            raise DpuError(f"--shapes {name}", "no such shape", hint=f"one of {', '.join(SHAPES)}", code="E501")
    found = start(out, command)
    each = -(-programs // len(shapes))
    for name in shapes:
        found.shapes.setdefault(name, _fresh(name))
    for (name, _, last), (part, differing) in _in_order(_blocks(found, shapes, each), jobs):
        s = found.shapes[name]
        s.add(part)
        s.programs = last
        s.mismatches += [_explained(name, seed, text) for seed, text in differing]
        if out is not None:
            found.save(out)
        say(f"{name}: {s.programs:,} of {each:,}, {len(s.mismatches)} mismatches, {s.cpu_seconds:.0f} CPU s")
    return found


def _blocks(found: Campaign, shapes: Sequence[str], each: int) -> list[tuple[str, int, int]]:
    """(shape, first program, behind the last) that are left; a run that is killed has something of every shape."""
    at, blocks = {name: found.shapes[name].programs for name in shapes}, []
    for target in range(ROUND, each + ROUND, ROUND):
        for name in shapes:
            while at[name] < min(target, each):
                first, last = at[name], min(each, at[name] // BLOCK * BLOCK + BLOCK)
                blocks.append((name, first, last))
                at[name] = last
    return blocks


def _in_order(
    blocks: Sequence[tuple[str, int, int]], jobs: int
) -> Iterator[tuple[tuple[str, int, int], tuple[ShapeResult, list[tuple[int, str]]]]]:
    """Each block with what it found, in the order of `blocks`."""
    from joblib import Parallel, delayed

    pool = Parallel(n_jobs=jobs, backend="loky", return_as="generator", batch_size=1)
    yield from zip(blocks, pool(delayed(_counted)(*b) for b in blocks), strict=True)


def _counted(shape: str, first: int, last: int) -> tuple[ShapeResult, list[tuple[int, str]]]:
    """The counts of one block alone, and what differed in it."""
    begin, part = _cpu(), _fresh(shape)
    differing = run_block(shape, first, last, part)
    part.cpu_seconds = _cpu() - begin
    return part, differing
