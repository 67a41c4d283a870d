"""A short run of every fuzzer with fixed seeds, in the process and with the limits of `dpubench fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest
from dpu.bench import fuzz as fuzzing
from dpu.bench import fuzz_worker
from dpu.bench.fuzz_subjects import SUBJECTS
from dpu.errors import DpuError

CASES = {"onnx": 200, "dpu": 250, "json": 250, "text": 150}  # each about 10 s on a shared core


@pytest.mark.parametrize("name", fuzzing.FORMATS)
def test_no_case_ends_in_anything_but_success_or_an_error_of_ours(name: str) -> None:
    found = fuzzing.fuzz(name, CASES[name])
    assert found.findings == [], found.text()
    assert found.cases == sum(found.outcomes.values()) == CASES[name]
    assert found.outcomes["ok"] > CASES[name] // 50  # some damage is none: the limits and the reader are alive


def test_the_formats_are_those_that_have_a_subject() -> None:
    assert tuple(SUBJECTS) == fuzzing.FORMATS


def test_a_case_that_fails_hangs_or_says_nothing_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fuzz_worker, "SECONDS", 0.05)

    def fail(seed: int) -> None:
        if seed == 0:
            raise ValueError("broken")
        if seed == 1:
            raise DpuError(" ", "what", code="E101")
        if seed == 2:
            raise DpuError("here", "what", code="E101")
        while True:
            pass

    kinds = [fuzz_worker.attempt(fail, seed).get("kind") for seed in range(4)]
    assert kinds == ["ValueError", "error text", None, "Hang"]


def test_a_worker_that_dies_costs_one_case(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        "import json, os, sys\n"
        "for seed in range(int(sys.argv[2]), int(sys.argv[3])):\n"
        "    print(json.dumps({'start': seed}), flush=True)\n"
        "    if seed == 2: os.abort()\n"
        "    print(json.dumps({'seed': seed, 'outcome': 'ok'}), flush=True)\n"
    )
    monkeypatch.setattr(fuzzing, "worker_command", lambda *a: [fuzzing.sys.executable, str(script), *map(str, a)])
    found = fuzzing.fuzz("json", 5, tmp_path / "json.json")
    assert found.outcomes == {"finding": 1, "ok": 4} and found.findings[0].seed == 2
    again = fuzzing.fuzz("json", 6, tmp_path / "json.json")  # goes on, and tries the finding again
    assert again.cases == 6 and again.outcomes == {"finding": 1, "ok": 5}


def test_command_lines_that_name_no_run() -> None:
    with pytest.raises(DpuError, match=r"E501\]: --format x: no such format"):
        fuzzing.chosen("x", None)
    with pytest.raises(DpuError, match=r"E501\]: --output: holds one format"):
        fuzzing.chosen("", Path("x.json"))
    assert fuzzing.chosen("", None) == fuzzing.FORMATS and fuzzing.chosen("dpu", Path("x")) == ("dpu",)
