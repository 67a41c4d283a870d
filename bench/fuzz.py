"""`dpubench fuzz`: damaged inputs of every format; anything but success or a DpuError is a finding."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import IO, Any

from pydantic import BaseModel, Field

from ..errors import DpuError
from ..files import atomic_write
from .fuzz_worker import MEMORY, SECONDS
from .resumed import read_record

FORMATS = ("onnx", "dpu", "json", "text")
WALL = 120.0
"""Seconds without a word from the worker after which the case counts as a hang: it sits in foreign code."""
CHUNK = 500
"""Cases between two writes of the result."""


class Finding(BaseModel):
    """A case that ended in neither success nor a DpuError."""

    seed: int
    kind: str
    text: str = ""
    place: str = ""


class FuzzResult(BaseModel):
    """What so many cases of one format came to. Case n is seed n."""

    format: str
    cases: int = 0
    seeds: tuple[int, int] = (0, 0)
    findings: list[Finding] = Field(default_factory=list)
    outcomes: dict[str, int] = Field(default_factory=dict)
    seconds: float = 0
    seconds_a_case: float = SECONDS
    memory_bytes: int = MEMORY
    versions: dict[str, str] = Field(default_factory=dict)

    def text(self) -> str:
        """For people: counts, then each finding with the seed that repeats it."""
        codes = ", ".join(f"{n:,} {code}" for code, n in sorted(self.outcomes.items(), key=lambda item: -item[1]))
        head = f"{self.format}: {self.cases:,} cases, {len(self.findings)} findings, {self.seconds:.0f} s"
        return "\n".join(
            [head, f"  {codes}", *(f"  seed {f.seed}: {f.kind}: {f.text} ({f.place})" for f in self.findings)]
        )

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(self.model_dump(mode="json"), indent=1) + "\n")


def chosen(name: str, out: Path | None) -> tuple[str, ...]:
    """The formats that a command line names.

    Raises:
        DpuError: there is no such format, or several formats for one file.
    """
    if name and name not in FORMATS:
        raise DpuError(f"--format {name}", "no such format", hint=f"one of {', '.join(FORMATS)}", code="E501")
    if out is not None and not name:
        raise DpuError("--output", "holds one format", hint="add --format", code="E501")
    return (name,) if name else FORMATS


def versions() -> dict[str, str]:
    """Of the interpreter and the libraries that read the formats."""
    names = ("dpu", "numpy", "onnx", "onnx-ir", "xdsl", "pydantic", "safetensors")
    return {"python": platform.python_version()} | {n: version(n) for n in names}


def fuzz(name: str, cases: int, out: Path | None = None, say: Callable[[str], None] = lambda _: None) -> FuzzResult:
    """Run cases 0 to `cases` - 1 of a format. A result of these versions in `out` is continued: only
    its findings run again."""
    found = FuzzResult(format=name, versions=versions())
    if out is not None and out.is_file():
        before = read_record(out, FuzzResult, "cases that are in it are not run again")
        if before.format == name and before.versions == found.versions:
            found = before
    counts = Counter(found.outcomes)
    again, found.findings = found.findings, []
    for old in again:
        counts["finding"] -= 1
        _take(found, counts, _run(name, old.seed, old.seed + 1))
    while found.cases < cases:
        last = min(cases, found.cases + CHUNK)
        started = time.monotonic()
        _take(found, counts, _run(name, found.cases, last))
        found.cases, found.seeds = last, (0, last)
        found.seconds = round(found.seconds + time.monotonic() - started, 1)
        _save(found, counts, out)
        say(f"{name}: {found.cases:,} of {cases:,}, {len(found.findings)} findings, {found.seconds:.0f} s")
    _save(found, counts, out)
    return found


def _save(found: FuzzResult, counts: Counter[str], out: Path | None) -> None:
    found.outcomes = {k: n for k, n in sorted(counts.items()) if n}
    if out is not None:
        found.save(out)


def _take(found: FuzzResult, counts: Counter[str], cases: list[dict[str, Any]]) -> None:
    """Count cases and keep the findings."""
    for case in cases:
        counts[case["outcome"]] += 1
        if case["outcome"] == "finding":
            found.findings.append(Finding.model_validate({k: v for k, v in case.items() if k != "outcome"}))


def worker_command(name: str, first: int, last: int) -> list[str]:
    """The process that runs cases `first` to `last` - 1."""
    return [sys.executable, "-m", f"{__package__}.fuzz_worker", name, str(first), str(last)]


def _tail(stream: IO[str], into: list[str]) -> None:
    into.append(stream.read()[-300:])


def _run(name: str, first: int, last: int) -> list[dict[str, Any]]:
    """Cases in processes of their own; a process that dies costs one case."""
    done: list[dict[str, Any]] = []
    while first < last:
        with subprocess.Popen(
            worker_command(name, first, last), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as worker:
            assert worker.stdout is not None and worker.stderr is not None
            errors: list[str] = []
            reader = threading.Thread(target=_tail, args=(worker.stderr, errors))
            reader.start()
            silent = threading.Timer(WALL, worker.kill)
            silent.start()
            running = None
            for line in worker.stdout:
                silent.cancel()
                silent = threading.Timer(WALL, worker.kill)
                silent.start()
                case = json.loads(line)
                if "start" in case:
                    running = int(case["start"])
                else:
                    running = None
                    done.append(case)
            silent.cancel()
            reader.join()
        if running is None and worker.returncode:
            raise RuntimeError(f"the worker failed before its first case: {' '.join(errors)}")
        if running is None:
            break
        kind = f"exit {worker.returncode}"
        done.append({"seed": running, "outcome": "finding", "kind": kind, "text": " ".join(errors)})
        first = running + 1
    return done
