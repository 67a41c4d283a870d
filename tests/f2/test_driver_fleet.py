"""Images over several slots, what `--card` means, and what `--watch` says."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.f2_regmap import ALL_ONES
from dpu.ir.regmap import register
from dpu.runtime.f2.card import ImageInfo
from dpu.runtime.f2.device import F2Device
from dpu.runtime.f2.fleet import spread
from dpu.runtime.f2.opening import open_f2, slots
from dpu.runtime.f2.watch import Watch
from dpu.runtime.targets import check_card

from tests.f2.model_card import Host, ModelCard

TINY = load_arch("dpu_tiny")


def gone(slot: int) -> DpuError:
    return DpuError(f"slot {slot}", "the bus is dead", hint="take another one", code="E434")


def test_every_slot_takes_what_is_left() -> None:
    both = threading.Barrier(2)

    def make(piece: int, slot: int) -> str:
        if piece < 2:
            both.wait(30)  # the two slots work at the same time
        return f"{piece} in {slot}"

    found = spread([0, 1, 2, 3], [4, 6], make)
    assert [text for _, text in found.made] == [f"{i} in {slot}" for i, (slot, _) in enumerate(found.made)]
    assert {slot for slot, _ in found.made} == {4, 6}
    assert not found.failed


def test_a_slot_that_fails_gives_its_image_back() -> None:
    taken = threading.Event()

    def make(piece: int, slot: int) -> int:
        if slot == 1:
            taken.set()
            raise gone(1)
        taken.wait(30)
        return piece

    found = spread(list(range(5)), [0, 1], make)
    assert found.made == [(0, i) for i in range(5)]
    assert list(found.failed) == [1]


def test_when_every_slot_has_failed() -> None:
    def make(piece: int, slot: int) -> int:
        if piece == 0:
            return piece
        raise gone(slot)

    with pytest.raises(DpuError) as e:
        spread([0, 1, 2], [0, 1], make)
    assert str(e.value) == (
        "error[E434]: --card: every slot has failed, 2 of 3 images are left\n"
        "  why: slot 0: slot 0: the bus is dead; slot 1: slot 1: the bus is dead\n"
        "  try: take another one"
    )


def test_an_error_that_no_other_slot_would_mend_ends_all() -> None:
    def make(piece: int, slot: int) -> int:
        raise DpuError("--size", "64x64, the program makes 32x32", hint="", code="E403")

    with pytest.raises(DpuError, match="E403"):
        spread([0, 1, 2], [0, 1], make)


@pytest.mark.parametrize(
    ("text", "means"),
    [
        ("", (False, [0])),
        ("3", (False, [3])),
        ("0,2", (False, [0, 2])),
        ("stand-in", (True, [0])),
        ("stand-in:1,2", (True, [1, 2])),
    ],
)
def test_card(text: str, means: tuple[bool, list[int]]) -> None:
    assert slots(text) == means


@pytest.mark.parametrize("text", ["x", "8", "0,0", "0,", "stand-in:x", "-1"])
def test_cards_that_are_none(text: str) -> None:
    with pytest.raises(DpuError) as e:
        slots(text)
    assert str(e.value) == (
        f"error[E501]: --card: '{text}' names no slots\n"
        "  try: a slot, 0 to 7; several as 0,1,2; stand-in without a card"
    )


def test_one_image_is_made_in_one_slot() -> None:
    with pytest.raises(DpuError) as e:
        open_f2(TINY, card="0,1")
    assert str(e.value) == (
        "error[E501]: --card: 0,1 are 2 slots, and one image is made in one\n  try: give --images as well, or one slot"
    )


def test_sysfs_needs_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPU_F2_ACCESS", "sysfs")
    with pytest.raises(DpuError) as e:
        open_f2(TINY, card="2")
    assert str(e.value) == (
        "error[E501]: DPU_F2_DEVICES: slot 2 has no PCI address\n"
        "  try: lspci -d 1d0f: lists the cards; give them slot by slot"
    )


@pytest.mark.parametrize(("option", "given"), [("--watch", {"watch": True}), ("--images", {"images": 2})])
def test_other_targets_have_no_slots(option: str, given: dict[str, int]) -> None:
    with pytest.raises(DpuError) as e:
        check_card("sim", "", "", **given)
    assert str(e.value) == f"error[E501]: {option}: target sim has none\n  try: --target f2"
    check_card("f2", "", "", **given)


# Watching


@pytest.fixture
def device(tmp_path: Path) -> Iterator[F2Device]:
    host = Host(tmp_path)
    device = F2Device(TINY, ModelCard(TINY, host), host.settings)
    yield device
    device.close()


def counted(card: ModelCard, cycles: int, busy: int, read: int) -> None:
    for name, value in (("CYCLES_LO", cycles), ("TILE_MXU_BUSY_LO", busy), ("TILE_READ_BYTES_LO", read)):
        card.registers[register(name).address()] = value


def test_a_line_of_the_watch(device: F2Device) -> None:
    card = device.bus.card
    assert isinstance(card, ModelCard)
    watch = Watch(device, 4, lambda line: None, seconds=1e6)
    assert watch.line() == "slot 0, step 0 of 4, 4 left, idle, power not modelled, temperature not given"
    counted(card, 1000, 840, 32_000)
    # 32 bytes a cycle of the shell's clock
    assert "arrays 84%, memory 8 GB/s" in watch.line()
    counted(card, 3000, 1040, 32_000)
    assert "arrays 10%, memory 0 GB/s" in watch.line()
    counted(card, 500, 500, 0)  # another run
    assert "arrays 100%, memory 0 GB/s" in watch.line()
    watch.step()
    assert "step 1 of 4, 3 left in about " in watch.line()
    card.simulated = False
    card.info = ImageInfo("loaded", image="agfi-model", watts=17, mean_watts=12, max_watts=21)
    device.bus.noise.resets = 2
    assert watch.line().endswith(", 17 W VCCINT, at most 21 W, temperature not given, mended: 2 resets")
    card.info = ImageInfo("loaded", image="agfi-model")
    assert "power not given" in watch.line()
    watch.stop()


def test_a_dead_card_does_not_end_the_watch(device: F2Device) -> None:
    card = device.bus.card
    assert isinstance(card, ModelCard)
    said: list[str] = []
    two = threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            two.set()

    card.peeked = lambda address, value: ALL_ONES
    watch = Watch(device, 1, say, seconds=1e-3)
    assert two.wait(30)
    watch.stop()
    assert said[0].startswith("slot 0: the bus is dead: register ")
