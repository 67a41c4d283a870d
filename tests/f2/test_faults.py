"""Faults sown into the stand-in: the driver over the Verilated custom logic ends in the simulator's bytes or in an
error that names fault and remedy. `dpubench f2-faults` is the campaign; here are some that can be mended, and some that
cannot."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.bench import f2_fault_worker
from dpu.bench.f2_fault_worker import small
from dpu.bench.f2_faults import KINDS, Case, Faults, draw, save
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.f2_regmap import HBM_BASE
from dpu.runtime.f2.host_memory import HUGE, HostMemory
from dpu.runtime.f2.opening import open_f2
from dpu.runtime.f2.sdk import SdkCard
from dpu.runtime.f2.stand_in import FAULTS, IMAGE, NAME, StandIn

pytestmark = pytest.mark.usefixtures("rtl_tools")


@pytest.fixture(scope="module")
def attempt(rtl_tools: None) -> Iterator[Callable[[str], dict[str, Any]]]:
    before = dict(os.environ)
    run = small()

    def sown(faults: str) -> dict[str, Any]:
        os.environ[FAULTS] = faults
        return run()

    yield sown
    for name in set(os.environ) - set(before):
        del os.environ[name]
    os.environ.update(before)


def test_what_nobody_wrote_is_noise(rtl_tools: None) -> None:
    """Device memory of a card that was just loaded, and host memory that it may write: zeros would hide lost writes."""
    with StandIn(load_arch("dpu_tiny")) as given:
        settings = given.settings
        memory = HostMemory(HUGE, settings.hugepages, settings.pagemap)
        card = SdkCard(0, settings.library, settings.sysfs)
        card.attach()
        kept = memory.view.copy()
        assert np.bincount(kept, minlength=256).max() < 1.1 * HUGE / 256
        first = card.loads(HBM_BASE, 512)
        card.load(IMAGE)
        card.attach()
        assert np.mean(card.loads(HBM_BASE, 512) == first) < 0.1
        np.testing.assert_array_equal(memory.view, kept)
        card.close()
        memory.close()


def test_without_faults_nothing_is_mended(attempt: Callable[[str], dict[str, Any]]) -> None:
    found = attempt("")
    assert (found["outcome"], found["mended"]) == ("correct", "")
    assert found["accesses"] > 500


@pytest.mark.parametrize(
    ("faults", "mended"),
    [
        ("bus-dead@500/reload", "1 reloads"),
        ("image-lost@500", "1 reloads"),
        ("image-lost@500;load-fails@500", "2 reloads"),
        ("power-violation@500/reload", "1 reloads"),
        ("stuck-semaphore@300", "1 resets"),
        ("hang@500=1/reset", "1 resets"),
        ("pcim-hang@500/reset", "5 copies, 1 resets"),
        ("pcim-error@500=1", "1 copies"),
        ("corrupt-read@500=1", "1 reads"),
        ("irq-lost@300=1", "1 interrupts"),
        ("short-write@1=64", "1 sent"),  # of zeros, which fresh memory is not
        ("short-write@300=64", "1 sent"),
        ("slow-dma@100=8/never", ""),
        ("wrong-image@0=0/reload", "1 reloads"),
        ("wrong-image@0=1/reload", "1 reloads"),
        ("cold-memory@0/reset", ""),
    ],
)
def test_a_fault_that_is_mended(attempt: Callable[[str], dict[str, Any]], faults: str, mended: str) -> None:
    found = attempt(faults)
    assert (found["outcome"], found["mended"]) == ("correct", mended)


@pytest.mark.parametrize(
    ("faults", "code", "says", "remedy"),
    [
        ("bus-dead@500/never", "E434", "the bus is dead: register", "stop and start the instance"),
        ("power-violation@500/never", "E440", "afi-power-violation", "fewer tiles or a slower clock"),
        ("hang@500=1/never", "E435", "the card hangs", "dpuc verify"),
        ("wrong-image@0=0/never", "E433", "where a DPU says 0x44505546", "--image AGFI"),
        ("wrong-image@0=1/never", "E420", "the image is of an arch with 1 tiles", "--image AGFI"),
        ("image-lost@500;load-fails@500/never", "E434", "image agfi-standin does not load: afi-load-timeout", "slot"),
    ],
)
def test_a_fault_that_is_not(
    attempt: Callable[[str], dict[str, Any]], faults: str, code: str, says: str, remedy: str
) -> None:
    with pytest.raises(DpuError) as e:
        attempt(faults)
    assert e.value.code == code
    assert says in e.value.text()
    assert remedy in e.value.hint


def test_a_second_arch_waits_for_the_first(rtl_tools: None) -> None:
    tiny = load_arch("dpu_tiny")
    other = tiny.model_copy(update={"name": "dpu_other", "clock_hz": 2e8})
    device = open_f2(tiny, card=NAME)
    with pytest.raises(DpuError) as e:
        open_f2(other, card=NAME)
    device.close()
    assert str(e.value) == (
        "error[E501]: --card stand-in: has cards of 'dpu_tiny' in this process, not of 'dpu_other'\n  try: see --help"
    )


# The campaign


def test_every_kind_is_drawn_in_every_form() -> None:
    drawn = draw(3 * len(KINDS), 1000)
    assert {kind for kind, _ in drawn} == set(KINDS)
    for kind, (_, forms) in KINDS.items():
        specs = [spec for k, spec in drawn if k == kind]
        assert len(specs) == 3
        assert {s.partition("@")[0] for s in specs} == {f.partition("@")[0] for f in forms}
    assert draw(50, 1000) == draw(50, 1000) != draw(50, 1000, seed=2)


def test_the_table_counts_findings(tmp_path: Path) -> None:
    cases = (
        Case(kind="hang", spec="a", outcome="correct"),
        Case(kind="hang", spec="b", outcome="correct", mended="1 resets"),
        Case(kind="hang", spec="c", outcome="error", code="E435", text="error[E435]: x", remedy=True),
        Case(kind="hang", spec="d", outcome="error", code="E435", text="error[E435]: y", remedy=False),
        Case(kind="dead bus", spec="e", outcome="wrong"),
    )
    found = Faults(command="c", subject="s", sources="d", seed=1, accesses=9, cases=cases)
    assert [c.spec for c in found.findings] == ["d", "e"]
    assert "hang                         4          1       1      1        1  E435 1" in found.text()
    save(found, tmp_path / "faults.json")
    assert json.loads((tmp_path / "faults.json").read_text())["provenance"] == "simulated"
    page = (tmp_path / "faults.md").read_text()
    assert "| hang | memory ports take and give nothing | 4 | 1 | 1 | 1 | 1 | E435 1 |" in page
    ends = ("right, nothing to mend", "right, mended: 1 resets", "error E435", "error E435 **finding**")
    for spec, end in zip("abcd", ends, strict=True):
        assert f"\n| hang | `{spec}` | {end} |\n" in page
    assert "\n| dead bus | `e` | wrong **finding** |\n" in page


def test_the_worker_answers_in_lines(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def run() -> dict[str, Any]:
        if os.environ[FAULTS] == "card":
            raise DpuError("slot 0", "is gone", hint="look for it", code="E434")
        if os.environ[FAULTS] == "bug":
            raise KeyError("x")
        return {"outcome": "correct"}

    monkeypatch.setenv(FAULTS, "")
    monkeypatch.setattr(f2_fault_worker, "small", lambda: run)
    monkeypatch.setattr("sys.argv", ["worker", "micro"])
    monkeypatch.setattr("sys.stdin", ["\n", "card\n", "bug\n"])
    f2_fault_worker.main()
    one, two, three = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert one == {"outcome": "correct"}
    assert (two["code"], two["remedy"]) == ("E434", True)
    assert three == {"outcome": "crash", "text": "KeyError: 'x'"}
