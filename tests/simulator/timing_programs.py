"""Random streams for the timing model: any fields within reason, tokens that match or not, several tiles."""

from __future__ import annotations

import numpy as np
from dpu.ir.arch import Arch
from dpu.ir.isa import (
    DMA,
    MM,
    Buffer,
    DmaFormat,
    Engine,
    Flag,
    Format,
    Function,
    MmMode,
    Op2,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    Words,
    pack,
    word,
)

Rng = np.random.Generator


def _one(rng: Rng, *values: int) -> int:
    return int(rng.choice(values))


def _load(rng: Rng, a: Arch) -> Words:
    kind = _one(rng, *[int(DmaFormat.RAW)] * 4, int(DmaFormat.FILL), int(DmaFormat.TRANSPOSE), int(DmaFormat.INT4))
    inner = _one(rng, 0, 8, 40, 64, 96, 200, 1024, 5000)
    pad = [_one(rng, 0, 0, 0, 1, 30) for _ in range(4)]
    buffer = _one(rng, Buffer.ACT, Buffer.WGT, Buffer.VBUF, Buffer.PARAM)
    if kind == DmaFormat.INT4:
        buffer, inner = int(Buffer.WGT), a.cols + a.cols // 2 * _one(rng, 1, 5, 64)
    return word(Opcode.LOAD, format=kind, buffer=buffer, pad=pad, **_move(rng, a, inner))


def _store(rng: Rng, a: Arch) -> Words:
    return word(
        Opcode.STORE, buffer=_one(rng, Buffer.ACT, Buffer.VBUF), **_move(rng, a, _one(rng, 0, 16, 64, 90, 2048))
    )


def _move(rng: Rng, a: Arch, inner: int) -> dict[str, object]:
    return {
        "base": _one(rng, 0, 1, 2),
        "offset": int(rng.integers(1 << 16)) * _one(rng, 1, 64),
        "sram": int(rng.integers(a.words["vbuf"])),
        "inner": inner,
        "n": [_one(rng, 1, 1, 2, 5) for _ in range(3)],
        "dstride": [_one(rng, inner, 64, 96, 640, 4096) for _ in range(3)],
        "sstride": [_one(rng, 1, 4, 100) for _ in range(3)],
    }


def _mm(rng: Rng, a: Arch) -> Words:
    f = {"nx": _one(rng, 1, 3, 16, 64), "ny": _one(rng, 1, 2), "nc": _one(rng, 1, 2, 5), "nkx": _one(rng, 1, 1, 3)}
    f |= {"nky": _one(rng, 1, 1, 2), "nn": _one(rng, 1, 2, 4), "an": _one(rng, 16, 64, 200), "sx": 1, "sc": 16}
    acc = _one(rng, 0, 14, 15, 30, 62, int(rng.integers(a.words["acc"])))  # often the last row of another word
    f |= {"acc": acc, "act": int(rng.integers(a.words["act"]))}
    f |= {"mode": _one(rng, *MmMode), "rowmax": _one(rng, *[int(RowMax.NONE)] * 2, *RowMax)}
    assert set(f) <= set(MM.names or ())
    return word(Opcode.MM, **f)


def _vec(rng: Rng, a: Arch) -> Words:
    sources = [
        (Buffer.ACC, Format.I32),
        (Buffer.VBUF, Format.F16),
        (Buffer.VBUF, Format.F32),
        (Buffer.PARAM, Format.F32),
    ]
    results = [
        (Buffer.ACT, Format.I8),
        (Buffer.VBUF, Format.F16),
        (Buffer.VBUF, Format.F32),
        (Buffer.PARAM, Format.F32),
    ]
    (ab, af), (bb, bf), (db, df) = (sources[rng.integers(4)], sources[rng.integers(4)], results[rng.integers(4)])
    rows, tiles = _one(rng, 1, 2, 7, 16, 40), _one(rng, 1, 1, 2, 3)
    f = {"rows": rows, "tiles": tiles, "valid": int(rng.integers(1, a.cols + 1))}
    for name, buffer in (("a", ab), ("b", bb), ("d", db)):
        room = a.words[Buffer(buffer).name.lower()]
        f |= {name: int(rng.integers(room)), f"{name}_rs": _one(rng, 1, 2, tiles), f"{name}_ts": _one(rng, 1, rows)}
    f |= {"a_src": pack(ab, af), "b_src": pack(bb, bf), "d_src": pack(db, df)}
    f |= {m: pack(_one(rng, 0, Operand.ROW, Operand.COL), _one(rng, 0, Operand.ROW)) for m in ("m1", "m2")}
    f |= {"op2": pack(Op2.ADD, Operand.ELEM) if rng.random() < 0.3 else 0, "sub": _one(rng, 0, 0, 1)}
    f |= {
        "func": _one(rng, 0, 0, Function.RECIP),
        "red": _one(rng, *[0] * 4, *(r | c for r in Reduce for c in (0, 0x10, 0x40))),
    }
    return word(Opcode.VEC, **f)


_MAKE = {Engine.LOAD: _load, Engine.MXU: _mm, Engine.VPU: _vec, Engine.STORE: _store}


def streams(rng: Rng, a: Arch, count: int, broken: bool = False) -> list[Words]:
    """A stream a tile of `count` words. Every token that a word takes was given by an earlier one, or, in a `broken`
    program, perhaps not."""
    found = []
    given: list[int] = [0] * a.tiles  # tokens of tile 0 for LOAD of the others
    for t in range(a.tiles):
        tokens: dict[tuple[int, int], int] = {}  # (consumer, bit of wait): how many
        words = []
        for _ in range(count):
            engine = Engine(int(rng.integers(4)))
            w = _MAKE[engine](rng, a)
            if rng.random() < 0.15:
                w["flags"] = int(Flag.DRAIN)
            for (consumer, bit), n in tokens.items():
                if consumer == engine and n and rng.random() < 0.5:
                    w["wait"] |= 1 << bit
                    tokens[consumer, bit] -= 1
            if broken and rng.random() < 0.05:
                w["wait"] |= 1 << int(rng.integers(16))
            if rng.random() < 0.5:
                consumer, k = int(rng.integers(4)), int(rng.integers(4))
                w["signal"] = 1 << (4 * consumer + k)
                at = (consumer, 4 * int(engine) + k)
                tokens[at] = tokens.get(at, 0) + 1
            if engine == Engine.STORE and t == 0 and rng.random() < 0.5:
                mask = int(rng.integers(1 << a.tiles))
                w.view(DMA)["remote"] = mask
                for k in range(a.tiles):
                    given[k] += mask >> k & 1
            if engine == Engine.LOAD and t and (given[t] or (broken and rng.random() < 0.1)):
                given[t] -= 1
                w.view(DMA)["remote"] = 1
            words.append(w)
        found.append(np.concatenate([*words, word(Opcode.END)]))
    return found
