"""Steps of a build or deployment: files to write and commands to run. A plan can be shown in place of being done.

Shown is what would run, as shell: the same objects print and perform.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...errors import DpuError
from ...files import atomic_write
from . import schemas

HINTS: Mapping[str, str] = {
    "aws": "install the AWS CLI, version 2, and configure it: 'aws configure'",
    "vivado": "install Vivado 2024.1 or newer with its settings64.sh sourced, or use AWS's FPGA Developer AMI",
    "v++": "install Vitis and the development platform of the card, and source settings64.sh",
    "fpga-describe-local-image": "on an F2 instance, in a checkout of aws-fpga: source sdk_setup.sh",
    "fpga-load-local-image": "on an F2 instance, in a checkout of aws-fpga: source sdk_setup.sh",
    "fpga-clear-local-image": "on an F2 instance, in a checkout of aws-fpga: source sdk_setup.sh",
}
"""How to get a program."""


@dataclass(frozen=True)
class Write:
    """A text file; its folder is made."""

    path: Path
    text: str

    def shown(self) -> str:
        """As shell, with the text."""
        path = shlex.quote(str(self.path))
        return f"mkdir -p {shlex.quote(str(self.path.parent))}\ncat > {path} <<'END'\n{self.text.rstrip()}\nEND"

    def perform(self, say: Callable[[str], None]) -> str:
        """Write it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(self.path) as temporary:
            temporary.write_text(self.text)
        return ""


@dataclass(frozen=True)
class Copy:
    """Files into a folder, which is made and emptied first: what an earlier build left is not built again."""

    files: tuple[Path, ...]
    folder: Path

    def shown(self) -> str:
        """As shell."""
        folder = shlex.quote(str(self.folder))
        files = " \\\n  ".join(shlex.quote(str(f)) for f in self.files)
        return f"rm -rf {folder} && mkdir -p {folder}\ncp \\\n  {files} \\\n  {folder}"

    def perform(self, say: Callable[[str], None]) -> str:
        """Copy them."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        for f in self.files:
            shutil.copy(f, self.folder / f.name)
        return ""


@dataclass(frozen=True)
class Run:
    """A command that `schemas` knows. `setup` is a script that its shell reads before, for the environment."""

    argv: tuple[str, ...]
    cwd: Path | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    setup: Path | None = None

    def __post_init__(self) -> None:
        schemas.check(self.argv)

    @property
    def program(self) -> str:
        """What must be installed."""
        return self.argv[1] if self.argv[0] == "sudo" else self.argv[0]

    def _line(self) -> str:
        before = [f"source {shlex.quote(str(self.setup))}"] if self.setup else []
        before += [f"cd {shlex.quote(str(self.cwd))}"] if self.cwd else []
        given = [f"{k}={shlex.quote(v)}" for k, v in self.environment.items()]
        return " && ".join([*before, " ".join([*given, shlex.join(self.argv)])])

    def shown(self) -> str:
        """As shell."""
        line = self._line()
        if self.setup:
            return f"bash -c {shlex.quote(line)}"
        return f"({line})" if self.cwd else line

    def perform(self, say: Callable[[str], None]) -> str:
        """Run it; its standard output, which is said line by line as it comes.

        Raises:
            DpuError: E446, it ended with another code than 0.
        """
        found: list[str] = []
        with subprocess.Popen(["bash", "-c", self._line()], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                say(line.rstrip("\n"))
                found.append(line)
        if process.returncode:
            tail = "".join(found[-20:]).strip()
            raise DpuError(shlex.join(self.argv[:4]), f"ended with code {process.returncode}", tail, code="E446")
        return "".join(found)


Step = Write | Copy | Run


def shown(steps: Sequence[Step]) -> str:
    """What would run, as a shell script."""
    return "\n".join(s.shown() for s in steps)


def check_tools(steps: Sequence[Step]) -> None:
    """Whether every program of a plan is here, before the first step.

    Raises:
        DpuError: E445, one is not.
    """
    for step in steps:
        if not isinstance(step, Run):
            continue
        for program in dict.fromkeys((step.argv[0], step.program)):
            inside = step.setup is not None or (step.cwd is not None and (step.cwd / program).is_file())
            if not inside and shutil.which(program) is None:
                hint = HINTS.get(Path(program).name, f"install {program}")
                raise DpuError(program, "is not installed", "this step runs it", hint, code="E445")


def perform(steps: Sequence[Step], say: Callable[[str], None]) -> list[str]:
    """Do a plan; what each step printed.

    Raises:
        DpuError: E445, a program is missing; E446, a step failed.
    """
    check_tools(steps)
    return [step.perform(say) for step in steps]
