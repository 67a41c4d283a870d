"""Text and words are inverse to each other, for every word with an opcode; errors name the line."""

from __future__ import annotations

import numpy as np
import pytest
from dpu.codegen.assembler import assemble, assemble_words
from dpu.codegen.disassembler import disassemble, disassemble_program, disassemble_word
from dpu.codegen.syntax import float_bits, float_text
from dpu.errors import DpuError
from dpu.ir import isa
from dpu.ir.arch import load_arch
from dpu.ir.container import Entry, Program, SourceOp
from dpu.ir.isa import Buffer, DmaFormat, Engine, Flag, Format, Opcode, Operand, Reduce, RowMax, Words, pack, word
from hypothesis import given, settings
from hypothesis import strategies as st


@st.composite
def words(draw) -> Words:
    """Any word with an opcode: fields are zero, small, or any bytes (codes without a name, reserved bytes, NaN)."""
    raw = np.zeros(isa.WORD_BYTES, np.uint8)
    raw[0] = draw(st.sampled_from(Opcode))
    dtype = isa.DTYPE[Opcode(raw[0])]
    for name in dtype.names[1:]:
        field, offset = dtype.fields[name][0], dtype.fields[name][1]
        kind = draw(st.integers(0, 3))
        if kind == 1:
            raw[offset] = draw(st.integers(0, 9))
        elif kind >= 2:
            content = draw(st.binary(min_size=field.itemsize, max_size=field.itemsize))
            raw[offset : offset + field.itemsize] = np.frombuffer(content, np.uint8)
    return raw.view(isa.HEADER)


names = st.dictionaries(st.integers(0, 65535), st.text(), max_size=3)


@settings(max_examples=600, deadline=None)
@given(words(), st.text())
def test_round_trip_of_any_word(one: Words, name: str) -> None:
    text = disassemble_word(one[0], {int(one["tag"][0]): name})
    assert assemble_words(text).tobytes() == one.tobytes(), text
    again = disassemble_word(assemble_words(text)[0], {int(one["tag"][0]): name})
    assert again == text


@given(st.integers(0, 2**32 - 1))
def test_floats_keep_their_bits(bits: int) -> None:
    assert float_bits(float_text(bits)) == bits


def test_how_it_reads() -> None:
    load = word(
        Opcode.LOAD,
        base=1,
        buffer=Buffer.ACT,
        format=DmaFormat.RAW,
        offset=0x40,
        sram=16,
        inner=64,
        n=(4, 3, 1),
        dstride=(64, -256, 0),
        sstride=(1, 18, 0),
        pad=(1, 1, 0, 0),
        fill=-3,
        wait=isa.wait_bit(Engine.STORE),
        signal=isa.signal_bit(Engine.MXU, 1),
        remote=0b101,
    )
    assert disassemble_word(load[0]) == (
        "load.raw dram=work+0x40 sram=act@0x10 inner=64 n=4x3x1 ds=64,-256,0 ss=1,18,0 pad=1,1,0,0 fill=-3"
        " ; wait store0 tile0 tile2 signal mxu1"
    )
    mm = word(
        Opcode.MM, act=256, nx=16, ny=4, sx=1, sy=18, nc=2, sc=324, nkx=3, nky=3, skx=1, sky=18, nn=1, tag=17,
        rowmax=RowMax.INIT, rowmax_at=8, valid=13, flags=Flag.DRAIN, wait=isa.wait_bit(Engine.LOAD),
    )  # fmt: skip
    assert disassemble_word(mm[0], {17: "/conv_in/Conv"}) == (
        "mxu.mm act=0x100 rows=4x16:18,1 k=3x3x2:18,1,324 n=1:0,0 rowmax=init@0x8 valid=13"
        ' ; wait load0 drain ; tag 17 "/conv_in/Conv"'
    )
    vec = word(
        Opcode.VEC,
        rows=4,
        tiles=1,
        valid=64,
        a_src=pack(Buffer.ACC, Format.I32),
        a_rs=1,
        b_src=Buffer.NONE,
        d_src=pack(Buffer.VBUF, Format.F16),
        d=5,
        d_rs=2,
        m1=pack(Operand.ROW, Operand.IMM0),
        a1=64,
        imm=(0.1, 0),
        red=Reduce.SUM_SQ | isa.RED_COLUMNS | isa.RED_ACCUMULATE,
        red_at=128,
    )
    assert disassemble_word(vec[0]) == (
        "vpu.vec rows=4 tiles=1 valid=64 a=acc.i32@0x0:1,0 b=none d=vbuf.f16@0x5:2,0 affine1=row@0x40,imm0"
        " red=sum_sq.col.acc@0x80 imm=0.1,0.0"
    )
    assert disassemble_word(word(Opcode.END, flags=Flag.IRQ)[0]) == "end ; irq"
    assert disassemble_word(isa.empty(1)[0]).startswith("# illegal opcode 0: 0000")


