"""Random words that must stop the DPU: simulator and RTL give the same error for the same word."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..ir.isa import DMA, MM, VEC, Opcode, Words
from ..simulator import load_store, mxu, vpu
from ..simulator.decode import decode
from ..simulator.state import Fault, Tally, Tile
from .rtl_dma_words import Rng
from .rtl_programs import LAST, Program, piece


def _spoil(rng: Rng, w: Words) -> None:
    """Change one field or two of a legal word to any value."""
    kind: np.dtype[np.void] = {Opcode.MM: MM, Opcode.VEC: VEC}.get(Opcode(int(w["opcode"][0])), DMA)
    f = w.view(kind)
    names = [n for n in kind.names or () if n not in ("opcode", "flags", "wait", "signal", "tag", "imm", "remote")]
    for name in rng.choice(names, int(rng.integers(1, 3))):
        raw = f[name].view(np.uint8)
        if rng.random() < 0.5:
            raw.flat[int(rng.integers(raw.size))] = int(rng.integers(256))
        else:
            raw[...] = rng.choice([0, 255])


def spoiled(p: Program, rng: Rng) -> Program:
    """The program with one more word, anywhere behind the beginning, that the simulator refuses whatever the memories
    hold; the program as it is where none was found."""
    t = int(rng.integers(p.arch.tiles))
    words = p.streams[t]
    tile = Tile(p.arch)
    for _ in range(200):
        drawn = piece(rng, p.arch)
        if drawn is None:
            continue
        w = drawn.word.copy()
        _spoil(rng, w)
        w["flags"] = 0
        try:
            f = decode(w)[0]
            tally = Tally()
            if f[0] == Opcode.MM:
                mxu.matrix(tile, f, tally)
            elif f[0] == Opcode.VEC:
                vpu.vector(tile, f, tally)
            else:
                (load_store.load if f[0] == Opcode.LOAD else load_store.store)(tile, p.copies(), f, tally)
        except Fault as e:
            if e.code == "E415":
                continue  # what memories hold decides
            w["tag"] = LAST
            fills = int(np.argmax(words["tag"] > 0))
            at = int(rng.integers(fills, len(words)))  # ahead of END
            streams = list(p.streams)
            streams[t] = np.concatenate([words[:at], w, words[at:]])
            return replace(p, streams=streams, odd=(t, at))
    return p
