"""The compiled event loop against the one in Python, on the tiny pipeline."""

from __future__ import annotations

import pytest
from dpu.codegen.driver import Compiled
from dpu.simulator import native_library
from dpu.simulator.memory import with_dram
from dpu.simulator.timing import simulate

from ..simulator.test_timing_native import assert_same

pytestmark = pytest.mark.skipif(native_library.compiler() is None, reason="no C++ compiler")


@pytest.mark.parametrize("memory", ["ideal", "simple", "hbm2_vu47p", "lpddr5x_8533_128"])
def test_every_entry_of_the_tiny_pipeline(compiled: Compiled, memory: str) -> None:
    program = compiled.program
    arch = with_dram(program.arch, memory)
    for entry in program.entries:
        words = program.words[entry.name]
        native, python = (simulate(arch, words, entry.name, native) for native in (True, False))
        assert_same(native, python)
