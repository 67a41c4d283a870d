"""Dumped tensors are what the operations stored, whatever became of their DRAM afterwards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.container import Program
from dpu.ir.dialects import parse_module
from dpu.runtime import failures
from dpu.runtime.check.compare import check
from dpu.runtime.dump import TensorDump
from dpu.runtime.looking import Looking
from dpu.runtime.operations import matching
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice

X, W, V = "tensor<1x48x16xf16>", "tensor<16x16xf16>", "tensor<16xf16>"
XXX = f"{X}, {X}, {X} -> {X}"


def text(layers: int = 4) -> str:
    """An attention and a few linears, whose results share DRAM."""
    lines = "".join(
        f'%h{i + 1} = dpu.linear %h{i}, %w bias %b : {V} act "silu" : {X}, {W} -> {X} loc("/l{i}/MatMul"("m":0:0))\n'
        for i in range(layers)
    )
    return f"""func.func @f(%h0: {X} {{dpu.name = "x"}}) -> ({X} {{dpu.name = "y"}}) {{
%w = dpu.param "w" : {W}
%b = dpu.param "b" : {V}
{lines}%n = dpu.layer_norm %h{layers}, %b, %b eps 1.0e-5 : f64 : {X}, {V}, {V} -> {X}
%q = dpu.linear %n, %w : {X}, {W} -> {X} loc("/attn/to_q/MatMul"("m":0:0))
%k = dpu.linear %n, %w : {X}, {W} -> {X} loc("/attn/to_k/MatMul"("m":0:0))
%v = dpu.linear %n, %w : {X}, {W} -> {X} loc("/attn/to_v/MatMul"("m":0:0))
%a = dpu.attention %q, %k, %v heads 1 scale 0.25 key_block 1024 prob_bits 8 : i64 : {XXX} loc("/attn"("m":0:0))
%o = dpu.linear %a, %w residual %h{layers} : {X} : {X}, {W} -> {X} loc("/out/MatMul"("m":0:0))
func.return %o : {X} }}"""


@pytest.fixture(scope="module", params=["dpu_tiny", "dpu_32tops"])
def compiled(request: pytest.FixtureRequest) -> tuple[Any, Any, dict[str, Any]]:
    """On one tile and on several."""
    module = parse_module(text())
    emitted, fetch, inputs = failures.compile_module(module, load_arch(request.param), failures.SeededWeights(module))
    return emitted, fetch, inputs


def run(program: Program, inputs: dict[str, Any], dump: TensorDump | None, times: int = 1) -> dict[str, Any]:
    device = SimDevice(program.arch, timed=False)
    if dump is not None:
        device.runner = dump.run
    with Session(program, device) as session:
        for _ in range(times):
            found = session.run("f", inputs)
    return found


def index(folder: Path) -> Any:
    return json.loads((folder / "index.json").read_text())


def test_every_tensor_is_there_as_the_checker_saw_it(
    compiled: tuple[Any, Any, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    emitted, fetch, inputs = compiled
    program = emitted.program
    seen: dict[str, Any] = {}
    from dpu.runtime.check import compare

    right = compare._compare
    monkeypatch.setattr(compare, "_compare", lambda n, e, s: seen.update({n: e}) or right(n, e, s))
    assert check(emitted, fetch, inputs).ok
    out = run(program, inputs, TensorDump(program, ["*"], tmp_path), times=2)
    records = index(tmp_path)["tensors"]
    assert len(records) == 2 * len(seen) == 2 * sum(len(s.outputs) for s in program.entries[0].sources)
    places = [(s.base, s.offset) for source in program.entries[0].sources for s in source.outputs]
    assert len(set(places)) < len(places)  # or the test shows nothing
    for r in records:
        values = np.load(tmp_path / r["file"])
        assert r["whole"] and not r["absent"] and r["entry"] == "f"
        assert list(values.shape) == r["shape"]
        assert np.array_equal(values.view(np.uint8), np.ascontiguousarray(seen[r["tensor"]]).view(np.uint8))
    assert {r["run"] for r in records} == {0, 1}
    y = next(r for r in records if r["tensor"] == "y")
    assert np.array_equal(np.load(tmp_path / y["file"]).astype(np.float32), out["y"])
    plain = run(program, inputs, None)
    assert np.array_equal(plain["y"], out["y"])


def test_int8_with_dynamic_scales_names_them(compiled: tuple[Any, Any, dict[str, Any]], tmp_path: Path) -> None:
    program, inputs = compiled[0].program, compiled[2]
    run(program, inputs, TensorDump(program, ["f:*to_q*"], tmp_path))
    records = index(tmp_path)["tensors"]
    scaled = [r for r in records if r["dtype"] == "i8" and r["scale"]]
    assert scaled
    for r in scaled:
        scale = np.load(tmp_path / r["scale"])
        assert scale.dtype == np.float32 and (scale > 0).all()
    assert all(any("to_q" in n for n in r["nodes"]) for r in records)


def test_memory_is_bounded_and_what_is_left_out_is_named(
    compiled: tuple[Any, Any, dict[str, Any]], tmp_path: Path
) -> None:
    program, inputs = compiled[0].program, compiled[2]
    sizes = {s.name: 2 * sum(o.bytes for o in s.outputs) for s in program.entries[0].sources if s.outputs}
    limit = max(sizes.values()) - 1
    run(program, inputs, TensorDump(program, ["*"], tmp_path, memory=limit))
    found = index(tmp_path)
    assert found["skipped"] and "bytes of memory" in found["skipped"][0]["why"]
    assert {s["operation"] for s in found["skipped"]} >= {n for n, size in sizes.items() if size > limit}
    assert {r["operation"] for r in found["tensors"]}.isdisjoint(s["operation"] for s in found["skipped"])
    assert found["tensors"]


def test_a_stopped_run_leaves_what_it_stored(compiled: tuple[Any, Any, dict[str, Any]], tmp_path: Path) -> None:
    program, inputs = compiled[0].program, compiled[2]
    dump = TensorDump(program, ["*"], tmp_path)
    count = 0

    def stop(*_: object) -> None:
        nonlocal count
        count += 1
        if count == 5:
            raise DpuError("test", "stopped", code="E415")

    device = SimDevice(program.arch, timed=False, on_store=stop)
    device.runner = dump.run
    with Session(program, device) as session, pytest.raises(DpuError, match="stopped"):
        session.run("f", inputs)
    assert index(tmp_path)["tensors"]


def test_patterns_are_over_operations_nodes_and_tensors(compiled: tuple[Any, Any, dict[str, Any]]) -> None:
    program = compiled[0].program
    assert [s.name for _, s in matching(program, "--x", ["f:/l2/*"])] == ["/l2/MatMul"]
    assert [s.name for _, s in matching(program, "--x", ["y"])] == ["/out/MatMul"]
    assert len(matching(program, "--x", ["/l1/*", "*:/l2/*"])) == 2
    with pytest.raises(DpuError, match="matches no operation") as e:
        matching(program, "--x", ["/l9/MatMul"])
    assert "/l" in e.value.hint


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    for looking, what in (
        (Looking(dump_tensors=("*",)), "--dump-to"),
        (Looking(dump_to=tmp_path), "--dump-to"),
        (Looking(break_commands=tmp_path), "no breakpoint"),
        (Looking(trace_detail="all"), "level of detail"),
    ):
        with pytest.raises(DpuError, match=what):
            looking.check("sim")
    with pytest.raises(DpuError, match="target cpu has none"):
        Looking(dump_tensors=("*",), dump_to=tmp_path).check("cpu")
