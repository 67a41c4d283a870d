"""Estimates: their words are those of the lowerings, their cycles those of the timing simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from dpu.bench.blocks import resnet_convs, transformer_block
from dpu.bench.estimate_error import layer_cycles
from dpu.codegen.emit import emit
from dpu.codegen.estimate import Workload, entry_shapes
from dpu.ir import cost
from dpu.ir.arch import Arch, load_arch
from dpu.ir.dialects import parse_module
from dpu.ir.isa import DMA, MM, Engine, Opcode, Words
from dpu.passes.lower import estimate_attention, estimate_linear, estimate_words, estimator
from dpu.passes.lower.estimate_dram import Pattern, Rates, has_l2, l2_times
from dpu.passes.lower.estimator import Estimator, OpEstimate
from dpu.passes.policy import Choices, named_policy
from dpu.passes.quantise import Derived, fetcher, quantise
from dpu.simulator.dram.params import load_dram
from dpu.simulator.memory import with_dram
from dpu.simulator.timing import simulate
from dpu.simulator.timing_result import TileTiming, Timing

BLOCKS = {
    "transformer": transformer_block(2, 512, 384, 6),
    "one sample": transformer_block(1, 320, 128, 2),
    "convolutions": resnet_convs(2, 24, 256),
    "ragged convolutions": resnet_convs(1, 20, 160),
}
LARGER = {"transformer": transformer_block(2, 1600, 960, 15), "convolutions": resnet_convs(2, 56, 448)}
"""Shapes that SDXL does not have."""


def estimated(source: str, arch: Arch, policy: str = "w8a8") -> list[OpEstimate]:
    choices = Choices(named_policy(policy))
    return Estimator(arch).estimate(entry_shapes(parse_module(source), arch, choices=choices))[0]


def compiled(source: str, arch: Arch, policy: str = "w8a8") -> list[Words]:
    module = parse_module(source)
    derived: Derived = {}
    quantise(module, arch, None, derived, choices=Choices(named_policy(policy)))
    zeros = fetcher(lambda source, transform: np.zeros(1, np.float16), derived)
    return emit(module, arch, zeros, {}, constants=False).program.words["block"]


PRECISIONS = [("w8a8", "dpu_f2"), ("w8a8", "dpu_32tops"), *((p, "dpu_f2") for p in ("w8a8-static", "w4a8", "w8a16"))]


@pytest.mark.parametrize(("policy", "arch_name"), PRECISIONS)
@pytest.mark.parametrize("block", BLOCKS)
def test_words_are_those_of_the_program(block: str, arch_name: str, policy: str) -> None:
    """The tile with most words has, but for fences, gate tables and END, the words, bytes and MM cycles estimated."""
    arch = load_arch(arch_name)
    ops = estimated(BLOCKS[block], arch, policy)
    found = []
    for stream in compiled(BLOCKS[block], arch, policy):
        moves = stream[np.isin(stream["opcode"], (Opcode.LOAD, Opcode.STORE))].view(DMA)
        real = moves[(moves["inner"] > 0) & (moves["buffer"] != 5)]
        others = stream[np.isin(stream["opcode"], (Opcode.MM, Opcode.VEC))]
        mm = stream[stream["opcode"] == Opcode.MM].view(MM)
        found.append(
            (len(real) + len(others), int(cost.mm_stream(arch, mm).sum()), int(cost.dma(arch, real).bytes.sum()))
        )
    words, mxu, moved = max(found)
    assert sum(o.words for o in ops) == words
    assert sum(o.mxu for o in ops) == mxu
    own = sum(o.load + o.store for o in ops) * 64  # bytes of a tile are at most those of its ports' cycles
    assert own >= moved


@pytest.mark.parametrize(("policy", "arch_name"), PRECISIONS)
@pytest.mark.parametrize("block", LARGER)
def test_cycles_are_those_of_the_simulation(block: str, arch_name: str, policy: str) -> None:
    """Within the bound of a layer, 10 %, on shapes that nobody looked at. Runs of a millisecond: in those of 100,000
    cycles, waits of tiles for each other count, which estimates leave out."""
    arch = load_arch(arch_name)
    cycles = sum(o.cycles for o in estimated(LARGER[block], arch, policy))
    assert cycles == pytest.approx(simulate(arch, compiled(LARGER[block], arch, policy), "block").cycles, rel=0.10)


def test_two_passes_are_one_useful_product() -> None:
    """15-bit activations execute every MAC of linears and convolutions twice, and no more of the graph."""
    arch = load_arch("dpu_f2")
    for block in ("transformer", "convolutions"):
        narrow, wide = (estimated(LARGER[block], arch, p) for p in ("w8a8", "w8a16"))
        for a, b in zip(narrow, wide, strict=True):
            assert a.macs == b.macs and a.passes == 1
            if b.kind in ("dpu.q.linear", "dpu.q.conv"):
                assert b.passes == 2 and b.executed == 2 * a.executed
            elif b.kind == "dpu.q.attention":
                # Two of three products instead of one of two; column sums of V, which offset probabilities need, not.
                assert b.passes == 1.5 and b.executed == pytest.approx(1.5 * a.executed, rel=0.01)


@pytest.mark.parametrize("arch_name", ["dpu_f2", "dpu_asic"])
def test_repetitions_that_are_left_out_take_as_long_as_those_that_are_timed(
    arch_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    arch, source = load_arch(arch_name), transformer_block(2, 4096, 640, 10)
    few = estimated(source, arch)
    for module in (estimate_attention, estimate_linear, estimate_words):
        monkeypatch.setattr(module, "kept", lambda n, *_: estimate_words.Kept(tuple(range(n))))
    monkeypatch.setattr(estimator, "HISTORY", 1 << 30)
    all_of_them = estimated(source, arch)
    assert [o.words for o in few] == [o.words for o in all_of_them]
    assert sum(o.cycles for o in few) == pytest.approx(sum(o.cycles for o in all_of_them), rel=0.005)


@pytest.mark.parametrize("l2_bytes", [0, 3 << 19, 32 << 20])
def test_dram_bytes_are_those_behind_the_l2(l2_bytes: int) -> None:
    """24 tiles; of the six linears' weights those of the two large ones (3.7, 7.4 MB) do not fit 1.5 MiB; the others
    do, with room for the panels by which tiles drift apart. What the channels of the simulated DRAM move, without
    instructions."""
    arch = load_arch("dpu_asic").model_copy(update={"l2_bytes": l2_bytes})
    source = LARGER["transformer"]
    words = compiled(source, arch)
    timing = simulate(arch, words, "block")
    assert timing.channels is not None
    moved = sum(timing.channels.bytes) - sum(w.nbytes for w in words)
    ops = estimated(source, arch)
    assert sum(o.bytes for o in ops) == pytest.approx(moved, rel=0.01)
    named = sum(int(t.bus.sum()) for t in timing.tiles)
    assert moved < 0.4 * named if l2_bytes else moved == pytest.approx(named, rel=0.01)


def test_the_l2_of_an_estimate() -> None:
    arch = load_arch("dpu_asic")
    assert has_l2(arch) and not has_l2(with_dram(arch, "simple")) and not has_l2(load_arch("dpu_f2"))
    assert l2_times(arch).tolist() == [64 + 4, 1024, 4]
    few, many = (estimated(BLOCKS["transformer"], a) for a in (arch, arch.model_copy(update={"l2_bytes": 0})))
    assert [o.words for o in few] == [o.words for o in many]
    assert sum(o.cycles for o in few) < sum(o.cycles for o in many)


def test_a_layer_is_estimated_once_in_equal_surroundings() -> None:
    """Four equal blocks in a row: the third is as the second, without being timed."""
    arch = load_arch("dpu_f2")
    shapes = entry_shapes(parse_module(transformer_block(2, 512, 384, 6)), arch)[0]
    ops = shapes.ops
    tensors = 1 + max(t for op in ops for t in op.writes)
    chain = []
    for n in range(4):
        for op in ops:
            reads = tuple(t + n * tensors if t >= 0 else (op.reads[0] if n == 0 else -1) for t in op.reads)
            writes = tuple(t + n * tensors if t >= 0 else -1 for t in op.writes)
            chain.append(type(op)(f"{n}{op.name}", op.kind, op.where, op.shape, reads, writes, op.macs))
    found = Estimator(arch).estimate([type(shapes)("block", tuple(chain))])[0]
    cycles = [[o.cycles for o in found[n * len(ops) : (n + 1) * len(ops)]] for n in range(4)]
    assert cycles[2] == cycles[1]
    assert min(min(c) for c in cycles) > 0


def test_a_further_arch_does_not_need_the_graph() -> None:
    workload = Workload(Path("configs/workload/sdxl_base")) if Path("configs/workload").is_dir() else None
    if workload is None:
        pytest.skip("not in the repository's root")
    workload.modules = {"text_encoder": workload.modules["text_encoder"]}
    workload.estimate(load_arch("dpu_f2"))
    workload.modules = {}
    found = workload.estimate(load_arch("dpu_asic"))
    assert [e.entry for e in found] == ["text_encoder"]
    assert found[0].cycles == sum(o.cycles for o in found[0].ops)


def test_layers_add_up_to_the_run() -> None:
    """Tags 1, 2, 3 on two tiles; 3 is done before 2 on one of them, but not on both."""

    def tile(visible: list[int]) -> TileTiming:
        n, zero = len(visible), np.zeros(len(visible), np.int64)
        engine = np.array([int(Engine.MXU)] * (n - 1) + [int(Engine.CTRL)])
        tags = np.array([1, 2, 3, 0])
        return TileTiming(engine, tags, zero, zero, zero, np.array(visible), zero, zero, zero, {}, {})

    timing = Timing(load_arch("dpu_f2"), "x", 100, [tile([10, 50, 40, 99]), tile([20, 30, 70, 99])], [], ())
    assert layer_cycles(timing, [1, 2, 3]) == [20, 30, 20]


def test_the_rates_of_the_dram_are_those_of_its_model() -> None:
    """On 4 tiles: a stream costs least, shorter runs more, and what is written more than what is read."""
    rates = Rates(load_dram("lpddr5x_8533_128"), 1e9, 4)
    reads = [rates.cost(Pattern(False, True, run, stride))[0] for run, stride in ((513, 0), (256, 1280), (64, 1280))]
    assert 1.0 <= reads[0] < reads[1] < reads[2]
    assert rates.cost(Pattern(True, True, 64, 1280))[0] > reads[2]
