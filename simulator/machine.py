"""The functional machine: the state of all tiles and of DRAM, and the loop that executes streams word by word.

A tile executes its words in stream order, which is one legal order of its engines; tiles run in turn, each until it
waits for a token of another. The engines' work is in `load_store.py`, `mxu.py` and `vpu.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import ENGINE_OF, MAX_TOKENS, Engine, Flag, Opcode, Words
from .decode import (
    SEMAPHORES,
    Decoded,
    bits,
    check_stream,
    deadlock_error,
    semaphore_name,
    signal_ids,
    stream,
    wait_ids,
    where,
)
from .load_store import load, store
from .mxu import matrix
from .state import Fault, Region, Tally, Tile
from .vpu import vector

OnStore = Callable[[int, int, int], None]
"""Called after each STORE with (tile, word index, tag): what the word wrote is in the regions."""


@dataclass
class Counters:
    """What one run executed. `tags` has one tally for each source operation; `total` is their sum."""

    words: dict[Engine, int] = field(default_factory=lambda: dict.fromkeys(Engine, 0))
    tags: dict[int, Tally] = field(default_factory=dict)

    @property
    def total(self) -> Tally:
        total = Tally()
        for t in self.tags.values():
            total.add(t)
        return total


class Stream:
    """Where a tile is in its words, and its semaphores."""

    def __init__(self, words: Words, length: int, tiles: int) -> None:
        self.words, self.length, self.at = words, length, 0
        self.decoded = stream(words[:length])
        self.next: Decoded | None = next(self.decoded)
        self.tokens = [0] * SEMAPHORES
        self.remote = [0] * tiles  # tokens from each source tile


class Machine:
    """The state of a DPU. It outlives runs, as the memories of a card do.

    Args:
        arch: the DPU.
        regions: what each base register points to: a uint8 array, used in place, or a size in bytes. Base 0
            (constants) is never written.
    """

    def __init__(self, arch: Arch, regions: Mapping[int, int | Region]) -> None:
        self.arch = arch
        self.tiles = [Tile(arch) for _ in range(arch.tiles)]
        self.regions: dict[int, Region] = {}
        for base, region in regions.items():
            self.bind(base, np.zeros(region, np.uint8) if isinstance(region, int) else region)

    def bind(self, base: int, region: Region) -> None:
        """Point base register `base` to a one-dimensional uint8 array, without copying it."""
        if region.dtype != np.uint8 or region.ndim != 1 or not region.flags.c_contiguous:
            raise ValueError(f"base {base}: need a contiguous uint8 vector, not {region.dtype} {region.shape}")
        self.regions[int(base)] = region

    def view(self, base: int, offset: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """A tensor in DRAM, in place."""
        return np.ndarray(shape, dtype, self.regions[base], offset)

    def reset(self) -> None:
        """Clear all scratchpads and tables; DRAM keeps its contents."""
        self.tiles = [Tile(self.arch) for _ in range(self.arch.tiles)]

    def run(self, streams: Sequence[Words], on_store: OnStore | None = None, entry: str = "program") -> Counters:
        """Execute one stream a tile to the end.

        Raises:
            DpuError: E410 an illegal word, E411 outside a scratchpad, E412 outside a DRAM region, E413 a semaphore,
                E414 a deadlock, E415 a numeric trap. Each names entry, tile, word and tag.
        """
        states = self.start(streams, entry)
        counters = Counters()
        running = list(range(len(states)))
        while running:
            before = [states[t].at for t in running]
            for t in running:
                self.advance(t, states, counters, on_store, entry)
            if before == [states[t].at for t in running]:
                raise deadlock(entry, running, states)
            running = [t for t in running if states[t].next is not None]
        check_empty(entry, states)
        return counters

    def start(self, streams: Sequence[Words], entry: str) -> list[Stream]:
        """The streams of a run before their first words; `run` and `stepping.Stepper` advance them.

        Raises:
            DpuError: E410, not one stream a tile, an illegal opcode or no END.
        """
        n = len(self.tiles)
        if len(streams) != n:
            raise DpuError(
                f"entry '{entry}'",
                f"{len(streams)} streams for the {n} tiles of arch '{self.arch.name}'",
                why="a program has one stream a tile",
                code="E410",
            )
        return [Stream(w, check_stream(w, entry, t), n) for t, w in enumerate(streams)]

    def advance(self, t: int, states: list[Stream], counters: Counters, on_store: OnStore | None, entry: str) -> None:
        """Execute words of tile `t` until its stream gives no more or it waits for another tile."""
        s, tags = states[t], counters.tags
        words, tokens = counters.words, s.tokens
        while (w := s.next) is not None:
            opcode, _, tag, wait, signal = w[:5]
            engine = ENGINE_OF[opcode]
            try:
                if opcode == Opcode.LOAD and w[5]:
                    sources = bits(w[5])
                    if sources[-1] >= len(states):
                        raise Fault("E410", "remote", f"names tile {sources[-1]}, the arch has {len(states)}")
                    if not all(s.remote[i] for i in sources):
                        return
                elif opcode == Opcode.STORE and w[5]:
                    targets = bits(w[5])
                    if targets[-1] >= len(states):
                        raise Fault("E410", "remote", f"names tile {targets[-1]}, the arch has {len(states)}")
                    if any(states[i].remote[t] >= MAX_TOKENS for i in targets):
                        return  # the producer stalls until a token is taken
                if wait:
                    for k in wait_ids(wait, engine):
                        if not tokens[k]:
                            raise Fault("E413", "wait", f"no token of {semaphore_name(k)} in stream order")
                        tokens[k] -= 1
                tally = tags.get(tag)
                if tally is None:
                    tally = tags[tag] = Tally()
                tally.words += 1
                words[engine] += 1
                if opcode == Opcode.LOAD and w[5]:
                    for i in bits(w[5]):
                        s.remote[i] -= 1
                self.execute(t, s.at, s.words[s.at], w, tally)
                if opcode == Opcode.STORE:
                    if on_store is not None:
                        on_store(t, s.at, tag)
                    for i in bits(w[5]):
                        states[i].remote[t] += 1
                if signal:
                    for k in signal_ids(signal, engine):
                        if tokens[k] >= MAX_TOKENS:
                            raise Fault("E413", "signal", f"{semaphore_name(k)} already holds {MAX_TOKENS} tokens")
                        tokens[k] += 1
            except Fault as e:
                raise DpuError(where(entry, t, s.at, s.words[s.at]), e.what, e.why, code=e.code) from e
            s.at += 1
            s.next = next(s.decoded, None)

    def execute(self, t: int, at: int, word: np.void, w: Decoded, tally: Tally) -> None:
        """What word `at` of tile `t` does to the memories."""
        tile, opcode = self.tiles[t], w[0]
        if opcode == Opcode.MM:
            matrix(tile, w, tally)
        elif opcode == Opcode.VEC:
            bad = tally.fp16_overflow + tally.nan
            vector(tile, w, tally)
            if w[1] & Flag.TRAP and tally.fp16_overflow + tally.nan > bad:
                raise Fault("E415", "flags", trap(tally, bad))
        elif opcode == Opcode.LOAD:
            load(tile, self.regions, w, tally)
        elif opcode == Opcode.STORE:
            store(tile, self.regions, w, tally)


def trap(tally: Tally, before: int) -> str:
    """What a word with the TRAP flag says."""
    count = tally.fp16_overflow + tally.nan - before
    return f"{count} results overflow float16 or are NaN, and the word asks to trap"


def waits_for(t: int, states: Sequence[Stream]) -> str:
    """What tile `t` needs of another tile before its next word, or nothing."""
    s = states[t]
    if s.next is None or s.next[0] not in (Opcode.LOAD, Opcode.STORE) or s.next[5] >> len(states):
        return ""  # a tile that does not exist is an error of the word, found when it is executed
    if s.next[0] == Opcode.LOAD:
        missing = [str(i) for i in bits(s.next[5]) if not s.remote[i]]
        return f"a token of tile {', '.join(missing)}" if missing else ""
    full = [str(i) for i in bits(s.next[5]) if states[i].remote[t] >= MAX_TOKENS]
    return f"room for a token at tile {', '.join(full)}" if full else ""


def deadlock(entry: str, running: Sequence[int], states: Sequence[Stream]) -> DpuError:
    """The error for tiles that all wait."""
    return deadlock_error(
        entry, [(t, s.at, s.words[s.at], waits_for(t, states)) for t in running for s in (states[t],)]
    )


def check_empty(entry: str, states: Sequence[Stream]) -> None:
    """Refuse a run that leaves tokens.

    Raises:
        DpuError: E413.
    """
    for t, s in enumerate(states):
        left = [f"{n} of {semaphore_name(k)}" for k, n in enumerate(s.tokens) if n]
        left += [f"{n} of tile {i}" for i, n in enumerate(s.remote) if n]
        if left:
            raise DpuError(
                f"entry '{entry}' tile {t}",
                f"tokens left at END: {', '.join(left)}",
                why="the next program would start with them",
                code="E413",
            )
