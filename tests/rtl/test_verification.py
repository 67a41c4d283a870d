"""What verifies the verification: seeded faults, coverage and its reasons, the holdout of the timing model."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from dpu.bench import holdout, rtl_coverage, rtl_mutants, rtl_mutator
from dpu.bench.campaign import forms
from dpu.bench.cycles import RUNS, LayerCycles
from dpu.bench.cycles import SIZE as SEEN_SIZE
from dpu.bench.cycles import archs as seen_archs
from dpu.bench.holdout_nets import KINDS, net
from dpu.bench.rtl_seeds import program
from dpu.bench.rtl_shapes import card
from dpu.errors import DpuError
from dpu.ir.dialects import parse_module
from dpu.rtl import toolchain
from dpu.rtl.f2.build import TOP as CARD
from dpu.rtl.model import KERNEL, TOP, parameters
from dpu.runtime.failures import SeededWeights, compile_module

SOURCE = """// A counter that says when it is done.
module dpu_thing (
  input  logic clk_i, input logic rst_ni, input logic en_i, input logic ready_i,
  input  logic [7:0] a_i, output logic done_o
);
  localparam int unsigned Top = 3 + 4;
  logic [7:0] count_q;
  always_ff @(posedge clk_i or negedge rst_ni) begin
    if (!rst_ni) count_q <= '0;
    else if (en_i) count_q <= count_q + 8'd1;
  end
  assign done_o = ready_i & (count_q < a_i);
  Never: assert property (@(posedge clk_i) count_q < 8'd200 + 8'd1);
