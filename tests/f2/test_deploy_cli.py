"""The deployment verbs as users meet them: help, early refusals, what a card shows after a load; cards in `dpurun`."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from dpu.bench.cli import deploy, dpubench
from dpu.ir.arch import load_arch
from dpu.rtl.deploy import f2, steps
from dpu.runtime.cli import dpurun

Call = Callable[[str], tuple[int, str, str]]
AGFI = "agfi-0fedcba9876543210"


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """Run a command line in this process: (exit code, standard output, standard error)."""

    def run(line: str) -> tuple[int, str, str]:
        words = shlex.split(line)
        monkeypatch.setattr(sys, "argv", words)
        with pytest.raises(SystemExit) as stop:
            {"dpubench": dpubench.main, "dpurun": dpurun.main}[words[0]]()
        out, err = capsys.readouterr()
        return int(stop.value.code or 0), out, err

    return run


@pytest.fixture
def image(tmp_path: Path) -> Path:
    """A record of an image for dpu_tiny."""
    path = tmp_path / "image.json"
    digest = load_arch("dpu_tiny").digest
    f2.Image("dpu_tiny", digest, "a.tar", "0" * 64, "us-east-1", "b", "l", "afi-" + "0" * 17, AGFI, "").save(path)
    return path


@pytest.mark.parametrize("verb", deploy.VERBS)
def test_help_asks_a_question_and_ends_with_two_examples(call: Call, verb: str) -> None:
    code, out, _ = call(f"dpubench {verb} --help")
    assert code == 0
    assert out.split("Usage:")[1].split("\n\n")[1].strip().endswith("?")
    assert len(re.findall(rf"^ +dpubench {verb}\b", out, re.MULTILINE)) == 2


@pytest.mark.parametrize(
    ("line", "text"),
    [
        (
            "dpubench f2-build --hdk {out}",
            "error[E445]: --hdk {out}: holds no hdk_setup.sh\n"
            "  try: git clone -b f2 https://github.com/aws/aws-fpga, and give it with --hdk\n",
        ),
        (
            "dpubench f2-create {out}/no.tar --bucket b-b -o {out}/i.json",
            "error[E106]: {out}/no.tar: no such file\n  try: dpubench f2-build writes it\n",
        ),
        (
            "dpubench f2-create {out}/no.tar --bucket B --dry-run",
            "error[E446]: aws ec2 create-fpga-image: --input-storage-location is 'Bucket=B,Key=dpu/no.tar', expected ",
        ),
        (
            "dpubench xrt-build -o {out}/a.bin",
            "error[E501]: --output: value is {out}/a.bin, expected a name that ends in .xclbin\n"
            "  try: dpurun --target xrt --image takes it\n",
        ),
        ("dpubench f2-wait --image {out}/none", "error[E446]: {out}/none: is no record of an F2 image ("),
        (
            "dpurun nosuch.dpu --target xrt --prompt x -o {out}/a.png",
            "error[E501]: --image: target xrt needs a device binary\n"
            "  try: dpubench xrt-build makes a .xclbin; give it with --image\n",
        ),
        (
            "dpurun nosuch.dpu --target sim --card 1 --prompt x -o {out}/a.png",
            "error[E501]: --card: target sim has none\n  try: --target f2 or xrt\n",
        ),
        (
            "dpurun nosuch.dpu --target xrt --image a.xclbin --trace {out}/t.json --prompt x -o {out}/a.png",
            "error[E501]: --trace: target xrt has none\n  try: --target sim or --target rtl\n",
        ),
    ],
)
def test_bad_input_is_refused_before_anything_runs(call: Call, tmp_path: Path, line: str, text: str) -> None:
    code, _, err = call(line.format(out=tmp_path))
    assert code == 2
    assert err.startswith(text.format(out=tmp_path))
    assert list(tmp_path.iterdir()) == []


def shows(monkeypatch: pytest.MonkeyPatch, image: str, status: str) -> list[str]:
    """A card that shows an image after whatever is done to it; the commands that are run."""
    ran: list[str] = []

    def perform(plan: list[steps.Run], _: object) -> list[str]:
        ran.extend(step.shown() for step in plan)
        return [
            f"AFI          0       {image:22}  {status}            0        ok               0       0x10212415\n"
        ] * len(plan)

    monkeypatch.setattr(steps, "perform", perform)
    return ran


def test_a_load_is_checked(call: Call, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = shows(monkeypatch, AGFI, "loaded")
    assert call(f"dpubench f2-load --image {image}")[0] == 0
    assert ran == [
        "sudo fpga-clear-local-image -S 0",
        f"sudo fpga-load-local-image -S 0 -I {AGFI}",
        "sudo fpga-describe-local-image -S 0 -R -H",
    ]
    shows(monkeypatch, "none", "cleared")
    code, _, err = call(f"dpubench f2-load --image {image}")
    assert code == 2
    assert err == (
        f"error[E446]: slot 0: shows none, cleared (ok); {AGFI} was loaded\n  try: dpubench f2-clear, then load again\n"
    )


def test_a_dry_run_shows_the_same_commands(call: Call, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = shows(monkeypatch, AGFI, "loaded")
    call(f"dpubench f2-load --image {image}")
    code, out, _ = call(f"dpubench f2-load --image {image} --dry-run")
    assert code == 0 and out.splitlines() == ran
