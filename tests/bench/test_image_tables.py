"""`dpubench tables`: accounts that add up to the whole, an image from its entries, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpu.bench.image_tables import ENTRIES, STEPS, ImageTables, image, measure, model_calls, read
from dpu.bench.image_tables_page import page, rest, shares, write_page
from dpu.bench.sizes import Case, compile_case
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.simulator.timing import simulate

PARTS = [("dpu_tiny", p) for p in ("text_encoder", "text_encoder_2", "unet", "vae_decoder")]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tables") / "tables.json"


@pytest.fixture(scope="module")
def found(tiny_folder: Path, out: Path) -> ImageTables:
    return measure([], PARTS, tiny_folder, out, "dpubench tables of a test", "abc", size=(64, 64))


def test_every_account_adds_up_to_tiles_times_cycles(found: ImageTables) -> None:
    (arch,) = found.archs
    assert [e.entry for e in arch.entries] == list(ENTRIES) and not arch.missing
    for e in arch.entries:
        whole = arch.tiles * e.cycles
        assert {name: sum(account.values()) for name, account in e.engines.items()} == dict.fromkeys(
            ("LOAD", "MXU", "VPU", "STORE"), whole
        )
        assert sum(n for s in e.classes.values() for n in s.own.values()) == whole
        # Waits by class and cycles after the last word are all the idle cycles of the array.
        waits = sum(n for s in e.classes.values() for n in s.waits.values())
        assert waits + e.engines["MXU"]["finished"] == sum(e.idle().values()) == whole - e.engines["MXU"]["runs"]
        assert sum(s.own.get("MXU", 0) for s in e.classes.values()) == e.engines["MXU"]["runs"]
        for field in ("logical_macs", "executed_macs", "bytes_read", "bytes_written"):
            assert sum(getattr(s, field) for s in e.classes.values()) == getattr(e, field)
        assert (e.dram_read, e.dram_written, e.l2_hit_rate) == (e.bytes_read, e.bytes_written, None)  # an ideal DRAM
        assert e.utilisation == e.logical_macs / (arch.peak_macs_per_cycle * e.cycles)
        assert "other" not in e.classes


def test_an_entry_is_the_timing_of_its_words(found: ImageTables, tiny_folder: Path) -> None:
    arch = load_arch("dpu_tiny")
    case = Case(part="vae_decoder", width=64, height=64, batch=1, arch="dpu_tiny")
    _, words = compile_case(tiny_folder, case, arch)
    timing = simulate(arch, words["vae_decoder"])
    (e,) = (e for e in found.archs[0].entries if e.entry == "vae_decoder")
    assert (e.cycles, e.executed_macs) == (timing.cycles, timing.executed_macs)
    assert e.seconds == timing.cycles / arch.clock_hz


def test_an_image_runs_time_and_unet_in_every_call(found: ImageTables) -> None:
    arch = found.archs[0]
    cycles = {e.entry: e.cycles for e in arch.entries}
    once = sum(cycles[n] for n in ("text_encoder", "text_encoder_2", "context", "vae_decoder"))
    assert [(i.scheduler, i.steps) for i in arch.images] == [(s, n) for s in ("Euler", "DPM++ 2M") for n in STEPS]
    for i in arch.images:
        assert i.calls == i.steps
        assert i.cycles == once + i.steps * (cycles["time"] + cycles["unet"])
        assert i.seconds == i.cycles / arch.clock_hz
    assert image(arch, "a scheduler of two calls a step", 20, 40).cycles > arch.images[0].cycles
    assert model_calls("Euler", 7) == model_calls("DPM++ 2M", 7) == 7


def test_shares_add_up_and_keep_their_order() -> None:
    assert shares({"a": 1, "b": 1, "c": 1}) == {"a": "33.4", "b": "33.3", "c": "33.3"}
    assert shares({"a": 9999, "b": 1}) == {"a": "100.0", "b": "0.0"}
    assert shares({}) == {}


def test_the_page_is_rendered_again_and_other_archs_stay(found: ImageTables, out: Path, tmp_path: Path) -> None:
    text = write_page(out).read_text()
    assert text == page(found) + "\n" and "No image" not in text
    arch = found.archs[0]
    assert rest(arch, 20) in text and "nothing runs" in rest(arch, 20)
    other = tmp_path / "tables.json"
    renamed = found.model_copy(update={"archs": (arch.model_copy(update={"arch": "another"}),)})
    renamed.save(other)
    assert read(other) == renamed


def test_an_arch_without_all_entries_has_no_image(tiny_folder: Path, out: Path, tmp_path: Path) -> None:
    both = tmp_path / "tables.json"
    known = read(out)
    known.model_copy(update={"archs": (known.archs[0].model_copy(update={"arch": "another"}),)}).save(both)
    now = measure([], [("dpu_tiny", "text_encoder")], tiny_folder, both, size=(64, 64))
    assert [a.arch for a in now.archs] == ["another", "dpu_tiny"] and read(both) == now
    assert now.archs[1].images == () and now.archs[0].images
    assert "No image: text_encoder_2, context, time, unet, vae_decoder of dpu_tiny are missing." in page(now)


def test_errors(tiny_folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        measure([], PARTS[:1])
    assert str(e.value) == (
        "error[E501]: --graphs: is needed to compile --parts\n"
        "  try: a folder of dpuc export sdxl --open-sizes --graph-only"
    )
    with pytest.raises(DpuError, match=r"has entry 'text_encoder' of dpu_tiny again"):
        measure([], [PARTS[0], PARTS[0]], tiny_folder, size=(64, 64))
    file = tmp_path / "tables.json"
    with pytest.raises(DpuError, match=r"no such file"):
        read(file)
    file.write_text("{}x")
    with pytest.raises(DpuError, match=r"is no file of this command"):
        read(file)
