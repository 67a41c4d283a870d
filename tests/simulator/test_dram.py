"""DRAM of bursts: clocks worked out by hand, against single commands, C++ against Python.

TOY: one channel, 4 banks in 2 groups (even and odd), pages of 1 KiB, accesses of 32 bytes, every piece in one bank
(stripe 1, so its columns are tCCD_L apart), no refresh, no way to the DRAM. Clocks:

    tBL 2  tRL 5  tWL 3  tRCD 10  tRP 10  tRAS 20  tRC 30  tRTP 4  tWR 6  tRRD_S 3  tRRD_L 5  tFAW 20
    tCCD_S 2  tCCD_L 4  tWTR_S 4  tWTR_L 7  tTURN 1: read to write tRL + tBL + tTURN - tWL = 5

A first access: ACT 0, RD 10, data 15 to 17.
"""

from __future__ import annotations

import json
import random
import subprocess
from pathlib import Path

import numpy as np
import pytest
from dpu.bench.dram import one_channel, random_trace, replay
from dpu.errors import DpuError
from dpu.ir.arch import Arch, load_arch
from dpu.ir.container import Entry
from dpu.ir.cost import Ports
from dpu.ir.isa import DMA, Buffer, Engine, Flag, Opcode, signal_bit, wait_bit, word
from dpu.simulator.dram import native
from dpu.simulator.dram.beats import Beats
from dpu.simulator.dram.core import NEVER, Counters, Note, PythonCore
from dpu.simulator.dram.params import DramFile, Parameter, config, dram_names, load_dram
from dpu.simulator.memory import with_dram
from dpu.simulator.plan import Places, moves, plan
from dpu.simulator.profile import profile
from dpu.simulator.report import ProgramReport, load_report, report_html, write_report
from dpu.simulator.timing import simulate

TIMES: dict[str, int | str] = {
    "tBL": 2, "tRL": 5, "tWL": 3, "tRCDRD": 10, "tRCDWR": 10, "tRP": 10, "tRAS": 20, "tRC": 30, "tRTP": 4, "tWR": 6,
    "tRRD_S": 3, "tRRD_L": 5, "tFAW": 20, "tCCD_S": 2, "tCCD_L": 4, "tWTR_S": 4, "tWTR_L": 7, "tTURN": 1,
    "tREFI": 1000, "tRFC": 100, "tPBR2PBR": 0, "tPBR2ACT": 0,
}  # fmt: skip
REST: dict[str, int | str] = {
    "clock": "100000000", "channels": 1, "bank_groups": 2, "banks": 4, "access_bytes": 32, "page_bytes": 1024,
    "rows": 1024, "interleave_bytes": 1024, "bank_stripe": 1, "order": "row:bank:column:channel", "bank_xor": 0,
    "channel_hash": 0, "refresh": "none", "refresh_banks": 1, "refresh_stagger": 0, "window": 16, "batch": 16,
    "reorder": 1, "request_path": 0, "response_path": 0, "axi_burst_bytes": 1024, "outstanding": 64,
    "buffer_bytes": 65536, "command_buses": 2, "act_clocks": 1,
}  # fmt: skip
TOY = DramFile(
    name="toy",
    kind="hbm2",
    description="numbers to calculate with",
    parameters={
        k: Parameter(value=v, unit="clocks" if k in TIMES else "", source="toy") for k, v in (TIMES | REST).items()
    },
)
PAGE, ROW = 1024, 4096  # bytes to the next bank, to the next row of a bank
TINY = load_arch("dpu_tiny")
END = word(Opcode.END)


def last(requests: list[tuple[int, int, int, bool]], **change: int | str) -> int:
    return replay(TOY.replace(**change), requests)[0].last


def counters(requests: list[tuple[int, int, int, bool]], **change: int | str) -> Counters:
    return replay(TOY.replace(**change), requests)[0]


def test_one_access() -> None:
    assert last([(0, 0, 32, False)]) == 17  # ACT 0, RD 10, data 15 to 17
    assert last([(0, 0, 32, True)]) == 15  # WR 10, data 13 to 15
    assert last([(7, 0, 32, False)]) == 24


def test_columns_of_one_row() -> None:
    """32 reads of one page: RD 10, 14, ... 10 + 31 x 4 = 134, data to 141. In two groups: 2 apart.

    Striped over two banks: ACT 0 and 3 (tRRD_S), RD 10, 13 (tRCD of the second), 15, 17, ... 13 + 30 x 2 = 73, to 80.
    """
    assert last([(0, 0, 1024, False)]) == 141
    assert last([(0, 0, 1024, False)], bank_stripe=2) == 80
    hits = counters([(0, 0, 1024, False)], bank_stripe=2)
    assert (hits.hits, hits.misses, hits.conflicts) == (30, 2, 0)


