"""No mutated program computes something else behind the verifier's back: seeded mutants, in random legal orders."""

from __future__ import annotations

import numpy as np
import pytest
from dpu.bench import mutation_run
from dpu.bench.mutation_nets import three_tiles
from dpu.bench.mutation_run import Subject, file, measure, net
from dpu.bench.mutations import MUTATIONS, Draft
from dpu.codegen.dpufile import save
from dpu.codegen.verify import verify
from dpu.codegen.verify.verify import verify_program
from dpu.ir.arch import load_arch
from dpu.ir.isa import DMA, Flag, Opcode


@pytest.fixture(scope="module")
def subjects() -> list[Subject]:
    return [net(load_arch("dpu_tiny")), net(three_tiles())]


def test_no_mutant_escapes(subjects: list[Subject]) -> None:
    report = measure(subjects, 150, seed=1, schedules=4, latent=0)
    assert report.mutants == 150
    assert not report.escapes, report.text()


@pytest.mark.slow
def test_no_mutant_of_many_escapes(subjects: list[Subject]) -> None:
    report = measure(subjects, 1500, seed=2, schedules=12, latent=0)
    assert not report.escapes, report.text()


def test_order_and_writers_alone_let_nothing_through(subjects: list[Subject], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the extents of rule 1, shifted and exchanged operands are found by their last writers or do no harm."""
    monkeypatch.setattr(verify, "check_extents", lambda *_: None)
    monkeypatch.setattr(mutation_run, "MUTATIONS", {k: MUTATIONS[k] for k in ("operands", "planners")})
    report = measure(subjects, 80, seed=3, schedules=4, latent=0)
    assert not report.escapes, report.text()
    assert sum(r.codes.get("E367", 0) for r in report.rows) >= 5


def test_the_orders_find_missing_tokens_and_drains(subjects: list[Subject]) -> None:
    """The judge can tell: without the tokens of a tile, between tiles, or without drains, some order differs."""
    for subject in subjects:
        for without in ("tokens", "remote tokens", "drains"):
            draft = Draft.of(subject.program, subject.entry.name, (0,))
            for w in draft.words:
                dma = w.view(DMA)
                if without == "tokens":
                    w["signal"] = w["wait"] = 0
                elif without == "drains":
                    w["flags"] &= np.uint8(0xFF & ~Flag.DRAIN)
                else:
                    dma["remote"][np.isin(w["opcode"], (int(Opcode.LOAD), int(Opcode.STORE)))] = 0
            if without != "remote tokens" or len(draft.words) > 1:
                wrong = subject.in_random_orders(draft.program, subject.want, range(16))
                assert wrong, f"{subject.name} without {without}"


def test_a_file_is_judged_as_the_check_does(subjects: list[Subject], tmp_path) -> None:
    """For a file there is no graph: its own stored tensors stand for the interpreter's, with the same verdicts."""
    subject = subjects[0]
    save(subject.program, tmp_path / "x.dpu")
    same = file(tmp_path / "x.dpu")
    verify_program(same.program)
    assert not same.reports(same.program) and not subject.reports(subject.program)
    changed = 0
    for seed in range(30):
        draft = Draft.of(subject.program, subject.entry.name, (seed,))
        if MUTATIONS["data"]["immediate"](draft) is None:
            continue
        reported = subject.reports(draft.program)
        assert same.reports(draft.program) == reported
        changed += reported
    assert changed >= 5
