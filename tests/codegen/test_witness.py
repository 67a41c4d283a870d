"""The always-on check: what it refuses, with the word and the reason; and that it accepts any tile schedule."""

from __future__ import annotations

import numpy as np
import pytest
from dpu.codegen.witness import check_program
from dpu.errors import DpuError
from dpu.ir import isa
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import (
    MAX_TOKENS,
    Buffer,
    DmaFormat,
    Engine,
    Format,
    Function,
    Op2,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    Words,
    pack,
    signal_bit,
    wait_bit,
    word,
)

TINY = load_arch("dpu_tiny")
C = TINY.cols
END = word(Opcode.END)
LOAD = {"buffer": Buffer.ACT, "inner": C, "n": (1, 1, 1), "base": 1}
MM = {"nx": 1, "ny": 1, "nc": 1, "nkx": 1, "nky": 1, "nn": 1}
VEC = {"rows": 1, "tiles": 1, "valid": C, "a_src": pack(Buffer.ACC, Format.I32), "b_src": Buffer.NONE}
VEC |= {"d_src": pack(Buffer.ACT, Format.I8)}
BASES = {0: 1 << 20, 1: 1 << 20}


def tiny(tiles: int) -> Arch:
    return TINY.model_copy(update={"tiles": tiles})


def check(*streams: list[Words]) -> None:
    check_program([np.concatenate(s) for s in streams], tiny(len(streams)), BASES, "entry 'x'")


def refused(code: str, text: str, *streams: list[Words]) -> None:
    with pytest.raises(DpuError) as e:
        check(*streams)
    assert e.value.code == code and text in str(e.value), str(e.value)
    assert "entry 'x'" in str(e.value)


def load(**more) -> Words:
    return word(Opcode.LOAD, **(LOAD | more))


def store(**more) -> Words:
    return word(Opcode.STORE, **(LOAD | more))


def mm(**more) -> Words:
    return word(Opcode.MM, **(MM | more))


def vec(**more) -> Words:
    return word(Opcode.VEC, **(VEC | more))


def test_a_chain_passes() -> None:
    check(
        [
            load(signal=signal_bit(Engine.MXU)),
            mm(wait=wait_bit(Engine.LOAD), signal=signal_bit(Engine.VPU, 3)),
            vec(wait=wait_bit(Engine.MXU, 3), signal=signal_bit(Engine.STORE)),
            store(wait=wait_bit(Engine.VPU)),
            END,
        ]
    )


def test_tokens() -> None:
    s, w = {"signal": signal_bit(Engine.MXU)}, {"wait": wait_bit(Engine.LOAD)}
    refused("E320", "tile 0, word 0 (MM, tag 7): waits for load0, which has no token", [mm(tag=7, **w), load(**s), END])
    refused("E320", "word 2 (MM, tag 0)", [load(**s), mm(**w), mm(**w), END])
    refused("E322", "tile 0: semaphore 0 of (LOAD, MXU) ends with 1 tokens", [load(**s), END])
    full = [load(**s)] * MAX_TOKENS
    check([*full, *([mm(**w)] * MAX_TOKENS), END])
    refused("E321", f"word {MAX_TOKENS} (LOAD, tag 0): signals mxu0, which already holds", [*full, load(**s), END])


def test_remote_tokens() -> None:
    check([store(remote=0b10), END], [load(remote=0b01), END])
    check([load(remote=0b10), store(remote=0b10), END], [store(remote=0b01), load(remote=0b01), END])
    n = 2 * MAX_TOKENS  # the producer stops while the semaphore is full and goes on when the consumer took tokens
    check([store(remote=0b10)] * n + [END], [load(remote=0b01)] * n + [END])
    refused(
        "E323",
        "tile 0, word 0 (LOAD, tag 0): waits for a token from tile 1",
        [load(remote=0b10), store(remote=0b10), END],
        [load(remote=0b01), store(remote=0b01), END],
    )
    refused("E322", "from tile 0 to 1 ends with 1 tokens", [store(remote=0b10), END], [END])
    refused("E323", f"stays at {MAX_TOKENS}", [store(remote=0b10)] * (MAX_TOKENS + 1) + [END], [END])


