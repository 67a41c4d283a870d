"""Each rule of the verifier: the smallest program that breaks only it, and what the message says, word for word."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from dpu.codegen.dpufile import load, save
from dpu.codegen.driver import compile_folder
from dpu.codegen.emit import assemble
from dpu.codegen.verify.boxes import DRAM, RANKS, boxes, coarse, granule, normalise
from dpu.codegen.verify.provenance import meaning, rewrite
from dpu.codegen.verify.verify import verify_program
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Program, SourceOp
from dpu.ir.isa import (
    DMA,
    MM,
    TABLE_BYTES,
    VEC,
    Buffer,
    Flag,
    Format,
    Function,
    MmMode,
    Opcode,
    Operand,
    RowMax,
    Words,
    pack,
)
from dpu.ir.operands import operands
from dpu.ir.tile_program import Buf, Dram, Instr, Section, TileProgram
from dpu.passes.lower.constants import ConstantPool
from dpu.passes.lower.program import LoweredEntry
from dpu.passes.plan_scratchpad import plan
from dpu.runtime.calibrate import calibrate_folder
from dpu.runtime.programs import verify_file
from hypothesis import given
from hypothesis import strategies as st

TINY = load_arch("dpu_tiny")
C = TINY.cols


def tiny(tiles: int) -> Arch:
    return TINY.model_copy(update={"tiles": tiles})


class Tiles:
    """Writes a tile program of 8 x 8 blocks and compiles it. Tensors are [1, 8, 8] int8, rows 64 bytes apart."""

    def __init__(self, tiles: int = 1) -> None:
        self.arch = tiny(tiles)
        self.drams: dict[str, Dram] = {}
        self.sections: list[Section] = []

    def dram(self, name: str, kind: str = "work", rows: int = C) -> Dram:
        self.drams[name] = Dram.of(name, "i8", (1, rows, C), kind)
        return self.drams[name]

    def tile(self, tile: int) -> None:
        self.sections.append(Section(tile, 1, 0, 0, "main", "/block", []))

    def alloc(self, space: str, words: int = C) -> Buf:
        buffer = Buf(space, words)
        self.sections[-1].ops.append(buffer)
        return buffer

    def add(self, opcode: Opcode, operands: dict[str, Buf | Dram], fields: dict[str, object]) -> None:
        self.sections[-1].ops.append(Instr(opcode, operands, fields))

    def load(self, dst: Buf, src: Dram, rows: int = C, **more: int) -> None:
        fields = {"inner": C, "n": (rows, 1, 1), "dstride": (64, 0, 0), "sstride": (1, 0, 0)} | more
        self.add(Opcode.LOAD, {"dst": dst, "src": src}, fields)

    def store(self, src: Buf, dst: Dram, rows: int = C) -> None:
        fields = {"inner": C, "n": (rows, 1, 1), "dstride": (64, 0, 0), "sstride": (1, 0, 0)}
        self.add(Opcode.STORE, {"src": src, "dst": dst}, fields)

    def mm(
        self,
        act: Buf,
        wgt: Buf,
        acc: Buf,
        rowmax: Buf | None = None,
        init: Buf | None = None,
        **more: int,
    ) -> None:
        operands = {"act": act, "wgt": wgt, "acc": acc}
        if init is not None:
            operands["init_at"] = init
            more |= {"mode": MmMode.COLUMN}
        if rowmax is not None:
            operands["rowmax_at"] = rowmax
            more |= {"rowmax": RowMax.INIT, "valid": C}
        fields = {"nx": C, "ny": 1, "sx": 1, "nc": 1, "nkx": 1, "nky": 1, "nn": 1} | more
        self.add(Opcode.MM, operands, fields)

    def vec(self, a: Buf, d: Buf, more: dict[str, Buf] | None = None, **fields: int) -> None:
        form = {"acc": Format.I32, "vbuf": Format.F16, "act": Format.I8}
        space = {n: Buffer[n.upper()] for n in form}
        made = {
            "rows": C,
            "tiles": 1,
            "valid": C,
            "a_src": pack(space[a.space], form[a.space]),
            "a_rs": 1,
            "b_src": Buffer.NONE,
            "d_src": pack(space[d.space], form[d.space]),
            "d_rs": 1,
        }
        named = {"a": a, "d": d} | (more or {})
        self.add(Opcode.VEC, named, made | fields)

    def compile(self, inputs: str = "x", outputs: str = "y") -> Program:
        body = TileProgram("f", list(self.drams.values()), self.sections)
        plan(body, self.arch)
        ins, outs = ({n: self.drams[n] for n in names} for names in (inputs, outputs))
        entry = LoweredEntry("f", body, ins, outs, written=tuple(self.sections))
        program = assemble([(entry, ConstantPool(lambda s, t: np.zeros(1)))], self.arch, {}, False).program
        source = SourceOp(tag=1, name="/block", kind="dpu.q.linear", nodes=("/block/MatMul", "/block/Add"), macs=512)
        program.entries = [program.entries[0].model_copy(update={"sources": (source,)})]
        verify_program(program)
        program.words = {"f": [w.copy() for w in program.words["f"]]}
        return program


def words(program: Program, tile: int = 0) -> Words:
    return program.words["f"][tile]


def find(program: Program, opcode: Opcode, tile: int = 0) -> list[int]:
    return np.flatnonzero(words(program, tile)["opcode"] == opcode).tolist()


def refused(program: Program) -> str:
    with pytest.raises(DpuError) as e:
        verify_program(program)
    return str(e.value)


def chain() -> Program:
    """x @ w -> y: LOAD, LOAD, MM, VEC, STORE, END."""
    p = Tiles()
    x, w, y = p.dram("x", "io"), p.dram("w", "const"), p.dram("y", "io")
    p.tile(0)
    a, b, acc, d = p.alloc("act"), p.alloc("wgt"), p.alloc("acc"), p.alloc("act")
    p.load(a, x)
    p.load(b, w)
    p.mm(a, b, acc)
    p.vec(acc, d)
    p.store(d, y)
    return p.compile()


def test_a_sound_program_and_what_is_proved(tmp_path: Path) -> None:
    program = chain()
    (proof,) = verify_program(program)
    assert str(proof) == "f: 6 words, 11 operands, 6 reads"
    save(program, tmp_path / "x.dpu")
    assert verify_program(load(tmp_path / "x.dpu")) == [proof]
    assert verify_file(tmp_path / "x.dpu") == (
        f"{tmp_path}/x.dpu: bounds, tokens, drains, order and the writers of every read are sound\n  {proof}"
    )


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["dpu_tiny", "dpu_f2", "dpu_32tops", "dpu_asic"])
def test_the_tiny_pipeline_is_proved(tiny_folder: Path, tmp_path: Path, arch: str) -> None:
    """`compile_folder` verifies; here what it wrote is verified again."""
    calibration, out = tmp_path / "calib.safetensors", tmp_path / "x.dpu"
    calibrate_folder(tiny_folder, calibration, prompts=1, steps=2, size=(64, 64))
    compile_folder(tiny_folder, arch=arch, calibration=calibration, size=(64, 64), out=out)
    proofs = verify_program(load(out))
    assert {"time", "context", "unet"} < {p.entry for p in proofs}


# -- rule 1: bounds ----------------------------------------------------------------------------------------------------

TAIL = """
    tile 0 word {0}: {1} ; tag 1
      from dpu.q.linear '/block', ONNX nodes /block/MatMul, /block/Add
