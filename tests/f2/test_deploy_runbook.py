"""The rehearsal: every command of docs/f2_runbook.md, in order, in one folder. This project's deployment commands run
for real; what they call, and what needs a card, is a stub that checks its arguments (`stub.py`)."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import dpu
import pytest

ROOT = Path(dpu.__file__).parent
RUNBOOK = ROOT / "docs" / "f2_runbook.md"
STUBS = ("git", "aws", "sudo", "make", "vivado", "v++", "dpurun", "dpuc", "cmp", "build-dcp", "sysctl")
STUBS += ("fpga-load-local-image", "fpga-clear-local-image", "fpga-describe-local-image")
SYSTEM = ("bash", "env", "mkdir", "cp", "rm", "cat", "dirname")
"""What the lines use of the system itself."""

# `dpubench` with a card that says what it is: its identity cannot come from EC2 here. A stub has what runs on the card.
DPUBENCH = """#!{python}
import os, sys
if sys.argv[1] == "f2-image":
    os.execv(sys.executable, [sys.executable, {stub!r}, "dpubench", *sys.argv[1:]])
from dpu.bench import f2_power
from dpu.measurement import DeviceIdentity
f2_power.identity = lambda slot, image: DeviceIdentity(target="f2", name="rehearsal", stand_in="stub commands")
from dpu.bench.cli.dpubench import main
main()
"""


def blocks(text: str) -> list[str]:
    return re.findall(r"^```sh\n(.*?)^```$", text, re.M | re.S)


@pytest.fixture
def stage(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A folder to work in, and an environment in which only stubs and a few programs of the system are found."""
    bin_folder, state, work = (tmp_path / n for n in ("bin", "state", "work"))
    for folder in (bin_folder, state, work / "out"):
        folder.mkdir(parents=True)
    python = sys.executable
    stub = Path(__file__).parent / "stub.py"
    for name in STUBS:
        path = bin_folder / name
        path.write_text(f'#!/bin/bash\nexec {python} {stub} {name} "$@"\n')
        path.chmod(0o755)
    (bin_folder / "dpubench").write_text(DPUBENCH.format(python=python, stub=str(stub)))
    (bin_folder / "dpubench").chmod(0o755)
    for name in SYSTEM:
        (bin_folder / name).symlink_to(shutil.which(name) or name)
    environment = {"PATH": str(bin_folder), "HOME": str(tmp_path), "STUB_STATE": str(state), "PROJECT": str(ROOT)}
    if "PYTHONPATH" in os.environ:
        environment["PYTHONPATH"] = os.environ["PYTHONPATH"]
    return work, environment


def test_every_command_of_the_runbook_runs(stage: tuple[Path, dict[str, str]]) -> None:
    work, environment = stage
    found = blocks(RUNBOOK.read_text())
    assert len(found) >= 9
    for block in found:
        # A short wait for the image, which here is ready at the second look.
        script = "set -e\n" + block.replace("dpubench f2-wait\n", "dpubench f2-wait --interval 1\n")
        done = subprocess.run(
            ["bash", "-c", script], cwd=work, env=environment, capture_output=True, text=True, check=False, timeout=300
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    calls = [json.loads(line) for line in (Path(environment["STUB_STATE"]) / "log").read_text().splitlines()]
    asked = [" ".join(c[:3]) for c in calls]
    assert asked.count("aws ec2 describe-fpga-images") == 2
    order = ["git clone -b", "build-dcp --cl cl_dpu", "aws s3 cp", "aws ec2 create-fpga-image"]
    order += ["aws ec2 describe-fpga-images", "aws ec2 run-instances", "sudo fpga-clear-local-image -S"]
    order += ["sudo fpga-load-local-image -S", "dpurun out/tiny.dpu --target", "aws ec2 terminate-instances"]
    at = [asked.index(o) for o in order]
    assert at == sorted(at)

    image = json.loads((work / "results/f2/image.json").read_text())
    assert (image["state"], image["arch"], image["shell"]) == ("available", "dpu_tiny", "0x10212415")
    power = json.loads((work / "results/f2/power_idle.json").read_text())
    (measured,) = power["measurements"]
    assert measured["samples"] == [s["watts"] for s in power["samples"]] == [9.0, 9.0]
    assert measured["device"]["stand_in"] == "stub commands"  # a rehearsal is no measurement
    assert (work / "out/tiny.xclbin").read_text() == "by a stub"


def test_a_command_that_the_documentation_does_not_know_fails_the_rehearsal(stage: tuple[Path, dict[str, str]]) -> None:
    work, environment = stage
    for line, text in (
        ("aws ec2 create-fpga-image --name x", "--input-storage-location is missing"),
        ("sudo fpga-load-local-image -S 9 -I agfi-0123456789abcdef0", "-S is '9', expected [0-7]"),
        ("aws ec2 reboot-instances --instance-ids i-0123456789abcdef0", "no such command is known"),
        ("dpurun x.dpu --targte f2", "No such option: --targte"),
        ("dpubench f2-image x.dpu --slot 0", "No such option: --slot"),
        ("dpubench f2-load --image nosuch.json", "nosuch.json: is no record of an F2 image"),
    ):
        done = subprocess.run(
            ["bash", "-c", line], cwd=work, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode != 0
        assert text in done.stderr.replace("\n", " "), done.stderr


def test_nothing_runs_in_a_dry_run(stage: tuple[Path, dict[str, str]]) -> None:
    work, environment = stage
    lines = [line for b in blocks(RUNBOOK.read_text()) for line in b.splitlines() if line.startswith("dpubench f2-")]
    # Two read the image's record; one runs on the card.
    lines = [line for line in lines if not any(verb in line for verb in ("f2-load", "f2-wait", "f2-image"))]
    script = "set -e\n" + "\n".join(f"{line} --dry-run".replace("--dry-run --dry-run", "--dry-run") for line in lines)
    done = subprocess.run(
        ["bash", "-c", script], cwd=work, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not (Path(environment["STUB_STATE"]) / "log").exists()
    assert [p.name for p in work.rglob("*") if p.is_file()] == []
    for said in ("--cl cl_dpu --mode small_shell --flow BuildAll --tag first", "aws ec2 create-fpga-image --region",
                 "sudo fpga-clear-local-image -S 0", "sudo fpga-describe-local-image -S 0 -R -H -M"):  # fmt: skip
        assert said in done.stdout
