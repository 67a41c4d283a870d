"""What the operations of a running program stored, as `.npy` files: `dpurun --dump-tensors`.

Each tensor is a shadow of what the STORE words of its operation wrote, taken as they ran, so that later reuse of the
DRAM does not matter. Shadows live from the first STORE of their operation to the last, and then go to disk.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np

from ..errors import DpuError
from ..files import atomic_write
from ..ir.container import Entry, Program, SourceOp
from ..ir.isa import Opcode, Words, fields
from ..simulator.machine import Counters, Machine, OnStore
from .check.shadow import Shadow
from .operations import matching
from .sim_device import Runner

MEMORY = 1 << 30  # bytes of shadows held at once; an operation that needs more is skipped, and the index says so
COMPANIONS = {"scale": ".scale", "mu": ".mu", "stats": ".stats"}


class TensorDump:
    """Takes the place of a device's runner and writes the matching tensors of every run below `folder`.

    `folder/<entry>/<run>/<tag>.<result>-<name>.npy`, and `folder/index.json` with one record a file.

    Raises:
        DpuError: a pattern matches nothing, or the folder cannot be made.
    """

    def __init__(
        self,
        program: Program,
        patterns: Iterable[str],
        folder: Path,
        inner: Runner = Machine.run,
        memory: int = MEMORY,
    ) -> None:
        self.program, self.folder, self.inner, self.memory = program, folder, inner, memory
        self.patterns = list(patterns)
        self.wanted: dict[str, dict[int, SourceOp]] = {}
        for entry, source in matching(program, "--dump-tensors", self.patterns):
            if source.outputs:
                self.wanted.setdefault(entry.name, {})[source.tag] = source
        self.runs: Counter[str] = Counter()
        self.records: list[dict[str, object]] = []
        self.skipped: list[dict[str, object]] = []
        _make(folder)

    def run(self, machine: Machine, streams: Sequence[Words], on_store: OnStore | None, entry: str) -> Counters:
        """Run an entry and write its tensors; the index is written after each run, whole or stopped by an error."""
        number = self.runs[entry]
        self.runs[entry] += 1
        if entry not in self.wanted:
            return self.inner(machine, streams, on_store, entry)
        one = _Run(self, machine, streams, self.program.entry(entry), number, on_store)
        try:
            return self.inner(machine, streams, one.on_store, entry)
        finally:
            one.finish()
            self._write_index()

    def _write_index(self) -> None:
        document = {
            "patterns": self.patterns,
            "arch": self.program.arch.name,
            "layout": "samples x tokens x channels",
            "tensors": self.records,
            "skipped": self.skipped,
        }
        with atomic_write(self.folder / "index.json") as temporary:
            temporary.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


class _Run:
    """One run of one entry."""

    def __init__(
        self,
        dump: TensorDump,
        machine: Machine,
        streams: Sequence[Words],
        entry: Entry,
        number: int,
        then: OnStore | None,
    ) -> None:
        self.dump, self.machine, self.streams = dump, machine, streams
        self.entry, self.number, self.then = entry, number, then
        self.wanted = dict(dump.wanted[entry.name])
        self.left: Counter[int] = Counter()
        for words in streams:
            tags, counts = np.unique(words["tag"][words["opcode"] == int(Opcode.STORE)], return_counts=True)
            self.left.update(dict(zip(tags.tolist(), counts.tolist(), strict=True)))
        self.shadows: dict[int, list[Shadow]] = {}
        self.held = 0

    def on_store(self, tile: int, word: int, tag: int) -> None:
        """Copy what a STORE wrote; write the operation's tensors after its last."""
        if self.then is not None:
            self.then(tile, word, tag)
        if tag not in self.wanted:
            return
        if tag not in self.shadows:
            source = self.wanted[tag]
            need = 2 * sum(s.bytes for s in source.outputs)
            if self.held + need > self.dump.memory:
                self._skip(source, need)
                return
            self.held += need
            self.shadows[tag] = [Shadow.of_slot(s) for s in source.outputs]
        record = fields(self.streams[tile][word])
        base = int(record["base"])
        for shadow in self.shadows[tag]:
            if shadow.base == base:
                shadow.take(self.machine.regions[base], tile, word, record)
        self.left[tag] -= 1
        if not self.left[tag]:
            self._write(tag, True)

    def finish(self) -> None:
        """Write what a stopped run left."""
        for tag in list(self.shadows):
            self._write(tag, False)

    def _skip(self, source: SourceOp, need: int) -> None:
        del self.wanted[source.tag]
        why = f"needs {need} bytes of memory beside the {self.held} in use, {self.dump.memory} are allowed"
        self.dump.skipped.append({"entry": self.entry.name, "run": self.number, "operation": source.name, "why": why})

    def _write(self, tag: int, whole: bool) -> None:
        source, shadows = self.wanted[tag], self.shadows.pop(tag)
        self.held -= 2 * sum(len(s.data) for s in shadows)
        folder = self.dump.folder / self.entry.name / f"{self.number:04d}"
        _make(folder)
        names = {s.name: f"{tag:04d}.{i}-{_plain(s.name)}.npy" for i, s in enumerate(source.outputs)}
        for slot, shadow in zip(source.outputs, shadows, strict=True):
            path = folder / names[slot.name]
            values = shadow.values()
            with atomic_write(path) as temporary, temporary.open("wb") as f:
                np.save(f, values)
            record: dict[str, object] = {
                "file": str(path.relative_to(self.dump.folder)),
                "entry": self.entry.name,
                "run": self.number,
                "operation": source.name,
                "kind": source.kind,
                "tag": tag,
                "nodes": list(source.nodes),
                "tensor": slot.name,
                "dtype": slot.dtype,
                "shape": list(values.shape),
                "whole": whole,
                "absent": int(shadow.absent().sum()),
            }
            for key, ending in COMPANIONS.items():
                other = names.get(slot.name + ending)
                if key == "scale" or other:
                    record[key] = str((folder / other).relative_to(self.dump.folder)) if other else None
            self.dump.records.append(record)


def _plain(name: str) -> str:
    return re.sub(r"[^\w.#-]+", "_", name, flags=re.ASCII).strip("_")[-100:]


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise DpuError(str(folder), f"cannot make this folder ({e.strerror})", code="E101") from e
