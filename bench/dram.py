"""DRAM: the bandwidth of access patterns, and the closed form held against the command-by-command model."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ..files import atomic_write
from ..simulator.dram.beats import Beats, Request
from ..simulator.dram.core import Counters, Note
from ..simulator.dram.native import core
from ..simulator.dram.params import DramFile, config, load_dram

MEMORIES = ("hbm2_vu47p", "lpddr5x_8533_128", "lpddr5x_8533_256")
RANDOM_TRACES = 60
_BURSTS = 600  # of a trace for the command-by-command model

MIB = 1 << 20
Pattern = Callable[[random.Random], Iterator[tuple[int, int, bool]]]
"""An endless stream of (address, bytes, write) over one memory."""


def _stream(size: int, write: bool = False, start: int = 0, stride: int = 0) -> Iterator[tuple[int, int, bool]]:
    address = start
    while True:
        yield address, size, write
        address += stride or size


def _random(rng: random.Random, size: int, writes: float = 0.0) -> Iterator[tuple[int, int, bool]]:
    while True:
        yield rng.randrange(512 * MIB // size) * size, size, rng.random() < writes


def _turns(*streams: Iterator[tuple[int, int, bool]]) -> Iterator[tuple[int, int, bool]]:
    while True:
        for s in streams:
            yield next(s)


PATTERNS: dict[str, Pattern] = {
    "one stream, read": lambda rng: _stream(4096),
    "one stream, write": lambda rng: _stream(4096, write=True),
    "copy: read and write streams in turn": lambda rng: _turns(_stream(4096), _stream(4096, True, 64 * MIB)),
    "three read streams in turn": lambda rng: _turns(*(_stream(4096, start=k * (64 * MIB + 8192)) for k in range(3))),
    "runs of 64 B, 1280 B apart": lambda rng: _stream(64, stride=1280),
    "random 4 KiB": lambda rng: _random(rng, 4096),
    "random 512 B": lambda rng: _random(rng, 512),
    "random 64 B": lambda rng: _random(rng, 64),
    "random 64 B, half writes": lambda rng: _random(rng, 64, 0.5),
}


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True)


class PatternRow(_Model):
    """One pattern on one memory, all requests there from the start. `error`: closed form over commands, one channel."""

    memory: str
    pattern: str
    gigabytes_per_second: float
    of_peak: float
    hit_rate: float
    error: float


class TraceRow(_Model):
    """Random traces on one channel: how far the closed form's total time is from the command-by-command model's."""

    memory: str
    policy: str
    traces: int
    exact: int  # traces without any difference
    mean_error: float  # of absolute values, as are the next two
    median_error: float
    p95_error: float
    worst_error: float


class DramResult(_Model):
    """Both tables. Everything is simulated."""

    command: str = "dpubench dram"
    provenance: str = "simulated"
    patterns: tuple[PatternRow, ...]
    traces: tuple[TraceRow, ...]
    commands_seconds: float  # of the command-by-command model, here
    closed_seconds: float  # of the closed form on the same traces

    def save(self, path: Path) -> None:
        """Write it as JSON."""
        with atomic_write(path) as temporary:
            temporary.write_text(self.model_dump_json(indent=2) + "\n")

    def text(self) -> str:
        """The tables for people."""
        lines = [f"{'memory':<18}{'pattern':<38}{'GB/s':>7}{'of peak':>9}{'row hits':>10}{'error':>8}"]
        lines += [
            f"{r.memory:<18}{r.pattern:<38}{r.gigabytes_per_second:>7.1f}{r.of_peak:>9.1%}{r.hit_rate:>10.1%}"
            f"{r.error:>+8.2%}"
            for r in self.patterns
        ]
        lines += [
            "",
            f"{'random traces':<18}{'policy':<38}{'traces':>7}{'exact':>7}{'median':>9}{'95 %':>9}{'worst':>9}",
        ]
        lines += [
            f"{r.memory:<18}{r.policy:<38}{r.traces:>7}{r.exact:>7}"
            f"{r.median_error:>9.3%}{r.p95_error:>9.3%}{r.worst_error:>+9.3%}"
            for r in self.traces
        ]
        ratio = self.commands_seconds / self.closed_seconds
        lines += ["", f"the closed form took {self.closed_seconds:.2f} s, single commands {ratio:.0f} times that"]
        return "\n".join(lines)


def one_channel(file: DramFile) -> DramFile:
    """One channel of it, without the way there."""
    return file.replace(channels=1, request_path=0, response_path=0)


def replay(file: DramFile, requests: list[Request]) -> list[Counters]:
    """The closed form on a trace: counters of each channel."""
    model = core(config(file, file.clock, 0))
    for tag, (clock, address, size, write) in enumerate(requests):
        model.submit(clock, address, size, write, tag)
    while model.step(1 << 40)[0] != Note.NONE:
        pass
    return model.counters()


def random_trace(seed: int) -> list[Request]:
    """A trace whose load, spread, share of writes and sizes are drawn too."""
    rng = random.Random(seed)
    gap = rng.choice([0, 5, 10, 20, 30, 40])
    lines = 1 << rng.choice([10, 12, 14, 18])
    writes = rng.choice([0, 0.1, 0.3, 0.5])
    sizes = rng.choice([[64], [64, 128, 256], [256, 512], [512]])
    clock, found = 0, []
    for _ in range(_BURSTS):
        clock += rng.choice([0, gap, 2 * gap])
        found.append((clock, rng.randrange(lines) * 64, rng.choice(sizes), rng.random() < writes))
    return found


class _Clock:
    """Seconds spent in each model."""

    def __init__(self) -> None:
        self.closed = self.commands = 0.0

    def error(self, file: DramFile, requests: list[Request]) -> float:
        """Of the closed form's total time, on one channel."""
        file = one_channel(file)
        start = time.perf_counter()
        closed = replay(file, requests)[0].last
        middle = time.perf_counter()
        commands = Beats(file).run(requests)
        self.closed += middle - start
        self.commands += time.perf_counter() - middle
        return closed / commands - 1


