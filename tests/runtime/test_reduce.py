"""`dpuc reduce`: the smallest graph that still fails, found the same way every time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module, print_module
from dpu.ir.qgraph import QSiluOp
from dpu.runtime.check import interpreter
from dpu.runtime.failures import CompileError, SeededWeights, predicate
from dpu.runtime.reduce import reduce_text
from dpu.runtime.reduce_graph import build, reduce_module, units

X = "tensor<1x16x16xf16>"
W = "tensor<16x16xf16>"
TWO = f'{X} {{dpu.name = "y"}}, {X} {{dpu.name = "z"}}'


def linear(name: str, x: str, w: str = "%w", residual: str = "") -> str:
    rest = f" residual {residual} : {X}" if residual else ""
    return f"%{name} = dpu.linear {x}, {w}{rest} : {X}, {W} -> {X}"


def chain(bad: str) -> str:
    """Two functions; the second has five operations around `bad`, which reads %b and makes %m."""
    return f"""
func.func @early(%e: {X} {{dpu.name = "e"}}) -> ({X} {{dpu.name = "t"}}) {{
  %w = dpu.param "w" : {W}
  {linear("t", "%e")}
  func.return %t : {X}
}}
func.func @late(%x: {X} {{dpu.name = "x"}}, %t: {X} {{dpu.name = "t"}}) -> ({TWO}) {{
  %w = dpu.param "w" : {W}
  %v = dpu.param "v" : {W}
  {linear("a", "%x", residual="%t")}
  {linear("b", "%a", "%v")}
  {bad}
  {linear("c", "%m", residual="%a")}
  {linear("d", "%c", "%v")}
  {linear("z", "%c")}
  func.return %d, %z : {X}, {X}
}}
"""


MUL = f"%m = dpu.mul %b, %a : {X}, {X} -> {X}"  # has no quantised form
SILU = f"%m = dpu.silu %b : {X} -> {X}"


def names(text: str) -> list[str]:
    ops = [op.name for op in parse_module(text).walk() if op.name.startswith("dpu.")]
    return [n for n in ops if n != "dpu.param"]


def test_every_part_of_a_module_is_a_module() -> None:
    module = parse_module(chain(SILU))
    all_units = units(module)
    assert len(all_units) == 7
    whole = build(module, all_units)
    assert whole is not None and names(print_module(whole)) == names(chain(SILU))
    for i in range(len(all_units)):
        for part in (all_units[i : i + 1], all_units[:i] + all_units[i + 1 :]):
            found = build(module, part)
            assert found is not None
            assert len(names(print_module(found))) == len(part)
            parse_module(print_module(found))  # and it can be read back


def test_the_operation_that_cannot_be_compiled_is_left(tmp_path: Path) -> None:
    source, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(chain(MUL))
    seen: list[tuple[int, int]] = []
    text = reduce_text(source, "compile-error=E220", "dpu_tiny", out, say=lambda *x: seen.append(x))
    assert names(out.read_text()) == ["dpu.mul"]
    assert "1 of 7 operations left" in text and "E220" in text
    assert seen[-1] == (6, 7)
    assert "@early" not in out.read_text() and "dpu.param" not in out.read_text()
    first = out.read_text()
    reduce_text(source, "compile-error", "dpu_tiny", out)
    assert out.read_text() == first
    with pytest.raises(DpuError, match="does not fail"):
        reduce_text(source, "compile-error=E999", "dpu_tiny", out)


def test_a_failure_of_two_operations_keeps_both() -> None:
    module = parse_module(chain(SILU))

    def fails(candidate: Any) -> str:
        found = {op.name for op in candidate.walk()} | {f"of {u.name}" for op in candidate.walk() for u in readers(op)}
        return "silu read by linear" if {"dpu.silu", "of dpu.silu"} <= found else ""

    def readers(op: Any) -> list[Any]:
        return (
            [op] if op.name == "dpu.silu" and any(u.operation.name == "dpu.linear" for u in op.results[0].uses) else []
        )

    found = reduce_module(module, fails)
    assert found.operations == 2
    assert names(print_module(found.module)) == ["dpu.silu", "dpu.linear"]
    assert print_module(reduce_module(module, fails).module) == print_module(found.module)


def test_a_wrong_operation_is_found_by_the_interpreter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(chain(SILU))
    with pytest.raises(DpuError, match="does not fail"):
        reduce_text(source, "check", "dpu_tiny", out)
    right = interpreter._RULES[QSiluOp]
    monkeypatch.setitem(interpreter._RULES, QSiluOp, lambda *a: [-y for y in right(*a)])
    text = reduce_text(source, "check", "dpu_tiny", out)
    assert names(out.read_text()) == ["dpu.silu"]
    assert "differs from the interpreter" in text


def test_noise_is_reduced_to_an_operation(tmp_path: Path) -> None:
    source, out = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(chain(SILU))
    text = reduce_text(source, "sqnr<60", "dpu_tiny", out)
    assert names(out.read_text()) == ["dpu.linear"]
    assert " dB, less than 60" in text
    with pytest.raises(DpuError, match="does not fail"):
        reduce_text(source, "sqnr<5", "dpu_tiny", out)


def test_a_bad_failure_is_refused(tmp_path: Path) -> None:
    module = parse_module(chain(SILU))
    with pytest.raises(DpuError, match="'slow' is no failure"):
        predicate("slow", load_arch("dpu_tiny"), SeededWeights(module))
    with pytest.raises(DpuError, match="cannot be read"):
        reduce_text(tmp_path / "no.mlir", "check", "dpu_tiny", tmp_path / "o.mlir")
    source = tmp_path / "in.mlir"
    source.write_text(chain(MUL))
    with pytest.raises(DpuError, match="E220"):  # what does not compile cannot be checked
        reduce_text(source, "check", "dpu_tiny", tmp_path / "o.mlir")


def test_the_first_error_is_the_one_that_is_followed() -> None:
    judge = CompileError(load_arch("dpu_tiny"), SeededWeights(parse_module(chain(MUL))))
    assert judge(parse_module(chain(MUL)))
    assert judge.code == "E220"
    assert not judge(parse_module(chain(SILU)))
