"""What becomes of mutated programs: refused by the verifier, stopped, reported by the check, harmless, or escaped.

A mutant that the verifier accepts is run in stream order and in random legal orders (`schedules.py`):

    trap      the machine stops it in stream order
    escaped   some legal order gives other bits than stream order, or stops; or stream order gives another output and
              the comparison of every stored tensor (`--check`) reports nothing. There must be none
    check     stream order gives another output, and the comparison says which operation
    legal     every order gives the output of the program that was mutated

Rejected mutants are run too, to see how many would have done no harm in the orders tried (`latent`): races that need
another timing, or rules that are stricter than needed.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict

from ..codegen.dpufile import load
from ..codegen.verify.verify import verify_entry
from ..errors import DpuError
from ..files import atomic_write
from ..ir.arch import Arch, load_arch
from ..ir.container import Base, Entry, Program, Slot
from ..runtime.check.compare import check
from ..runtime.check.shadow import DTYPES, Shadow
from ..simulator.machine import Machine
from ..simulator.state import Fault
from .mutation_nets import compile_net, three_tiles
from .mutations import MUTATIONS, Draft
from .schedules import Prepared, Schedule, Stuck

Bytes = npt.NDArray[np.uint8]
OUTCOMES = ("rejected", "trap", "check", "legal", "escaped")


class MutationRow(BaseModel):
    """All mutants of one kind. `codes` counts the verifier's reasons, `latent` the rejected that did no harm."""

    model_config = ConfigDict(frozen=True)

    group: str
    kind: str
    mutants: int
    rejected: int
    trap: int
    check: int
    legal: int
    escaped: int
    latent: int
    codes: dict[str, int]


class MutationReport(BaseModel):
    """A table, what made it, and the mutants that escaped."""

    model_config = ConfigDict(frozen=True)

    command: str
    seed: int
    schedules: int
    programs: dict[str, int]  # name: words
    rows: tuple[MutationRow, ...]
    escapes: tuple[str, ...]

    @property
    def mutants(self) -> int:
        return sum(r.mutants for r in self.rows)

    def save(self, path: Path) -> None:
        """Write the table as JSON."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=2) + "\n")

    def text(self) -> str:
        """The table as Markdown."""
        head = ("class", "mutation", "mutants", "rejected", "trap", "check", "legal", "escaped", "latent", "codes")
        lines = [f"| {' | '.join(head)} |", "|---|---|" + "--:|" * 7 + "---|"]
        for r in self.rows:
            numbers = (r.mutants, r.rejected, r.trap, r.check, r.legal, r.escaped, r.latent)
            codes = ", ".join(f"{c} {n}" for c, n in r.codes.items())
            lines.append(f"| {r.group} | {r.kind} | {' | '.join(map(str, numbers))} | {codes} |")
        total = [sum(getattr(r, n) for r in self.rows) for n in ("mutants", *OUTCOMES, "latent")]
        lines.append(f"| | all | {' | '.join(map(str, total))} | |")
        words = ", ".join(f"{k} ({n} words)" for k, n in self.programs.items())
        lines += ["", f"{words}; seed {self.seed}, {self.schedules} random orders each", f"made by `{self.command}`"]
        return "\n".join([*lines, *(f"ESCAPED {e}" for e in self.escapes)])


@dataclass
class Subject:
    """A program to mutate: one entry, the memory it starts from, and how values are checked."""

    name: str
    program: Program
    entry: Entry
    memory: Mapping[int, Bytes]
    reports: Callable[[Program], bool]
    want: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.want = self.in_order(self.program)

    def regions(self, program: Program) -> dict[int, Bytes]:
        """Fresh memory of a mutant's size."""
        return {b: self.memory[b][:n].copy() for b, n in program.base_bytes.items()}

    def outputs(self, regions: Mapping[int, Bytes]) -> list[bytes]:
        """The elements of the entry's results."""
        return [_elements(regions, slot) for slot in self.entry.outputs]

    def in_order(self, program: Program) -> list[bytes]:
        """The results in stream order.

        Raises:
            DpuError: the machine stops.
        """
        regions = self.regions(program)
        Machine(program.arch, regions).run(program.words[self.entry.name], entry=self.entry.name)
        return self.outputs(regions)

    def in_random_orders(self, program: Program, want: list[bytes], seeds: Sequence[int]) -> str:
        """The first thing that differs from `want` in one of several orders; empty if nothing does."""
        prepared = Prepared.of(program.arch, program.words[self.entry.name])
        for seed in seeds:
            regions = self.regions(program)
            try:
                Schedule(prepared, regions, seed).run()
            except (Stuck, Fault, ValueError, IndexError, AssertionError) as e:
                return f"order {seed}: {type(e).__name__} {e}"
            if self.outputs(regions) != want:
                return f"order {seed}: other bits than in stream order"
        return ""


