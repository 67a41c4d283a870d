"""Words that must stop the DPU: simulator and RTL give the same error for the same word, and then run on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from dpu.bench.rtl_dma_words import dma_word
from dpu.bench.rtl_shapes import card
from dpu.errors import DpuError
from dpu.ir import numerics as nu
from dpu.ir.isa import (
    RED_COLUMNS,
    RED_INTEGER,
    TABLE_BYTES,
    Buffer,
    DmaFormat,
    Engine,
    Flag,
    Format,
    Function,
    Op2,
    Opcode,
    Operand,
    Reduce,
    Words,
    pack,
    signal_bit,
    wait_bit,
    word,
)
from dpu.simulator.machine import Machine

from .both import Both

ARCH = card("one")
C, SIZE = ARCH.cols, ARCH.words
END = word(Opcode.END)

IO, TABLE, INT4, UNBOUND = 1, 2, 3, 7
REGION = 8192


def regions() -> dict[int, Any]:
    rng = np.random.default_rng(0)
    io = rng.integers(0, 120, REGION).astype(np.uint8)
    io[4096:4160] = 0x80  # weights
    io[4224:4352].view(np.uint16)[:] = 0x7E00  # NaN
    io[4352:4416].view(np.float32)[:] = 1e6  # beyond float16
    io[4416:4480].view(np.float32)[:] = np.nan
    io[4480:4736].view(np.float32)[:] = 2.0**23
    table = nu.table_image(nu.GATES["sigmoid"]).copy()
    magic, crc = table.copy(), table.copy()
    magic[0] ^= 1
    crc[2000] ^= 4
    groups = np.full(C + 64 * C, 16, np.uint8)
    return {0: io.copy(), IO: io, TABLE: np.concatenate([magic, crc]), INT4: groups}


def load(**f: Any) -> Words:
    return dma_word(Opcode.LOAD, **{"base": IO, "buffer": Buffer.VBUF, "inner": 64, **f})


def store(**f: Any) -> Words:
    return dma_word(Opcode.STORE, **{"base": IO, "buffer": Buffer.VBUF, "inner": 64, **f})


def mm(**f: Any) -> Words:
    return word(Opcode.MM, **{**dict.fromkeys(("nx", "ny", "nc", "nkx", "nky", "nn"), 1), **f})


VBUF16, PARAM32 = pack(Buffer.VBUF, Format.F16), pack(Buffer.PARAM, Format.F32)
ACC32, NOWHERE = pack(Buffer.ACC, Format.I32), pack(Buffer.NONE, Format.F16)


def vec(**f: Any) -> Words:
    return word(Opcode.VEC, **{"rows": 2, "tiles": 1, "valid": C, "a_src": VBUF16, "d_src": NOWHERE, "a_rs": 1, **f})


def after(w: Words, *loads: Words) -> list[Words]:
    """A word that waits for LOADs."""
    found = [x.copy() for x in loads]
    engine = {Opcode.MM: Engine.MXU, Opcode.VEC: Engine.VPU}[Opcode(int(w["opcode"][0]))]
    found[-1]["signal"] |= signal_bit(engine)
    w["wait"] = wait_bit(Engine.LOAD)
    return [*found, w]


def changed(w: Words, opcode: int) -> Words:
    w["opcode"] = opcode
    return w


Case = Words | list[Words]

FIELD: dict[str, Case] = {  # E410
    "opcode 77": changed(load(), 77),
    "opcode 0": changed(load(), 0),
    "load into ACC": load(buffer=Buffer.ACC),
    "load into nothing": load(buffer=Buffer.NONE),
    "load, buffer 9": load(buffer=9),
    "load, format 4": load(format=4),
    "load waits for a tile that is not there": load(remote=2),
    "transpose into ACT": load(buffer=Buffer.ACT, format=DmaFormat.TRANSPOSE, inner=C),
    "transpose with padding": load(buffer=Buffer.WGT, format=DmaFormat.TRANSPOSE, inner=C, pad=(0, 1, 0, 0)),
    "transpose, too many runs": load(buffer=Buffer.WGT, format=DmaFormat.TRANSPOSE, inner=C, n=(C + 1, 1, 1)),
    "transpose, too long runs": load(buffer=Buffer.WGT, format=DmaFormat.TRANSPOSE, inner=C + 1),
    "int4 into VBUF": load(format=DmaFormat.INT4, inner=C + C // 2),
    "int4 with padding": load(buffer=Buffer.WGT, format=DmaFormat.INT4, inner=C + C // 2, pad=(1, 0, 0, 0)),
    "int4, half a row": load(buffer=Buffer.WGT, format=DmaFormat.INT4, inner=C + C // 2 + 1),
    "int4, no row": load(buffer=Buffer.WGT, format=DmaFormat.INT4, inner=C),
    "table, too short": load(buffer=Buffer.TABLE, inner=TABLE_BYTES - 64),
    "table, two runs": load(buffer=Buffer.TABLE, inner=TABLE_BYTES, n=(2, 1, 1)),
    "store from WGT": store(buffer=Buffer.WGT),
    "store from ACC": store(buffer=Buffer.ACC),
    "store from TABLE": store(buffer=Buffer.TABLE),
    "store, format FILL": store(format=DmaFormat.FILL),
    "store with padding": store(pad=(0, 0, 0, 1)),
    "store signals a tile that is not there": store(remote=4),
    **{f"mm, {name} is 0": mm(**{name: 0}) for name in ("nx", "ny", "nc", "nkx", "nky", "nn")},
    "mm, column tiles overlap": mm(nx=3, nn=2, an=2),
    "mm, mode 3": mm(mode=3),
    "mm, row maximum 3": mm(rowmax=3, valid=1),
    "mm, no valid column": mm(rowmax=1, valid=0),
    "mm, too many valid columns": mm(rowmax=1, valid=C + 1),
    **{f"vec, {name} is 0": vec(**{name: 0}) for name in ("rows", "tiles", "valid")},
    "vec, too many valid columns": vec(valid=C + 1),
    "vec, A in ACT": vec(a_src=pack(Buffer.ACT, Format.I8)),
    "vec, A int32 in VBUF": vec(a_src=pack(Buffer.VBUF, Format.I32)),
    "vec, B int32 in PARAM": vec(b_src=pack(Buffer.PARAM, Format.I32), op2=pack(Op2.ADD, Operand.ELEM)),
    "vec, result in WGT": vec(d_src=pack(Buffer.WGT, Format.I8)),
    "vec, result int8 in VBUF": vec(d_src=pack(Buffer.VBUF, Format.I8)),
    "vec, subtracts from float16": vec(sub=1),
    "vec, affine 1 with B": vec(m1=pack(Operand.ELEM, 0)),
    "vec, affine 1, operand 6": vec(m1=pack(0, 6)),
    "vec, affine 2, operand 9": vec(m2=pack(9, 0)),
    "vec, requantise with B": vec(rq=Operand.ELEM),
    "vec, function 6": vec(func=6),
    "vec, second operation 4": vec(op2=pack(4, Operand.IMM0)),
    "vec, second operand of rows": vec(op2=pack(Op2.MUL, Operand.ROW)),
    "vec, reduction 5": vec(red=5),
    "vec, integer sum of float16": vec(red=Reduce.SUM | RED_INTEGER),
    "vec, integer sum of squares": vec(d_src=pack(Buffer.NONE, Format.I8), red=Reduce.SUM_SQ | RED_INTEGER),
}

SCRATCHPAD: dict[str, Case] = {  # E411
    "load": load(sram=SIZE["vbuf"] - 3),
    "load, stride": load(sram=4, n=(2, 1, 1), sstride=(SIZE["vbuf"] - 4, 0, 0)),
    "load, padding": load(sram=SIZE["vbuf"] - 8, pad=(0, 1, 0, 1), sstride=(4, 4, 0)),
    "fill": load(format=DmaFormat.FILL, sram=SIZE["vbuf"] - 1),
    "transpose": load(buffer=Buffer.WGT, format=DmaFormat.TRANSPOSE, inner=1, sram=SIZE["wgt"] - C + 1),
    "int4": load(base=INT4, buffer=Buffer.WGT, format=DmaFormat.INT4, inner=C + C, sram=SIZE["wgt"] - 1),
    "table": load(buffer=Buffer.TABLE, inner=TABLE_BYTES, sram=2),
    "far": load(sram=0xFFFFFFFF),
    "store": store(buffer=Buffer.PARAM, sram=SIZE["param"] - 15),
    "store, stride": store(n=(1, 1, 3), sstride=(0, 0, 65535)),
    "mm, ACT": mm(act=SIZE["act"]),
    "mm, ACT strides": mm(act=5, nx=2, sx=SIZE["act"] - 5),
    "mm, WGT": mm(wgt=SIZE["wgt"] - C + 1),
    "mm, ACC": mm(acc=SIZE["acc"] - 3, nn=2, an=3),
    "mm, column vector": mm(mode=2, init_at=SIZE["param"] - C + 1),
    "mm, row maxima": mm(rowmax=1, valid=1, nx=2, rowmax_at=SIZE["param"] - 1),
    "vec, A": vec(a=SIZE["vbuf"] - 1),
    "vec, A float32": vec(a_src=pack(Buffer.VBUF, Format.F32), a=SIZE["vbuf"] - 3, a_rs=2),
    "vec, A in ACC": vec(a_src=ACC32, a=SIZE["acc"] - 1),
    "vec, A in PARAM": vec(a_src=PARAM32, a=SIZE["param"] - C),
    "vec, B": vec(op2=pack(Op2.MAX, Operand.ELEM), b_src=VBUF16, b=SIZE["vbuf"]),
    "vec, result": vec(d_src=VBUF16, d=SIZE["vbuf"] - 1, d_rs=1),
    "vec, two planes": vec(d_src=pack(Buffer.ACT, Format.I15_SPLIT), d=SIZE["act"] - 2, d_rs=1, d_ts=1),
    "vec, scale of rows": vec(m1=pack(Operand.ROW, 0), a1=SIZE["param"] - 1),
    "vec, bias of columns": vec(m2=pack(0, Operand.COL), b2=SIZE["param"] - C + 1),
    "vec, requantise": vec(rq=Operand.ROW, r=SIZE["param"] - 1),
    "vec, subtracted": vec(a_src=ACC32, sub=1, sub_at=SIZE["param"] - 1),
    "vec, row sums": vec(red=Reduce.SUM, red_at=SIZE["param"] - 1),
    "vec, pairs": vec(red=Reduce.SUM_SQ, red_at=SIZE["param"] - 3),
}

DRAM: dict[str, Case] = {  # E412
    "load": load(offset=REGION - 63),
    "load, stride": load(n=(1, 3, 1), dstride=(0, REGION // 2, 0)),
    "load, backwards": load(offset=63, n=(2, 1, 1), dstride=(-64, 0, 0)),
    "load, far": load(offset=(1 << 40) - 1),
    "load, base not bound": load(base=UNBOUND),
    "load, base 9": load(base=9),
    "load, constants": load(base=0, offset=REGION),
    "transpose": load(buffer=Buffer.WGT, format=DmaFormat.TRANSPOSE, inner=C, offset=REGION - 1),
    "int4": load(base=INT4, buffer=Buffer.WGT, format=DmaFormat.INT4, inner=C + C, offset=65 * C - C),
    "table": load(buffer=Buffer.TABLE, inner=TABLE_BYTES, offset=REGION - TABLE_BYTES + 1),
    "store": store(offset=REGION - 1),
    "store, backwards": store(n=(1, 1, 2), dstride=(0, 0, -1)),
    "store into constants": store(base=0),
    "store, base not bound": store(base=UNBOUND),
}

NUMERIC: dict[str, Case] = {  # E415
    "a weight of -128": after(mm(), load(buffer=Buffer.ACT), load(buffer=Buffer.WGT, offset=4096)),
    "a group integer of 16": load(base=INT4, buffer=Buffer.WGT, format=DmaFormat.INT4, inner=C + C),
    "a table without magic": load(base=TABLE, buffer=Buffer.TABLE, inner=TABLE_BYTES),
    "a table with another CRC": load(base=TABLE, buffer=Buffer.TABLE, inner=TABLE_BYTES, offset=TABLE_BYTES),
    "an empty table slot": after(vec(func=pack(Function.GATE, 1)), load()),
    "the first table slot, empty": after(vec(func=pack(Function.GATE, 0)), load()),
    "a table slot that is not there": after(vec(func=pack(Function.GATE_MUL, 2)), load()),
    "trap, overflow": after(
        vec(a_src=PARAM32, a_rs=0, d_src=VBUF16, flags=Flag.TRAP), load(buffer=Buffer.PARAM, offset=4352)
    ),
    "trap, NaN to int8": after(
        vec(a_src=PARAM32, a_rs=0, d_src=pack(Buffer.ACT, Format.I8), flags=Flag.TRAP),
        load(buffer=Buffer.PARAM, offset=4416),
    ),
    "trap, NaN to int8 that is only reduced": after(
        vec(a_rs=0, d_src=pack(Buffer.NONE, Format.I8_OFFSET), red=Reduce.MAX, flags=Flag.TRAP), load(offset=4224)
    ),
    "an integer sum beyond 2^24": after(
        vec(
            a_src=PARAM32,
            a_rs=0,
            rows=1100,
            d_src=pack(Buffer.NONE, Format.I15_SPLIT),
            red=Reduce.SUM | RED_INTEGER | RED_COLUMNS,
        ),
        load(buffer=Buffer.PARAM, offset=4480, inner=256),
    ),
}

OTHER: dict[str, tuple[str, Words]] = {
    "no END": ("E410", load()),
    "a token of a tile that never comes": ("E414", np.concatenate([load(remote=1), END])),
}

CASES = [
    *((code, name, case) for code, table in (("E410", FIELD), ("E411", SCRATCHPAD), ("E412", DRAM), ("E415", NUMERIC))
      for name, case in table.items())
]  # fmt: skip


@pytest.fixture(scope="module")
def both() -> Iterator[Both]:
    found = Both("one")
    yield found
    found.close()


def stopped(both: Both, stream: Words) -> tuple[DpuError, DpuError]:
    """What the simulator says, and the RTL."""
    with pytest.raises(DpuError) as sim:
        Machine(both.arch, regions()).run([stream], entry="random")
    with pytest.raises(DpuError) as rtl:
        both.run([stream], regions())
    copy = [load(offset=128, signal=signal_bit(Engine.STORE)), store(wait=wait_bit(Engine.LOAD)), END]
    both.check([np.concatenate(copy)], regions(), "the copy that follows an error")
    return sim.value, rtl.value


@pytest.mark.parametrize(("code", "case"), [(c, case) for c, _, case in CASES], ids=[f"{c}-{n}" for c, n, _ in CASES])
def test_the_error_is_that_of_the_simulator(both: Both, code: str, case: Case) -> None:
    """Code and word. A good word stands before the bad one, another behind it."""
    words = case if isinstance(case, list) else [case]
    sim, rtl = stopped(both, np.concatenate([store(inner=0), *words, load(sram=100), END]))
    assert (sim.code, rtl.code) == (code, code), f"{sim}\n{rtl}"
    assert rtl.where == sim.where


def test_nothing_starts_behind_an_error(both: Both) -> None:
    """Of forty stores that could run beside a bad LOAD the last ones leave DRAM alone."""
    fill = load(format=DmaFormat.FILL, fill=0x55, signal=signal_bit(Engine.STORE))
    stores = [store(offset=64 * k) for k in range(40)]
    stores[0]["wait"] = wait_bit(Engine.LOAD)
    before = regions()[IO]
    with pytest.raises(DpuError) as e:
        both.run([np.concatenate([fill, load(buffer=9), *stores, END])], regions())
    assert e.value.code == "E410"
    place = both.place(IO, REGION)
    after = both.device.read(place.address, place.bytes)
    assert np.array_equal(after[64 * 30 :], before[64 * 30 :])


@pytest.mark.parametrize("name", OTHER)
def test_streams_that_do_not_end(both: Both, name: str) -> None:
    code, stream = OTHER[name]
    sim, rtl = stopped(both, stream)
    assert (sim.code, rtl.code) == (code, code), f"{sim}\n{rtl}"
