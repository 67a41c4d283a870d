"""The instruction words and what is generated from them."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path

import dpu
import pytest
from dpu.ir import isa, regmap
from dpu.ir.isa import Engine, Opcode, word
from dpu.ir.isa_doc import DTYPES, ENUM_DOC, FIELD_DOC, generated, layout

ROOT = Path(dpu.__file__).parent


@pytest.mark.parametrize("name", generated())
def test_generated_files_are_fresh(name: str) -> None:
    assert (ROOT / name).read_text() == generated()[name], "stale: run python -m dpu.ir.isa_doc"


@pytest.mark.parametrize("group", DTYPES)
def test_words_are_packed_and_every_field_is_documented(group: str) -> None:
    at = 0
    for name, low, width, count, _, own in layout(group):
        assert low == at, name
        at += width * count
        if own and name != "reserved":
            assert FIELD_DOC[group][name]
    assert at == 512
    own_fields = {n for n, *_, own in layout(group) if own and n != "reserved"}
    assert set(FIELD_DOC[group]) == own_fields


def test_every_code_is_generated() -> None:
    enums = {
        v for v in vars(isa).values() if isinstance(v, type) and issubclass(v, isa.IntEnum) and v is not isa.IntEnum
    }
    assert enums == set(ENUM_DOC)
    package = generated()["rtl/dpu_isa_pkg.sv"]
    for enum, (_, doc) in ENUM_DOC.items():
        assert set(doc) <= set(enum.__members__)
        for m in enum:
            assert re.search(rf"{enum.__name__}\w+ = \d'd{int(m)}\b", package), m


def test_package_structs_list_the_last_field_first() -> None:
    package = generated()["rtl/dpu_isa_pkg.sv"]
    body = re.search(r"struct packed \{(.*?)\} mm_word_t", package, re.S)
    assert body is not None
    members = re.findall(r"(\w+);", body[1].rsplit("typedef", 1)[-1])
    assert members[-5:] == ["signal_mask", "wait_mask", "tag", "flags", "opcode"] and members[0] == "reserved"
    assert "parameter int unsigned MmActLsb = 64;" in package and "parameter int unsigned DmaNN = 3;" in package


def test_word_builds_and_refuses() -> None:
    one = word(Opcode.MM, act=7, nx=3)
    assert one.dtype == isa.HEADER and len(one) == 1
    f = isa.fields(one[0])
    assert (f["opcode"], f["act"], f["nx"], f["ny"]) == (Opcode.MM, 7, 3, 0)
    with pytest.raises(KeyError, match="MM has no field 'sram'"):
        word(Opcode.MM, sram=1)
    with pytest.raises(ValueError, match=r"MM.nx = 65536: the field holds 0 to 65535"):
        word(Opcode.MM, nx=1 << 16)
    with pytest.raises(ValueError, match="illegal opcode 0"):
        isa.fields(isa.empty(1)[0])


def test_semaphore_bits_are_distinct() -> None:
    engines = [e for e in Engine if e != Engine.CTRL]
    bits = [isa.wait_bit(e, k) for e in engines for k in range(isa.SEMAPHORES_PER_PAIR)]
    assert sorted(bits) == [1 << i for i in range(16)]
    assert [isa.signal_bit(e) for e in engines] == [isa.wait_bit(e) for e in engines]


def test_registers_do_not_overlap() -> None:
    addresses = sorted((r.address(i), r.name) for r in regmap.REGISTERS for i in range(r.count))
    assert all(a[0] + 4 <= b[0] for a, b in pairwise(addresses)), addresses
    assert all(a % 4 == 0 and a < regmap.SPACE_BYTES for a, _ in addresses)
    names = [r.name for r in regmap.REGISTERS]
    assert len(names) == len(set(names))
    tile = [r for r in regmap.REGISTERS if r.name.startswith("TILE_") and r.count > 1]
    assert max(r.offset for r in tile) < regmap.TILE_BASE + regmap.TILE_STRIDE
    for r in regmap.REGISTERS:
        used = 0
        for f in r.fields:
            mask = ((1 << f.width) - 1) << f.low
            assert not used & mask and mask < 1 << 32
            used |= mask


def test_registers_by_name() -> None:
    assert regmap.register("ID").address() == 0
    assert regmap.register("BASE_HI").address(3) == 0x80 + 3 * 16 + 4
    assert regmap.register("TILE_PROGRAM_LO").address(2) == 0x1200
    assert bytes.fromhex(f"{regmap.MAGIC:08x}") == b"DPU0"
    with pytest.raises(IndexError):
        regmap.register("BASE_LO").address(8)
    with pytest.raises(KeyError):
        regmap.register("NONE")
