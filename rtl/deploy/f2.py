"""An F2 image: checkpoint through the HDK, AFI from the checkpoint, onto a card and off it. Plans (`steps.py`).

Flow and file names: aws-fpga, branch f2, v2.0.2 to v2.3.2, hdk/README.md; small shell only, which is all there is.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from ...errors import DpuError
from ...files import atomic_write, sha256
from ...ir.arch import Arch
from .. import toolchain
from ..model import parameters
from .steps import Copy, Run, Step, Write, perform

TOP = "cl_dpu"
FOLDER = Path(__file__).parent / "f2"
SCRIPTS = ("synth_cl_dpu.tcl", "hbm.tcl", "encrypt.tcl")
CONSTRAINTS = ("cl_synth_user.xdc", "cl_timing_user.xdc", "small_shell_cl_pnr_user.xdc")
OF_THE_HDK = ("aws_build_dcp_from_cl.py", "build_all.tcl", "build_level_1_cl.tcl")
"""Scripts of the HDK that a design has in its own folder."""

FORMAT = "dpu.f2-image/1"
STATES = ("pending", "available", "failed", "unavailable")
"""`State.Code` of an AFI: docs.aws.amazon.com/AWSEC2/latest/APIReference/API_FpgaImageState.html, read 2026-12-01."""


@dataclass(frozen=True)
class Image:
    """An AFI, as its file records it (`results/f2/image.json`)."""

    arch: str
    digest: str  # of the arch
    tar: str  # name of the checkpoint's file
    tar_sha256: str
    region: str
    bucket: str
    logs: str  # key in the bucket
    afi: str
    agfi: str
    created: str
    state: str = "pending"
    shell: str = ""
    format: str = FORMAT

    def save(self, path: Path) -> None:
        """Write the file."""
        with atomic_write(path) as temporary:
            temporary.write_text(json.dumps(asdict(self), indent=1) + "\n")


def load_image(path: Path) -> Image:
    """An image by its file.

    Raises:
        DpuError: E446, it is no such file.
    """
    try:
        found = Image(**json.loads(path.read_text()))
        if found.format != FORMAT:
            raise ValueError(f"format is '{found.format}'")
    except (OSError, ValueError, TypeError) as e:
        hint = "dpubench f2-create writes it"
        raise DpuError(str(path), f"is no record of an F2 image ({e})", hint=hint, code="E446") from e
    return found


def build_plan(arch: Arch, hdk: Path, work: Path, tag: str, flow: str = "BuildAll") -> list[Step]:
    """From the sources to a routed checkpoint: a design folder of the HDK below `work`, and its build."""
    design = (work / TOP).absolute()
    sources = [p for p in toolchain.sources(TOP) if "sim" not in p.relative_to(toolchain.FOLDER).parts]
    build, shell = design / "build", hdk.absolute() / "hdk" / "common" / "shell_stable" / "build" / "scripts"
    generics = "".join(f"{k}={v}\n" for k, v in {**parameters(arch), "MemoryMib": arch.dram.bytes >> 20}.items())
    scripts = [*(shell / name for name in OF_THE_HDK), *(FOLDER / name for name in SCRIPTS)]
    return [
        Copy(tuple(sources), design / "design"),
        Write(design / "design" / "sources.txt", "".join(f"{p.name}\n" for p in sources)),
        Write(design / "design" / "generics.txt", generics),
        Write(design / "design" / "cl_id_defines.vh", id_defines(sources)),
        Copy(tuple(scripts), build / "scripts"),
        Copy(tuple(FOLDER / name for name in CONSTRAINTS), build / "constraints"),
        Run(
            ("./aws_build_dcp_from_cl.py", "--cl", TOP, "--mode", "small_shell", "--flow", flow, "--tag", tag),
            build / "scripts",
            {"CL_DIR": str(design)},
            hdk.absolute() / "hdk_setup.sh",
        ),
    ]


def id_defines(sources: Sequence[Path]) -> str:
    """The PCI identity that the build puts into its manifest, as `cl_dpu` has it."""
    text = next(p for p in sources if p.stem == TOP).read_text()
    lines = []
    for macro, parameter in (("CL_SH_ID0", "ShellId0"), ("CL_SH_ID1", "ShellId1")):
        match = re.search(rf"\b{parameter}\s*=\s*(32'h[0-9A-Fa-f]{{4}}_[0-9A-Fa-f]{{4}})", text)
        assert match, f"{TOP} has no {parameter}"
        lines.append(f"`define {macro} {match[1]}\n")
    return "".join(lines)


def checkpoint(work: Path, tag: str, violated: bool = False) -> Path:
    """The checkpoint that a build left, the file for `create_plan`.

    Raises:
        DpuError: E446, there is none, or it misses timing and `violated` does not allow that.
    """
    folder = work / TOP / "build" / "checkpoints"
    tar = folder / f"{tag}.Developer_CL.tar"
    reports = work / TOP / "build" / "reports"
    if not tar.is_file():
        why = "the HDK's build ends with code 0 even where Vivado fails"
        hint = f"see {work / TOP / 'build' / 'scripts' / f'{tag}.vivado.log'}"
        raise DpuError(str(tar), "the build left no checkpoint", why, hint, code="E446")
    if not violated and (found := sorted(folder.glob(f"*{tag}.post_route.VIOLATED.dcp"))):
        why = "such an image may compute wrong values, and no result of it would say so"
        hint = f"see {reports / f'{TOP}.{tag}.post_route_timing.rpt'}; --allow-violated goes on with it"
        raise DpuError(str(found[0]), "the routed design misses its timing", why, hint, code="E446")
    return tar


def create_plan(tar: Path, bucket: str, prefix: str, region: str, name: str, text: str) -> list[Step]:
    """Upload a checkpoint and ask for an AFI of it. The last step prints the AFI's names as JSON."""
    key, logs = f"{prefix}/{tar.name}", f"{prefix}/logs"
    return [
        Run(("aws", "s3", "cp", str(tar), f"s3://{bucket}/{key}", "--region", region, "--no-progress")),
        Run(
            ("aws", "ec2", "create-fpga-image", "--region", region, "--name", name, "--description", text,
             "--input-storage-location", f"Bucket={bucket},Key={key}",
             "--logs-storage-location", f"Bucket={bucket},Key={logs}", "--output", "json")
        ),
    ]  # fmt: skip


