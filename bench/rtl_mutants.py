"""`dpubench rtl-mutants`: is every seeded fault of the RTL caught, by which test, and after how long?

Faults are tried one by one on one build (`rtl_mutator`): those of the tiles on random programs first, then all that
live on the benches of their module and of the whole. A fault that every test passes is a survivor: it needs a new test,
or a proof that it changes nothing, which is kept with its reason in `rtl/equivalent_mutants.json`. The result file is
the state.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import resource
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from multiprocessing.connection import Connection
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from ..errors import DpuError
from ..evidence import Provenance
from ..files import atomic_write
from ..rtl import toolchain
from ..rtl.model import TOP
from .campaign import design, run_block
from .resumed import check_same, read_record
from .rtl_mutator import OPERATORS, Mutant, Site, around, draw, everything, write
from .rtl_seeds import BLOCK

SHAPE = "pair"
PROGRAMS = "random programs"  # their name among the tests
FIRST = 3_000_000  # seeds that no committed campaign has
BLOCKS = 3  # without pauses, with some on a shared memory, with many on HBM2
SECONDS = 25  # CPU of the random programs of one fault: the design takes a fifth
WALL = 400  # seconds of one bench, which is built by then; those of the design take up to a minute
EQUIVALENT = toolchain.FOLDER / "equivalent_mutants.json"

BENCHES: dict[str, tuple[str, ...]] = {
    "mxu": ("rtl/test_mxu", "rtl/test_mxu_packed"),
    "vpu": ("rtl/test_vpu", "rtl/test_float"),
    "dma": ("rtl/test_load_store",),
    "ctrl": tuple(f"rtl/test_{n}" for n in ("registers", "host", "fetch", "sequencer", "tokens", "top")),
    "mem": ("rtl/test_memories",),
    "common": ("rtl/test_float", "rtl/test_memories"),
    "": ("rtl/test_top",),
    "f2": ("f2/test_cl_modules", "f2/test_cl_card", "f2/test_cl_trouble"),
    "xrt": ("xrt/test_kernel",),
}
"""The tests of each folder of rtl/, by their place in tests/."""
ALWAYS = ("rtl/test_faults", "rtl/test_compiled", "rtl/test_cycles")
"""Tests of the tiles, whatever folder of theirs the fault is in."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Outcome(_Model):
    """One fault. `caught_by` is empty while no test has caught it."""

    id: int
    module: str
    line: int
    operator: str
    before: str
    after: str
    caught_by: str = ""
    said: str = ""  # what the test said first
    cpu_seconds: float = 0.0
    passed: list[str] = Field(default_factory=list)  # tests that did not catch it
    equivalent: str = ""  # why no test can


class Mutants(_Model):
    """The table, and the state of a run that goes on."""

    provenance: str = Provenance.SIMULATED.label
    command: str
    design: str  # digest of the tiles' modules
    around: str  # of those that put them on a card
    seed: int
    each: int
    shape: str = SHAPE
    programs: int = BLOCKS * BLOCK  # random programs, each fault
    clean: list[str] = Field(default_factory=list)  # tests that the design without faults passed
    outcomes: list[Outcome] = Field(default_factory=list)

    @property
    def survivors(self) -> list[Outcome]:
        """Faults that were tried and that nothing caught."""
        return [o for o in self.outcomes if o.passed and not o.caught_by and not o.equivalent]

    def text(self) -> str:
        """Counts by operator, then the faults that no test caught."""
        lines = [f"{'operator':14} {'faults':>6} {'tried':>6} {'caught':>6} {'equivalent':>10} {'left':>5}"]
        for name in OPERATORS:
            some = [o for o in self.outcomes if o.operator == name]
            tried = sum(bool(o.caught_by or o.passed or o.equivalent) for o in some)
            caught, same = (sum(bool(x) for x in (getattr(o, n) for o in some)) for n in ("caught_by", "equivalent"))
            left = sum(o.operator == name for o in self.survivors)
            lines.append(f"{name:14} {len(some):6} {tried:6} {caught:6} {same:10} {left:5}")
        modules = len({o.module for o in self.outcomes})
        lines.append(f"{len(self.outcomes)} faults in {modules} modules, {len(self.survivors)} survivors")
        for o in self.survivors:
            lines.append(f"  {o.id}: {o.module}.sv:{o.line} {o.operator}: {_line(o.before)} -> {_line(o.after)}")
        return "\n".join(lines)

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=1) + "\n")


