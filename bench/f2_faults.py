"""`dpubench f2-faults`: faults sown into the F2 stand-in; each must end in the right result or in an error that names
fault and remedy."""

from __future__ import annotations

import json
import queue
import random
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

from ..evidence import Provenance
from ..files import atomic_write
from ..rtl import toolchain
from ..rtl.f2.build import TOP
from .f2_fault_worker import MICRO
from .rates import Result

WALL, IMAGE_WALL = 600.0, 3600.0
"""Seconds on the wall without an answer after which a case counts as hung: micro pipeline, image of a program. The
driver's own limits are far below."""
SEED = 1
_SAVED, _IMAGES_SAVED = 10, 1  # cases between two writes of the result: of the micro pipeline, of images

KINDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "dead bus": ("every access reads as all ones", ("bus-dead@{n}/reload", "bus-dead@{n}/never")),
    "corrupt register read": ("a bit of a register flips", ("corrupt-read@{n}={bit}", "corrupt-read@{n}={bit}/never")),
    "corrupt read-back": ("a bit of a beat to host memory flips", ("corrupt-copy@{n}={bit}",)),
    "short read-back": ("a beat to host memory is lost, and acknowledged", ("short-copy@{n}",)),
    "image lost": ("somebody clears the slot", ("image-lost@{n}",)),
    "hang": (
        "memory ports take and give nothing",
        ("hang@{n}={ports}/reset", "hang@{n}={ports}/reload", "hang@{n}={ports}/never"),
    ),
    "power throttle": ("the shell warns of power", ("power-throttle@{n}={state}", "power-throttle@{n}={state}/never")),
    "power violation": (
        "the shell stops the clocks",
        ("power-violation@{n}/reload", "power-violation@{n}/never"),
    ),
    "slow DMA": ("the shell takes a beat to host memory now and then", ("slow-dma@{n}={pause}/never",)),
    "stuck DMA": (
        "the shell takes nothing to host memory",
        ("pcim-hang@{n}/reset", "pcim-hang@{n}/reload", "pcim-hang@{n}/never"),
    ),
    "failed DMA": ("the shell answers writes to host memory with errors", ("pcim-error@{n}={few}",)),
    "lost response": ("answers to writes to host memory are lost", ("lost-response@{n}={few}",)),
    "lost interrupt": ("ends of runs are not announced", ("irq-lost@{n}={few}",)),
    "wrong image": (
        "another image is in the slot: identity, or digest of the arch",
        ("wrong-image@0={zero}/never", "wrong-image@0={zero}/reload", "wrong-image@{n}={zero}/reload"),
    ),
    "short write": ("the end of a burst is lost", ("short-write@{n}={bytes}",)),
    "lost register write": ("a write to a register is lost", ("lost-poke@{n}",)),
    "stuck semaphore": (
        "a word in memory has lost a signal: whoever waits for it waits forever",
        ("stuck-semaphore@{n}", "stuck-semaphore@{n}/never"),
    ),
    "memory error": ("device memory answers reads with errors", ("hbm-error@{n}={few}",)),
    "cold memory": ("device memory does not start up", ("cold-memory@{n}/reset", "cold-memory@{n}/never")),
    "failed load": (
        "the image is lost, and does not load again at first",
        ("image-lost@{n};load-fails@{n}", "image-lost@{n};load-fails@{n}/never"),
    ),
}
"""What can go wrong: in words, and as the stand-in is told, with numbers to draw."""


class Case(Result):
    """One fault. `outcome`: correct, error, wrong, crash or hung; the last three are findings."""

    kind: str
    spec: str
    outcome: str
    mended: str = ""
    code: str = ""
    text: str = ""
    remedy: bool = False
    accesses: int = 0

    @property
    def end(self) -> str:
        """How it ended, in a few words."""
        if self.outcome == "correct":
            return f"right, mended: {self.mended}" if self.mended else "right, nothing to mend"
        return f"error {self.code}" if self.outcome == "error" else self.outcome

    @property
    def finding(self) -> bool:
        """Whether the driver did what it may not."""
        return self.outcome not in ("correct", "error") or (self.outcome == "error" and not self.remedy)