def measure() -> DramResult:
    """All patterns and traces on all memories."""
    clock = _Clock()
    patterns = []
    traces = []
    for name in MEMORIES:
        file = load_dram(name)
        for pattern, make in PATTERNS.items():
            whole, single = (_trace(make, size) for size in (32 * MIB, _BURSTS * 128))
            channels = replay(file, whole)
            moved = sum(c.bytes_read + c.bytes_written for c in channels)
            accesses = sum(c.hits + c.misses + c.conflicts for c in channels)
            rate = moved * file.clock / max(c.last for c in channels)
            patterns.append(
                PatternRow(
                    memory=name,
                    pattern=pattern,
                    gigabytes_per_second=float(rate) / 1e9,
                    of_peak=float(rate / file.peak_bytes_per_second),
                    hit_rate=sum(c.hits for c in channels) / accesses,
                    error=clock.error(file, single),
                )
            )
        for policy, depth in (("in order", 1), ("row hits first, as shipped", file.number("reorder"))):
            if name == MEMORIES[2]:
                continue  # its channels are those of the 128-bit one
            errors = [clock.error(file.replace(reorder=depth), random_trace(seed)) for seed in range(RANDOM_TRACES)]
            errors.sort(key=abs)
            traces.append(
                TraceRow(
                    memory=name,
                    policy=policy,
                    traces=len(errors),
                    exact=errors.count(0),
                    mean_error=sum(map(abs, errors)) / len(errors),
                    median_error=abs(errors[len(errors) // 2]),
                    p95_error=abs(errors[len(errors) * 95 // 100]),
                    worst_error=errors[-1],
                )
            )
    return DramResult(
        patterns=tuple(patterns),
        traces=tuple(traces),
        commands_seconds=clock.commands,
        closed_seconds=clock.closed,
    )


def _trace(make: Pattern, size: int) -> list[Request]:
    """Requests of a pattern, `size` bytes and at most 20,000 of them, all there from the start."""
    found: list[Request] = []
    moved = 0
    for address, n, write in make(random.Random(1)):
        found.append((0, address, n, write))
        moved += n
        if moved >= size or len(found) == 20_000:
            return found
    return found