def _line(text: str) -> str:
    return " ".join(text.split())[:70]


def folder(mutants: Sequence[Mutant]) -> tuple[Path, list[Path]]:
    """Where the copy of the source lies: in the cache, so that its builds are found again."""
    place = toolchain.cache_folder() / "mutants" / f"{toolchain.digest(everything())}-{len(mutants)}"
    return place, write(mutants, place)


def equivalent() -> dict[str, str]:
    """Reasons of the faults that change nothing, by `name_of`."""
    known: dict[str, str] = json.loads(EQUIVALENT.read_text()) if EQUIVALENT.is_file() else {}
    return known


@cache
def _paths() -> dict[str, Path]:
    return {p.stem: p for p in everything()}


def _of_tiles(module: str) -> bool:
    """Whether random programs run on it: not what is around the tiles."""
    return _paths()[module] in toolchain.sources(TOP)


@cache
def _source(module: str) -> list[str]:
    return _paths()[module].read_text().splitlines()


def name_of(o: Outcome | Site) -> str:
    """The name of a fault in `EQUIVALENT`, with the line of source that it is in: good as long as that line stands."""
    line = _source(o.module)[o.line - 1].strip()
    return f"{o.module}: {line}: {' '.join(o.before.split())} -> {' '.join(o.after.split())}"


# Random programs, in a process of their own.