endmodule
"""


def test_faults_sit_where_hardware_runs() -> None:
    found = {
        (s.operator, s.line, " ".join(s.before.split()), " ".join(s.after.split()))
        for s in rtl_mutator.sites("dpu_thing", SOURCE)
    }
    assert found == {
        ("reset", 9, "'0", "'1"),
        ("stuck enable", 10, "en_i", "1'b0"),
        ("negated", 10, "en_i", "!(en_i)"),
        ("lost update", 10, "count_q + 8'd1", "count_q"),
        ("operator", 10, "count_q + 8'd1", "(count_q) - (8'd1)"),
        ("lost carry", 10, "count_q + 8'd1", "(count_q) ^ (8'd1)"),
        ("off by one", 10, "8'd1", "(8'd1) + 1'b1"),
        ("early", 12, "ready_i & (count_q < a_i)", "ready_i"),
        ("operator", 12, "ready_i & (count_q < a_i)", "(ready_i) | ((count_q < a_i))"),
        ("back-pressure", 12, "ready_i", "'1"),
        ("operator", 12, "count_q < a_i", "(count_q) <= (a_i)"),
        ("swap", 12, "count_q < a_i", "(a_i) < (count_q)"),
    }


def test_a_draw_has_all_operators_and_every_module() -> None:
    mutants = rtl_mutator.draw(1, 2)
    assert rtl_mutator.draw(1, 2) == mutants != rtl_mutator.draw(2, 2)
    assert [m.id for m in mutants] == list(range(1, len(mutants) + 1))
    by = Counter(m.site.operator for m in mutants)
    assert set(by) == set(rtl_mutator.OPERATORS) and max(by.values()) - min(by.values()) <= 3
    without = {p.stem for p in rtl_mutator.everything()} - {m.site.module for m in mutants} - rtl_mutator.FROZEN
    wires = {"dpu_top", "dpu_mxu_chain", "dpu_f2_clocks", "dpu_f2_cross", "dpu_f2_memory", "dpu_kernel"}
    assert without == {*wires, "dpu_vpu_pkg", "dpu_kernel_pkg"}  # types and constants only


def test_cards_come_after_the_tiles_without_models_of_shell_and_memory() -> None:
    names = [p.stem for p in rtl_mutator.around()]
    assert {"cl_dpu", "dpu_f2_split", "dpu_kernel_commands"} <= set(names)
    assert {"dpu_f2_hbm_model", "sh_ddr", "dpu_top"}.isdisjoint(names) and len(set(names)) == len(names)
    of_cards = [m.site.module in names for m in rtl_mutator.draw(1, 2)]
    assert of_cards == sorted(of_cards) and sum(of_cards) >= 10
    assert rtl_mutants.benches("dpu_kernel_commands") == ("xrt/test_kernel",)
    assert rtl_mutants.benches("dpu_tile") == ("rtl/test_top", *rtl_mutants.ALWAYS)


def test_copies_with_faults_are_the_design_but_for_the_switches(tmp_path: Path) -> None:
    mutants = rtl_mutator.draw(3, 3, ["dpu_fifo", "dpu_queue"])
    written = {p.stem: p.read_text() for p in rtl_mutator.write(mutants, tmp_path)}
    assert (
        set(written) == {"dpu_mutant_pkg", "dpu_fifo", "dpu_queue"}
        and str(tmp_path / "id") in written["dpu_mutant_pkg"]
    )
    for name in ("dpu_fifo", "dpu_queue"):
        text = written[name]
        for m in mutants:
            s = m.site
            text = text.replace(f"((dpu_mutant_pkg::Id == 32'd{m.id}) ? ({s.after}) : ({s.before}))", s.before)
        assert text == next(p for p in toolchain.sources(TOP) if p.stem == name).read_text()


@pytest.mark.slow
def test_all_faults_of_a_draw_compile_together(tmp_path: Path) -> None:
    written = rtl_mutator.write(rtl_mutator.draw(1, 2), tmp_path)
    given = [f"-G{k}={v}" for k, v in parameters(card("pair")).items()]
    for top in (TOP, CARD, KERNEL):
        quiet = ["--lint-only", "-Wno-lint", "-Wno-style", "--no-timing", "--top-module", top]
        files = toolchain.sources(top, extra=written)
        toolchain.run([toolchain.toolchain().verilator, *quiet, *given, *files], "lint")


def test_every_module_has_benches_that_exist() -> None:
    folder = rtl_mutants.tests_folder()
    for path in rtl_mutator.everything():
        assert all((folder / f"{name}.py").is_file() for name in rtl_mutants.benches(path.stem)), path


def test_reasons_of_equivalent_faults_are_of_faults_that_exist() -> None:
    sources = {p.stem: p.read_text() for p in rtl_mutator.everything()}
    all_of = {m: {rtl_mutants.name_of(s) for s in rtl_mutator.sites(m, text)} for m, text in sources.items()}
    for name, reason in rtl_mutants.equivalent().items():
        assert name in all_of[name.partition(":")[0]] and len(reason) > 20, name


def test_a_run_of_another_draw_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "mutants.json"
    old = rtl_mutants.Mutants(command="", design=rtl_mutants.design(), around="", seed=2, each=1)
    old.save(out)
    with pytest.raises(DpuError) as e:
        rtl_mutants.measure(1, 1, out, "", lambda _: None)
    assert e.value.text() == (
        f"error[E502]: {out}: faults of another seed (2, now 1)\n"
        "  why: their outcomes cannot be added to these\n"
        "  try: name another file, or remove this one"
    )


# Coverage.


def point(file: Path, page: str, line: int, what: str, count: int, instance: str = "a") -> str:
    fields = {"f": str(file), "l": line, "n": 3, "t": page, "page": f"v_{page}/x", "o": what, "h": f"TOP.{instance}"}
    return "C '" + "".join(f"\x01{k}\x02{v}" for k, v in fields.items()) + f"' {count}\n"


def test_counts_are_added_over_instances_and_holes_get_reasons(tmp_path: Path) -> None:
    fifo = toolchain.FOLDER / "common" / "dpu_fifo.sv"
    data = tmp_path / "a.dat"
    lines = [
        point(fifo, "line", 51, "if", 0),
        point(fifo, "line", 51, "if", 7, "b"),
        point(fifo, "branch", 55, "else", 0),
        point(fifo, "toggle", 28, "count_q[0]:0->1", 3),
        point(fifo, "toggle", 28, "count_q[9]:0->1", 0),
        point(fifo, "toggle", 28, "count_q[10]:0->1", 0),
        point(toolchain.FOLDER / "bench" / "dpu_dma_tb.sv", "line", 3, "if", 0),
        point(tmp_path / "dpu_fifo.sv", "line", 3, "if", 0),
    ]
    data.write_text("# SystemC::Coverage-3\n" + "".join(lines))
    known = [rtl_coverage.Reason(module="dpu_.*", kind="toggle", point=r"count_q\[9\].*", reason="never so deep")]
    (row,) = rtl_coverage.tabled(rtl_coverage.merged([data, data]), known)
    assert (row.module, row.lines, row.lines_hit, row.lines_excused) == ("dpu_fifo", 2, 1, 0)
    assert (row.toggles, row.toggles_hit, row.toggles_excused) == (3, 1, 1)
    assert [(h.kind, h.points, h.reason, h.where) for h in row.holes] == [
        ("line", 1, "", ["55: " + fifo.read_text().splitlines()[54].strip()]),
        ("toggle", 1, "", ["28: count_q"]),
        ("toggle", 1, "never so deep", ["28: count_q"]),
    ]
    table = rtl_coverage.Coverage(command="", design="", shapes=("pair",), programs=0, benches=(), modules=(row,))
    assert (table.share("line"), table.share("toggle"), table.share("toggle", False)) == (1 / 2, 1 / 2, 1 / 3)
    assert not table.enough and "**open**" in table.text()


def test_every_reason_is_of_a_module_that_exists() -> None:
    modules = {p.stem for p in toolchain.sources(TOP)}
    for r in rtl_coverage.reasons():
        assert any(re.fullmatch(r.module, m) for m in modules), r
        assert len(r.reason) > 20 and re.compile(r.point)


# Counts of a campaign.


def test_forms_count_each_word_once() -> None:
    p = program("one", 0)
    found = forms(p.legal(0))
    opcodes = {k: n for k, n in found.items() if " " not in k}
    assert sum(opcodes.values()) == len(p.streams[0]) and opcodes["END"] == 1
    assert sum(n for k, n in found.items() if k.startswith("VEC func")) == opcodes["VEC"]
    assert sum(n for k, n in found.items() if k.startswith("STORE ") and "padded" not in k) == opcodes["STORE"]


# The holdout.


def test_the_holdout_is_apart_from_what_the_rules_were_found_on() -> None:
    known = holdout.archs()
    assert set(known) == {*holdout.REGRESSION, *holdout.HELD_OUT}
    assert set(holdout.REGRESSION.values()).isdisjoint(holdout.HELD_OUT.values())
    shapes = {(a.cols, a.lanes, a.buffers.model_dump_json(), str(a.queues)) for a in known.values()}
    assert len(shapes) == len(known)
    seen = seen_archs().values()
    for a in known.values():
        assert {(x.cols, x.lanes) for x in seen}.isdisjoint({(a.cols, a.lanes)})
        assert all(x.buffers != a.buffers and x.queues != a.queues for x in seen)
    assert holdout.SIZE != SEEN_SIZE and set(holdout.MEMORIES) <= {dram for _, dram, _ in RUNS}


def test_an_arch_that_is_not_held_out_is_refused() -> None:
    with pytest.raises(DpuError) as e:
        holdout.measure(["dpu_tiny"])
    assert e.value.text() == (
        "error[E505]: dpu_tiny: no such holdout arch\n  try: one of holdout_16, holdout_32, holdout_32x8"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_nets_of_the_holdout_compile(kind: str) -> None:
    drawn = [
        net(kind, s)
        for first in {*holdout.REGRESSION.values(), *holdout.HELD_OUT.values()}
        for s in range(first, first + holdout.SEEDS)
    ]
    assert len(set(drawn)) == len(drawn)
    for name, first in holdout.HELD_OUT.items():
        module = parse_module(net(kind, first))
        program = compile_module(module, holdout.archs()[name], SeededWeights(module))[0].program
        assert len(program.words["net"][0]) > 20


def test_layers_are_judged_by_their_length() -> None:
    some = [
        LayerCycles(name="a", tile=0, rtl=r, model=m) for r, m in ((20_000, 20_201), (10_000, 10_090), (900, 1_001))
    ]

    class Run:
        tiles: tuple[()] = ()

        def __init__(self, cycles: int) -> None:
            self.cycles = cycles

    row = holdout._row("a", "x", "ideal", False, Run(30_900), Run(31_292), some)
    assert (row.long.count, row.long.beyond, row.short.count, row.short.beyond) == (2, 1, 1, 1)
    assert not row.agrees
    fine = holdout._row("a", "x", "ideal", True, Run(10_000), Run(10_051), some[1:2])
    assert fine.long.beyond == 0 and not fine.agrees  # 0.51 % of a whole forward


def test_the_plot_is_small(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rtl = rng.integers(50, 10**6, 800)
    points = {m: [(int(x), int(x) + 3) for x in rtl] for m in holdout.MEMORIES}
    holdout.plot(points, tmp_path / "correlation.png")
    assert 5_000 < (tmp_path / "correlation.png").stat().st_size < 90_000
