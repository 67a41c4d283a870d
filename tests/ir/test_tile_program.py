"""Tile programs as objects and as text say the same, either way round."""

from __future__ import annotations

from typing import Any

import pytest
from dpu.bench.blocks import BLOCKS
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module, print_module
from dpu.ir.tile import ProgramOp
from dpu.ir.tile_program import Buf, Dram, Instr, TileProgram
from dpu.ir.tile_text import from_text, locations_of, to_text
from dpu.passes.lower.program import lower_module
from dpu.passes.plan_scratchpad import plan
from dpu.passes.quantise import quantise
from xdsl.dialects.builtin import ModuleOp


@pytest.fixture(scope="module")
def lowered() -> Any:
    arch = load_arch("dpu_f2")
    module = parse_module(BLOCKS["convolutions 1280 @ 32x32"], "block")
    quantise(module, arch, None, {})
    ((entry, _),) = lower_module(module, arch, lambda source, transform: None)  # type: ignore[arg-type,return-value]
    plan(entry.program, arch)
    return entry


def plain(program: TileProgram) -> list[object]:
    """All that a program says, buffers and tensors by number; zero fields are left out, as text leaves them out."""
    number: dict[Buf | Dram, int] = {d: i for i, d in enumerate(program.drams)}
    said: list[object] = [(d.name, d.dtype, d.shape, d.kind, d.row_bytes) for d in program.drams]
    for s in program.sections:
        said.append((s.tile, s.tag, s.stream, s.step, s.phase, s.source))
        for op in s.ops:
            if isinstance(op, Buf):
                number[op] = len(number)
                said.append((op.space, op.words, op.at))
            else:
                assert isinstance(op, Instr)
                fields = {k: v for k, v in op.fields.items() if v not in (0, (0, 0, 0), (0, 0, 0, 0))}
                said.append((op.opcode, {role: number[v] for role, v in op.operands.items()}, fields))
    return said


def test_text_and_back(lowered: Any) -> None:
    text = to_text(lowered.program, lowered.locations)
    assert plain(from_text(text)) == plain(lowered.program)
    printed = print_module(ModuleOp([text]), locations=True)
    (again,) = parse_module(printed, "again").ops
    assert isinstance(again, ProgramOp)
    assert plain(from_text(again)) == plain(lowered.program)


def test_locations_stay_with_their_tags(lowered: Any) -> None:
    text = to_text(lowered.program, lowered.locations)
    found = locations_of(text)
    assert {tag: found[tag] for tag in lowered.locations} == lowered.locations


def test_the_lowering_leaves_the_graph_alone() -> None:
    arch = load_arch("dpu_f2")
    module = parse_module(BLOCKS["convolutions 1280 @ 32x32"], "block")
    quantise(module, arch, None, {})
    before = print_module(module)
    lower_module(module, arch, lambda source, transform: None)  # type: ignore[arg-type,return-value]
    assert print_module(module) == before