def _programs(files: Sequence[Path], answer: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    for block in range(BLOCKS):
        first = FIRST + block * BLOCK
        try:
            found = run_block(SHAPE, first, first + BLOCK, extra=tuple(files), all_of_them=False)
        except DpuError as e:  # not even its registers answer
            found = [(first, str(e))]
        for seed, text in found:
            answer.send((seed, text.splitlines()[0]))
            os._exit(0)
    answer.send(None)
    os._exit(0)


def random_programs(files: Sequence[Path]) -> tuple[str, str, float]:
    """Run the programs with the fault that is on: what caught it, what that said, CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    here, there = multiprocessing.Pipe(False)
    child = multiprocessing.get_context("fork").Process(target=_programs, args=(list(files), there))
    child.start()
    there.close()
    try:
        found = here.recv()
    except EOFError:
        found = ("", f"the model ended with {_ended(child)}")
    child.join()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if found is None:
        return "", "", took
    seed, said = found
    return f"{PROGRAMS}, {f'seed {seed}' if seed else 'they do not end'}", said, took


def _ended(child: multiprocessing.process.BaseProcess) -> str:
    child.join()
    return f"signal {-(child.exitcode or 0)}" if (child.exitcode or 0) < 0 else f"exit {child.exitcode}"


# Benches, through pytest.


def tests_folder() -> Path:
    """The benches' pytest files.

    Raises:
        DpuError: E428, this is no checkout.
    """
    found = toolchain.FOLDER.parent / "tests"
    if not found.is_dir():
        raise DpuError(toolchain.WHERE, f"no '{found}'", "benches are in its source", "use a checkout", code="E428")
    return found


def _bench(name: str, place: Path) -> tuple[str, float]:
    """One pytest file with the fault that is on: the first failed test, CPU seconds."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    file = tests_folder() / f"{name}.py"
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-m", "not slow", "--tb=line", f"--rtl-sources={place}"]
    command.append(str(file))
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        out, _ = child.communicate(timeout=WALL)
        code = child.returncode
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # with the simulation that pytest waits for
        child.wait()
        out, code = f"FAILED {name} - it does not end", 1
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    took = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if code == 0:
        return "", took
    if code in (2, 3, 4, 5):  # of pytest: interrupted, broken, misused, nothing to run
        raise DpuError(toolchain.WHERE, f"{name} ended with {code}", "\n".join(out.splitlines()[-10:]), code="E428")
    failed = [line for line in out.splitlines() if line.startswith(("FAILED tests", "ERROR tests", f"FAILED {name}"))]
    said = failed[0].split("::", 1)[-1].split(" - ")[0] if failed else "an assertion ends the process"
    return said, took


def benches(module: str) -> tuple[str, ...]:
    """The pytest files that look at a module, its own first."""
    part = _paths()[module].parent.relative_to(toolchain.FOLDER)
    own = BENCHES[part.parts[0] if part.parts else ""]
    return (*own, *ALWAYS) if _of_tiles(module) else own


# The whole.


def measure(
    seed: int, each: int, out: Path | None, command: str, say: Callable[[str], None], with_benches: bool = True
) -> Mutants:
    """Try `each` faults of every module, drawn by `seed`; first all on random programs, then the rest on benches.

    Raises:
        DpuError: E428 a build failed; E502 the file is of another draw or design; E416 the design itself fails.
    """
    mutants = draw(seed, each)
    place, files = folder(mutants)
    found = _state(mutants, seed, each, out, command)

    def on(id: int) -> None:
        (place / "id").write_text(f"{id}\n")

    def note(o: Outcome) -> None:
        if out is not None:
            found.save(out)
        state = f"caught by {o.caught_by}" if o.caught_by else f"passed {', '.join(o.passed)}"
        say(f"{o.id} {o.module}.sv:{o.line} {o.operator}: {state}, {o.cpu_seconds:.0f} CPU s")

    seen, rank = Counter[str](), dict[int, int]()
    for o in found.outcomes:
        seen[o.module] += 1
        rank[o.id] = seen[o.module]
    order = sorted(found.outcomes, key=lambda o: rank[o.id])  # a run that is killed has something of every module
    on(0)
    if PROGRAMS not in found.clean:
        by, said, _ = random_programs(files)
        if by:
            raise DpuError(toolchain.WHERE, f"the design without faults fails: {by}", said, code="E416")
        found.clean.append(PROGRAMS)
    for o in order:
        if o.caught_by or PROGRAMS in o.passed or not _of_tiles(o.module):
            continue
        on(o.id)
        o.caught_by, o.said, took = random_programs(files)
        o.cpu_seconds = round(o.cpu_seconds + took, 1)
        if not o.caught_by:
            o.passed.append(PROGRAMS)
        note(o)
    known = equivalent()
    for o in order:
        o.equivalent = known.get(name_of(o), "")
        for name in benches(o.module) if with_benches else ():
            if o.caught_by or o.equivalent or name in o.passed:
                continue
            if name not in found.clean:  # else a broken bench would catch everything
                on(0)
                if failed := _bench(name, place)[0]:
                    raise DpuError(toolchain.WHERE, f"the design without faults fails: {name}::{failed}", code="E416")
                found.clean.append(name)
            on(o.id)
            o.caught_by, took = _bench(name, place)
            o.cpu_seconds = round(o.cpu_seconds + took, 1)
            if o.caught_by:
                o.caught_by = f"{name}::{o.caught_by}"
            else:
                o.passed.append(name)
            note(o)
    on(0)
    if out is not None:
        found.save(out)
    return found


def _state(mutants: Sequence[Mutant], seed: int, each: int, out: Path | None, command: str) -> Mutants:
    fresh = Mutants(command=command, design=design(), around=toolchain.digest(around()), seed=seed, each=each)
    for m in mutants:
        s = m.site
        fresh.outcomes.append(
            Outcome(id=m.id, module=s.module, line=s.line, operator=s.operator, before=s.before, after=s.after)
        )
    if out is None or not out.is_file():
        return fresh
    old = read_record(out, Mutants, "faults that are in it are not run again")
    check_same(
        out, old, fresh, ("design", "seed", "each", "around"), "faults", "their outcomes cannot be added to these"
    )
    return old