def test_one_access_a_row_takes_trc() -> None:
    """Same bank: PRE at ACT + tRAS, ACT every 30 clocks."""
    found = counters([(0, k * ROW, 32, False) for k in range(10)])
    assert found.last == 9 * 30 + 17
    assert (found.hits, found.misses, found.conflicts) == (0, 1, 9)
    # A write's recovery is longer than tRAS: WR 10, data to 15, PRE 15 + 6 = 21, ACT 31.
    assert last([(0, k * ROW, 32, True) for k in range(10)]) == 9 * 31 + 15


def test_activations_of_other_banks() -> None:
    """Banks 0, 1, 2, 3 at 0, 3, 6, 9 (tRRD_S), then rows of the same four: tFAW would allow 20, tRC says 30.

    With tFAW 40: the fifth at 40. With banks 0, 2, 0, 2 of one group only: 0 and 5 (tRRD_L).
    """
    banks = [(0, k * PAGE, 32, False) for k in range(8)]
    assert last(banks[:4]) == 9 + 17
    assert last(banks[:5]) == 30 + 17
    assert last(banks[:5], tFAW=40) == 40 + 17
    assert last([banks[0], banks[2]]) == 5 + 17
    assert last([banks[0], banks[2]], tRRD_L=9) == 9 + 17


def test_reads_and_writes_in_turn() -> None:
    """Of one row, each direction alone: RD 10, WR 15 (+5), data to 20, RD 20 + tWTR_L 7 = 27: 17 clocks a pair.

    Without turnaround the columns are 4 apart; 5 - 4 = 1 is lost before a write, 12 - 4 = 8 before a read.
    """
    trace = [(0, k * 32, 32, bool(k % 2)) for k in range(20)]
    found = counters(trace, batch=1)
    assert found.last == 10 + 9 * 17 + 5 + 3 + 2  # the last is the tenth write
    assert (found.turns, found.turnaround) == (19, 10 * 1 + 9 * 8)
    # Up to 16 in one direction: ten reads, then ten writes.
    assert counters(trace).last == 10 + 9 * 4 + 5 + 9 * 4 + 3 + 2
    assert counters(trace).turns == 1


def test_refresh_takes_its_share() -> None:
    """A stream of row hits, a column in 2 clocks, each 1,000 clocks a refresh of 100.

    The last column before it at T: PRE T + 4 (tRTP), REF T + 14, ACT T + 114 and (other bank, tRRD_S) T + 117, RD
    T + 124 and T + 127. Without it the second would have been at T + 4: a refresh costs 123 clocks, tRFC of them 100.
    """
    change = {"bank_stripe": 2, "refresh": "all", "page_bytes": 65536, "interleave_bytes": 65536}
    trace = [(0, k * 256, 256, False) for k in range(512)]  # one row
    found = counters(trace, **change)
    assert found.refreshes == 8  # by 9,192; the last pieces entered before the one due at 9,000 and go before it
    plain = counters(trace, **(change | {"refresh": "none"})).last
    assert found.last - plain == 8 * 123
    assert found.misses == 2 * (found.refreshes + 1)
    assert found.refresh_wait >= 100 * found.refreshes
    # By bank, two of eight every 250 clocks: only the stream's own two, once in 1,000 clocks, cost it 50 + 23.
    bank = counters(trace, **(change | {"refresh": "bank", "tRFC": 50, "banks": 8, "refresh_banks": 2})).last
    assert bank - plain == plain // 1000 * 73


def test_a_refresh_comes_behind_the_pieces_that_entered_before_it() -> None:
    """32 columns of a row from 255 on (ACT 245), the refresh due at 250; another access of the row arrives at 260.

    The last column goes at 255 + 31 x 4 = 379, PRE 383, REF 393, ACT 493, RD 503, data to 510. Had the access arrived
    before the refresh was due, it would have followed at 383, data to 390.
    """
    change = {"refresh": "all", "tREFI": 250}
    assert last([(245, 0, 1024, False), (260, 0, 32, False)], **change) == 510
    assert last([(245, 0, 1024, False), (249, 0, 32, False)], **change) == 390


