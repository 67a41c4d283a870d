"""Print, parse, print: the text of the quantised graph and of the tile dialect says all there is, and where from."""

from __future__ import annotations

import pytest
from dpu.ir.dialects import context, parse_module, print_module
from dpu.ir.locations import nodes_of
from dpu.passes.pipeline import get_pass

# Every canonical operation that is quantised, in every form: two sources, residuals, statistics of each kind.
TEXT = """
func.func @unet(%x: tensor<2x16x8xf16>, %skip: tensor<2x16x8xf16>, %emb: tensor<2x1x8xf16>) -> tensor<2x16x8xf16> {
  %w = dpu.param "w" : tensor<8x8xf16>
  %w2 = dpu.param "w2" via ["transpose", "rows:0:16"] : tensor<16x8xf16>
  %k3 = dpu.param "k3" : tensor<8x8x3x3xf16>
  %k6 = dpu.param "k6" : tensor<8x16x3x3xf16>
  %w3 = dpu.param "w3" : tensor<8x16xf16>
  %g = dpu.param "g" : tensor<8xf16>
  %gg = dpu.param "gg" : tensor<16xf16>
  %t = dpu.silu %emb : tensor<2x1x8xf16> -> tensor<2x1x8xf16> loc("/time/Silu"("unet.onnx":0:0))
  %temb = dpu.linear %t, %w bias %g : tensor<8xf16> : tensor<2x1x8xf16>, tensor<8x8xf16> -> tensor<2x1x8xf16>
    loc("/time/Gemm"("unet.onnx":0:0))
  %c = dpu.conv %x concat %skip : tensor<2x16x8xf16>, %k6 bias %g : tensor<8xf16> temb %temb : tensor<2x1x8xf16>
    size 4 x 4 stride 1 {pad = array<i64: 1, 1, 1, 1>} : tensor<2x16x8xf16>, tensor<8x16x3x3xf16>
    -> tensor<2x16x8xf16> loc("/conv1/Conv"("unet.onnx":0:0))
  %s = dpu.conv %skip, %k3 size 4 x 4 stride 1 {pad = array<i64: 1, 1, 1, 1>}
    : tensor<2x16x8xf16>, tensor<8x8x3x3xf16> -> tensor<2x16x8xf16> loc("/conv2/Conv"("unet.onnx":0:0))
  %n = dpu.group_norm %c concat %s : tensor<2x16x8xf16>, %gg, %gg groups 4 eps 1.0e-5 act "silu"
    : tensor<2x16x8xf16>, tensor<16xf16>, tensor<16xf16> -> tensor<2x16x16xf16>
    loc(fused["/norm/GroupNorm"("unet.onnx":0:0), "/norm/Silu"("unet.onnx":0:0)])
  %u = dpu.conv %n, %k6 residual %c : tensor<2x16x8xf16> size 4 x 4 stride 1 {pad = array<i64: 1, 1, 1, 1>}
    : tensor<2x16x16xf16>, tensor<8x16x3x3xf16> -> tensor<2x16x8xf16> loc("/conv3/Conv"("unet.onnx":0:0))
  %l = dpu.layer_norm %u, %g, %g eps 1.0e-5 : f64 : tensor<2x16x8xf16>, tensor<8xf16>, tensor<8xf16>
    -> tensor<2x16x8xf16> loc("/ln/LayerNorm"("unet.onnx":0:0))
  %q = dpu.linear %l, %w : tensor<2x16x8xf16>, tensor<8x8xf16> -> tensor<2x16x8xf16> loc("/q"("unet.onnx":0:0))
  %k = dpu.linear %l, %w : tensor<2x16x8xf16>, tensor<8x8xf16> -> tensor<2x16x8xf16> loc("/k"("unet.onnx":0:0))
  %v = dpu.linear %l, %w : tensor<2x16x8xf16>, tensor<8x8xf16> -> tensor<2x16x8xf16> loc("/v"("unet.onnx":0:0))
  %a = dpu.attention %q, %k, %v heads 1 scale 0.3535533905932738 key_block 1024 prob_bits 15 : i64
    : tensor<2x16x8xf16>, tensor<2x16x8xf16>, tensor<2x16x8xf16> -> tensor<2x16x8xf16> loc("/sdpa"("unet.onnx":0:0))
  %o = dpu.linear %a, %w residual %u : tensor<2x16x8xf16> : tensor<2x16x8xf16>, tensor<8x8xf16>
    -> tensor<2x16x8xf16> loc("/out"("unet.onnx":0:0))
  %f = dpu.linear %o, %w3 geglu : tensor<2x16x8xf16>, tensor<8x16xf16> -> tensor<2x16x8xf16>
    loc("/ff"("unet.onnx":0:0))
  %z = dpu.linear %f concat %o : tensor<2x16x8xf16>, %w2 act "gelu" : tensor<2x16x8xf16>, tensor<16x8xf16>
    -> tensor<2x16x8xf16> loc("/cat"("unet.onnx":0:0))
  func.return %z : tensor<2x16x8xf16>
}
"""

STAGES = ["quantise", "lower-to-tile", "overlap-prologues", "plan-scratchpad"]


@pytest.fixture(scope="module")
def stages() -> dict[str, str]:
    """The text after each stage, with locations."""
    module = parse_module(TEXT)
    texts = {"canonical": print_module(module, True)}
    for name in STAGES:
        get_pass(name)().apply(context(), module)
        module.verify()
        texts[name] = print_module(module, True)
    return texts


@pytest.mark.parametrize("stage", ["canonical", *STAGES])
def test_round_trip(stages: dict[str, str], stage: str) -> None:
    text = stages[stage]
    again = parse_module(text)
    assert print_module(again, True) == text
    assert print_module(parse_module(print_module(again))) == print_module(again)


@pytest.mark.parametrize("stage", STAGES[1:])
def test_a_stage_continues_from_text(stages: dict[str, str], stage: str) -> None:
    """A pass on the text of the stage before gives the same text as on the module in memory."""
    names = ["canonical", *STAGES]
    module = parse_module(stages[names[names.index(stage) - 1]])
    get_pass(stage)().apply(context(), module)
    assert print_module(module, True) == stages[stage]


def test_locations_survive(stages: dict[str, str]) -> None:
    ops = [op for op in parse_module(stages["quantise"]).walk() if op.name.startswith("dpu.q.")]
    assert all(nodes_of(op) for op in ops)
    found = {op.name: nodes_of(op) for op in ops}
    assert found["dpu.q.group_norm"] == ("/norm/GroupNorm", "/norm/Silu")
    assert ("/ln/LayerNorm", "/q", "/k", "/v") in [nodes_of(op) for op in ops]
    assert {n for op in ops for n in nodes_of(op)} == set(nodes_in(TEXT))
    program = next(iter(parse_module(stages["plan-scratchpad"]).ops))
    words = [op for op in program.walk() if op.name in ("tile.load", "tile.mm", "tile.vec", "tile.store")]
    assert {n for op in words for n in nodes_of(op)} == set(nodes_in(TEXT))


def nodes_in(text: str) -> list[str]:
    """The ONNX nodes that a text names."""
    return [part.split('"')[-1] for part in text.split('"("unet.onnx"')[:-1]]
