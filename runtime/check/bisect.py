"""Write down the first operation that differs: both tensors, its instructions, and the tile that stored it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...codegen.disassembler import disassemble_program, disassemble_word
from ...errors import DpuError
from ...ir.container import Program
from .report import OpRow
from .shadow import Array, Shadow, Stored


@dataclass(frozen=True)
class Difference:
    """The first operation that differs, with its tensors: results as computed twice, inputs by operand number."""

    row: OpRow
    expected: list[Array]
    actual: list[Shadow]
    inputs: dict[str, Array]


def write_difference(folder: Path, program: Program, found: Difference) -> Path:
    """Fill `folder`: `summary.txt`, `instructions.txt`, `<n>.expected.npy` and `<n>.actual.npy` of each result,
    `input.<operand>.npy` of each operand.

    Raises:
        DpuError: the folder cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for i, (expected, shadow) in enumerate(zip(found.expected, found.actual, strict=True)):
            np.save(folder / f"{i}.expected.npy", expected)
            np.save(folder / f"{i}.actual.npy", shadow.values())
        for name, array in found.inputs.items():
            np.save(folder / f"input.{re.sub(r'[^A-Za-z0-9._-]', '_', name)}.npy", array)
        lines = disassemble_program(program, entry=found.row.entry, tag=found.row.tag)
        (folder / "instructions.txt").write_text("\n".join(lines) + "\n")
        (folder / "summary.txt").write_text("\n".join(_summary(program, found)) + "\n")
    except OSError as e:
        raise DpuError(
            str(folder), f"cannot be written ({e.strerror})", hint="choose a writable folder", code="E101"
        ) from e
    return folder


def _summary(program: Program, found: Difference) -> list[str]:
    row = found.row
    lines = [
        f"first operation that differs: {row.kind} {row.name}",
        f"entry {row.entry}, tag {row.tag}, arch {program.arch.name}",
        f"ONNX nodes: {', '.join(row.nodes) or 'none'}",
        "",
    ]
    for i, (t, shadow) in enumerate(zip(row.tensors, found.actual, strict=True)):
        lines.append(f"result {i}: {t.name}, {t.dtype} {'x'.join(map(str, t.shape))}")
        if t.ok or t.first is None:
            lines.append(f"  {t.note or 'equal'}")
            continue
        lines.append(f"  {t.differing} of {t.elements} elements differ, {t.unwritten} were never stored")
        lines.append(f"  first at {list(t.first)}: simulator {t.actual!r}, interpreter {t.expected!r}")
        if t.db is not None:
            lines.append(f"  distance {t.db:.1f} dB")
        stored = writer(shadow, t.first)
        if stored is None:
            lines.append("  no word stored it")
        else:
            word = program.words[row.entry][stored.tile][stored.word]
            lines.append(f"  stored by tile {stored.tile}, word {stored.word}: {disassemble_word(word)}")
    return lines


def writer(shadow: Shadow, index: tuple[int, int, int]) -> Stored | None:
    """The last STORE that wrote an element."""
    byte = shadow.byte_of(index)
    return next((s for s in reversed(shadow.stores) if s.covers(byte)), None)
