"""Atomic writes: a reader sees the whole file or none of it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .errors import DpuError


@contextmanager
def atomic_write(path: Path | str) -> Iterator[Path]:
    """Yield a temporary path beside `path`; on success it replaces `path`, on failure it is removed.

    Raises:
        DpuError: the folder does not exist or cannot be written.
    """
    path = Path(path)
    try:
        fd, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as e:
        raise DpuError(
            str(path),
            f"cannot write into folder '{path.parent}' ({e.strerror})",
            hint="choose an existing, writable folder",
            code="E101",
        ) from e
    os.close(fd)
    temporary = Path(name)
    try:
        yield temporary
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_dir(path: Path | str) -> Iterator[Path]:
    """Yield a folder beside `path`, `.NAME.partial`; on success it is renamed to `path`, which must not exist then.

    On failure it is removed. Of a process that was killed it stays, and the next one gets it as it is. It is locked:
    the lock ends with the process.

    Raises:
        DpuError: the parent folder cannot be written, or another process is writing the same folder.
    """
    path = Path(path)
    temporary = path.parent / f".{path.name}.partial"
    try:
        handle = _locked(temporary)
    except OSError as e:
        raise DpuError(
            str(path),
            f"cannot write into folder '{path.parent}' ({e.strerror})",
            hint="choose an existing, writable folder",
            code="E101",
        ) from e
    if handle is None:
        raise DpuError(
            str(path),
            "another process is writing it",
            why=f"it holds a lock on {temporary}",
            hint="wait until it is done, or choose another folder",
            code="E101",
        )
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(path)
    except BaseException:  # not behind the rename: by then the name may be another process's
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    finally:
        os.close(handle)


def _locked(folder: Path) -> int | None:
    """A handle of `folder`, made if there is none, with its lock; None if another process has that."""
    while True:
        folder.mkdir(mode=0o700, exist_ok=True)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if folder.exists() and folder.stat().st_ino == os.fstat(handle).st_ino:
                return handle
            os.close(handle)  # renamed or removed by the one who had it
        except BlockingIOError:
            os.close(handle)
            return None


def sha256(path: Path | str) -> str:
    """The hex digest of a file, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
