"""Stands in for the programs of the runbook: `stub.py NAME ARGUMENTS`. Its state is in $STUB_STATE, calls in `log`.

What AWS, Vivado, Vitis and the SDK would refuse by their documentation is refused (`rtl/deploy/schemas.py`); answers
have the form that the documentation gives. Commands of this project that need a card or minutes are parsed by their
own parser and not run.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from pathlib import Path

STATE = Path(os.environ["STUB_STATE"])
AFI, AGFI = "afi-0123456789abcdef0", "agfi-0fedcba9876543210"
METRICS = Path(__file__).parent / "data" / "describe_metrics.txt"

SETUP = "export AWS_FPGA_REPO_DIR=$(cd $(dirname ${BASH_SOURCE[0]}) && pwd)\nexport HDK_DIR=$AWS_FPGA_REPO_DIR/hdk\n"
BUILD = '#!/bin/bash\nexec build-dcp "$@"\n'


def main() -> int:
    name, arguments = Path(sys.argv[1]).name, sys.argv[2:]
    with (STATE / "log").open("a") as log:
        log.write(json.dumps([name, *arguments]) + "\n")
    if name == "sudo":
        name, arguments = arguments[0], arguments[1:]
    known = {"git": git, "build-dcp": build, "aws": aws, "sysctl": sysctl, "make": make, "vivado": tool, "v++": tool}
    known |= {"dpurun": parsed, "dpuc": parsed, "dpubench": verb, "cmp": lambda *_: 0}
    if name.startswith("fpga-"):
        return fpga(name, arguments)
    return known[name](name, arguments)


def check(argv: list[str]) -> None:
    from dpu.errors import DpuError
    from dpu.rtl.deploy import schemas

    try:
        schemas.check(argv)
    except DpuError as e:
        print(e, file=sys.stderr)
        raise SystemExit(64) from e


def git(_: str, arguments: list[str]) -> int:
    """Only the checkout of aws-fpga: the scripts that builds use."""
    assert arguments == ["clone", "-b", "f2", "https://github.com/aws/aws-fpga"], arguments
    scripts = Path("aws-fpga/hdk/common/shell_stable/build/scripts")
    scripts.mkdir(parents=True, exist_ok=True)
    for name in ("hdk_setup.sh", "sdk_setup.sh"):
        Path("aws-fpga", name).write_text(SETUP)
    for name in ("aws_build_dcp_from_cl.py", "build_all.tcl", "build_level_1_cl.tcl"):
        path = scripts / name
        path.write_text(BUILD)
        path.chmod(0o755)
    return 0


def build(_: str, arguments: list[str]) -> int:
    """The HDK's build: what it looks at before Vivado, and the file that it leaves."""
    check(["aws_build_dcp_from_cl.py", *arguments])
    design = Path(os.environ["CL_DIR"])
    assert Path.cwd() == design / "build" / "scripts" and design.name == arguments[arguments.index("--cl") + 1]
    assert os.environ["HDK_DIR"] and "CL_SH_ID0" in (design / "design" / "cl_id_defines.vh").read_text()
    names = (design / "design" / "sources.txt").read_text().split()
    assert all((design / "design" / n).is_file() for n in names)
    checkpoints = design / "build" / "checkpoints"
    checkpoints.mkdir(parents=True, exist_ok=True)
    (checkpoints / "made").write_text("by a stub")
    tag = arguments[arguments.index("--tag") + 1]
    with tarfile.open(checkpoints / f"{tag}.Developer_CL.tar", "w") as tar:
        tar.add(checkpoints / "made", "to_aws/made")
    return 0


def aws(name: str, arguments: list[str]) -> int:
    check([name, *arguments])
    asked = STATE / "asked"
    if arguments[:2] == ["s3", "cp"]:
        assert Path(arguments[2]).is_file(), arguments[2]
    if arguments[:2] == ["ec2", "create-fpga-image"]:
        print(json.dumps({"FpgaImageId": AFI, "FpgaImageGlobalId": AGFI}))
    if arguments[:2] == ["ec2", "describe-fpga-images"]:
        state = "available" if asked.is_file() else "pending"
        asked.touch()
        image = {"FpgaImageId": AFI, "FpgaImageGlobalId": AGFI, "ShellVersion": "0x10212415", "State": {"Code": state}}
        print(json.dumps({"FpgaImages": [image]}))
    return 0


def fpga(name: str, arguments: list[str]) -> int:
    check([name, *arguments])
    loaded = STATE / "loaded"
    slot = arguments[arguments.index("-S") + 1]
    if name == "fpga-load-local-image":
        loaded.write_text(arguments[arguments.index("-I") + 1])
    if name == "fpga-clear-local-image":
        loaded.unlink(missing_ok=True)
    image = loaded.read_text() if loaded.is_file() else "none"
    status = "loaded            0" if loaded.is_file() else "cleared           1"
    print(f"AFI          {slot}       {image:22}  {status}        ok               0       0x10212415")
    print(f"AFIDEVICE    {slot}       0x1d0f      0xf0d0      0000:34:00.0")
    if "-M" in arguments:
        print("".join(METRICS.read_text().splitlines(keepends=True)[2:]))
    return 0


def sysctl(_: str, arguments: list[str]) -> int:
    assert arguments == ["-w", "vm.nr_hugepages=64"], arguments
    return 0


def make(_: str, arguments: list[str]) -> int:
    text = (Path(os.environ["PROJECT"]) / "Makefile").read_text()
    assert all(f"\n{target}:" in text for target in arguments), arguments
    return 0


def tool(name: str, arguments: list[str]) -> int:
    check([name, *arguments])
    if name == "v++":
        Path(arguments[arguments.index("--output") + 1]).write_text("by a stub")
    return 0


def parsed(name: str, arguments: list[str]) -> int:
    """This project's own parser takes the line."""
    import importlib

    import typer

    app = importlib.import_module(f"dpu.runtime.cli.{name}").app
    typer.main.get_command(app).make_context(name, list(arguments))
    return 0


def verb(name: str, arguments: list[str]) -> int:
    """The same of a verb of `dpubench` that needs a card."""
    import typer
    from dpu.bench.cli.dpubench import VERBS

    app = typer.Typer()
    app.command()(VERBS[arguments[0]])
    typer.main.get_command(app).make_context(name, arguments[1:])
    return 0


if __name__ == "__main__":
    sys.exit(main())
