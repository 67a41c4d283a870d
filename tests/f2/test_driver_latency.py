"""The breakdown of an SDXL image on F2: its constants counted on the driver, its arithmetic by hand, its errors."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dpu.bench import f2_latency
from dpu.bench.f2_latency import COPY, estimate, save
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Base
from dpu.ir.f2_regmap import cl
from dpu.ir.isa import Opcode, word
from dpu.ir.regmap import ENGINES, register
from dpu.runtime.device import Region
from dpu.runtime.f2.device import F2Device

from tests.f2.model_card import Host, ModelCard
from tests.f2.test_driver_device import IO, copy

TINY = load_arch("dpu_tiny")
TWO = Arch.model_validate(TINY.model_dump() | {"name": "dpu_two", "tiles": 2})
TABLES, SIZES = (Path(__file__).parents[2] / "results" / "sim" / f"{n}.json" for n in ("tables", "sizes"))


def accesses(arch: Arch, folder: Path) -> tuple[int, int]:
    """Registers touched by a run that stores one piece: of the DPU and the card, without looks at whether it goes on;
    and of one copy."""
    folder.mkdir()
    host = Host(folder)
    card = ModelCard(arch, host)
    device = F2Device(arch, card, host.settings)
    handle = device.load("copy", [copy(), *[word(Opcode.END)] * (arch.tiles - 1)])
    bases = {Base.IO: Region(device.allocate(IO), IO)}
    touched: Counter[int] = Counter()
    copies = [0]

    def peeked(address: int, value: int) -> int:
        touched[address] += 1
        return value

    def poked(address: int, value: int) -> bool:
        touched[address] += 1
        copies[0] += address == cl("CL_COPY_CONTROL")
        return True

    card.peeked, card.poked = peeked, poked
    device.wait(device.submit(handle, bases))
    device.close()
    watching = {register("STATUS").address(), cl("CL_STATUS"), cl("CL_GLOBAL_COUNT_LO"), cl("CL_GLOBAL_COUNT_HI")}
    watching |= {register(f"TILE_{e.name}_WORDS").address(t) for e in ENGINES for t in range(arch.tiles)}
    of_copies = sum(n for a, n in touched.items() if cl("CL_COPY_SRC_LO") <= a <= cl("CL_COPY_DONE_BYTES"))
    return sum(n for a, n in touched.items() if a not in watching) - of_copies, of_copies // copies[0]


def test_accesses_are_those_of_the_driver(tmp_path: Path) -> None:
    one, of_copy = accesses(TINY, tmp_path / "one")
    two, _ = accesses(TWO, tmp_path / "two")
    assert (2 * one - two, two - one) == (f2_latency.ACCESSES_A_RUN, f2_latency.ACCESSES_A_TILE)
    assert of_copy == f2_latency.COPY_ACCESSES


def test_the_breakdown_adds_up() -> None:
    found = estimate(TABLES, SIZES)
    assert found.seconds.provenance.label == "assumed"  # as weak as its weakest input
    assert found.seconds.value == pytest.approx(sum(r.seconds.value for r in found.rows), rel=1e-12)
    assert found.seconds.value == pytest.approx(sum(found.sums.values()), rel=1e-12)
    record = json.loads(TABLES.read_text())["archs"][0]
    cycles = next(i["cycles"] for i in record["images"] if i["scheduler"] == "Euler" and i["steps"] == 20)
    tiles = sum(r.parts["tiles"].value for r in found.rows if r.parts)
    assert tiles == pytest.approx(cycles / record["clock_hz"], rel=1e-12)
    unet = next(r for r in found.rows if r.name == "unet")
    # Sample and noise: 2 x 16384 rows of 64 bytes, 20 times; the noise is copied twice.
    assert unet.parts["from the card"].value == pytest.approx(20 * 2 * (2 * 16384 * 64) / COPY.value, rel=1e-12)
    assert (found.bound_by, found.share) == ("tiles", pytest.approx(tiles / found.seconds.value))


def test_what_it_says_and_writes(tmp_path: Path) -> None:
    found = estimate(TABLES, SIZES)
    save(found, tmp_path / "latency.json")
    assert json.loads((tmp_path / "latency.json").read_text())["seconds"]["provenance"] == "assumed"
    text = found.text()
    assert "bound by: tiles" in text
    older = "the cycles are of an older dpu_f2" in text
    assert older == (found.tables_digest != load_arch("dpu_f2").digest)


def test_records_that_are_missing_or_lack_something(tmp_path: Path) -> None:
    with pytest.raises(DpuError, match=r"E106.*no such file"):
        estimate(tmp_path / "none.json", SIZES)
    (tmp_path / "tables.json").write_text(json.dumps({"archs": []}))
    with pytest.raises(DpuError) as e:
        estimate(tmp_path / "tables.json", SIZES)
    assert str(e.value) == (
        f"error[E521]: {tmp_path / 'tables.json'}: lacks what is needed of dpu_f2 (StopIteration)\n"
        "  try: dpubench tables makes it"
    )
    (tmp_path / "sizes.json").write_text("[")
    with pytest.raises(DpuError, match=r"E521.*is no record"):
        estimate(TABLES, tmp_path / "sizes.json")


def test_rows_are_padded_to_beats() -> None:
    assert f2_latency._padded("2x16384x4") == 2 * 16384 * 64
    assert f2_latency._padded("1x77x768") == 77 * 768 * 2
    assert np.prod([1, 77, 1280]) * 2 == f2_latency._padded("1x77x1280")
