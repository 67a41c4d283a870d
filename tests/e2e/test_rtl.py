"""The compiled UNet on the RTL: every byte of every region as the simulator leaves it. `dpubench rtl-image` has whole
images."""

from __future__ import annotations

import pytest
from dpu.bench.rates import differing, forward
from dpu.codegen.driver import Compiled
from dpu.runtime.rtl_device import RtlDevice
from dpu.runtime.sim_device import SimDevice

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("rtl_tools")]
WORK = ("words", "macs", "read", "written", "fp16_overflow", "nan")


def test_a_guided_forward_of_the_unet_leaves_the_simulators_bytes(compiled: Compiled) -> None:
    program, arch = compiled.program, compiled.program.arch
    sim, modelled = forward(program, SimDevice(arch))
    rtl, measured = forward(program, RtlDevice(arch))
    with sim, rtl:
        compared, bad = differing(program, sim, rtl)
        assert not bad and compared > len(program.constants) > 1 << 20
        for entry, done in sim.completions.items():
            assert [getattr(done.total, w) for w in WORK] == [getattr(rtl.completions[entry].total, w) for w in WORK]
        # The model's cycles of a program whose words are long: its goldens move at half a percent, this is its truth.
        assert abs(measured.cycles / modelled.cycles - 1) < 0.05