def test_masks_name_only_legal_pairs() -> None:
    refused("E310", "the pair (LOAD, LOAD)", [load(signal=signal_bit(Engine.LOAD)), END])
    refused("E310", "the pair (MXU, MXU)", [mm(wait=wait_bit(Engine.MXU, 2)), END])
    refused("E310", "CTRL has no semaphores", [word(Opcode.END, wait=1)])
    refused("E310", "the word's own tile", [load(remote=0b1), END])
    refused("E310", "a tile that is not there (tiles: 2)", [load(remote=0b100), END], [END])


def test_end() -> None:
    refused("E313", "tile 1: the stream has no END", [END], [load()])
    refused("E313", "tile 0, word 0 (END, tag 0): END is not the last word", [END, END])
    with pytest.raises(DpuError, match=r"E313.*1 streams for 2 tiles"):
        check_program([END], tiny(2), BASES, "entry 'x'")


def test_bounds_name_tile_and_word() -> None:
    refused("E312", "tile 1, word 1 (LOAD, tag 9)", [END], [load(), load(offset=1 << 20, tag=9), END])
    refused("E311", "operand 'acc'", [mm(acc=10**6), END])


@pytest.mark.parametrize(
    ("one", "what"),
    [
        (isa.empty(1), "the opcode does not exist"),
        (mm(flags=8), "a flag that does not exist"),
        (load(base=9), "base register out of range"),
        (load(offset=1 << 40), "offset does not fit in 40 bits"),
        (load(format=7), "the format does not exist"),
        (load(n=(1, 0, 1)), "a run count is zero"),
        (store(format=DmaFormat.FILL), "format RAW"),
        (store(pad=(1, 0, 0, 0)), "STORE has no padding"),
        (store(base=0), "STORE into base register 0"),
        (load(format=DmaFormat.INT4), "INT4 and TRANSPOSE load into WGT only"),
        (load(format=DmaFormat.TRANSPOSE, buffer=Buffer.WGT, pad=(0, 0, 0, 1)), "have no padding"),
        (load(format=DmaFormat.TRANSPOSE, buffer=Buffer.WGT, n=(C + 1, 1, 1)), "TRANSPOSE turns more than one tile"),
        (load(format=DmaFormat.INT4, buffer=Buffer.WGT), "not whole rows of int4 blocks"),
        (load(buffer=Buffer.TABLE), "a table is loaded as one run of 4160 bytes"),
        (load(reserved=(1, 0, 0, 0)), "reserved bytes are not zero"),
        (mm(nky=0), "the count 'nky' is zero"),
        (mm(mode=3), "the mode does not exist"),
        (mm(rowmax=RowMax.INIT, valid=C + 1), "the row maximum needs valid"),
        (vec(rows=0), "the count 'rows' is zero"),
        (vec(valid=C + 1), f"valid must be 1 to {C}"),
        (vec(a_src=pack(Buffer.VBUF, Format.I8)), "operand 'a' cannot have this buffer and format"),
        (vec(a_src=Buffer.NONE), "operand 'a' cannot have"),
        (vec(op2=pack(Op2.MUL, Operand.ELEM)), "operand 'b' cannot have"),
        (vec(op2=pack(Op2.MUL, Operand.ROW)), "the second operand must be"),
        (vec(m1=pack(Operand.ELEM, 0)), "'m1' takes"),
        (vec(m2=pack(0, 9)), "an operand of 'm2' does not exist"),
        (vec(rq=0x10), "the high nibble of 'rq'"),
        (vec(func=9), "the function does not exist"),
        (vec(func=pack(Function.GATE, 2)), "the table slot does not exist"),
        (vec(sub=2), "'sub' is 0 or 1"),
        (vec(sub=1, a_src=pack(Buffer.VBUF, Format.F16)), "only an int32 operand A"),
        (vec(red=9), "the reduction does not exist"),
        (vec(red=Reduce.SUM_SQ | isa.RED_INTEGER), "the integer tap has no sum of squares"),
        (
            vec(red=Reduce.SUM | isa.RED_INTEGER, d_src=pack(Buffer.VBUF, Format.F16)),
            "the integer tap needs an integer",
        ),
    ],
)
def test_fields(one: Words, what: str) -> None:
    refused("E310", what, [load(), one, END])


def test_fences_need_no_counts() -> None:
    check([word(Opcode.LOAD), word(Opcode.STORE), END])