def test_a_program_text_assembles_to_its_streams_and_filters() -> None:
    mm = word(Opcode.MM, nx=2, tag=1)
    load = word(Opcode.LOAD, inner=4, tag=2)
    end = word(Opcode.END)
    streams = {"a b": [np.concatenate([load, mm, end]), end], "c": [end, end]}
    ops = (
        SourceOp(tag=1, name="conv", kind="k", nodes=("/up/Conv",), macs=0),
        SourceOp(tag=2, name="act #2", kind="k", nodes=(), macs=0),
    )
    program = Program(
        load_arch("dpu_tiny"),
        [Entry(name=n, inputs=(), outputs=(), sources=ops if n == "a b" else ()) for n in streams],
        streams,
        np.zeros(0, np.uint8),
        {},
    )
    text = "\n".join(disassemble_program(program))
    back = assemble(text)
    assert {k: [s.tobytes() for s in v] for k, v in back.items()} == {
        k: [s.tobytes() for s in v] for k, v in streams.items()
    }

    def kept(**filters) -> list[str]:
        return [x for x in disassemble_program(program, **filters) if x[:1].isdigit()]

    assert '; tag 2 "act #2"' in kept()[0]
    assert [x.split()[1] for x in kept(entry="a b", tile=0)] == ["load.raw", "mxu.mm", "end"]
    assert [x.split()[0] for x in kept(operation="/up/")] == ["0001"]
    assert [x.split()[0] for x in kept(tag=2)] == ["0000"]
    assert [x.split()[0] for x in kept(engine=Engine.MXU)] == ["0001"]
    assert [x.split()[0] for x in kept(entry="a b", tile=0, words=range(1, 3))] == ["0001", "0002"]
    assert next(iter(disassemble(mm, start=7))).startswith("0007 mxu.mm rows=0x2:0,0")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("mxu.mul act=1", "unknown mnemonic 'mxu.mul'"),
        ("load act=1", "unknown mnemonic 'load'"),
        ("load.zip", "'zip' is none of raw, fill, int4, transpose"),
        ("mxu.mm foo=1", "mxu.mm has no field 'foo' (known: act, "),
        ("mxu.mm act", "has no field 'act'"),
        ("mxu.mm act=0x100 act=1", "'act' occurs twice"),
        ("mxu.mm act=abc", "field 'act': 'abc' is no number"),
        ("mxu.mm act=0x100000000", "MM.act = 4294967296: the field holds 0 to 4294967295"),
        ("mxu.mm valid=-1", "MM.valid = -1"),
        ("mxu.mm rows=4:1,1", "'4' must be 2 numbers separated by 'x'"),
        ("mxu.mm mode=twice", "'twice' is none of zero, accumulate, column"),
        ("vpu.vec a=acc.i64@0", "'i64' is none of"),
        ("vpu.vec a=16.i32@0", "16 does not fit in 4 bits"),
        ("vpu.vec imm=1e60,0", "no finite float32"),
        ("vpu.vec red=sum.up@0", "'up' is none of col, int, acc"),
        ("mxu.mm ; wait dma0", "'dma0' has no meaning for MM"),
        ("mxu.mm ; load0", "'load0' has no meaning"),
        ("mxu.mm ; wait tile0", "'tile0' has no meaning for MM"),
        ("store.raw ; wait tile0", "'tile0' has no meaning for STORE"),
        ("end ; tag", "a tag is"),
        ('end ; tag 1 "x', "a quotation mark is not closed"),
        ("; drain", "no mnemonic"),
        (".data", "unknown directive '.data'"),
        (".tile 1", "tile 1 follows 0 tiles"),
    ],
)
def test_errors_name_the_line(line: str, why: str) -> None:
    with pytest.raises(DpuError) as e:
        assemble(f"# a comment\n\nend\n.entry x\n{line}\n", "p.dasm")
    assert e.value.code == "E330" and "error[E330]: p.dasm:5: " in str(e.value)
    assert why in str(e.value)


def test_several_streams_are_not_one() -> None:
    with pytest.raises(DpuError, match="holds 2 streams"):
        assemble_words(".tile 0\nend\n.tile 1\nend")
    assert len(assemble_words("# nothing")) == 0
