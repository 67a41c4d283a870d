"""`dpubench f2-latency`: one SDXL image on an F2 card from prompt to pixels, host and PCIe included; what bounds it.

Cycles are the timing simulation's (`results/sim/tables.json`), regions the compiler's (`results/sim/sizes.json`). What
the driver moves and how often it touches registers follows from `runtime/f2`: inputs are written and compared, which
takes one copy back, and results are copied back twice. Nothing of it was measured on a card.

    entry = inputs / write + inputs / copy + cycles / clock + 2 results / copy + accesses x access + notice
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field

from ..errors import DpuError, refusing
from ..evidence import Provenance, Quantity, assumed, simulated, total
from ..files import atomic_write
from ..ir.arch import load_arch
from ..ir.container import ROW_ALIGN
from ..ir.isa import WORD_BYTES
from .rates import Result

ARCH = "dpu_f2"
SIDE = 1024  # pixels
STEPS = 20
ACCESSES_A_RUN, ACCESSES_A_TILE = 109, 23
"""Registers that the driver sets and reads for a run, and more for each tile, without looks at whether it goes on; a
test counts them."""
COPY_ACCESSES = 24
"""Of one copy of a piece of 1 MiB, counted in the same way."""
PIECE = 1 << 20


def published(value: float, unit: str, source: str, name: str) -> Quantity:
    """A number that somebody else reports."""
    return Quantity(value=value, unit=unit, provenance=Provenance.PUBLISHED, source=source, name=name)


WRITE = published(
    2.5e9, "byte/s", "aws-fpga issue 711: write-combined bursts to BAR4, about 2.5 GB/s", "writes to device memory"
)
COPY = published(
    10e9,
    "byte/s",
    "aws-fpga issue 748: card to host over PCIM, over 10 GB/s from 16 KiB on (SDE)",
    "copies to the host",
)
ACCESS = assumed(
    3e-6, "s", "a register over PCIe about 1.5 us, ctypes and Python as much again; AWS publishes no latency", "access"
)
NOTICE = assumed(2e-3, "s", "polling sleeps at most 2 ms (runtime/f2/interrupts.py); interrupts are quicker", "notice")
HOST = assumed(
    0.9,
    "s",
    "scheduler and guidance of 20 steps on 1x4x128x128 took 0.9 CPU s on another computer, first calls included",
    "scheduler and guidance",
)
PIXELS = assumed(0.1, "s", "no source: clip, round and PNG of 1024x1024", "image conversion")
TOKENS = assumed(0.01, "s", "no source: two tokenizers and look-ups of 77 rows", "tokenizers and look-ups")


@dataclass(frozen=True)
class _Entry:
    """One entry point: runs an image, bytes in and out, cycles."""

    name: str
    runs: int
    cycles: int
    sent: int
    received: int


class Row(Result):
    """A part of the image: seconds, and of an entry what they are made of. All quantities are of all its runs."""

    name: str
    runs: int
    seconds: Quantity
    parts: dict[str, Quantity] = Field(default_factory=dict)


class Latency(Result):
    """The image. `once` is what a program costs when it is loaded, before the first image."""

    command: str = "dpubench f2-latency"
    arch: str
    tables_digest: str  # of the arch that the cycles are of
    arch_digest: str  # of the arch file now
    rows: tuple[Row, ...]
    seconds: Quantity
    once: Quantity
    bound_by: str
    share: float

    @property
    def sums(self) -> dict[str, float]:
        """Seconds by what takes them, all entries together, and the host."""
        found: dict[str, float] = {}
        for row in self.rows:
            for name, q in (row.parts or {"host": row.seconds}).items():
                found[name] = found.get(name, 0.0) + q.value
        return found

    def text(self) -> str:
        """For people."""
        p = self.seconds.provenance.label
        lines = [f"one SDXL image, {SIDE}x{SIDE}, {STEPS} guided steps, {self.arch}: {self.seconds.value:.2f} s ({p})"]
        lines += [f"{'part':<26}{'runs':>5}{'s':>10}{'share':>8}  of which"]
        for r in self.rows:
            parts = ", ".join(f"{k} {v.value * 1e3:.3g} ms" for k, v in r.parts.items())
            share = r.seconds.value / self.seconds.value
            lines.append(f"{r.name:<26}{r.runs:>5}{r.seconds.value:>10.4f}{share:>8.2%}  {parts}")
        sums = ", ".join(f"{k} {v:.3g} s" for k, v in sorted(self.sums.items(), key=lambda x: -x[1]))
        lines += [f"together: {sums}", f"bound by: {self.bound_by}, {self.share:.1%} of the time"]
        lines.append(f"once a program: {self.once.value:.2f} s to load constants and words and clear memory, compared")
        if self.tables_digest != self.arch_digest:
            lines.append(f"the cycles are of an older {self.arch} ({self.tables_digest}); it is {self.arch_digest} now")
        return "\n".join(lines)


def estimate(tables: Path, sizes: Path) -> Latency:
    """The breakdown from the records of the simulation.

    Raises:
        DpuError: E106, a record is missing; E521, it lacks what is needed.
    """
    found, regions = _read(tables), _read(sizes)
    with refusing(str(tables), "lacks what is needed of dpu_f2", hint="dpubench tables makes it", code="E521"):
        record = next(a for a in found["archs"] if a["arch"] == ARCH)
        clock = simulated(record["clock_hz"], "1/s", f"clock of {ARCH}", name="clock")
        rows = [_entry(e) for e in record["entries"]]
    with refusing(str(sizes), "lacks what is needed of dpu_f2", hint="dpubench sizes makes it", code="E521"):
        parts = [r for r in regions["rows"] if _native(r["case"])]
        state = max(r["region_bytes"]["state"] for r in parts)
        regions_bytes = sum(sum(r["region_bytes"].values()) for r in parts)
    rows = [_received(e, state, r) for e, r in zip(rows, record["entries"], strict=True)]
    made = [_row(e, clock, int(record["tiles"])) for e in rows]
    host = [Row(name=q.name, runs=1, seconds=q) for q in (TOKENS, HOST, PIXELS)]
    seconds = total(r.seconds for r in [*made, *host]).called("seconds an image")
    sums = Latency(
        arch=ARCH,
        tables_digest=record["arch_digest"],
        arch_digest=load_arch(ARCH).digest,
        rows=(*made, *host),
        seconds=seconds,
        once=_once(regions_bytes, record),
        bound_by="",
        share=0.0,
    )
    name, value = max(sums.sums.items(), key=lambda x: x[1])
    return sums.model_copy(update={"bound_by": name, "share": value / seconds.value})


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise DpuError(str(path), "no such file", hint="it is part of the repository", code="E106")
    with refusing(str(path), "is no record", code="E521"):
        return dict(json.loads(path.read_text()))


def _native(case: Mapping[str, Any]) -> bool:
    side = bool(case["width"] == case["height"] == SIDE)
    return case["arch"] == ARCH and side and case["batch"] == (2 if case["part"] == "unet" else 1)


def _entry(e: Mapping[str, Any]) -> _Entry:
    sent = sum(_padded(shape) for name, shape in e["inputs"].items())
    runs = STEPS if e["entry"] in ("time", "unet") else 1
    return _Entry(e["entry"], runs, int(e["cycles"]), sent, 0)


def _padded(shape: str) -> int:
    """Bytes of a float16 tensor in device memory: rows of whole beats."""
    *outer, channels = (int(n) for n in shape.split("x"))
    rows = 1
    for n in outer:
        rows *= n
    return rows * (-(-2 * channels // ROW_ALIGN) * ROW_ALIGN)


def _received(e: _Entry, state: int, record: Mapping[str, Any]) -> _Entry:
    """With the bytes that it leaves in STATE and IO: `context` and `time` the first, the others a tensor."""
    size = {
        "context": state,
        "time": int(record["dram_written"]),
        "unet": e.sent,  # the noise has the shape of the sample
        "vae_decoder": _padded(f"1x{SIDE * SIDE}x3"),
        "text_encoder": _padded("1x77x768"),
        "text_encoder_2": _padded("1x78x1280"),
    }[e.name]
    return _Entry(e.name, e.runs, e.cycles, e.sent, size)


def _row(e: _Entry, clock: Quantity, tiles: int) -> Row:
    """Seconds of all runs of an entry."""
    cycles = simulated(e.cycles * e.runs, "1", "results/sim/tables.json", name=f"{e.name} cycles")
    sent = simulated(e.sent * e.runs, "byte", "shapes of the entry's inputs, rows of 64 bytes", name=f"{e.name} in")
    back = simulated(e.received * e.runs, "byte", "shapes and regions of the program", name=f"{e.name} out")
    copies = -(-e.sent // PIECE) + 2 * -(-e.received // PIECE)
    touched = (ACCESSES_A_RUN + ACCESSES_A_TILE * tiles + COPY_ACCESSES * copies) * e.runs
    accesses = simulated(touched, "1", "registers that the driver sets and reads, counted", name=f"{e.name} accesses")
    parts = {
        "tiles": (cycles / clock).to("s"),
        "to the card": (sent / WRITE + sent / COPY).to("s"),
        "from the card": (2 * back / COPY).to("s"),
        "registers": accesses * ACCESS,
        "notice": e.runs * NOTICE,
    }
    return Row(name=e.name, runs=e.runs, seconds=total(parts.values()).called(e.name), parts=parts)


def _once(regions: int, record: Mapping[str, Any]) -> Quantity:
    """Seconds to write and compare constants, words and the zeros of the other regions."""
    words = sum(int(e["words"]) for e in record["entries"]) * WORD_BYTES
    sent = simulated(regions + words, "byte", "results/sim/sizes.json, results/sim/tables.json", name="program")
    return (sent / WRITE + sent / COPY).to("s").called("loading a program")


def save(found: Latency, path: Path) -> None:
    """Write it as JSON: the whole as the tree of what it was made from, its parts as numbers."""
    rows = tuple(
        r.model_copy(update={"seconds": _bare(r.seconds), "parts": {k: _bare(q) for k, q in r.parts.items()}})
        for r in found.rows
    )
    with atomic_write(path) as temporary:
        temporary.write_text(found.model_copy(update={"rows": rows}).model_dump_json(indent=1) + "\n")


def _bare(q: Quantity) -> Quantity:
    return q.model_copy(update={"inputs": (), "op": "", "constant": None})
