"""Comparing canonical modules: names and order do not matter, everything that changes a result does."""

from __future__ import annotations

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.frontend.compare import digest, same_graph
from dpu.frontend.weights import Entry, WeightStore
from dpu.ir.dialects import parse_module
from xdsl.dialects.builtin import ModuleOp

TEXT = """
func.func @f(%x: [T] {dpu.name = "x"}) -> ([T] {dpu.name = "y"}) {
  %w = dpu.param "f::w" : tensor<4x4xf32>
  %v = dpu.param "f::v" : tensor<4x4xf32>
  %g = dpu.param "f::g" : tensor<4xf32>
  %b = dpu.param "f::b" : tensor<4xf32>
  %q = dpu.linear %x, %w : [T], tensor<4x4xf32> -> [T]
  %k = dpu.linear %x, %v : [T], tensor<4x4xf32> -> [T]
  %a = dpu.attention %q, %k, %k heads 1 scale 0.5 key_block 1024 prob_bits 8 : i64 : [T], [T], [T] -> [T]
  %n = dpu.layer_norm %a, %g, %b eps 1.0e-5 : f64 : [T], tensor<4xf32>, tensor<4xf32> -> [T]
  func.return %n : [T]
}
""".replace("[T]", "tensor<1x3x4xf32>")


def weights(**changes: np.ndarray) -> WeightStore:
    """Values for the parameters of `TEXT`, all different."""
    rng = np.random.default_rng(0)
    values = {"w": (4, 4), "v": (4, 4), "g": (4,), "b": (4,)}
    store = WeightStore()
    for name, shape in values.items():
        value = changes.get(name, rng.standard_normal(shape, dtype=np.float32))
        store.add(f"f::{name}", Entry(value.shape, value.dtype, read=lambda value=value: value))
    return store


def module(*replacements: tuple[str, str]) -> ModuleOp:
    text = TEXT
    for old, new in replacements:
        assert old in text
        text = text.replace(old, new)
    return parse_module(text)


def differences(*replacements: tuple[str, str], **changes: np.ndarray) -> list[str]:
    return same_graph(module(), weights(), module(*replacements), weights(**changes))


def test_a_module_equals_itself_at_another_width() -> None:
    assert differences() == []
    half = {n: weights().get(f"f::{n}").astype(np.float16) for n in "wvgb"}
    assert differences(("xf32", "xf16"), **half) == []


def test_order_and_transforms_do_not_matter() -> None:
    q = next(line for line in TEXT.splitlines() if "%q =" in line)
    k = next(line for line in TEXT.splitlines() if "%k =" in line)
    assert differences((f"{q}\n{k}", f"{k}\n{q}")) == []
    transposed = np.ascontiguousarray(weights().get("f::w").T)
    assert differences(('"f::w"', '"f::w" via ["transpose"]'), w=transposed) == []


def test_equal_parameters_may_be_merged() -> None:
    same = weights().get("f::g")
    a, b = module(), module(('dpu.param "f::b"', 'dpu.param "f::g"'))
    assert same_graph(a, weights(b=same), b, weights(b=same)) == []


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("scale 0.5", "scale 0.25", "scale: 5.000000e-01"),
        ("eps 1.0e-5", "eps 1.0e-6", "eps: 1.000000e-05"),
        ("%q, %k, %k", "%k, %q, %q", "parameter's content: f::w | f::v"),
        ("%q, %k, %k", "%q, %k, %q", "sharing: computed once | computed again"),
        ("dpu.linear %x, %w", "dpu.linear %x, %w bias %b : tensor<4xf32>", "operands: x, w | x, w, bias"),
        ('{dpu.name = "x"}', '{dpu.name = "z"}', "@f: inputs: {'x': '1x3x4 as it is'} | {'z': '1x3x4 as it is'}"),
        ("func.return %n", "func.return %a", "@f: result 'y': operation: dpu.layer_norm | dpu.attention"),
    ],
)
def test_what_changes_a_result_is_a_difference(old: str, new: str, says: str) -> None:
    found = differences((old, new))
    assert any(says in d for d in found), found


def test_one_element_of_a_weight_is_a_difference() -> None:
    w = weights().get("f::w").copy()
    w[3, 3] += 0.01
    assert differences(w=w) == ["dpu.linear at operation 'dpu.linear', w: parameter's content: f::w | f::w"]
    w = weights().get("f::w") * np.float32(1 + 1e-6)  # below half precision
    assert differences(w=w) == []


def test_values_that_pass_between_functions_are_followed_not_named() -> None:
    text = """
        func.func @time(%t: [T] {{dpu.name = "t"}}) -> ([T] {{dpu.name = "{0}"}}, [T] {{dpu.name = "{1}"}}) {{
          %a = dpu.silu %t : [T] -> [T]
          %b = dpu.gelu %t : [T] -> [T]
          func.return %a, %b : [T], [T]
        }}
        func.func @f(%p: [T] {{dpu.name = "one"}}, %q: [T] {{dpu.name = "two"}}) -> ([T] {{dpu.name = "y"}}) {{
          %y = dpu.mul %p, %q : [T], [T] -> [T]
          func.return %y : [T]
        }}
    """.replace("[T]", "tensor<1x1x4xf32>")
    a = parse_module(text.format("one", "two"))
    renamed = parse_module(text.format("one", "two").replace('"one"', '"down"').replace('"two"', '"up"'))
    exchanged = parse_module(text.format("two", "one"))
    none = WeightStore()
    assert same_graph(a, none, renamed, none) == []
    assert len(same_graph(a, none, exchanged, none)) == 2


def test_absent_weights_are_refused_unless_only_shapes_count() -> None:
    absent = WeightStore()
    for name in weights():
        absent.add(name, Entry(weights().shape(name), np.dtype(np.float16)))
    with pytest.raises(DpuError, match=r"E113"):
        same_graph(module(), weights(), module(), absent)
    assert same_graph(module(), weights(), module(), absent, contents=False) == []


def test_a_digest_is_of_the_content() -> None:
    store = weights()
    assert (
        digest(store, "f::w")
        == digest(store, "f::w", ("transpose", "transpose"))
        != digest(store, "f::w", ("transpose",))
    )