def test_refresh_of_one_bank() -> None:
    """One bank of four every 250 clocks: the one behind the newest piece's (bank 3 behind 0) unless a piece needs it.

    REF of bank 3 at 250, over at 350; others need not wait: at 255 a row hit of bank 0 is RD 255, bank 1 is ACT 255 and
    RD 265. A bank that it refreshes: ACT 350. tPBR2ACT 8 puts the ACT of bank 1 off until 258.
    """
    change = {"refresh": "bank", "refresh_banks": 1}
    first = (0, 0, 32, False)
    assert last([first, (255, 32, 32, False)], **change) == 262
    assert last([first, (255, PAGE, 32, False)], **change) == 272
    assert last([first, (255, 3 * PAGE, 32, False)], **change) == 367
    assert last([first, (255, PAGE, 32, False)], **change, tPBR2ACT=8) == 275
    # The refresh is ready at 250 and an ACT at 248 would put it off to 251 (tRRD_S): the ACT waits until it has gone.
    late = {"tREFI": 1000, "tPBR2ACT": 8}
    assert last([first, (248, PAGE, 32, False)], **change, **late) == 248 + 17  # it entered before: the refresh waits
    # Banks 0 and 2 are open, a piece in bank 1 has 32 columns from 250 to 374: bank 0 is behind it and nobody needs it:
    # PRE 250, REF 260 to 360. An access to bank 0 that arrives at 255: ACT 360, RD 376 (behind bank 1's, other group).
    trace = [first, (30, 2 * PAGE, 32, False), (240, PAGE, 1024, False), (255, 32, 32, False)]
    found = counters(trace, **change)
    assert (found.last, found.misses) == (376 + 7, 4)
    # With tPBR2PBR 300 the second refresh, due at 500, waits until 550: its bank 2 is free at 650.
    trace = [first, (510, 2 * PAGE, 32, False)]
    assert last(trace, **change) == 600 + 17
    assert last(trace, **change, tPBR2PBR=300) == 650 + 17


def test_commands_share_a_bus() -> None:
    """RD of a first access at 10. An access of another bank arrives at 10: ACT 11 with one bus, 10 with two.

    Arriving at 9: ACT takes two slots, 9 and 11; tRCD counts from the first.
    """
    one: dict[str, int | str] = {"command_buses": 1, "act_clocks": 2}
    first = (0, 0, 32, False)
    assert last([first, (10, PAGE, 32, False)]) == 10 + 17
    assert last([first, (10, PAGE, 32, False)], **one) == 11 + 17
    assert last([first, (9, PAGE, 32, False)], **one) == 9 + 17
    # PRE of bank 0 is allowed at 20 (tRAS), an older ACT of bank 1 has arrived then: PRE 21, or 22 where ACT takes two.
    trace = [first, (20, PAGE, 32, False), (20, ROW, 32, False)]
    assert last(trace) == 21 + 10 + 17
    assert last(trace, act_clocks=2) == 22 + 10 + 17
    # Banks 0 and 2 of one group: ACT 0 and 2 (tRRD 2), RD 10 and 14. At 10 come banks 1 and 3: ACT 11 and 13 (and 15),
    # RD 21 and 25 (tCCD_L), data to 32. With a bus for columns: ACT 10 and 12, RD 20 and 24.
    trace = [(0, 0, 32, False), (0, 2 * PAGE, 32, False), (10, PAGE, 32, False), (10, 3 * PAGE, 32, False)]
    assert last(trace, tRRD_S=2, tRRD_L=2, tFAW=4, **one) == 32
    assert last(trace, tRRD_S=2, tRRD_L=2, tFAW=4, act_clocks=2) == 31


def test_an_idle_channel_catches_up_with_refresh() -> None:
    """By clock 1,000,500 a thousand refreshes were due; the last began at 1,000,000 and is over."""
    found = counters([(0, 0, 32, False), (1_000_500, 0, 32, False)], refresh="all")
    assert found.refreshes == 1000
    assert found.last == 1_000_500 + 17  # the row was closed
    assert counters([(1_000_050, 0, 32, False)], refresh="all").last == 1_000_100 + 17


def test_who_hits_goes_first() -> None:
    """Row 0, row 1, row 0: in order two conflicts; with reordering the third request goes second."""
    trace = [(0, 0, 32, False), (1, ROW, 32, False), (1, 32, 32, False)]
    assert counters(trace, window=1).conflicts == 2
    assert counters(trace, window=1, reorder=4).conflicts == 1