class Faults(Result):
    """All cases of a campaign. Nothing was measured on a card: the stand-in is the RTL of the custom logic."""

    command: str
    provenance: str = Provenance.SIMULATED.label
    subject: str
    sources: str  # `toolchain.digest` of the custom logic
    seed: int
    accesses: int  # of a run without faults: they are sown among these
    cases: tuple[Case, ...]

    @property
    def findings(self) -> list[Case]:
        """Cases that ended in something else than the right result or an error with a remedy."""
        return [c for c in self.cases if c.finding]

    def text(self) -> str:
        """The table, a kind a line."""
        lines = [f"{self.subject}: {len(self.cases)} faults of {len({c.kind for c in self.cases})} kinds, simulated"]
        lines += [f"{'kind':<24}{'cases':>6}{'no effect':>11}{'mended':>8}{'error':>7}{'finding':>9}  codes"]
        for kind, (n, idle, mended, errors, findings, codes) in self._rows().items():
            lines.append(f"{kind:<24}{n:>6}{idle:>11}{mended:>8}{errors:>7}{findings:>9}  {codes}")
        lines += [f"FINDING {c.spec}: {c.outcome} {c.text}" for c in self.findings]
        return "\n".join(lines)

    def markdown(self) -> str:
        """The same as a page."""
        head = [
            "# Faults of an F2 card, and what the driver makes of them",
            "",
            f"`{self.command}`; {len(self.cases)} faults on {self.subject}, sown at random accesses (seed {self.seed})",
            "into the stand-in: the SDK's entry points over the Verilated custom logic. Simulated, not on a card.",
            "Right results are the simulator's bytes; anything but these or an error with a remedy is a finding.",
            "",
            "| fault | what happens | cases | no effect | mended | error | findings | codes |",
            "|---|---|--:|--:|--:|--:|--:|---|",
        ]
        rows = [
            f"| {kind} | {KINDS[kind][0]} | {n} | {idle} | {mended} | {errors} | {findings} | {codes} |"
            for kind, (n, idle, mended, errors, findings, codes) in self._rows().items()
        ]
        seen: dict[str, str] = {}
        for c in self.cases:
            if c.outcome == "error":
                seen.setdefault(c.code, c.text)
        texts = [f"\n`{c}`, first seen:\n\n```\n{t}\n```" for c, t in sorted(seen.items())]
        each = [
            f"\n## Each fault\n\nAs the stand-in is told: `kind@access`, of the {self.accesses:,} accesses of a run"
            " without faults, `=` a value, `/` what mends it.\n",
            "| fault | sown | ended |",
            "|---|---|---|",
            *(f"| {c.kind} | `{c.spec}` | {c.end}{' **finding**' if c.finding else ''} |" for c in self.cases),
        ]
        return "\n".join([*head, *rows, *texts, *each]) + "\n"

    def _rows(self) -> dict[str, tuple[int, int, int, int, int, str]]:
        rows = {}
        for kind in KINDS:
            own = [c for c in self.cases if c.kind == kind]
            if not own:
                continue
            right = [c for c in own if c.outcome == "correct"]
            idle = sum(not c.mended for c in right)
            errors = [c for c in own if c.outcome == "error" and not c.finding]
            codes = ", ".join(f"{code} {n}" for code, n in sorted(Counter(c.code for c in errors).items()))
            findings = sum(c.finding for c in own)
            rows[kind] = len(own), idle, len(right) - idle, len(errors), findings, codes
        return rows


def draw(count: int, accesses: int, seed: int = SEED) -> list[tuple[str, str]]:
    """`count` faults as (kind, spec), the kinds in turn, sown among `accesses` accesses."""
    rng = random.Random(seed)
    found = []
    for i in range(count):
        kind = list(KINDS)[i % len(KINDS)]
        forms = KINDS[kind][1]
        numbers = {
            "n": rng.randrange(1, accesses + 1),
            "bit": rng.randrange(32),
            "ports": 1 << rng.randrange(3),
            "state": rng.randrange(1, 4),
            "pause": rng.choice((2, 8, 32)),
            "few": rng.randrange(1, 4),
            "zero": rng.randrange(2),
            "bytes": 64 * rng.randrange(1, 9),
        }
        found.append((kind, forms[i // len(KINDS) % len(forms)].format(**numbers)))
    return found


class Worker:
    """The process that runs cases; a new one after one that hung or crashed."""

    def __init__(self, subject: str, wall: float) -> None:
        self._subject, self._wall = subject, wall
        self._start()

    def ask(self, spec: str) -> dict[str, Any]:
        """What came of the faults of one line."""
        assert self._process.stdin is not None
        self._process.stdin.write(spec + "\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=self._wall)
        except queue.Empty:
            self.close()
            self._start()
            return {"outcome": "hung", "text": f"no answer within {self._wall:g} s"}
        if not line:
            self._start()
            return {"outcome": "crash", "text": "the process ended"}
        return dict(json.loads(line))

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()

    def _start(self) -> None:
        command = [sys.executable, "-m", "dpu.bench.f2_fault_worker", self._subject]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answers: queue.Queue[str] = queue.Queue()
        threading.Thread(target=_read, args=(self._process.stdout, self._answers), daemon=True).start()


def _read(stream: IO[str], to: queue.Queue[str]) -> None:
    for line in stream:
        to.put(line)
    to.put("")


def measure(
    count: int, program: Path | None, seed: int, say: Callable[[int, int], None], output: Path | None = None
) -> Faults:
    """Sow `count` faults into the micro pipeline, or into an image of `program`; `say` hears (done, all).

    What there is so far is saved to `output` now and then.

    Raises:
        DpuError: E428, the stand-in cannot be built.
    """
    worker = Worker(str(program), IMAGE_WALL) if program else Worker(MICRO, WALL)
    saved = _IMAGES_SAVED if program else _SAVED
    said = f" --program {program.name}" if program else ""
    try:
        clean = worker.ask("")
        if clean["outcome"] != "correct":
            raise AssertionError(f"without faults: {clean}")
        found = Faults(
            command=f"dpubench f2-faults --count {count}{said} --seed {seed}",
            subject=f"an image of one step of {program.name}" if program else "a micro pipeline of two steps",
            sources=toolchain.digest(toolchain.sources(TOP)),
            seed=seed,
            accesses=int(clean["accesses"]),
            cases=(),
        )
        for i, (kind, spec) in enumerate(draw(count, found.accesses, seed)):
            case = Case(kind=kind, spec=spec, **worker.ask(spec))
            found = found.model_copy(update={"cases": (*found.cases, case)})
            say(i + 1, count)
            if output is not None and (i + 1) % saved == 0:
                save(found, output)
    finally:
        worker.close()
    return found


def save(found: Faults, path: Path) -> None:
    """Write the JSON, and the page beside it."""
    found.save(path)
    with atomic_write(path.with_suffix(".md")) as temporary:
        temporary.write_text(found.markdown())
