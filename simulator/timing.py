"""Cycle-level timing of a program, event by event, from the same words that the functional machine executes.

Rules, which are those of the RTL (pages of `rtl/doc`; constants and costs from `ir/cost.py`). Tiles start in cycle 0.

- Instructions come in bursts of 16 words, up to 64 words ahead of dispatch, `dram.latency` after they are asked for.
- CTRL dispatches a word a cycle, in stream order; it may start in the next one. A full queue stops CTRL until the cycle
  after that engine starts a word.
- An engine starts its oldest word when it can take it, `drain` is met (all earlier words are done) and all its tokens
  are there. A word's tokens count from the cycle after it is done, remote ones `latency.remote_signal` later.
- MXU: checks a word, loads its weights a tile ahead, and streams rows without a gap; never waits for a port.
- VPU: checks a word, reads operands for two words ahead of the lanes, and lets a beat in when they are there. Where it
  reads ACC in a bank that the MXU reads, it gets the cycles that are left; four elements are read ahead. Results of
  all banks of PARAM wait while the MXU writes row maxima; two groups of row sums do, then no more are added up.
- LOAD, STORE: up to 4 words between start and done. LOAD's addresses go out one burst a cycle, data come `dram.latency`
  later; data phases follow each other in order, without a gap. STORE's response comes `dram.response` after the data.
- The data phase runs at the rate that the DRAM model grants, at most one port's rate, one scratchpad word a cycle and
  one beat a cycle; at a port that MXU or VPU use, in the cycles that they leave. Of the MXU it is known for each cycle
  which bank it reads (`timing_walk.py`), of the VPU on average over a word.
- With a DRAM of bursts (`hbm2`, `lpddr5x`; rules in dram/README.md) requests go to the channels when LOAD's address
  goes out, or STORE's data phase begins; LOAD's begins when its first data are at the port.
- With `l2_bytes` as well, LOADs from the base register of constants (`Base.CONST`: STORE there is illegal, so that the
  L2 is never stale) go through the shared L2 (dram/README.md); LOADs of others, STOREs and instructions pass it by.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.cost import Ports
from ..ir.isa import Engine, Words
from . import timing_native
from .memory import dram_file
from .plan import ENGINES, Places, plan
from .timing_loop import Loop
from .timing_result import (
    BURSTS_NOT_MODELLED,
    FLUID_L2_NOT_MODELLED,
    FLUID_NOT_MODELLED,
    L2_NOT_MODELLED,
    NOT_MODELLED,
    DramTiming,
    Outcome,
    TileTiming,
    Timing,
)


def simulate(
    arch: Arch,
    streams: Sequence[Words],
    entry: str = "program",
    native: bool | None = None,
    places: Places | None = None,
) -> Timing:
    """Time one stream a tile. `native`: whether the compiled event loop runs (`timing_native.py`) or that in Python
    (`timing_loop.py`), with the same result; None: the compiled one, if it can. `places`: as of `plan.addresses`.

    Raises:
        DpuError: E410 an illegal opcode, no END or a wrong number of streams, E414 a deadlock, E427 the compiled loop
            was asked for and cannot be had, E505, E502 the DRAM's parameter file.
    """
    if len(streams) != arch.tiles:
        raise DpuError(
            f"entry '{entry}'", f"{len(streams)} streams for the {arch.tiles} tiles of arch '{arch.name}'", code="E410"
        )
    ports = Ports(arch)
    plans = [plan(arch, w, ports, entry, t) for t, w in enumerate(streams)]
    file = dram_file(arch)
    found: Outcome
    if timing_native.chosen(native) and all(timing_native.regular(p) for p in plans):
        found = timing_native.run(arch, plans, entry, ports, places)
    else:
        loop = Loop(arch, plans, entry, places)
        found = loop.outcome(loop.run())
    missing = NOT_MODELLED + (FLUID_NOT_MODELLED if file is None else BURSTS_NOT_MODELLED)
    if arch.l2_bytes:
        missing += FLUID_L2_NOT_MODELLED if file is None else L2_NOT_MODELLED
    tiles = [
        TileTiming(
            engine=p.engine,
            tag=p.words["tag"].astype(np.int64),
            start=t.start,
            begin=t.begin,
            issued=t.issued,
            visible=t.visible,
            macs=p.macs,
            payload=p.payload,
            bus=p.bytes,
            busy={e: t.busy[e] for e in ENGINES},
            stalls={e: t.stalls[e] for e in Engine},
        )
        for p, t in zip(plans, found.tiles, strict=True)
    ]
    return Timing(
        arch=arch,
        entry=entry,
        cycles=found.cycles,
        tiles=tiles,
        dram=found.dram,
        not_modelled=missing,
        channels=None if file is None or found.channels is None else DramTiming(file, found.channels, found.l2),
    )