def created(arch: Arch, tar: Path, bucket: str, prefix: str, region: str, answer: str) -> Image:
    """The image that `create-fpga-image` answered with.

    Raises:
        DpuError: E446, the answer has no AFI.
    """
    try:
        said = json.loads(answer)
        afi, agfi = str(said["FpgaImageId"]), str(said["FpgaImageGlobalId"])
    except (ValueError, KeyError, TypeError) as e:
        raise DpuError("aws ec2 create-fpga-image", f"answered '{answer.strip()[:200]}'", code="E446") from e
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Image(
        arch.name, arch.digest, tar.name, sha256(tar), region, bucket, f"{prefix}/logs", afi, agfi, now
    )  # fmt: skip


def describe_afi(image: Image) -> Run:
    """Ask for the state of an AFI."""
    wanted = ("--region", image.region, "--fpga-image-ids", image.afi, "--output", "json")
    return Run(("aws", "ec2", "describe-fpga-images", *wanted))


def wait(
    image: Image,
    say: Callable[[str], None],
    interval: float = 60.0,
    limit: float = 4 * 3600.0,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Image:
    """Until the AFI is available: the image with its state and its shell.

    Raises:
        DpuError: E446, AWS could not make it, does not know it, or took longer than `limit` seconds.
    """
    end = clock() + limit
    while True:
        (answer,) = perform([describe_afi(image)], lambda _: None)
        state, message, shell = _state(image, answer)
        say(f"{image.afi}: {state}")
        if state == "available":
            return replace(image, state=state, shell=shell)
        if state != "pending":
            logs = f"aws s3 cp --recursive s3://{image.bucket}/{image.logs} ."
            raise DpuError(image.afi, f"is {state}: {message or 'no message'}", hint=logs, code="E446")
        if clock() >= end:
            raise DpuError(image.afi, f"is still pending after {limit:g} s", hint="run f2-wait again", code="E446")
        sleep(interval)


def _state(image: Image, answer: str) -> tuple[str, str, str]:
    try:
        (said,) = json.loads(answer)["FpgaImages"]
        state = said["State"]["Code"]
        if state not in STATES or said["FpgaImageGlobalId"] != image.agfi:
            raise ValueError(f"state '{state}' of {said['FpgaImageGlobalId']}")
    except (ValueError, KeyError, TypeError) as e:
        what = f"'{answer.strip()[:200]}' is no state of {image.afi} ({e})"
        raise DpuError("aws ec2 describe-fpga-images", what, code="E446") from e
    return state, said["State"].get("Message", ""), said.get("ShellVersion", "")


def load_plan(slot: int, agfi: str) -> list[Step]:
    """Put an image onto a card, clearing it first: an image that hangs leaves the next one a clean start."""
    return [*clear_plan(slot), Run(("sudo", "fpga-load-local-image", "-S", str(slot), "-I", agfi))]


def clear_plan(slot: int) -> list[Step]:
    """Take the image off a card."""
    return [Run(("sudo", "fpga-clear-local-image", "-S", str(slot)))]


def describe_plan(slot: int, metrics: bool = False) -> list[Step]:
    """Ask a card for its image, and for its metrics."""
    return [Run(("sudo", "fpga-describe-local-image", "-S", str(slot), "-R", "-H", *(["-M"] if metrics else [])))]
