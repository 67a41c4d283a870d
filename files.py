"""Atomic writes: a reader sees the whole file or none of it."""

from __future__ import annotations

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
    """Yield a temporary folder beside `path`; on success it is renamed to `path`, which must not exist."""
    path = Path(path)
    try:
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    except OSError as e:
        raise DpuError(
            str(path),
            f"cannot write into folder '{path.parent}' ({e.strerror})",
            hint="choose an existing, writable folder",
            code="E101",
        ) from e
    try:
        yield temporary
        temporary.chmod(0o755)
        temporary.replace(path)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def sha256(path: Path | str) -> str:
    """The hex digest of a file, read in blocks of 1 MiB."""
    digest = hashlib.sha256()
    with Path(path).open("rb") as f:
        while block := f.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
