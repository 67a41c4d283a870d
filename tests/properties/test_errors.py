"""What cannot be quantised, lowered or placed is refused by name, with the reason and a way out: verbatim."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.dialects import context, parse_module
from dpu.ir.tile import ProgramOp
from dpu.ir.tile_text import from_text
from dpu.passes.plan_scratchpad import plan
from dpu.passes.quantise import Quantise

from .harness import Net, Value, compile_net

Build = Callable[[Net, Value], Value]


def eye(net: Net, n: int) -> Value:
    return net.param(np.eye(n))


def linear(net: Net, x: Value, **kwargs: object) -> Value:
    return net.linear(x, eye(net, x.shape[2]), **kwargs)  # type: ignore[arg-type]


def conv1(net: Net, x: Value, **kwargs: object) -> Value:
    w = net.param(np.eye(x.shape[2])[:, :, None, None])
    return net.conv(x, w, (1, x.shape[1]), pad=(0, 0, 0, 0), **kwargs)  # type: ignore[arg-type]


def norm(net: Net, x: Value, act: str = "") -> Value:
    c = x.shape[2]
    return net.group_norm(x, net.param(np.ones(c)), net.param(np.zeros(c)), 2, act=act)


def layer_norm(net: Net, x: Value) -> Value:
    c = x.shape[2]
    return net.layer_norm(x, net.param(np.ones(c)), net.param(np.zeros(c)))


def attention(net: Net, x: Value, q: Value | None = None, heads: int = 1, causal: bool = False) -> Value:
    q = q or linear(net, x)
    return net.attention(q, linear(net, x), linear(net, x), heads, 0.125, causal=causal)


def geglu_residual(net: Net, x: Value) -> Value:
    c = x.shape[2]
    return net.linear(x, net.param(np.ones((c, 2 * c))), geglu=True, residual=x)


def conv_and_linear_of_norm(net: Net, x: Value) -> Value:
    n = norm(net, conv1(net, x))
    return linear(net, n, residual=conv1(net, n))


def norm_of_two(net: Net, x: Value) -> Value:
    c = x.shape[2]
    return net.linear(layer_norm(net, x), net.param(np.ones((2 * c, c))), x2=x)


def one_token_read_twice(net: Net, x: Value) -> Value:
    h = linear(net, net.input("t", 1, x.shape[2]))
    net.returns(conv1(net, x, temb=h))
    return linear(net, h)


def used_query(net: Net, x: Value) -> Value:
    q = linear(net, x)
    return linear(net, attention(net, x, q), residual=q)


REFUSED: dict[str, tuple[int, Build, str]] = {
    "no rule": (
        8,
        lambda n, x: n._op(f"gelu {x}", [x], x.shape),
        "error[E220]: operation 'dpu.gelu': 'dpu.gelu' of 1x9x8\n"
        "  why: it has no quantised form on the DPU\n"
        "  try: run the graph passes first (dpuc passes lists them), or keep this part on the host",
    ),
    "GroupNorm of an argument": (
        8,
        norm,
        "error[E221]: operation 'dpu.group_norm': GroupNorm of 1x9x8 whose producer leaves no channel statistics\n"
        "  why: statistics come from the epilogue of a convolution or linear\n"
        "  try: keep this part on the host",
    ),
    "LayerNorm as residual": (
        8,
        lambda n, x: linear(n, x, residual=layer_norm(n, x)),
        "error[E222]: operation 'dpu.layer_norm': LayerNorm read by 'dpu.linear'\n"
        "  why: LayerNorm runs as the prologue of a linear\n"
        "  try: keep this part on the host",
    ),
    "LayerNorm and a second source": (
        8,
        norm_of_two,
        "error[E222]: operation 'dpu.layer_norm': LayerNorm read by a linear with two sources\n"
        "  why: the prologue would normalise both\n"
        "  try: keep this part on the host",
    ),
    "query of SiLU": (
        8,
        lambda n, x: attention(n, x, n.silu(x)),
        "error[E223]: operation 'dpu.attention': operand q is no linear's result\n"
        "  why: its epilogue quantises it\n"
        "  try: keep this part on the host",
    ),
    "query with two readers": (
        8,
        used_query,
        "error[E223]: operation 'dpu.attention': operand q has 2 readers\n"
        "  why: its epilogue quantises it for one\n"
        "  try: compute it once for each reader, or keep this part on the host",
    ),
    "query with an activation": (
        8,
        lambda n, x: attention(n, x, linear(n, x, act="silu")),
        "error[E223]: operation 'dpu.attention': operand q is a linear with an activation\n"
        "  why: its epilogue quantises it and does no more\n"
        "  try: keep this part on the host",
    ),
    "one-token tensor read as two types": (
        8,
        one_token_read_twice,
        "error[E228]: f/dpu.q.linear#2: reads 'f/dpu.q.linear.0' as f16, but it is stored as f32\n"
        "  why: a one-token tensor that is returned or added to an image is float32, other operands are float16\n"
        "  try: compute it twice, or keep one of its readers on the host",
    ),
    "GEGLU and a residual": (
        8,
        geglu_residual,
        "error[E229]: operation 'dpu.linear': GEGLU with a residual\n"
        "  why: its epilogue's second operand is the gate\n"
        "  try: keep this part on the host",
    ),
    "GroupNorm and GELU": (
        8,
        lambda n, x: norm(n, conv1(n, x), "gelu"),
        "error[E229]: operation 'dpu.group_norm': activation 'gelu' after GroupNorm\n"
        "  why: only silu is fused with it\n"
        "  try: keep this part on the host",
    ),
    "GroupNorm as int8 and float16": (
        8,
        conv_and_linear_of_norm,
        "error[E229]: operation 'dpu.group_norm': GroupNorm read by 'dpu.conv' and by 'dpu.linear'\n"
        "  why: its result is int8 for convolutions or float16 for others, not both\n"
        "  try: compute it twice, or keep this part on the host",
    ),
    "a row that does not fit": (
        5000,
        lambda n, x: n.linear(x, n.param(np.ones((5000, 8)))),
        "error[E230]: f/dpu.q.linear: 625 reduction tiles of 8 channels\n"
        "  why: one row must fit the scratchpads of arch 'dpu_tiny'\n"
        "  try: use an arch with larger buffers",
    ),
    "a receptive field that does not fit": (
        2500,
        lambda n, x: n.conv(x, n.param(np.ones((8, 2500, 3, 3))), (3, 3)),
        "error[E230]: f/dpu.q.conv: 313 channel tiles under a 3x3 kernel\n"
        "  why: one row must fit the scratchpads of arch 'dpu_tiny'\n"
        "  try: use an arch with larger buffers",
    ),
    "a kernel that does not fit": (
        8,
        lambda n, x: n.conv(x, n.param(np.ones((8, 8, 15, 15))), (3, 3), pad=(7, 7, 7, 7)),
        "error[E230]: f/dpu.q.conv: a weight panel of 225 taps\n"
        "  why: one row must fit the scratchpads of arch 'dpu_tiny'\n"
        "  try: use an arch with larger buffers",
    ),
    "head dimension": (
        24,
        lambda n, x: attention(n, x, heads=2),
        "error[E231]: f/dpu.q.attention: head dimension 12 is no multiple of the array's 8 columns\n"
        "  why: a head's columns must be whole column tiles, or one head a part of one tile\n"
        "  try: pad the heads, or use an arch whose columns divide the head dimension",
    ),
    "a head that does not fit": (
        1040,
        attention,
        "error[E232]: f/dpu.q.attention: a block of 8 keys with head dimension 1040 does not fit the scratchpads\n"
        "  why: K and V take 4160 of 4096 weight words, scores 1 of 2048 words a row\n"
        "  try: choose a shorter key_block",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(case: str) -> None:
    channels, build, text = REFUSED[case]
    net = Net()
    net.returns(build(net, net.input("x", 9, channels)))
    inputs = {a.name: np.ones(a.shape) for a in net.arguments}
    with pytest.raises(DpuError) as e:
        compile_net(net, "dpu_tiny", inputs)
    assert str(e.value) == text


def test_the_onnx_node_is_named() -> None:
    text = """
      func.func @f(%x: tensor<1x9x8xf16>) -> tensor<1x9x8xf16> {
        %0 = dpu.gelu %x : tensor<1x9x8xf16> -> tensor<1x9x8xf16> loc("/mid/Gelu"("unet.onnx":0:0))
        func.return %0 : tensor<1x9x8xf16>
      }"""
    with pytest.raises(DpuError) as e:
        Quantise().apply(context(), parse_module(text))
    assert (e.value.where, e.value.what) == ("unet.onnx: node '/mid/Gelu'", "'dpu.gelu' of 1x9x8")


def test_buffers_that_do_not_fit_together() -> None:
    module = parse_module("""
      tile.program "f" {
        tile.section tile 0 op 1 stream 0 step 0 phase "main" name "/conv_in"
        %a = tile.alloc 8000 at -1 : i64 : !tile.buffer<"act">
        %b = tile.alloc 300 at -1 : i64 : !tile.buffer<"act">
        tile.load dst(%a) <format = 4, inner = 8, n = [1, 1, 1]>
        tile.load dst(%b) <format = 4, inner = 8, n = [1, 1, 1]>
      }""")
    (program,) = module.ops
    assert isinstance(program, ProgramOp)
    with pytest.raises(DpuError) as e:
        plan(from_text(program), load_arch("dpu_tiny"))
    assert str(e.value) == (
        "error[E233]: /conv_in: a buffer of 300 words does not fit act of tile 0\n"
        "  why: 8000 of 8192 words are in use by the same and the overlapping block\n"
        "  try: use an arch with a larger scratchpad"
    )