"""
LOAD_X = "load.raw dram=io+{0:#x} inner=8 n=8x1x1 ds=64,0,0 ss=1,0,0"


def test_an_operand_leaves_its_tensor_for_another_of_the_same_region() -> None:
    program = chain()
    words(program)[:1].view(DMA)["offset"] += 64
    assert refused(program) == (
        "error[E361]: entry 'f', tile 0, word 0 (LOAD, tag 1): operand 'dram' (bytes [0x40, 0x208) of base register "
        "3 (IO)) leaves tensor 'x' (bytes [0x0, 0x200) of base register 3)\n"
        "  why: an operand lies inside the buffer or tensor that it means"
        + TAIL.format(0, LOAD_X.format(64))
        + "  try: a fault of the compiler if dpuc made this file as it is: keep the file and report it; else compile "
        "it again"
    )


def test_an_operand_leaves_its_buffer() -> None:
    program = chain()
    words(program)[2:3].view(MM)["act"] += 1
    text = refused(program)
    assert "error[E361]: entry 'f', tile 0, word 2 (MM, tag 1): operand 'act' (ACT words [0x1, 0x9)) leaves" in text
    assert "leaves buffer 0 (ACT words [0x0, 0x8) of tile 0)" in text


@pytest.mark.parametrize("table", ["buffers", "tensors"])
def test_objects_outside_of_memory(table: str) -> None:
    program = chain()
    moved = program.tables[f"verify/f/{table}"].copy()
    moved[0, -2] = 1 << 30
    program.tables[f"verify/f/{table}"] = moved
    assert "error[E361]: entry 'f'" in refused(program)


def test_constants_that_overlap() -> None:
    p = Tiles()
    x, u, v, y = p.dram("x", "io"), p.dram("u", "const"), p.dram("v", "const"), p.dram("y", "io")
    p.tile(0)
    a, b = p.alloc("act"), p.alloc("wgt")
    for source in (u, v):
        p.load(b, source)
    p.load(a, x)
    p.store(a, y)
    program = p.compile()
    moved = program.tables["verify/f/tensors"].copy()
    moved[moved[:, 0] == 0, 1] = 0
    program.tables["verify/f/tensors"] = moved
    loads = words(program)[:2].view(DMA)
    loads["offset"] = 0
    assert "tensor 'u' (bytes [0x0, 0x200) of base register 0) and tensor 'v'" in refused(program)


def test_smaller_memory_than_compiled_for() -> None:
    program = chain()
    program.base_bytes = program.base_bytes | {0: 256}
    assert "error[E312]: entry 'f', tile 0, word 1 (LOAD, tag 1)" in refused(program)
    program.base_bytes = program.base_bytes | {0: 512, 3: 512}
    assert "error[E361]: entry 'f': tensor 'y'" in refused(program)


# -- rules 2, 3: encoding and tokens, by the witness ------------------------------------------------------------------


def test_the_witness_comes_first() -> None:
    program = chain()
    words(program)["signal"][0] |= 1
    assert "error[E310]: entry 'f', tile 0, word 0 (LOAD, tag 1): a mask names the pair (LOAD, LOAD)" in refused(
        program
    )
    program = chain()
    words(program)["signal"][1] = 0
    assert "error[E320]: entry 'f', tile 0, word 2 (MM, tag 1): waits for load0, which has no token" in refused(program)


# -- rules 4, 5: engines complete in order, drains ---------------------------------------------------------------------


def two_passes() -> Program:
    """ACC -> VBUF -> VBUF -> ACT: the second VEC reads what the first wrote."""
    p = Tiles()
    x, w, y = p.dram("x", "io"), p.dram("w", "const"), p.dram("y", "io")
    p.tile(0)
    a, b, acc, v, d = p.alloc("act"), p.alloc("wgt"), p.alloc("acc"), p.alloc("vbuf"), p.alloc("act")
    p.load(a, x)
    p.load(b, w)
    p.mm(a, b, acc)
    p.vec(acc, v)
    p.vec(v, d)
    p.store(d, y)
    return p.compile()


def test_a_drain_is_missing() -> None:
    program = two_passes()
    assert words(program)["flags"][4] == Flag.DRAIN
    words(program)["flags"][4] = 0
    assert refused(program).startswith(
        "error[E366]: entry 'f', tile 0, word 4 (VEC, tag 1): operand 'a' (VBUF words [0x0, 0x8)) reads what VPU word "
        "3 of tile 0 may still have in the pipeline\n"
        "  why: both run on one engine, and no word after the first drains it\n"
        "    tile 0 word 4: vpu.vec rows=8"
    )


def test_a_token_stands_for_all_earlier_words_of_its_engine() -> None:
    """Only the second LOAD signals, and MM needs both."""
    program = chain()
    assert words(program)["signal"][:2].tolist()[0] == 0
    verify_program(program)


def test_accumulation_needs_no_drain_but_a_vector_of_row_maxima_does() -> None:
    p = Tiles()
    x, w, y = p.dram("x", "io"), p.dram("w", "const"), p.dram("y", "io")
    p.tile(0)
    a, b, acc, m, d = p.alloc("act"), p.alloc("wgt"), p.alloc("acc"), p.alloc("param"), p.alloc("act")
    p.load(a, x)
    p.load(b, w)
    p.mm(a, b, acc, rowmax=m)
    p.mm(a, b, acc, mode=MmMode.ACCUMULATE)
    p.mm(a, b, acc, init=m)
    p.vec(acc, d)
    p.store(d, y)
    program = p.compile()
    assert words(program)["flags"][:5].tolist() == [0, 0, 0, 0, Flag.DRAIN]
    words(program)["flags"][4] = 0
    assert "operand 'init_at' (PARAM words [0x0, 0x8)) reads what MXU word 2" in refused(program)


# -- rule 6: races -----------------------------------------------------------------------------------------------------


def drop(program: Program, producer: int, consumer: int, tile: int = 0) -> None:
    """Remove the token between two words, so that all counts stay sound."""
    w = words(program, tile)
    assert w["signal"][producer] and w["wait"][consumer]
    w["signal"][producer] = w["wait"][consumer] = 0


def test_read_after_write() -> None:
    program = chain()
    drop(program, 2, 3)
    assert refused(program).startswith(
        "error[E363]: entry 'f', tile 0, word 3 (VEC, tag 1): operand 'a' (ACC words [0x0, 0x8)) may be read before "
        "MXU word 2 of tile 0 has written it\n"
        "  why: no chain of semaphores leads from MXU word 2 of tile 0 to here\n"
        "    tile 0 word 3: vpu.vec rows=8 tiles=1 valid=8 a=acc.i32@0x0:1,0 b=none d=act.i8@0x8:1,0 ; "
        "signal store0 ; tag 1\n"
        "      from dpu.q.linear '/block', ONNX nodes /block/MatMul, /block/Add\n"
        "    tile 0 word 2: mxu.mm rows=1x8:0,1 k=1x1x1:0,0,0 n=1:0,0 ; wait load0 ; tag 1\n"
    )


def reuse() -> Program:
    """One ACT buffer: loaded, multiplied, loaded again, stored."""
    p = Tiles()
    x, w, y = p.dram("x", "io"), p.dram("w", "const"), p.dram("y", "io")
    p.tile(0)
    a, b, acc = p.alloc("act"), p.alloc("wgt"), p.alloc("acc")
    p.load(a, x)
    p.load(b, w)
    p.mm(a, b, acc)
    p.load(a, x)
    p.store(a, y)
    return p.compile()


def test_write_after_read() -> None:
    program = reuse()
    drop(program, 2, 3)
    assert refused(program).startswith(
        "error[E364]: entry 'f', tile 0, word 3 (LOAD, tag 1): operand 'sram' (ACT words [0x0, 0x8)) may be "
        "overwritten before MXU word 2 of tile 0 has read it\n"
        "  why: no chain of semaphores leads from MXU word 2 of tile 0 to here\n"
        "    tile 0 word 3: load.raw"
    )


def test_write_after_write() -> None:
    """VPU writes a buffer that LOAD writes afterwards; nobody reads the first value."""
    p = Tiles()
    x, w, y = p.dram("x", "io"), p.dram("w", "const"), p.dram("y", "io")
    p.tile(0)
    a, b, acc, d = p.alloc("act"), p.alloc("wgt"), p.alloc("acc"), p.alloc("act")
    p.load(a, x)
    p.load(b, w)
    p.mm(a, b, acc)
    p.vec(acc, d)
    p.load(d, x)
    p.store(d, y)
    program = p.compile()
    drop(program, 3, 4)
    assert refused(program) == (
        "error[E365]: entry 'f', tile 0, word 4 (LOAD, tag 1): operand 'sram' (ACT words [0x8, 0x10)) may be "
        "overwritten before VPU word 3 of tile 0 has written it\n"
        "  why: no chain of semaphores leads from VPU word 3 of tile 0 to here\n"
        "    tile 0 word 4: load.raw dram=io+0x0 sram=act@0x8 inner=8 n=8x1x1 ds=64,0,0 ss=1,0,0 "
        "; signal store0 ; tag 1\n"
        "      from dpu.q.linear '/block', ONNX nodes /block/MatMul, /block/Add\n"
        "    tile 0 word 3: vpu.vec rows=8 tiles=1 valid=8 a=acc.i32@0x0:1,0 b=none d=act.i8@0x8:1,0 "
        "; wait mxu0 ; tag 1\n"
        "      from dpu.q.linear '/block', ONNX nodes /block/MatMul, /block/Add\n"
        "  try: a fault of the compiler if dpuc made this file as it is: keep the file and report it; else "
        "compile it again"
    )


# -- rule 7: several tiles ---------------------------------------------------------------------------------------------


def halo() -> Program:
    """Tile 0 stores what tile 1 loads; then tile 0 stores there again."""
    p = Tiles(2)
    x, h, y = p.dram("x", "io"), p.dram("h"), p.dram("y", "io")
    p.tile(0)
    a = p.alloc("act")
    p.load(a, x)
    p.store(a, h)
    p.tile(1)
    b = p.alloc("act")
    p.load(b, h)
    p.store(b, y)
    p.tile(0)
    p.store(a, h)
    return p.compile()


def remote(program: Program, tile: int) -> np.ndarray:
    return words(program, tile).view(DMA)["remote"]


def test_a_remote_token_is_missing() -> None:
    program = halo()
    assert [remote(program, t).astype(bool).sum() for t in (0, 1)] == [2, 2]  # there and back, through fences
    remote(program, 0)[1] = 0
    remote(program, 1)[0] = 0
    text = refused(program)
    assert "entry 'f', tile 0" in text or "entry 'f', tile 1" in text
    assert "error[E36" in text


def test_tiles_that_wait_for_each_other() -> None:
    program = halo()
    first = remote(program, 0)
    first[0], first[2] = first[2], 0
    assert "error[E32" in refused(program)


# -- rule 8: row maxima, tables, PARAM ---------------------------------------------------------------------------------


def test_row_maxima_and_tables_are_buffers() -> None:
    p = Tiles()
    x, w, y = p.dram("x", "io"), p.dram("w", "const"), p.dram("y", "io")
    p.drams["t"] = t = Dram.of("t", "i8", (1, 1, TABLE_BYTES), "const", row_bytes=TABLE_BYTES)
    p.tile(0)
    a, b, acc, m, g, d = (p.alloc(s, n) for s, n in
                          (("act", 8), ("wgt", 8), ("acc", 8), ("param", 8), ("table", 1), ("act", 8)))  # fmt: skip
    p.add(Opcode.LOAD, {"dst": g, "src": t}, {"inner": TABLE_BYTES, "n": (1, 1, 1)})
    p.load(a, x)
    p.load(b, w)
    p.mm(a, b, acc, rowmax=m)
    p.vec(acc, d, {"sub_at": m, "table": g}, sub=1, func=Function.GATE)
    p.store(d, y)
    program = p.compile()
    sound = words(program).copy()
    drop(program, 3, 4)
    assert "operand 'a' (ACC words [0x0, 0x8)) may be read before MXU word 3" in refused(program)
    program.words["f"][0] = sound.copy()
    words(program)[4:5].view(VEC)["func"] |= 16
    assert "operand 'func' (TABLE words [0x1, 0x2)) leaves buffer 4" in refused(program)
    program.words["f"][0] = sound.copy()
    words(program)[3:4].view(MM)["rowmax"] = RowMax.ACCUMULATE
    assert "operand 'rowmax_at' (PARAM words [0x0, 0x8)) reads what nobody wrote; meant is nobody" in refused(program)


# -- rule 9: provenance ------------------------------------------------------------------------------------------------


def two_slots() -> Program:
    """Two inputs in two slots; the first is multiplied, then both are stored."""
    p = Tiles()
    x, y, z = p.dram("x", "io"), p.dram("y", "io"), p.dram("z", "io")
    p.tile(0)
    a, b = p.alloc("act"), p.alloc("act")
    p.load(a, x)
    p.load(b, x)
    p.store(a, y)
    p.store(b, z)
    return p.compile(outputs="yz")


def test_a_planner_puts_two_live_buffers_in_one_place() -> None:
    """Addresses and record agree, every access is ordered, and yet a word reads the other buffer."""
    program = two_slots()
    moved = program.tables["verify/f/buffers"].copy()
    moved[1, 2] = moved[0, 2]
    program.tables["verify/f/buffers"] = moved
    words(program).view(DMA)["sram"][:4] = 0
    words(program)["signal"][:2] = words(program)["wait"][2:4] = 0
    order(program, (1, 2))
    assert refused(program).startswith(
        "error[E367]: entry 'f', tile 0, word 2 (STORE, tag 1): operand 'sram' (ACT words [0x0, 0x8)) reads what LOAD "
        "word 1 of tile 0 wrote; meant is LOAD word 0 of tile 0\n"
        "  why: the last writer in stream order is not the one that the compiler meant\n"
        "    tile 0 word 2: store.raw"
    )


def order(program: Program, pair: tuple[int, int]) -> None:
    """A token from a LOAD word to a STORE word."""
    words(program)["signal"][pair[0]] |= 1 << 12
    words(program)["wait"][pair[1]] |= 1


def test_a_read_of_what_nobody_wrote() -> None:
    program = chain()
    words(program)[:1].view(DMA)["n"][0, 0] = 7
    assert refused(program).startswith(
        "error[E362]: entry 'f', tile 0, word 2 (MM, tag 1): operand 'act' (ACT words [0x0, 0x8)) reads cells that "
        "nobody wrote; meant is LOAD word 0 of tile 0\n  why: no word before this one in stream order writes there\n"
    )


def test_an_output_is_not_whole() -> None:
    program = chain()
    words(program)[4:5].view(DMA)["n"][0, 0] = 7
    assert refused(program).startswith(
        "error[E368]: entry 'f': output 'y' holds what nobody wrote\n"
        "  why: the host reads this tensor when the entry has ended\n"
    )


def test_a_word_that_reads_more_than_was_meant() -> None:
    program = chain()
    words(program)[3:4].view(VEC)["m1"] = Operand.ROW
    assert refused(program).startswith(
        "error[E360]: entry 'f', tile 0, word 3 (VEC, tag 1): has the operands a, a1, d; meant are a, d\n"
        "  why: the file's record of this word is of other operands\n"
    )


def test_a_file_without_a_record() -> None:
    program = chain()
    program.tables = {}
    assert refused(program) == (
        "error[E360]: entry 'f': no record of what its operands mean (table 'verify/f/lists' is missing)\n"
        "  why: without it nobody can tell whether a word reads the value that the compiler meant\n"
        "  try: compile the model again"
    )


@pytest.mark.parametrize("table", ["0/masks", "0/objects", "0/writers", "outputs", "names", "ends"])
def test_a_damaged_record(table: str) -> None:
    program = chain()
    program.tables[f"verify/f/{table}"] = program.tables[f"verify/f/{table}"][:-1]
    assert "error[E36" in refused(program)


def test_the_record_does_not_depend_on_addresses() -> None:
    """Moving every buffer by planning for another scratchpad leaves the writers as they are."""
    records = []
    for act in (1 << 16, 200):
        p = Tiles()
        p.arch = Arch.model_validate(
            TINY.model_dump() | {"buffers": TINY.model_dump()["buffers"] | {"act": {"bytes": act}}}
        )
        x, y = p.dram("x", "io"), p.dram("y", "io")
        p.tile(0)
        for _ in range(6):
            a = p.alloc("act")
            p.load(a, x)
            p.store(a, y)
        program = p.compile()
        records.append((program, meaning(program, "f")))
    (_, wide), (_, narrow) = records
    assert wide.buffers[:, 2].tolist() != narrow.buffers[:, 2].tolist()
    assert wide.lists == narrow.lists and wide.tiles[0].writers.tolist() == narrow.tiles[0].writers.tolist()


def test_a_reordered_record_means_the_same() -> None:
    program = two_slots()
    before = meaning(program, "f")
    swapped = [1, 0, 3, 2, 4]
    rewrite(program, "f", 0, swapped)
    after = meaning(program, "f")
    # STORE of a was word 2 and reads word 0; now it is word 3 and reads word 1.
    assert before.expected(int(before.tiles[0].writers[4]), 2) == (0,)
    assert after.expected(int(after.tiles[0].writers[6]), 3) == (1,)
    rewrite(program, "f", 0, swapped)
    again = meaning(program, "f")
    assert again.lists == before.lists and again.outputs == before.outputs


# -- boxes -------------------------------------------------------------------------------------------------------------

loop = st.tuples(st.integers(-12, 12), st.integers(1, 4))


@given(lo=st.integers(100, 120), run=st.integers(1, 5), loops=st.lists(loop, min_size=1, max_size=4))
def test_normalised_boxes_hold_the_same_cells(lo: int, run: int, loops: list[tuple[int, int]]) -> None:
    def cells(lo: int, loops: list[tuple[int, int]]) -> set[int]:
        steps = itertools.product(*(range(n) for _, n in loops))
        return {lo + sum(i * s for i, (s, _) in zip(at, loops, strict=True)) for at in steps}

    strides, counts = (np.array([[x[k] for x in loops]], np.int64) for k in (0, 1))
    new_lo, s, n = normalise(np.array([lo]), np.array([run]), strides, counts)
    want = {c + r for c in cells(lo, loops) for r in range(run)}
    assert cells(int(new_lo[0]), list(zip(s[0].tolist(), n[0].tolist(), strict=True))) == want
    assert s[0, 0] == 1 and (np.diff(s[0][s[0] > 0]) >= 0).all()


def test_boxes_span_the_intervals_of_the_semaphores() -> None:
    """Two descriptions of the same words, written apart: the ends agree, reads and writes agree."""
    program = two_passes()
    w = words(program)
    b = boxes(w, TINY)
    want = {
        (int(i), o.name): (int(s) + DRAM * o.dram, int(lo), int(hi), bool(r), bool(x))
        for o in operands(w, TINY)
        for i, s, lo, hi, r, x in zip(o.index, o.buffer, o.lo, o.hi, o.read, o.write, strict=True)
    }
    got = {
        (int(i), RANKS[Opcode(int(w["opcode"][i]))][int(rank)]): (int(s), int(lo), int(hi), bool(r), bool(x))
        for i, rank, s, lo, hi, r, x in zip(b.word, b.rank, b.space, b.lo, b.hi, b.read, b.write, strict=True)
    }
    assert got == want


def test_granules() -> None:
    b = boxes(words(chain()), TINY)
    assert granule([b]) == 64
    coarser = coarse(b, 64)
    far = coarser.space >= DRAM
    assert coarser.extents[coarser.shape[far]].prod(1).tolist() == [8, 8, 8]  # 8 bytes of each row, a granule each


# -- speed -------------------------------------------------------------------------------------------------------------


def looped(rounds: int) -> Program:
    """A double-buffered product of so many rounds of five words."""
    p = Tiles()
    x, w, y = p.dram("x", "io"), p.dram("w", "const"), p.dram("y", "io")
    p.tile(0)
    for _ in range(rounds):
        a, b, acc, d = p.alloc("act"), p.alloc("wgt"), p.alloc("acc"), p.alloc("act")
        p.load(a, x)
        p.load(b, w)
        p.mm(a, b, acc)
        p.vec(acc, d)
        p.store(d, y)
    return p.compile()


def test_the_record_of_a_loop_is_small() -> None:
    """2 bytes of mask, and of each operand (2.2 a word) 2 of object and 1 of list; 16 bytes a buffer (0.8 a word)."""
    program = looped(200)
    record = sum(t.nbytes for k, t in program.tables.items() if k.startswith("verify/f/"))
    assert record < 24 * len(words(program))
    assert len(meaning(program, "f").lists) <= 8


def test_speed(record_property: Callable[[str, object], None]) -> None:
    """Aim: 300,000 words in 10 s on one idle core, 33 us a word. What was measured is in the README of the folder."""
    program = looped(2000)
    start = time.process_time()
    verify_program(program)
    seconds = time.process_time() - start
    record_property("microseconds_a_word", 1e6 * seconds / len(words(program)))
