"""Policies: files and their errors word for word, which rule decides, what is kept and said of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from dpu.codegen.dpufile import load, save
from dpu.codegen.driver import compile_folder
from dpu.codegen.inspect import inspect, summary
from dpu.codegen.precisions import layers
from dpu.codegen.verify.verify import verify_program
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.dialects import parse_module, print_module
from dpu.passes.policy import (
    Choices,
    Kept,
    Policy,
    Precision,
    Rule,
    choose_policy,
    kept_lines,
    named_policy,
    policy_names,
    read_policy,
)
from dpu.passes.quantise import quantise

X, M, W, V = "tensor<1x16x8xf16>", "tensor<8x8xf16>", "tensor<8x8x1x1xf16>", "tensor<8xf16>"
TEXT = f"""
func.func @f(%x: {X}) -> {X} {{
  %w = dpu.param "w" : {W}
  %m = dpu.param "m" : {M}
  %g = dpu.param "g" : {V}
  %y = dpu.conv %x, %w size 4 x 4 stride 1 {{pad = array<i64: 0, 0, 0, 0>, GIVEN}} : {X}, {W} -> {X} loc("/in/Conv"("m.onnx":0:0))
  %a = dpu.linear %y, %m {{GIVEN}} : {X}, {M} -> {X} loc("/a/MatMul"("m.onnx":0:0))
  %n = dpu.layer_norm %a, %g, %g eps 1.0e-5 : f64 : {X}, {V}, {V} -> {X}
  %b = dpu.linear %n, %m {{GIVEN}} : {X}, {M} -> {X} loc("/b/MatMul"("m.onnx":0:0))
  func.return %b : {X}
}}
"""  # noqa: E501
GIVEN = "x_scale = 1.0e-2 : f32"


def quantised(policy: Policy, given: str = "", part: str = "unet") -> tuple[str, Choices]:
    """The text of the module in a policy's precisions; `given` are scales of the model's own."""
    module = parse_module(TEXT.replace(", GIVEN", f", {given}" if given else "").replace("GIVEN", given))
    choices = Choices(policy)
    quantise(module, load_arch("dpu_tiny"), None, {}, part, choices)
    return print_module(module), choices


def lines(text: str) -> list[str]:
    """The layers of a quantised module."""
    return [line for line in text.splitlines() if "dpu.q.linear" in line or "dpu.q.conv" in line]


def test_shipped_policies() -> None:
    assert policy_names() == ["tiny-searched", "w4a8", "w8a16", "w8a8", "w8a8-sensitive", "w8a8-static"]
    for name in policy_names():
        assert named_policy(name).name == name
    assert len({named_policy(n).digest for n in policy_names()}) == 6
    assert named_policy("w8a8").default == Precision()
    assert choose_policy(None, None) == named_policy("w8a8")


def test_the_digest_is_of_what_decides() -> None:
    one = Policy(name="a", rules=(Rule(layers="*", weights=4),))
    assert one.digest == one.model_copy(update={"name": "b", "description": "said otherwise"}).digest
    assert one.digest != Policy(name="a").digest
    assert Policy.model_validate_json(one.text) == one


def test_the_first_rule_that_names_a_layer_decides() -> None:
    rules = (Rule(layers="/a/*", weights=4), Rule(layers="*MatMul", activations=16), Rule(layers="*", weights=4))
    text, choices = quantised(Policy(name="p", rules=rules))
    conv, a, b = lines(text)
    assert "w_bits = 4 : i64" in conv and "x_bits" not in conv
    assert "w_bits = array<i64: 4>" in a and "x_bits" not in a
    assert "w_bits" not in b and "x_bits = 15" in b
    choices.check()
    assert choices.kept == []


def test_a_rule_may_be_for_one_part() -> None:
    policy = Policy(name="p", rules=(Rule(layers="*", part="unet", weights=4),))
    assert quantised(policy)[0].count("w_bits") == 3
    text, choices = quantised(policy, part="vae_decoder")
    assert "w_bits" not in text
    with pytest.raises(DpuError) as e:
        choices.check()
    assert e.value.text() == (
        "error[E508]: policy 'p', rule 1: '*' names no layer of part 'unet'\n"
        "  why: a rule without effect is most often a misspelt name\n"
        "  try: dpuc inspect --json lists the layers of a compiled program; * stands for any text"
    )


def test_other_parts_are_named_with_their_part() -> None:
    policy = Policy(name="p", rules=(Rule(layers="vae_decoder/a/*", weights=4),))
    assert quantised(policy, part="vae_decoder")[0].count("w_bits") == 1


def test_a_rule_behind_a_wider_one() -> None:
    _, choices = quantised(Policy(name="p", rules=(Rule(layers="*", weights=4), Rule(layers="/a/*", weights=8))))
    with pytest.raises(DpuError) as e:
        choices.check()
    assert e.value.text() == (
        "error[E508]: policy 'p', rule 2: every layer that '/a/*' names is decided by an earlier rule\n"
        "  try: put it before the wider rule, or remove it"
    )


def test_what_is_kept_is_said() -> None:
    """Scales that the model gives are those of int8; a convolution has one. LayerNorm's linears follow neither."""
    text, choices = quantised(Policy(name="p", default=Precision(activations=16)), GIVEN)
    conv, a, b = lines(text)
    assert "x_bits" not in a and "xi16" not in conv and "x_bits = 15" in b
    assert kept_lines(choices.kept) == [
        "/in/Conv, /a/MatMul: 16-bit activations asked for, has 8 bits (the model gives an int8 scale for its input)"
    ]
    _, choices = quantised(Policy(name="p", rules=(Rule(layers="*", scale="dynamic"),)))
    assert kept_lines(choices.kept) == [
        "/in/Conv: a dynamic scale asked for, has a static one "
        "(a convolution adds products of several tokens, so they share a scale)"
    ]


