"""The whole DPU from its registers, without a program: what must not happen."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from dpu.bench.rtl_shapes import card
from dpu.ir.regmap import register
from dpu.rtl.model import Model

STATUS, CTRL = register("STATUS").address(), register("CTRL").address()


@pytest.fixture
def model() -> Iterator[Model]:
    with Model(card("one"), checked=True) as found:
        yield found


def quiet(model: Model, cycles: int) -> None:
    for k in range(cycles):
        assert not model.memory_busy, f"an AXI access in cycle {k}"
        model.run(1)
    assert model.read(STATUS) == 0


def test_no_access_after_reset(model: Model) -> None:
    quiet(model, 100)


@pytest.mark.parametrize("value", [0, 4, 0xFFFF_FFFC])
def test_only_the_start_bit_starts(model: Model, value: int) -> None:
    model.write(CTRL, value)
    quiet(model, 100)


def test_start_of_another_register_does_not_start(model: Model) -> None:
    for name in ("STATUS", "IRQ_STATUS", "ID", "TILE_PROGRAM_WORDS"):
        model.write(register(name).address(), 1)
        quiet(model, 30)


def test_reset_in_idle_comes_back_to_idle(model: Model) -> None:
    model.write(CTRL, 2)
    model.run(60)
    quiet(model, 30)
