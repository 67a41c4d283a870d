"""Compiled layers: the same program leaves the same bytes in DRAM on the simulator and on the RTL."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from dpu.passes.policy import Policy, Precision

from ..properties.harness import Compiled, Net, compile_net
from .both import Both
from .layers import LAYERS


def compiled(both: Both, name: str, policy: Policy | None = None) -> Compiled:
    rng = np.random.default_rng(list(name.encode()))
    net = Net(2 if name == "conv_sources" else 1)
    inputs = LAYERS[name](net, rng, both.arch.cols)
    return compile_net(net, both.arch, inputs, policy)


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    found = Both(*request.param)
    yield found
    found.close()


def check(both: Both, name: str, policy: Policy | None = None) -> None:
    layer = compiled(both, name, policy)
    total = both.check(layer.streams, layer.regions())
    assert total.macs and (total.fp16_overflow, total.nan) == (0, 0)


@pytest.mark.parametrize("both", [("one", 0)], indirect=True, ids=["8x8"], scope="module")
@pytest.mark.parametrize("name", LAYERS)
def test_layer(both: Both, name: str) -> None:
    check(both, name)


FOUR_AND_FIFTEEN = Policy(name="four and fifteen", default=Precision(weights=4, activations=16))


@pytest.mark.parametrize("both", [("one", 0)], indirect=True, ids=["8x8"], scope="module")
@pytest.mark.parametrize("name", ["linear", "geglu", "conv_sources", "conv_upsample", "self_attention", "group_norm"])
def test_int4_weights_and_15_bit_activations(both: Both, name: str) -> None:
    check(both, name, FOUR_AND_FIFTEEN)


SHAPES = {"8x8 stalled": ("one", 120), "3 of 8x8": ("three", 0), "2 of 16x16": ("two", 50), "64x64": ("large", 0)}


@pytest.mark.slow
@pytest.mark.parametrize("both", SHAPES.values(), indirect=True, ids=SHAPES, scope="module")
@pytest.mark.parametrize("name", LAYERS)
def test_layer_on_other_shapes(both: Both, name: str) -> None:
    check(both, name)