def _elements(regions: Mapping[int, Bytes], slot: Slot) -> bytes:
    rows = regions[slot.base][slot.offset : slot.offset + slot.bytes].reshape(-1, slot.row_bytes)
    return rows[:, : slot.shape[2] * np.dtype(DTYPES[slot.dtype]).itemsize].tobytes()


def net(arch: Arch) -> Subject:
    """The built-in net on an arch. Values are checked by `runtime/check` against the independent interpreter."""
    emitted, fetch, inputs = compile_net(arch)
    program, entry = emitted.program, emitted.program.entries[0]

    def reports(mutant: Program) -> bool:
        other = copy.copy(emitted)
        other.program = mutant
        return not check(other, fetch, inputs).ok

    memory = _memory(program, 0)
    for slot in entry.inputs:
        _put(memory, slot, np.asarray(inputs[slot.name]))
    return Subject(f"net on {arch.name}", program, entry, memory, reports)


def file(path: Path, name: str = "") -> Subject:
    """An entry of a `.dpu` file, the first by default, on random inputs.

    There is no graph to interpret: values are checked by comparing every stored tensor with what the program that was
    mutated stores, which is what the interpreter gives if `dpuc compile --check` found it equal.

    Raises:
        DpuError: no program, or no such entry.
    """
    program = load(path)
    names = [e.name for e in program.entries]
    if name and name not in names:
        raise DpuError("--entry", f"no entry '{name}'", hint=f"one of {', '.join(names)}", code="E501")
    entry = program.entry(name or names[0])
    memory, rng = _memory(program, 0), np.random.default_rng(0)
    for e in program.entries:
        for slot in e.inputs:
            if slot.base == Base.IO:
                _put(memory, slot, rng.standard_normal(slot.shape))
    for e in program.entries[: names.index(entry.name)]:
        Machine(program.arch, memory).run(program.words[e.name], entry=e.name)
    start = {b: r.copy() for b, r in memory.items()}

    def stored(p: Program) -> list[bytes]:
        shadows = {
            s.tag: [Shadow(o.name, o.dtype, o.shape, o.row_bytes, o.base, o.offset, *_blank(o)) for o in s.outputs]
            for s in entry.sources
        }
        machine = Machine(p.arch, {b: start[b][:n].copy() for b, n in p.base_bytes.items()})
        words = p.words[entry.name]

        def on_store(tile: int, index: int, tag: int) -> None:
            from ..ir.isa import fields

            record = fields(words[tile][index])
            for shadow in shadows.get(tag, ()):
                if shadow.base == int(record["base"]):
                    shadow.take(machine.regions[shadow.base], tile, index, record)

        machine.run(words, on_store, entry.name)
        return [s.values().tobytes() for mine in shadows.values() for s in mine]

    want = stored(program)

    def reports(mutant: Program) -> bool:
        try:
            return stored(mutant) != want
        except DpuError:
            return True

    return Subject(f"{path.name}:{entry.name}", program, entry, start, reports)


def _blank(slot: Slot) -> tuple[Bytes, npt.NDArray[np.bool_]]:
    return np.zeros(slot.bytes, np.uint8), np.zeros(slot.bytes, np.bool_)


def _memory(program: Program, fill: int) -> dict[int, Bytes]:
    memory = {int(b): np.full(n, fill, np.uint8) for b, n in program.base_bytes.items()}
    memory[int(Base.CONST)][: len(program.constants)] = program.constants
    return memory


def _put(memory: Mapping[int, Bytes], slot: Slot, values: npt.NDArray[np.generic]) -> None:
    data = np.ascontiguousarray(values.astype(DTYPES[slot.dtype])).reshape(slot.shape[0] * slot.shape[1], -1)
    raw = data.view(np.uint8)
    memory[slot.base][slot.offset : slot.offset + slot.bytes].reshape(len(raw), -1)[:, : raw.shape[1]] = raw


