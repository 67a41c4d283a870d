"""What a program of one entry gives on the simulator, for the tests of what passes make of an operation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from dpu.codegen.emit import Emitted
from dpu.ir.container import Base
from dpu.simulator.machine import Machine

F32 = npt.NDArray[np.float32]


def result(emitted: Emitted, inputs: Mapping[str, F32]) -> F32:
    """The program's result on the simulator."""
    p = emitted.program
    (entry,) = p.entries
    regions = {int(b): np.full(max(p.base_bytes.get(int(b), 0), 64), 0x55, np.uint8) for b in Base}
    regions[int(Base.CONST)][: len(p.constants)] = p.constants
    for slot in entry.inputs:
        rows = regions[slot.base][slot.offset : slot.offset + slot.bytes].reshape(-1, slot.row_bytes)
        data = inputs[slot.name].astype(np.float16).reshape(len(rows), -1)
        rows[:, : 2 * data.shape[1]] = data.view(np.uint8)
    Machine(p.arch, regions).run(p.words[entry.name], entry=entry.name)
    (slot,) = entry.outputs
    rows = regions[slot.base][slot.offset : slot.offset + slot.bytes].reshape(-1, slot.row_bytes)
    return np.ascontiguousarray(rows[:, : 2 * slot.shape[2]]).view(np.float16).reshape(slot.shape).astype(np.float32)