@pytest.mark.parametrize("name", dram_names())
def test_shipped_files(name: str) -> None:
    """Streams of 32 MB reach 90 % of peak. AWS's cl_mem_perf measured 426 of HBM2's 460.8 GB/s, 92.5 %.

    Closing a row and opening the next costs tRTP + tRP + tRCD after a read and tWL + tBL + tWR + tRP + tRCD after a
    write. HBM2 pays that and tRFC every tREFI: 7.6 and 8.1 %. LPDDR5X refreshes banks that the stream has left, but the
    hash of the bank with the row makes it change rows within a bank twice in eight rows of 8 x 256 clocks (7 ^ r is
    0 ^ (r + 1) for r = 3 and 7): 2 x 44 or 89 of 16,384 clocks, 0.5 and 1.1 %. The last bursts take the rest.
    """
    file = load_dram(name)
    assert all(p.source for p in file.parameters.values())
    t = file.clocks
    for write, recovery in ((False, t("tRTP")), (True, t("tWL") + t("tBL") + t("tWR"))):
        channels = replay(file, [(0, k * 4096, 4096, write) for k in range(8192)])
        rate = 8192 * 4096 * file.clock / max(c.last for c in channels)
        change = recovery + t("tRP") + t("tRCDRD")
        if file.value("refresh") == "all":
            bound = 1 - (t("tRFC") + change) / t("tREFI")
        else:
            bound = 1 - 2 * (change - t("tCCD_S")) / (8 * 8 * 256)
        assert bound - 0.005 < rate / file.peak_bytes_per_second < bound + 0.003
        assert rate > 0.9 * file.peak_bytes_per_second


@pytest.mark.parametrize("name", dram_names())
def test_one_burst_a_row_of_shipped_files(name: str) -> None:
    """64 bytes (two columns in two banks) of each row of one pair of banks, without refresh: the second bank's cycle.

    ACT every tRC, or where it takes longer tRCD + recovery + tRP: reads 13 + 6 + 13 against 44 clocks of HBM2, 20 + 6 +
    20 against 65 (tRAS 45 + tRP 20) of LPDDR5X; writes 13 + 4 + 2 + 15 + 13 = 47 and 20 + 12 + 2 + 37 + 20 = 91.
    """
    file = one_channel(load_dram(name)).replace(refresh="none", bank_xor=0, reorder=1)
    row = file.number("page_bytes") * file.number("banks")
    reads, writes = {"hbm2": (44, 47), "lpddr5x": (65, 91)}[file.kind]
    for write, period in ((False, reads), (True, writes)):
        ends = [replay(file, [(0, k * row, 64, write) for k in range(n)])[0].last for n in (20, 120)]
        assert ends[1] - ends[0] == 100 * period


@pytest.mark.parametrize("name", ["dpu_f2", "dpu_32tops", "dpu_asic"])
def test_shipped_files_fit_their_arch(name: str) -> None:
    arch = load_arch(name)
    file = load_dram(arch.dram.parameters)
    size = [file.number(n) for n in ("channels", "banks", "rows", "page_bytes")]
    assert int(np.prod(size, dtype=np.int64)) == arch.dram.bytes
    c = config(file, arch.clock_hz, 1)
    assert c.cycle * int(arch.clock_hz) == c.tick * file.clock  # whole units on both sides


@pytest.mark.parametrize("name", ["hbm2_vu47p", "lpddr5x_8533_128"])
def test_closed_form_against_single_commands(name: str) -> None:
    """Every trace within 1 %, and most to the clock; results/dram has more of them."""
    file = one_channel(load_dram(name))
    exact = 0
    for seed in range(6):
        trace = random_trace(seed)
        closed, commands = replay(file, trace)[0].last, Beats(file).run(trace)
        assert closed == pytest.approx(commands, rel=0.01)
        exact += closed == commands
    assert exact >= 5
    plain = file.replace(reorder=1, refresh="all", tRFC=280)
    trace = random_trace(3)
    assert replay(plain, trace)[0].last == Beats(plain).run(trace)


