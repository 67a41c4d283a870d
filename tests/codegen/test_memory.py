"""DRAM of a program of many tiles: what tiles use at the same time lies apart."""

from __future__ import annotations

from dpu.codegen.memory import MemoryPlan, dram_bytes
from dpu.ir.isa import Opcode
from dpu.ir.tile_program import Buf, Dram, Instr, Section, TileProgram


def scratch(tile: int, tag: int) -> tuple[Dram, Section]:
    """An operation's part on one tile: it stores to a tensor of its own and reads that again."""
    dram, buffer = Dram.of(f"t{tile}o{tag}", "f32", (1, 2, 64), "work"), Buf("param", 64)
    fields = {"inner": 256, "n": (1, 1, 1)}
    ops = [buffer, Instr(Opcode.STORE, {"src": buffer, "dst": dram}, fields)]
    ops.append(Instr(Opcode.LOAD, {"dst": buffer, "src": dram}, fields))
    return dram, Section(tile, tag, 0, 0, "main", "/op", ops)


def test_scratch_of_tiles_in_one_operation_lies_apart_and_that_of_the_next_operation_takes_its_place() -> None:
    made = [scratch(tile, tag) for tag in (1, 2) for tile in range(4)]
    memory = MemoryPlan()
    places = memory.plan(TileProgram("f", [d for d, _ in made], [s for _, s in made]))
    first, second = ([places[d] for d, _ in made[i : i + 4]] for i in (0, 4))
    assert len(set(first)) == len(set(second)) == 4
    assert set(first) == set(second)
    assert memory.base_bytes[1] == 4 * dram_bytes(made[0][0])
