"""Times that the RTL took, in the form of the timing model's, for the same traces and reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..ir.arch import Arch
from ..ir.cost import Ports
from ..ir.isa import Engine, Words
from ..rtl.model import Times
from ..simulator.plan import ENGINES, plan
from ..simulator.timing_result import TileTiming, Timing

MEASURED = (
    "this is the RTL, cycle by cycle, on a model of DRAM; between `start` and `visible` of a word nothing is known",
)


class EngineCounters(NamedTuple):
    """Cycles of an engine, as its counters say."""

    busy: int
    wait: int
    port: int
    empty: int


def measured(
    arch: Arch,
    entry: str,
    streams: Sequence[Words],
    times: Mapping[int, tuple[Times, Times]],
    start: int,
    cycles: int,
    counters: Sequence[Mapping[Engine, EngineCounters]],
) -> Timing:
    """A run's timing. `times` are the model's cycles in which words start and are done; `start` is when the run did."""
    tiles, ports = [], Ports(arch)
    for t, words in enumerate(streams):
        p = plan(arch, words, ports, entry, t)
        engine = np.array(p.engine)
        begin, done = (np.where(x[: len(p)] < 0, cycles, x[: len(p)] - start) for x in times[t])
        issued = done.copy()
        for e in ENGINES:  # an engine takes the next word when it starts it
            mine = np.flatnonzero(engine == e)
            issued[mine[:-1]] = np.minimum(done[mine[:-1]], begin[mine[1:]])
        said = counters[t]
        tiles.append(
            TileTiming(
                engine=engine,
                tag=p.words["tag"].astype(np.int64),
                start=begin,
                begin=begin,
                issued=np.maximum(issued, begin),
                visible=done,
                macs=p.macs,
                payload=p.payload,
                bus=np.array(p.bytes, np.int64),
                busy={e: said[e].busy for e in ENGINES},
                stalls={
                    **{
                        e: {"semaphore": said[e].wait, "port": said[e].port, "dispatch": said[e].empty} for e in ENGINES
                    },
                    Engine.CTRL: {},
                },
            )
        )
    return Timing(arch, entry, cycles, tiles, [(0, 0.0)], MEASURED)