@dataclass(frozen=True)
class Outcome:
    """What became of one mutant."""

    group: str
    kind: str
    result: str  # one of OUTCOMES
    code: str = ""
    latent: bool = False
    what: str = ""


def judge(subject: Subject, draft: Draft, schedules: int, latent: int) -> tuple[str, str, bool, str]:
    """(result, code of the verifier, harmless though rejected, what escaped)."""
    program = draft.program
    try:
        verify_entry(program, subject.entry)
    except DpuError as e:
        return "rejected", e.code, latent > 0 and _harmless(subject, program, _seeds(draft, latent)), ""
    try:
        got = subject.in_order(program)
    except DpuError:
        return "trap", "", False, ""
    wrong = subject.in_random_orders(program, got, _seeds(draft, schedules))
    if wrong:
        return "escaped", "", False, wrong
    if got == subject.want:
        return "legal", "", False, ""
    return ("check", "", False, "") if subject.reports(program) else ("escaped", "", False, "other output")


def _seeds(draft: Draft, count: int) -> list[int]:
    return [int(x) for x in draft.rng.integers(1 << 30, size=count)]


def _harmless(subject: Subject, program: Program, seeds: Sequence[int]) -> bool:
    try:
        if subject.in_order(program) != subject.want:
            return False
        return not subject.in_random_orders(program, subject.want, seeds)
    except Exception:  # whatever an illegal word does to the executors is harm
        return False


def outcomes(subjects: Sequence[Subject], count: int, seed: int, schedules: int, latent: int) -> Iterator[Outcome]:
    """`count` mutants, the kinds and the programs in turn."""
    kinds = [(group, kind) for group, mine in MUTATIONS.items() for kind in mine]
    made = turn = 0
    while made < count:
        group, kind = kinds[turn % len(kinds)]
        subject = subjects[turn // len(kinds) % len(subjects)]
        for attempt in range(20):  # a word may have nothing of the kind
            draft = Draft.of(subject.program, subject.entry.name, (seed, turn, attempt))
            what = MUTATIONS[group][kind](draft)
            if what is not None:
                made += 1
                result, code, harmless, why = judge(subject, draft, schedules, latent)
                yield Outcome(group, kind, result, code, harmless, f"{subject.name}: {kind}: {what}: {why}")
                break
        turn += 1


def measure(
    subjects: Sequence[Subject],
    count: int,
    seed: int,
    schedules: int = 8,
    latent: int = 2,
    command: str = "",
    progress: Callable[[int, int], None] | None = None,
) -> MutationReport:
    """The table of `count` mutants."""
    found: list[Outcome] = []
    for o in outcomes(subjects, count, seed, schedules, latent):
        found.append(o)
        if progress is not None:
            progress(len(found), count)
    rows = []
    for group, mine in MUTATIONS.items():
        for kind in mine:
            own = [o for o in found if o.kind == kind]
            results = Counter(o.result for o in own)
            codes = Counter(o.code for o in own if o.code)
            rows.append(
                MutationRow(
                    group=group,
                    kind=kind,
                    mutants=len(own),
                    **{n: results[n] for n in OUTCOMES},
                    latent=sum(o.latent for o in own),
                    codes=dict(sorted(codes.items())),
                )
            )
    return MutationReport(
        command=command,
        seed=seed,
        schedules=schedules,
        programs={s.name: sum(map(len, s.program.words[s.entry.name])) for s in subjects},
        rows=tuple(rows),
        escapes=tuple(o.what for o in found if o.result == "escaped"),
    )


def builtin() -> list[Subject]:
    """The net on one tile and on three."""
    return [net(load_arch("dpu_tiny")), net(three_tiles())]


def command_line(
    program: Path | None, count: int, seed: int, entry: str, orders: int, latent: int, output: Path | None
) -> str:
    """The command that makes a report again."""
    parts = ["dpubench mutate"]
    if program is not None:
        parts.append(str(program))
    parts.append(f"--count {count} --seed {seed}")
    if entry:
        parts.append(f"--entry {entry}")
    if orders != 8:
        parts.append(f"--orders {orders}")
    if latent != 2:
        parts.append(f"--latent {latent}")
    if output is not None:
        parts.append(f"-o {output}")
    return " ".join(parts)