def test_many_layers_with_one_reason_are_one_line() -> None:
    kept = [Kept(f"/{i}", "a", "b", "c") for i in range(5)] + [Kept("/x", "d", "e", "f")]
    assert kept_lines(kept) == ["/0, /1, /2 and 2 more: a asked for, has b (c)", "/x: d asked for, has e (f)"]


GOOD: dict[str, Any] = {"format": "dpu.policy/1", "name": "mine", "rules": [{"layers": "*", "weights": 4}]}
_EXAMPLE = "\n  try: configs/policy/w4a8.json shows every field, passes/policy.py says what each means"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "[E507]: FILE: not a readable JSON file (Expecting property name enclosed in double quotes: line 1 "
         "column 2 (char 1))" + _EXAMPLE),
        ([], "[E507]: FILE: not a JSON object" + _EXAMPLE),
        ('{"default": {"weights": 8, "weights": 4}}', "[E507]: FILE: not a readable JSON file (field 'weights' is "
         "there twice)" + _EXAMPLE),
        ("[" * 100_000, "[E507]: FILE: not a readable JSON file (maximum recursion depth exceeded while decoding a "
         "JSON array from a unicode string)" + _EXAMPLE),
        ({**GOOD, "name": ""}, "[E507]: FILE: field 'name': String should have at least 1 character, it is ''"
         + _EXAMPLE),
        ({**GOOD, "format": "dpu.policy/2"}, "[E521]: FILE: field 'format': value is 'dpu.policy/2', allowed: "
         "'dpu.policy/1'\n  try: write it as dpu.policy/1: configs/policy/w4a8.json shows every field, "
         "passes/policy.py says what each means"),
        ({"format": "dpu.policy/1"}, "[E507]: FILE: field 'name': is missing" + _EXAMPLE),
        ({**GOOD, "bits": 4}, "[E507]: FILE: field 'bits': there is no such field" + _EXAMPLE),
        ({**GOOD, "default": {"weights": 2}}, "[E507]: FILE: field 'default.weights': Input should be 8 or 4, it is 2"
         + _EXAMPLE),
        ({**GOOD, "rules": [{"layers": "*", "scale": "fast"}]}, "[E507]: FILE: field 'rules.0.scale': Input should be "
         "'dynamic' or 'static', it is 'fast'" + _EXAMPLE),
        ({**GOOD, "rules": [{"weights": 4}]}, "[E507]: FILE: field 'rules.0.layers': is missing" + _EXAMPLE),
        ({**GOOD, "name": "w4a8"}, "[E507]: FILE: field 'name': 'w4a8' is a shipped policy that says something else"
         + _EXAMPLE),
    ],
)  # fmt: skip
def test_bad_files(tmp_path: Path, content: object, said: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    with pytest.raises(DpuError) as e:
        read_policy(file)
    assert e.value.text() == "error" + said.replace("FILE", str(file))


def test_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        read_policy(tmp_path / "none.json")
    assert e.value.text() == (
        f"error[E507]: {tmp_path / 'none.json'}: not a readable JSON file (No such file or directory)" + _EXAMPLE
    )


def test_a_program_says_what_it_is(tiny_folder: Path, tmp_path: Path) -> None:
    """Digest and text of the policy, counts by class of layer, and every layer, from the written file."""
    rules = (
        Rule(layers="*/attn1/*", weights=4),
        Rule(layers="/conv_in/Conv*", scale="dynamic"),
        Rule(layers="*", part="vae_decoder", activations=16),
    )
    policy = Policy(name="mixed", rules=rules)
    made = compile_folder(
        tiny_folder, arch="dpu_tiny", precision=policy, size=(64, 64), uncalibrated=True, parts=("vae_decoder",)
    )
    verify_program(made.program)
    save(made.program, tmp_path / "p.dpu")
    program = load(tmp_path / "p.dpu")
    assert program.info["precision"] == "mixed"
    stored: Any = program.info["policy"]
    assert stored["digest"] == policy.digest and Policy.model_validate_json(stored["text"]) == policy
    found = layers(program)
    four = [layer for layer in found if 4 in layer.weights]
    assert four and all(any("/attn1/" in node for node in layer.nodes) for layer in four)
    assert {layer.part for layer in found if layer.activations == 15} == {"vae_decoder"}
    counts = summary(program)["precisions"]
    assert sum(counts.values()) == len(found) == len(summary(program)["layers"])
    text = inspect(program)
    for name, count in counts.items():
        assert f"layers       {count:>4} {name}" in text.splitlines()
    assert f"policy       digest {policy.digest}" in text.splitlines()
    assert [line for line in text.splitlines() if line.startswith("kept         /conv_in/Conv")]
    assert any("a dynamic scale asked for" in note for note in made.notes)


def test_rules_are_checked_over_all_parts(tiny_folder: Path) -> None:
    policy = Policy(name="mixed", rules=(Rule(layers="*/attn3/*", weights=4),))
    with pytest.raises(DpuError, match=r"E508.*'\*/attn3/\*' names no layer"):
        compile_folder(tiny_folder, arch="dpu_tiny", precision=policy, size=(64, 64), uncalibrated=True, parts=())
