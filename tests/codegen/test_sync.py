"""Semaphores against an oracle: engines run with random timing, and every word must see what sequential order gives it.

The oracle executes words as tokens allow, one at a time per engine. A word reads when it starts and its results appear
when it ends; in between what it writes is poisoned. So a missing order shows as a wrong version on some schedule.
"""

from __future__ import annotations

import random
import time
from collections import Counter

import numpy as np
import pytest
from dpu.codegen import sync
from dpu.codegen.sync import insert_semaphores
from dpu.codegen.witness import check_program
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.isa import (
    DMA,
    ENGINE_OF,
    RED_ACCUMULATE,
    Buffer,
    Engine,
    Flag,
    Format,
    MmMode,
    Opcode,
    Operand,
    Reduce,
    RowMax,
    Words,
    empty,
    pack,
    signal_bit,
    wait_bit,
    word,
)
from dpu.ir.operands import accesses

TINY = load_arch("dpu_tiny")
C = TINY.cols
Order = list[tuple[int, int]]
REGION = {0: 4096, 1: 4096, 2: 4096, 3: 4096}


def tiny(tiles: int) -> Arch:
    return TINY.model_copy(update={"tiles": tiles})


def load(base=1, offset=0, rows=1, buffer=Buffer.ACT, at=0, inner=C) -> Words:
    return word(
        Opcode.LOAD,
        base=base,
        offset=offset,
        buffer=buffer,
        sram=at,
        inner=inner,
        n=(rows, 1, 1),
        dstride=(inner, 0, 0),
        sstride=(1, 0, 0),
    )


def store(base=1, offset=0, rows=1, buffer=Buffer.ACT, at=0, inner=C) -> Words:
    return word(
        Opcode.STORE,
        base=base,
        offset=offset,
        buffer=buffer,
        sram=at,
        inner=inner,
        n=(rows, 1, 1),
        dstride=(inner, 0, 0),
        sstride=(1, 0, 0),
    )


def mm(act=0, wgt=0, acc=0, rows=1, mode=MmMode.ZERO, **more) -> Words:
    return word(Opcode.MM, act=act, wgt=wgt, acc=acc, nx=rows, ny=1, sx=1, nc=1, nkx=1, nky=1, nn=1, mode=mode, **more)


def vec(acc=0, rows=1, d=0, buffer=Buffer.ACT, fmt=None, **more) -> Words:
    return word(
        Opcode.VEC,
        rows=rows,
        tiles=1,
        valid=C,
        b_src=Buffer.NONE,
        d_src=pack(buffer, fmt if fmt is not None else Format.F16 if buffer == Buffer.VBUF else Format.I8),
        d=d,
        d_rs=1,
        **({"a_src": pack(Buffer.ACC, Format.I32), "a": acc, "a_rs": 1} | more),
    )


END = word(Opcode.END)


def program(tiles: int, rng: random.Random, n: int) -> tuple[Order, list[Words]]:
    """Random words on few addresses, so that hazards of all kinds abound."""
    streams: list[list[Words]] = [[] for _ in range(tiles)]
    order = []
    for _ in range(n):
        t = rng.randrange(tiles)
        rows, at = rng.randint(1, 3), rng.randrange(6)
        base, offset = rng.choice([0, 1, 1, 1, 2]), C * rng.randrange(8)
        kind = rng.randrange(6)
        if kind == 0:
            one = load(base, offset, rows, rng.choice([Buffer.ACT, Buffer.WGT, Buffer.VBUF]), at)
        elif kind == 1:
            one = store(max(1, base), offset, rows, rng.choice([Buffer.ACT, Buffer.VBUF]), at)
        elif kind == 2:
            rowmax = rng.choice(list(RowMax))
            one = mm(
                at,
                rng.randrange(3),
                rng.randrange(4),
                rows,
                rng.choice(list(MmMode)),
                rowmax=rowmax,
                rowmax_at=rng.randrange(4),
                init_at=rng.randrange(8),
                valid=C,
            )
        elif kind == 3:
            one = vec(rng.randrange(4), rows, at, rng.choice([Buffer.ACT, Buffer.VBUF]))
        elif kind == 4:
            source = {"a_src": pack(Buffer.VBUF, Format.F16), "a": rng.randrange(6), "a_rs": 1}
            one = vec(0, rows, at, rng.choice([Buffer.ACT, Buffer.VBUF]), m1=Operand.ROW, a1=rng.randrange(6), **source)
        else:
            reduce = Reduce.SUM | rng.choice([0, RED_ACCUMULATE])
            one = vec(rng.randrange(4), rows, at, red=reduce, red_at=rng.randrange(6))
        order.append((t, len(streams[t])))
        streams[t].append(one)
    for t in range(tiles):
        order.append((t, len(streams[t])))
        streams[t].append(END)
    return order, [np.concatenate(s) for s in streams]