def protocol(file: DramFile, trace: list[tuple[int, int, int, bool]]) -> int:
    """Check each command of the command-by-command model against the datasheet times; how many there are."""
    t, banks = file.clocks, file.number("banks")
    group = [b % file.number("bank_groups") for b in range(banks)]
    size = file.number("refresh_banks") if file.value("refresh") == "bank" else banks
    judge = Beats(file)
    judge.run(trace)
    opened, seen, acts, refreshes = set[int](), dict[tuple[str, int], int](), list[int](), list[tuple[int, int]]()

    def after(clock: int, name: str, b: int, gap: int) -> None:
        assert clock - seen.get((name, b), -(1 << 40)) >= gap, (clock, name, b, gap)

    for clock, name, bank in judge.commands:
        for b in range(bank, bank + (size if name == "REF" else 1)):
            if name == "PRE":
                assert b in opened
                opened.remove(b)
                after(clock, "ACT", b, t("tRAS"))
                after(clock, "RD", b, t("tRTP"))
                after(clock, "WR", b, t("tWL") + t("tBL") + t("tWR"))
            elif name == "REF":
                assert b not in opened
                after(clock, "PRE", b, t("tRP"))
                after(clock, "REF", b, t("tRFC"))
            elif name == "ACT":
                assert b not in opened
                opened.add(b)
                after(clock, "PRE", b, t("tRP"))
                after(clock, "ACT", b, t("tRC"))
                after(clock, "REF", b, t("tRFC"))
                assert len(acts) < 4 or clock - acts[-4] >= t("tFAW")
                for other in range(banks):
                    after(clock, "ACT", other, t("tRRD_L") if group[other] == group[b] else t("tRRD_S"))
                    after(clock, "REF", other, t("tPBR2ACT"))
                acts.append(clock)
            else:
                assert b in opened
                after(clock, "ACT", b, t("tRCDRD") if name == "RD" else t("tRCDWR"))
                for other in range(banks):
                    same = group[other] == group[b]
                    after(clock, name, other, t("tCCD_L") if same else t("tCCD_S"))
                    if name == "RD":
                        after(clock, "WR", other, t("tWL") + t("tBL") + (t("tWTR_L") if same else t("tWTR_S")))
                    else:
                        after(clock, "RD", other, t("tRL") + t("tBL") + t("tTURN") - t("tWL"))
        if name == "REF":
            assert not refreshes or clock - refreshes[-1][0] >= t("tPBR2PBR")
            assert not acts or clock - acts[-1] >= t("tRRD_S")
            refreshes.append((clock, bank))
        for b in range(bank, bank + (size if name == "REF" else 1)):
            seen[name, b] = clock
    one_bus = file.number("command_buses") == 1
    # One command a slot; PRE of all banks before their refresh is one command.
    slots = {(c, n, b if one_bus else 0) for c, n, b in judge.commands if one_bus or n not in ("RD", "WR")}
    assert len({c for c, _, _ in slots}) == len(slots)
    # Every bank once in a round, and no refresh later than eight tREFI after it was due.
    around = banks // size
    for k in range(0, len(refreshes) - around, around):
        assert len({b for _, b in refreshes[k : k + around]}) == around
    for k, (clock, _) in enumerate(refreshes):
        assert 0 <= clock - (k + 1) * (t("tREFI") // around) <= 8 * t("tREFI")
    return len(judge.commands)


@pytest.mark.parametrize("name", ["hbm2_vu47p", "lpddr5x_8533_128"])
def test_single_commands_keep_the_datasheet(name: str) -> None:
    file = one_channel(load_dram(name))
    assert sum(protocol(file, random_trace(seed)) for seed in (2, 3, 7)) > 3000


# C++ and Python


def drive(core: native.Core, seed: int, ports: int) -> list[tuple[int, int, int]]:
    """Random transfers of all ports and bursts beside them; reads are opened some cycles late."""
    rng = random.Random(seed)
    calls = []
    for _ in range(60):
        n = tuple(rng.choice([1, 1, 2, 5]) for _ in range(3))
        stride = tuple(rng.choice([64, 640, 1280, 96, 4096]) for _ in range(3))
        calls.append(
            (
                rng.randrange(4000),
                rng.randrange(ports),
                rng.randrange(1 << 22),
                rng.choice([40, 64, 640, 5000]),
                n,
                stride,
            )
        )
    found, opens = [], []
    calls.sort()
    tag = 1000
    while calls or opens or core.due() < NEVER:
        soon = min([c[0] for c in calls[:1]] + [o[0] for o in opens] + [NEVER])
        note, cycle, who = core.step(min(soon, 1 << 40))
        if note != Note.NONE:
            found.append((int(note), cycle, who))
            if note == Note.FIRST:
                opens.append((cycle + rng.choice([0, 0, 30]), who))
        elif opens and min(opens)[0] == soon:
            now, port = min(opens)
            opens.remove((now, port))
            core.open(now, port)
        elif calls:
            now, port, address, inner, n, stride = calls.pop(0)
            core.request(now, port, port % 2 == 1, 1 + inner * n[0] * n[1] * n[2] // 64, address, inner, n, stride)
            tag += 1
            core.submit(now, address ^ 4096, 200, bool(tag % 3), tag)
    return found


@pytest.mark.skipif(native.compiler() is None, reason="no C++ compiler")
@pytest.mark.parametrize("seed", range(6))
def test_compiled_and_python_agree_integer_for_integer(seed: int) -> None:
    change: list[dict[str, int | float | str]] = [
        {},
        {"refresh": "bank", "refresh_banks": 2, "tRFC": 140, "tPBR2PBR": 90, "tPBR2ACT": 7.5, "command_buses": 1},
        {"channels": 2, "outstanding": 2, "buffer_bytes": 8192},
        {"order": "bank:row:column:channel", "bank_stripe": 4, "reorder": 1, "bank_xor": 1, "refresh": "all"},
    ]
    for name in ("hbm2_vu47p", "lpddr5x_8533_128"):
        c = config(load_dram(name).replace(**change[seed % 4]), [250e6, 1e9, 100e6][seed % 3], 6)
        compiled, python = native.NativeCore(c), PythonCore(c)
        assert drive(compiled, seed, 6) == drive(python, seed, 6)
        assert compiled.counters() == python.counters()


BENCH = """
#include <cstdio>
#include <cstring>
#include "dram_model.hpp"
int main() {
  const std::int64_t words[] = {WORDS};
  dpu::dram::Config config;
  static_assert(sizeof(words) == sizeof(config));
  std::memcpy(&config, words, sizeof(config));
  dpu::dram::Model model(config);
  for (int k = 0; k < 8; ++k) model.submit(k, k * 4096 * (k % 3), 4096, k % 2, k);
  for (dpu::dram::Time cycle = 0; model.due() != dpu::dram::kNever; ++cycle)
    for (auto r = model.step(cycle); r.note != dpu::dram::Note::kNone; r = model.step(cycle))
      std::printf("%ld %ld\\n", static_cast<long>(r.cycle), static_cast<long>(r.who));
}
"""


@pytest.mark.skipif(native.compiler() is None, reason="no C++ compiler")
def test_a_bench_in_cpp_uses_the_same_code(tmp_path: Path) -> None:
    """A program that steps every cycle sees each burst in the cycle in which Python sees it; no warnings."""
    c = config(load_dram("hbm2_vu47p"), 250e6, 0)
    (tmp_path / "bench.cpp").write_text(BENCH.replace("WORDS", ", ".join(map(str, c.words))))
    compiler = native.compiler()
    assert compiler is not None
    flags = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Wconversion", "-Werror", "-I", str(native.source_folder())]
    sources = [str(tmp_path / "bench.cpp"), str(native.source_folder() / "dram_model.cpp")]
    subprocess.run([compiler, *flags, *sources, "-o", str(tmp_path / "bench")], check=True)
    printed = subprocess.run([str(tmp_path / "bench")], check=True, capture_output=True, text=True).stdout
    model = PythonCore(c)
    for k in range(8):
        model.submit(k, k * 4096 * (k % 3), 4096, bool(k % 2), k)
    seen = []
    while (report := model.step(NEVER // c.cycle))[0] != Note.NONE:
        seen.append(f"{report[1]} {report[2]}")
    assert printed.splitlines() == seen


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name, value in (("PATH", ""), ("CXX", ""), ("XDG_CACHE_HOME", str(tmp_path)), (native.ENVIRONMENT, "")):
        monkeypatch.setenv(name, value)
    assert isinstance(native.core(config(TOY, 1e8, 1)), PythonCore)
    with pytest.raises(DpuError) as e:
        native.LIBRARY.build()
    assert e.value.text() == (
        "error[E427]: DRAM model: no C++ compiler\n"
        "  why: $CXX, c++, g++ and clang++ were looked for; DPU_DRAM=native asks for the compiled model\n"
        "  try: install one, or unset DPU_DRAM: the same model in Python is about 50 times slower"
    )


# In the timing of programs


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> str:
    """TOY as a file, with 50 ns (5 cycles of dpu_tiny) each way."""
    path = tmp_path_factory.mktemp("dram") / "toy.json"
    path.write_text(TOY.replace(request_path=50, response_path=50).model_dump_json())
    return str(path)


def arch(toy: str, tiles: int = 1) -> Arch:
    return with_dram(TINY.model_copy(update={"tiles": tiles}), toy)


def program(*words: np.ndarray) -> np.ndarray:
    return np.concatenate([*words, END])


def times(arch: Arch, *streams: np.ndarray, tile: int = 0) -> list[tuple[int, ...]]:
    x = simulate(arch, list(streams)).tiles[tile]
    return [tuple(r) for r in np.stack([x.start, x.begin, x.issued, x.visible], axis=1)[:-1].tolist()]


def load(offset: int = 0, inner: int = 64, **f: object) -> np.ndarray:
    return word(Opcode.LOAD, buffer=Buffer.ACT, offset=offset, inner=inner, n=[1, 1, 1], **f)


def store(offset: int = 0, inner: int = 64, **f: object) -> np.ndarray:
    return word(Opcode.STORE, base=1, buffer=Buffer.ACT, offset=offset, inner=inner, n=[1, 1, 1], **f)


def test_a_load(toy: str) -> None:
    """The two words of the program lie in the next row of the bank: asked for in cycle 1, on the bus in 2, at the
    channel at 7: ACT 7, RD 17, 21, 25, 29, data to 36, at the port at 41. The LOAD is dispatched at 42, starts at 43.

    64 bytes are two columns and 8 words of ACT. Address at 51, at the channel at 56: PRE 56, ACT 66, RD 76 and 80,
    data to 87. At the port at 92, through it (a word a cycle) by 100, done 3 later.
    """
    assert times(arch(toy), program(load())) == [(43, 92, 100, 103)]


def test_two_tiles_on_one_bank_or_two(toy: str) -> None:
    """Programs in rows of bank 0: that of tile 0 as above, that of tile 1 behind it: PRE at RD + tRTP = 33, ACT 43, RD
    53 to 65, data to 72, at the port at 77, so its LOAD starts at 79; its address is at the channel at 92.

    Tile 0's LOAD came at 56: PRE 65 + tRTP = 69, ACT 79, RD 89 and 93. Same bank, next row: PRE at ACT + tRAS = 99, ACT
    109, RD 119 and 123, data to 130, at the port at 135. Next bank: ACT 92, RD 102 and 106, data to 113, port 118.
    """
    same = times(arch(toy, 2), program(load()), program(load(ROW)), tile=1)
    other = times(arch(toy, 2), program(load()), program(load(PAGE)), tile=1)
    assert same == [(79, 135, 143, 146)]
    assert other == [(79, 118, 126, 129)]


def test_a_store_and_who_waits_for_it(toy: str) -> None:
    """Four instructions, RD 17 to 45, data to 52, at the port at 57: the STORE starts at 59. Its 64 bytes leave from 67
    to 75, at the channel at 80: PRE 80, ACT 90, WR 100 and 104, data to 109, response at 114.

    Done at 115. The fence behind it is done a cycle later, and its token counts from 117 on.
    """
    t = program(store(), store(inner=0, signal=signal_bit(Engine.LOAD)), load(wait=wait_bit(Engine.STORE)))
    found = times(arch(toy), t)
    assert found[0] == (59, 67, 75, 115)
    assert found[1][3] == 116
    assert found[2][0] == 117


def test_drain_waits_for_transfers_in_flight(toy: str) -> None:
    """Three instructions: RD 17 to 37, port 49, start 51; data 59 to 67, channel 72: PRE 72, ACT 82, WR 92 and 96, data
    to 101, response 106, done 107."""
    t = program(store(), store(4096, flags=int(Flag.DRAIN)))
    assert [x[0] for x in times(arch(toy), t)] == [51, 108]


def test_outstanding_bursts(toy: str, tmp_path: Path) -> None:
    """Four runs of 64 bytes in four rows of a bank, one burst each. With one outstanding each waits for the one before.

    A run is 8 words of ACT: 8 cycles in the port.
    """
    runs = word(Opcode.LOAD, buffer=Buffer.ACT, inner=64, n=[4, 1, 1], dstride=[ROW, 0, 0], sstride=[8, 0, 0])
    path = tmp_path / "one.json"
    path.write_text(TOY.replace(request_path=50, response_path=50, outstanding=1).model_dump_json())
    # All at once: as above, then rows 30 apart, the last at 92 + 90 = 182, through by 190.
    assert times(arch(toy), program(runs))[0][1:3] == (92, 190)
    # One at a time: sent at 51, then when the one before has passed, at 100: 105 at the channel; the row before can be
    # closed (ACT 66 + 20): ACT 115, RD 125 and 129, data to 136, port 141 to 149. Each further one 49 later: 198, 247.
    assert times(arch(str(path)), program(runs))[0][1:3] == (92, 247)


def test_counters_and_what_is_not_modelled(toy: str) -> None:
    t = simulate(arch(toy), [program(load(), load(ROW), store(8192, 100))])
    assert t.channels is not None
    assert t.channels.total.bytes_read == 128 + 4 * 64  # and four instructions
    assert t.channels.bytes == [384 + 128]  # 100 bytes are two beats
    assert t.channels.hit_rate == 12 / 16  # a row each for the instructions, the LOADs and the STORE
    assert any("lateral links" in x for x in t.not_modelled)
    assert not any("one sustained rate" in x for x in t.not_modelled)
    assert t.dram[-1][1] == 0
    assert simulate(TINY, [END]).channels is None


def test_the_report_has_a_row_a_channel(toy: str, tmp_path: Path) -> None:
    """The same program: sixteen accesses, four of which open rows (0, 1 and the program's of bank 0, the STORE's)."""
    words = [program(load(), load(ROW), store(8192, 100))]
    entry = Entry(name="unet", inputs=(), outputs=(), sources=())
    report = profile(entry, words, simulate(arch(toy), words), arch(toy))
    assert report.dram is not None
    row = report.dram.channels[0]
    assert (row.bytes_read, row.bytes_written, row.row_hits, row.row_misses + row.row_conflicts) == (384, 128, 12, 4)
    assert (row.hit_rate, row.turns, report.dram.total) == (12 / 16, 1, row)
    write_report(ProgramReport.of([report]), tmp_path / "out")
    assert load_report(tmp_path / "out").entries == (report,)
    html = (tmp_path / "out" / "report.html").read_text()
    assert "<h2>DRAM channels</h2>" in html and '<td data-v="0.75">75.0 %</td>' in html
    words = [program(load())]
    report = profile(entry, words, simulate(TINY, words), TINY)
    assert report.dram is None and "DRAM channels" not in report_html(ProgramReport.of([report]))


def test_base_registers_lie_one_after_the_other() -> None:
    """Base 0 reaches 4096 + 64 bytes: two pages of 4 KiB, so base 1 begins at 8192. FILL names no bytes."""
    stream = program(load(4096), store(64), load(0, 0))
    p = plan(TINY, stream, Ports(TINY), "x", 0)
    (found,), (at,) = moves(TINY, [p])
    assert found == {0: (4096, 64, (1, 1, 1), (0, 0, 0)), 1: (8192 + 64, 64, (1, 1, 1), (0, 0, 0))}
    assert at == 12288  # the stream, behind the regions
    assert p.words[p.move].view(DMA)["inner"].tolist() == [64, 64]
    (found,), (at,) = moves(TINY, [p], Places({0: 1 << 20, 1: 64}, (1 << 30,)))
    assert (found[0][0], found[1][0], at) == ((1 << 20) + 4096, 128, 1 << 30)


def test_refresh_begins_again() -> None:
    """3.9 us of HBM2 are 975 cycles at 250 MHz; of a file without refresh there is no period."""
    assert config(load_dram("hbm2_vu47p"), 250e6, 4).refresh_period == 975
    assert config(TOY, 250e6, 4).refresh_period == 0


# Errors


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(DpuError) as e:
        load_dram("nosuch")
    assert e.value.text() == (
        "error[E505]: nosuch: no such DRAM parameter file\n"
        f"  try: one of {', '.join(dram_names())}, or the path of a JSON file"
    )
    data = TOY.model_dump()
    del data["parameters"]["tRFC"]
    path = tmp_path / "bad.json"
    path.write_text(json.dumps(data))
    with pytest.raises(DpuError) as e:
        load_dram(str(path))
    assert e.value.text() == (
        f"error[E502]: {path}: field 'parameters': missing tRFC, unknown none\n  try: start from a file in configs"
    )


def test_clocks_without_a_common_multiple() -> None:
    with pytest.raises(DpuError) as e:
        config(TOY.replace(clock="1000000007"), 999999937.0, 1)
    assert e.value.code == "E502"


def test_an_arch_names_its_file() -> None:
    data = TINY.model_dump()
    with pytest.raises(ValueError, match="need a file"):
        Arch.model_validate(data | {"dram": data["dram"] | {"model": "hbm2"}})
    wrong = with_dram(TINY, "hbm2_vu47p")
    wrong = wrong.model_copy(update={"dram": wrong.dram.model_copy(update={"model": "lpddr5x"})})
    with pytest.raises(DpuError) as e:
        simulate(wrong, [END])
    assert e.value.text() == (
        "error[E502]: arch 'dpu_tiny': field 'dram.parameters': 'hbm2_vu47p' is hbm2, the model is lpddr5x\n"
        "  try: start from a file in configs"
    )
    assert with_dram(TINY, "hbm2_vu47p").digest == TINY.digest
