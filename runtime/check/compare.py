"""Compare every operation of a compiled program with the interpreter: same inputs, results equal bit for bit.

While the simulator runs, what each operation stores is copied into a shadow of its result, so that later reuse of the
DRAM does not matter. As soon as the words of an operation and of all before it are done, the interpreter takes the
simulator's inputs of that operation and its results are compared; shadows that nobody reads any more are dropped.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from ...codegen.emit import Emitted
from ...errors import DpuError
from ...ir.container import Base, Entry, Slot
from ...ir.graph import ParamOp, shape_of
from ...ir.isa import Opcode, fields
from ...passes.lower.constants import ConstantPool, Fetch
from ...passes.lower.program import LoweredEntry, LoweredOp
from ...passes.weights import Fixed
from ...simulator.machine import Machine
from .bisect import Difference, write_difference
from .cuts import Cuts
from .functions import F32, to_half
from .interpreter import Context, interpret
from .report import CheckReport, OpRow, TensorRow
from .shadow import DTYPES, POISON, Array, Shadow


def _compare(name: str, expected: Array, shadow: Shadow) -> TensorRow:
    actual = shadow.values()
    if expected.shape != actual.shape or expected.dtype != actual.dtype:
        note = f"{expected.dtype} {list(expected.shape)} by the graph, {actual.dtype} {list(actual.shape)} in DRAM"
        size = actual.size
        return TensorRow(
            name=name, dtype=shadow.dtype, shape=shadow.shape, elements=size, differing=size, unwritten=0, note=note
        )
    bits = np.dtype(f"u{actual.dtype.itemsize}")
    absent = shadow.absent()
    wrong = (np.ascontiguousarray(expected).view(bits) != actual.view(bits)) | absent
    count = int(wrong.sum())
    first = cast(tuple[int, int, int], tuple(int(x) for x in np.unravel_index(int(wrong.argmax()), wrong.shape)))
    return TensorRow(
        name=name,
        dtype=shadow.dtype,
        shape=shadow.shape,
        elements=actual.size,
        differing=count,
        unwritten=int(absent.sum()),
        first=first if count else None,
        expected=float(expected[first]) if count else None,
        actual=float(actual[first]) if count else None,
        db=_decibels(expected, actual) if count else None,
    )


def _decibels(expected: Array, actual: Array) -> float | None:
    with np.errstate(all="ignore"):
        e, a = expected.astype(np.float64), actual.astype(np.float64)
        ratio = float((e * e).sum() / ((e - a) ** 2).sum())
        value = float(10 * np.log10(ratio)) if ratio > 0 else -np.inf
    return value if np.isfinite(value) else None


class _EntryCheck:
    """One entry's run: shadows of its operations, and the queue of operations that wait for their words."""

    def __init__(self, check: _Check, lowered: LoweredEntry, entry: Entry) -> None:
        self.check, self.lowered, self.entry = check, lowered, entry
        self.words = check.emitted.program.words[entry.name]
        self.values: dict[SSAValue, Array | Shadow] = {}
        self.shadows: dict[int, list[Shadow]] = {}
        self.left: Counter[int] = Counter()
        for stream in self.words:
            tags, counts = np.unique(stream["tag"][stream["opcode"] == int(Opcode.STORE)], return_counts=True)
            for tag, count in zip(tags.tolist(), counts.tolist(), strict=True):
                self.left[tag] += count
        self.ops = {op.tag: op for op in lowered.ops}
        self.queue: deque[LoweredOp] = deque(lowered.ops)
        self.results = {d: n for n, d in lowered.outputs.items()}
        self.reads: Counter[SSAValue] = Counter()
        for qop in lowered.qops.values():
            self.reads.update(qop.operands)
        block = next(iter(lowered.qops.values())).parent
        assert block is not None
        for arg, name in zip(block.args, lowered.inputs, strict=True):
            self.values[arg] = check.known[name]

    def on_store(self, tile: int, word: int, tag: int) -> None:
        record = fields(self.words[tile][word])
        region = self.check.machine.regions.get(int(record["base"]))
        for shadow in self._of(tag):
            if region is not None and shadow.base == int(record["base"]):
                shadow.take(region, tile, word, record)
        self.left[tag] -= 1
        while self.queue and not self.left[self.queue[0].tag]:
            self._finish(self.queue.popleft())

    def finish(self, stopped: bool) -> None:
        """Compare what is left; if the program stopped, up to the first operation that is not whole."""
        while self.queue:
            self._finish(self.queue.popleft())
            if stopped and not self.check.rows[-1].ok:
                break

    def _of(self, tag: int) -> list[Shadow]:
        """Shadows of an operation's results, made when it first stores."""
        if tag not in self.shadows:
            places = self.check.emitted.places
            outputs = self.ops[tag].outputs if tag in self.ops else ()
            self.shadows[tag] = [Shadow.of(d, places[d]) for d in outputs]
        return self.shadows[tag]

    def _finish(self, op: LoweredOp) -> None:
        qop = self.lowered.qops[op.tag]
        shadows = self._of(op.tag)
        context = Context(self._read, self.check.param, self.check.cuts, self.check.fixed)
        expected = interpret(qop, context)
        rows = [_compare(s.name, e, s) for e, s in zip(expected, shadows, strict=True)]
        row = OpRow(entry=self.entry.name, tag=op.tag, name=op.name, kind=op.kind, nodes=op.nodes, tensors=tuple(rows))
        self.check.rows.append(row)
        if not row.ok and self.check.first is None:
            self.check.first = Difference(row, expected, shadows, self._inputs(qop))
        for result, dram, shadow in zip(qop.results, op.outputs, shadows, strict=True):
            if dram in self.results:
                self.check.known[self.results[dram]] = shadow.values()
            if self.reads[result]:
                self.values[result] = shadow
        for v in qop.operands:
            self.reads[v] -= 1
            if not self.reads[v]:
                self.values.pop(v, None)
        del self.shadows[op.tag]

    def _read(self, value: SSAValue) -> Array:
        held = self.values[value]
        return held.values() if isinstance(held, Shadow) else held

    def _inputs(self, op: Operation) -> dict[str, Array]:
        read: dict[str, Array] = {}
        for i, v in enumerate(op.operands):
            if v in self.values:
                held = self.values[v]
                read[f"{i}_{held.name}" if isinstance(held, Shadow) else str(i)] = self._read(v)
        return read


