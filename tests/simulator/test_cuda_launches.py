"""Recorded launches: a run from a plan leaves the bytes, counters and faults of one that decodes every word."""

import shutil
from collections.abc import Sequence

import numpy as np
import pytest
from dpu.bench.blocks import transformer_block
from dpu.bench.functional import compiled
from dpu.errors import DpuError
from dpu.ir.arch import load_arch
from dpu.ir.isa import Buffer, Flag, Format, Opcode, Words, word
from dpu.runtime.cuda_device import CudaDevice
from dpu.runtime.session import Session
from dpu.runtime.sim_device import SimDevice
from dpu.simulator.cuda import launches
from dpu.simulator.cuda.machine import CudaMachine
from dpu.simulator.machine import Machine

pytestmark = pytest.mark.skipif(not shutil.which("c++"), reason="no C++ compiler")

TINY = load_arch("dpu_tiny")


def constant(words: Words) -> Words:
    """As the streams of a program that was read from a file."""
    words.flags.writeable = False
    return words


def run(machine: Machine, streams: Sequence[Words]) -> tuple[object, ...]:
    try:
        counters = machine.run(streams, entry="block")
    except DpuError as e:
        return (str(e),)
    return counters.words, {tag: vars(t) for tag, t in counters.tags.items()}


@pytest.mark.parametrize("how", ["native", "python"])
def test_a_second_run_decodes_nothing_and_computes_the_same(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    monkeypatch.setenv(launches.SWITCH, how)
    program = compiled(transformer_block(1, 24, 32, 2), TINY)
    streams = [constant(w) for w in program.words["block"]]
    regions = {b: np.zeros(n, np.uint8) for b, n in program.base_bytes.items()}
    regions[0] = program.constants
    one, two = Machine(TINY, {b: r.copy() for b, r in regions.items()}), CudaMachine(TINY, regions, "cpu")
    assert two.launcher.native == (how == "native")
    (slot,) = program.entries[0].inputs
    for seed in range(3):
        x = np.random.default_rng(seed).standard_normal(slot.bytes // 2).astype(np.float16)
        one.view(slot.base, slot.offset, x.shape, np.float16)[:] = x
        two.write(slot.base, slot.offset, x)
        assert run(one, streams) == run(two, streams)
        for b, region in one.regions.items():
            assert region.tobytes() == two.regions[b].numpy().tobytes(), (seed, b)
        monkeypatch.setattr(CudaMachine, "execute", None)  # from here on nothing is decoded


def test_streams_that_may_change_are_not_kept() -> None:
    machine = CudaMachine(TINY, {}, "cpu")
    words = np.concatenate([word(Opcode.END)])
    machine.run([words])
    assert not machine._plans
    machine.run([constant(words)])
    assert len(machine._plans) == 1


def test_a_word_of_the_host_traps_in_a_run_from_a_plan() -> None:
    f16 = int(Buffer.VBUF) | int(Format.F16) << 4
    f = {"rows": 1, "tiles": 1, "valid": 8, "a_src": f16, "d_src": f16, "m1": 1, "imm": [2.0, 0.0]}
    trapping = word(Opcode.VEC, flags=Flag.TRAP, tag=7, d=1, **f)  # the host's, because of its flag
    double = word(Opcode.VEC, tag=3, d=2, **f)
    load = word(Opcode.LOAD, base=1, buffer=Buffer.VBUF, inner=16, n=[1, 1, 1])
    store = word(Opcode.STORE, base=2, buffer=Buffer.VBUF, sram=2, inner=16, n=[1, 1, 1])
    streams = [constant(np.concatenate([load, double, trapping, store, word(Opcode.END)]))]
    regions = {b: np.zeros(64, np.uint8) for b in (1, 2)}
    one, two = Machine(TINY, {b: r.copy() for b, r in regions.items()}), CudaMachine(TINY, regions, "cpu")
    for value in (1.5, 2.5, 40000.0, 3.5):
        x = np.full(8, value, np.float16)
        one.view(1, 0, (8,), np.float16)[:] = x
        two.write(1, 0, x)
        found = run(one, streams)
        assert found == run(two, streams)
        assert (len(found) == 1) == (value == 40000.0)
        if len(found) == 2:
            assert one.regions[2].tobytes() == two.regions[2].numpy().tobytes()
    assert len(two._plans) == 1


def test_other_regions_make_another_plan() -> None:
    load = word(Opcode.LOAD, base=1, buffer=Buffer.VBUF, inner=16, n=[1, 1, 1])
    streams = [constant(np.concatenate([load, word(Opcode.END)]))]
    machine = CudaMachine(TINY, {1: np.zeros(64, np.uint8)}, "cpu")
    machine.run(streams)
    machine.bind(1, np.zeros(8, np.uint8))
    with pytest.raises(DpuError, match="E412"):
        machine.run(streams)


def test_a_device_runs_from_the_plan_and_counts_what_the_kernels_count(monkeypatch: pytest.MonkeyPatch) -> None:
    program = compiled(transformer_block(1, 24, 32, 2), TINY)
    for words in program.words["block"]:
        constant(words)
    (slot,), (out,) = program.entries[0].inputs, program.entries[0].outputs
    x = np.random.default_rng(3).standard_normal(slot.shape).astype(np.float32)
    with (
        Session(program, SimDevice(TINY, timed=False)) as one,
        Session(program, CudaDevice(TINY, timed=False, device="cpu")) as two,
    ):
        for scale in (1.0, 60000.0):  # the residuals overflow float16
            found = [s.run("block", {slot.name: x * np.float32(scale)})[out.name].tobytes() for s in (one, two)]
            assert found[0] == found[1]
            assert vars(one.device.counters()) == vars(two.device.counters())
            assert one.exceptions == two.exceptions
            monkeypatch.setattr(CudaMachine, "execute", None)  # from here on nothing is decoded
        assert one.device.counters().fp16_overflow > 0