class Oracle:
    """Sequential meaning of a program, and its execution under a random schedule."""

    def __init__(self, order: Order, streams: list[Words]) -> None:
        self.order, self.streams = order, streams
        self.reads: dict[tuple[int, int], list] = {}
        self.writes: dict[tuple[int, int], list] = {}
        for t, s in enumerate(streams):
            a = accesses(s, TINY)
            for i in range(len(s)):
                cells: tuple[list, list] = ([], [])
                for b, lo, hi, write in a.local[i]:
                    cells[write].extend((t, b, x) for x in range(lo, hi))
                d = a.dram[i]
                if d is not None:
                    cells[d[3]].extend((-1, d[0], x) for x in range(d[1] // C, -(-d[2] // C)))
                self.reads[t, i], self.writes[t, i] = cells
        memory: dict = {}
        self.want = {}
        for key in order:
            self.want[key] = [memory.get(x) for x in self.reads[key]]
            memory |= dict.fromkeys(self.writes[key], key)
        self.final = memory

    def run(self, seed: int) -> str:
        rng = random.Random(seed)
        queue: dict[tuple[int, Engine], list[int]] = {}
        for t, s in enumerate(self.streams):
            for i in range(len(s)):
                e = ENGINE_OF[Opcode(int(s["opcode"][i]))]
                if e != Engine.CTRL:
                    queue.setdefault((t, e), []).append(i)
        tokens: Counter = Counter()
        memory: dict = {}
        busy: dict = {}
        left = sum(map(len, queue.values()))
        position = dict.fromkeys(queue, 0)
        speed = {k: rng.choice([0.05, 0.3, 0.9]) for k in queue}
        idle = 0
        while left:
            idle += 1
            k = rng.choice(list(queue))
            t, e = k
            if k in busy:
                if rng.random() > speed[k]:
                    idle = 0
                    continue
                i = busy.pop(k)
                memory |= dict.fromkeys(self.writes[t, i], (t, i))
                one = self.streams[t][i]
                tokens.update((t, e, b) for b in range(16) if int(one["signal"]) >> b & 1)
                if e == Engine.STORE:
                    remote = int(self.streams[t][i : i + 1].view(DMA)["remote"][0])
                    tokens.update(("remote", t, b) for b in range(32) if remote >> b & 1)
                left -= 1
                idle = 0
            elif position[k] < len(queue[k]):
                i = queue[k][position[k]]
                one = self.streams[t][i]
                takes = [(t, Engine(b // 4), 4 * e + b % 4) for b in range(16) if int(one["wait"]) >> b & 1]
                if e == Engine.LOAD:
                    remote = int(self.streams[t][i : i + 1].view(DMA)["remote"][0])
                    takes += [("remote", b, t) for b in range(32) if remote >> b & 1]
                if all(tokens[x] > 0 for x in takes):
                    tokens.subtract(takes)
                    if [memory.get(x) for x in self.reads[t, i]] != self.want[t, i]:
                        return f"word {i} of tile {t} reads the wrong version"
                    memory |= dict.fromkeys(self.writes[t, i], "partial")
                    busy[k] = i
                    position[k] += 1
                    idle = 0
            if idle > 200 * len(queue):
                return "deadlock"
        if memory != self.final:
            return "wrong final memory"
        return "tokens left" if any(tokens.values()) else ""


def synchronised(order: Order, streams: list[Words], arch: Arch) -> tuple[list[Words], Order]:
    """Streams with semaphores, and their order as the oracle takes it."""
    new, rows = insert_semaphores(order, streams, arch)
    return new, [(t, i) for t, i in rows.tolist()]


@pytest.mark.parametrize("tiles", [1, 2, 3])
@pytest.mark.parametrize("seed", range(12))
def test_random_programs_compute_the_sequential_result_on_random_schedules(tiles: int, seed: int) -> None:
    order, streams = program(tiles, random.Random(100 * tiles + seed), 90)
    streams, order = synchronised(order, streams, tiny(tiles))
    check_program(streams, tiny(tiles), REGION)
    oracle = Oracle(order, streams)
    assert [oracle.run(s) for s in range(8)] == [""] * 8


def test_the_oracle_sees_a_missing_wait() -> None:
    seen = 0
    for seed in range(6):
        order, streams = program(2, random.Random(seed), 60)
        streams, order = synchronised(order, streams, tiny(2))
        for s in streams:
            s["wait"], s["signal"] = 0, 0
        seen += any(Oracle(order, streams).run(k) for k in range(8))
    assert seen >= 5


def test_few_tokens_still_order_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a small maximum, signals coalesce into later words."""
    monkeypatch.setattr(sync, "MAX_TOKENS", 1)
    monkeypatch.setattr("dpu.codegen.witness.MAX_TOKENS", 1)
    for tiles in (1, 3):
        order, streams = program(tiles, random.Random(5), 120)
        streams, order = synchronised(order, streams, tiny(tiles))
        check_program(streams, tiny(tiles), REGION)
        oracle = Oracle(order, streams)
        assert [oracle.run(s) for s in range(8)] == [""] * 8


def test_one_producer_far_ahead_stays_within_the_token_maximum() -> None:
    n = 300
    words = [load(0, C * i, at=i) for i in range(n)] + [mm(act=i, acc=i % 4, wgt=0) for i in range(n)] + [END]
    streams, _ = insert_semaphores([(0, i) for i in range(len(words))], [np.concatenate(words)], TINY)
    check_program(streams, TINY, {0: C * n})
    assert int((streams[0]["signal"] != 0).sum()) == 255


def test_a_chain_signals_only_its_neighbours() -> None:
    """STORE knows of LOAD and MXU through the VPU's token."""
    chain = [load(0, 0), load(0, 0, buffer=Buffer.WGT, rows=C), mm(), vec(d=1), store(at=1), END]
    (s,), _ = insert_semaphores([(0, i) for i in range(6)], [np.concatenate(chain)], TINY)
    assert s["signal"].tolist() == [
        0,  # covered by the token of the next LOAD
        signal_bit(Engine.MXU),
        signal_bit(Engine.VPU),
        signal_bit(Engine.STORE),
        0,
        0,
    ]
    waits = [0, 0, wait_bit(Engine.LOAD), wait_bit(Engine.MXU), wait_bit(Engine.VPU), 0]
    assert s["wait"].tolist() == waits
    assert s["flags"].tolist() == [0] * 6


def test_drain_only_where_an_engine_reads_its_own_results() -> None:
    source = {"a_src": pack(Buffer.VBUF, Format.F16), "a_rs": 1}
    words = [
        vec(acc=0, d=0, buffer=Buffer.VBUF, fmt=Format.F16),
        vec(d=1, **source),  # reads VBUF 0 just written
        vec(d=2, **source),  # drained by the word before
        vec(d=3, m1=Operand.ROW, a1=3),  # nobody wrote PARAM 3
        mm(acc=0),
        mm(acc=0, mode=MmMode.ACCUMULATE),  # row-pipelined
        mm(acc=0, rowmax=RowMax.INIT, rowmax_at=0, valid=C),
        mm(acc=1, rowmax=RowMax.ACCUMULATE, rowmax_at=0, valid=C),
        mm(acc=2, mode=MmMode.COLUMN, init_at=0),  # reads a row maximum as a vector
    ]
    (s,), _ = insert_semaphores([(0, i) for i in range(len(words))], [np.concatenate(words)], TINY)
    assert np.flatnonzero(s["flags"] & Flag.DRAIN).tolist() == [1, 8]


@pytest.mark.parametrize("seed", range(6))
def test_no_word_reads_its_own_engines_pipeline(seed: int) -> None:
    order, streams = program(2, random.Random(seed), 200)
    streams, order = synchronised(order, streams, tiny(2))
    oracle = Oracle(order, streams)
    found = 0
    for (t, i), versions in oracle.want.items():
        engine = ENGINE_OF[Opcode(int(streams[t]["opcode"][i]))]
        if engine not in (Engine.MXU, Engine.VPU):
            continue
        for cell, writer in zip(oracle.reads[t, i], versions, strict=True):
            if writer is None or ENGINE_OF[Opcode(int(streams[t]["opcode"][writer[1]]))] != engine:
                continue
            if engine == Engine.MXU and cell in oracle.writes[t, i]:
                continue  # accumulation is row-pipelined
            own = [k for k in range(writer[1] + 1, i + 1) if streams[t]["opcode"][k] == streams[t]["opcode"][i]]
            assert any(streams[t]["flags"][k] & Flag.DRAIN for k in own), (t, i, cell)
            found += 1
    assert found


def test_remote_token_for_a_halo() -> None:
    order = [(0, 0), (1, 0)]
    streams, _ = insert_semaphores(order, [store(1, 0), load(1, 0)], tiny(2))
    assert streams[0].view(DMA)["remote"][0] == 0b10 and streams[1].view(DMA)["remote"][0] == 0b01
    assert not streams[0]["signal"].any() and not streams[1]["wait"].any()


def test_write_after_read_on_another_tile_goes_through_fences() -> None:
    order = [(1, 0), (0, 0), (1, 1)]
    streams, new = synchronised(order, [load(1, 0), np.concatenate([store(1, 0), store(1, 0)])], tiny(2))
    assert [s["opcode"].tolist() for s in streams] == [
        [Opcode.LOAD, Opcode.STORE],
        [Opcode.STORE, Opcode.LOAD, Opcode.STORE],
    ]
    assert streams[0].view(DMA)["inner"][1] == 0 and streams[1].view(DMA)["inner"][1] == 0
    assert new == [(1, 0), (0, 0), (0, 1), (1, 1), (1, 2)]
    oracle = Oracle(new, streams)
    assert [oracle.run(s) for s in range(20)] == [""] * 20


def test_an_ordered_store_takes_the_place_of_a_fence() -> None:
    """Tile 0 stores what it computed from the LOAD: that STORE speaks for the LOAD."""
    first = np.concatenate([load(1, 0), mm(), vec(d=1), store(1, 512, at=1)])
    order = [(0, 0), (0, 1), (0, 2), (0, 3), (1, 0)]
    streams, _ = insert_semaphores(order, [first, store(1, 0)], tiny(2))
    assert len(streams[0]) == 4 and len(streams[1]) == 2


def test_constants_and_inputs_need_nothing() -> None:
    words = np.concatenate([load(0, 0), load(3, 0, at=1), load(3, 0, at=1), store(1, 0, at=5)])
    (s,), _ = insert_semaphores([(0, i) for i in range(4)], [words], TINY)
    assert not s["wait"].any()


def test_order_must_hold_every_word_once() -> None:
    words = np.concatenate([load(), load()])
    for order in ([(0, 1), (0, 0)], [(0, 0)], [(0, 0), (0, 0)], [(1, 0)]):
        with pytest.raises(DpuError, match="E340"):
            insert_semaphores(order, [words], TINY)
    with pytest.raises(DpuError, match="E310"):
        insert_semaphores([(0, 0)], [empty(1)], TINY)


def test_speed_of_a_large_program() -> None:
    """30,000 words of a double-buffered matrix product with statistics; aim: 100,000 in 15 s on one idle core."""
    words: list[Words] = []
    for i in range(5000):
        h = i % 2
        words += [
            load(0, 0, 8, Buffer.WGT, 32 * h),
            load(1, C * (i % 256), 8, Buffer.ACT, 16 * h),
            mm(16 * h, 32 * h, 16 * h, 8),
            vec(16 * h, 8, 16 * h, Buffer.VBUF, Format.F16, red=Reduce.SUM_SQ, red_at=64 * h),
            vec(0, 8, 32 + 8 * h, a_src=pack(Buffer.VBUF, Format.F16), a=16 * h, a_rs=1, m1=Operand.ROW, a1=64 * h),
            store(1, 2048 + C * (i % 200), 8, Buffer.ACT, 32 + 8 * h),
        ]
    stream = np.concatenate(words)
    start = time.perf_counter()
    (s,), _ = insert_semaphores([(0, i) for i in range(len(stream))], [stream], TINY)
    seconds = time.perf_counter() - start
    assert len(s) == len(stream)
    assert seconds / len(s) < 600e-6, f"{seconds / len(s) * 1e6:.0f} us a word"