class _Check:
    """State of one check over all entries."""

    def __init__(self, emitted: Emitted, fetch: Fetch) -> None:
        self.emitted, self.fetch = emitted, fetch
        program = emitted.program
        self.cuts = Cuts(program.arch)
        regions = {int(b): np.full(max(program.base_bytes.get(int(b), 0), 64), POISON, np.uint8) for b in Base}
        regions[int(Base.CONST)][: len(program.constants)] = program.constants
        self.machine = Machine(program.arch, regions)
        self.known: dict[str, Array] = {}  # host inputs, and what entries left for others
        self.rows: list[OpRow] = []
        self.first: Difference | None = None
        self.error = ""

    def param(self, value: SSAValue) -> F32:
        """A parameter in float32, in its shape."""
        op = cast(ParamOp, value.owner)
        transform = tuple(t.data for t in op.transform.data) if op.transform else ()
        return np.asarray(self.fetch(op.source.data, transform)).astype(np.float32).reshape(shape_of(value))

    def fixed(self, value: SSAValue) -> Fixed | None:
        """A parameter's integers and scales, if the model stores those."""
        return ConstantPool(self.fetch).fixed(value)

    def put(self, slot: Slot, array: Array) -> None:
        """Write a host input, rounded to its type."""
        wide = np.asarray(array, np.float32).reshape(slot.shape)
        stored = to_half(wide) if slot.dtype == "f16" else wide.astype(DTYPES[slot.dtype])
        self.known[slot.name] = stored
        b, t, _ = slot.shape
        region = self.machine.regions[slot.base][slot.offset : slot.offset + slot.bytes].reshape(b * t, slot.row_bytes)
        raw = np.ascontiguousarray(stored).reshape(b * t, -1).view(np.uint8)
        region[:, : raw.shape[1]] = raw

    def run(self, entry: Entry, lowered: LoweredEntry) -> None:
        """Run one entry, comparing as it goes."""
        run = _EntryCheck(self, lowered, entry)
        try:
            self.machine.run(run.words, run.on_store, entry.name)
        except DpuError as e:
            self.error = e.text()
        run.finish(bool(self.error))


def entry_order(emitted: Emitted) -> list[Entry]:
    """Entries so that each comes after those that leave what it reads; otherwise as in the program."""
    left, order = list(emitted.program.entries), []
    while left:
        pending = {s.name for e in left for s in e.outputs}
        ready = next((e for e in left if not pending - {s.name for s in e.outputs} & {s.name for s in e.inputs}), None)
        order.append(ready or left[0])
        left.remove(order[-1])
    return order


def check(
    emitted: Emitted,
    fetch: Fetch,
    inputs: Mapping[str, Array],
    *,
    order: list[str] | None = None,
    bisect: Path | str | None = None,
) -> CheckReport:
    """Run a compiled module on the simulator and compare every operation with the interpreter.

    `fetch` is what the program was emitted with, `inputs` are the host's tensors [B, T, C] by name, or `<entry>/<name>`
    where two entries use one name; values that one entry leaves for another come from the run of the first. `order`
    names the entries to run, by default all, producers first. With `bisect`, the first operation that differs is
    written into that folder (`bisect.py`).

    Raises:
        DpuError: an input is missing or has another size.
    """
    state = _Check(emitted, fetch)
    lowered = {e.name: e for e in emitted.entries}
    entries = entry_order(emitted) if order is None else [emitted.program.entry(n) for n in order]
    for entry in entries:
        for slot in entry.inputs:
            given = inputs.get(f"{entry.name}/{slot.name}", inputs.get(slot.name))
            if given is not None:
                if np.asarray(given).size != int(np.prod(slot.shape)):
                    raise DpuError(
                        f"input '{slot.name}'", f"has shape {np.shape(given)}, expected {slot.shape}", code="E441"
                    )
                state.put(slot, np.asarray(given))
            elif slot.name not in state.known:
                raise DpuError(
                    f"input '{slot.name}' of entry '{entry.name}'",
                    "is missing",
                    hint="give it, or run the entry that leaves it first",
                    code="E441",
                )
        state.run(entry, lowered[entry.name])
        if state.error:
            break
    folder = ""
    if bisect is not None and state.first is not None:
        folder = str(write_difference(Path(bisect), emitted.program, state.first))
    return CheckReport(arch=emitted.program.arch.name, rows=tuple(state.rows), error=state.error, folder=folder)
