"""C++ of the simulator as a shared library: built with the system's compiler on first use, kept in the user's cache."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ..errors import DpuError

FLAGS = ("-std=c++17", "-O3", "-ffp-contract=off", "-fno-semantic-interposition", "-shared", "-fPIC")
"""No fused multiply-add: floating point gives what Python gives. Exported functions may be inlined all the same."""


def compiler() -> str | None:
    """The C++ compiler: `$CXX`, or the first of c++, g++, clang++ on the path."""
    names = [os.environ["CXX"]] if os.environ.get("CXX") else ["c++", "g++", "clang++"]
    return next((found for n in names if (found := shutil.which(n))), None)


def cache_folder() -> Path:
    """Where compiled libraries are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "dpu"


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """One process at a time, where the system can: the others would only build the same once more."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def build(target: Path, cxx: str, arguments: Sequence[str], subject: str, text: str | None = None) -> None:
    """Compile `target` unless it is there; several processes may do so at once. `text` is the compiler's input.

    Raises:
        DpuError: E427 about `subject`, the compiler fails, or the library cannot be kept.
    """
    name = target.stem.rpartition("-")[0]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with _alone(target.parent / f".{name}.lock"):
            if not target.is_file():
                _compile(target, name, [cxx, *arguments], subject, text)
    except OSError as e:
        raise DpuError(
            subject, f"cannot write into '{target.parent}' ({e.strerror})", hint="set XDG_CACHE_HOME", code="E427"
        ) from e


def _compile(target: Path, name: str, command: Sequence[str], subject: str, text: str | None) -> None:
    fd, made = tempfile.mkstemp(prefix=f".{name}-", suffix=".so", dir=target.parent)
    os.close(fd)
    temporary = Path(made)
    try:
        done = subprocess.run([*command, "-o", made], input=text, capture_output=True, text=True, check=False)
        if done.returncode:
            why = done.stderr.strip()[-1000:]
            raise DpuError(subject, f"{command[0]} failed with {done.returncode}", why=why, code="E427")
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@dataclass(frozen=True)
class Library:
    """One library that has a Python form beside it. Its file is named by a digest of flags, machine and sources."""

    name: str
    subject: str  # of errors: what it computes
    environment: str  # a variable that says `python` or `native`
    slower: int  # times that Python takes
    sources: tuple[Path, ...]
    headers: tuple[Path, ...]

    def path(self) -> Path:
        """Where the library is, once it is built."""
        h = hashlib.sha256(" ".join((*FLAGS, platform.system(), platform.machine())).encode())
        for source in (*self.headers, *self.sources):
            h.update(source.read_bytes())
        return cache_folder() / f"{self.name}-{h.hexdigest()[:16]}.so"

    def chosen(self, native: bool | None = None) -> bool:
        """Whether the library runs and not Python: as asked for, else what the environment says, else if it can."""
        asked = os.environ.get(self.environment, "")
        if native is None and asked in ("python", "native"):
            native = asked == "native"
        return self.available() if native is None else native

    def available(self) -> bool:
        """Whether it is built, or there is a compiler."""
        return compiler() is not None or self.path().is_file()

    def build(self) -> Path:
        """Path of the library, compiled now unless the cache has it. Several processes may do so at once.

        Raises:
            DpuError: E427, no compiler, it fails, or the library cannot be kept.
        """
        target = self.path()
        if target.is_file():
            return target
        cxx = compiler()
        if cxx is None:
            raise DpuError(
                self.subject,
                "no C++ compiler",
                why="$CXX, c++, g++ and clang++ were looked for; "
                f"{self.environment}=native asks for the compiled model",
                hint=f"install one, or unset {self.environment}: the same model in Python is about {self.slower} times "
                "slower",
                code="E427",
            )
        build(target, cxx, [*FLAGS, *map(str, self.sources)], self.subject)
        return target

    def load(self) -> ctypes.CDLL:
        """The library, built if need be.

        Raises:
            DpuError: E427, as `build`, or it cannot be loaded.
        """
        path = self.build()
        try:
            return ctypes.CDLL(str(path))
        except OSError as e:
            raise DpuError(self.subject, f"cannot load '{path}' ({e})", hint="remove the file", code="E427") from e
