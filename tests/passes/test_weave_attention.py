"""Attention woven into the other stream's matrix work: another order of the same words, the same results."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from dpu.bench.blocks import transformer_block
from dpu.codegen import emit as emit_module
from dpu.codegen.emit import Emitted, emit
from dpu.ir.arch import Arch, load_arch
from dpu.ir.dialects import parse_module
from dpu.ir.graph import ParamOp, shape_of
from dpu.ir.isa import Opcode
from dpu.passes.quantise import Derived, fetcher, quantise
from dpu.simulator.timing import simulate

from .simulated import result

BLOCK = transformer_block(2, 96, 256, 32)
FULL = transformer_block(2, 64, 256, 32)
"""Its blocks of scores are whole banks of ACC, so that its ring has no place for products between them."""


def few_lanes(lanes: int) -> Arch:
    """An array of 8 columns with so many lanes."""
    return load_arch("dpu_tiny").model_copy(update={"name": f"lanes_{lanes}", "lanes": lanes})


def compiled(arch: Arch, source: str = BLOCK) -> Emitted:
    module = parse_module(source)
    derived: Derived = {}
    quantise(module, arch, None, derived)
    shapes = {op.source.data: shape_of(op.value) for op in module.walk() if isinstance(op, ParamOp)}

    def weights(source: str, transform: tuple[str, ...] = ()) -> npt.NDArray[np.float16]:
        rng = np.random.default_rng(list(source.encode()))
        return (rng.standard_normal(shapes[source]) / 8).astype(np.float16)

    return emit(module, arch, fetcher(weights, derived), {})


def plain(monkeypatch: pytest.MonkeyPatch, arch: Arch, source: str = BLOCK) -> Emitted:
    """The same without the pass."""
    with monkeypatch.context() as m:
        m.setattr(emit_module, "weave", lambda program, arch: None)
        return compiled(arch, source)


def test_results_stay_and_cycles_are_won(monkeypatch: pytest.MonkeyPatch) -> None:
    arch = few_lanes(2)
    emitted = [compiled(arch), plain(monkeypatch, arch)]
    new, old = (e.program.words["block"] for e in emitted)
    for opcode in (Opcode.MM, Opcode.VEC):
        tags = [s[0]["tag"][s[0]["opcode"] == opcode] for s in (new, old)]
        assert np.array_equal(np.sort(tags[0]), np.sort(tags[1])) and not np.array_equal(*tags)
    x = {s.name: np.random.default_rng(1).standard_normal(s.shape) for s in emitted[0].program.entries[0].inputs}
    results = [result(e, x) for e in emitted]
    assert np.array_equal(*results) and np.ptp(results[0]) > 1
    assert simulate(arch, new, "block").cycles < simulate(arch, old, "block").cycles


@pytest.mark.parametrize(("lanes", "source"), [(8, BLOCK), (2, FULL)], ids=["many lanes", "no room"])
def test_it_stays(monkeypatch: pytest.MonkeyPatch, lanes: int, source: str) -> None:
    arch = few_lanes(lanes)
    streams = [e.program.words["block"][0] for e in (compiled(arch, source), plain(monkeypatch, arch, source))]
    assert np.array_equal(*streams)
