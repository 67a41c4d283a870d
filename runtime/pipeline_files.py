"""The files of a pipeline that the host needs: from an exported folder or from inside a `.dpu`.

Names are paths relative to the exported folder, such as `tokenizer/tokenizer.json`, in both.
"""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from ..errors import DpuError
from ..frontend.host_files import VAE_CONFIGS, vae_config


class PipelineFiles(Protocol):
    """Read access to a pipeline's files by name."""

    where: str

    def names(self) -> list[str]:
        """Every file, sorted."""
        ...

    def view(self, name: str) -> memoryview:
        """The bytes of one file, mapped rather than read where possible.

        Raises:
            DpuError: there is no such file.
        """
        ...


class FolderFiles:
    """The files of an exported folder."""

    def __init__(self, path: Path) -> None:
        if not path.is_dir():
            what = "is a file, expected an exported folder" if path.exists() else "no such folder"
            raise DpuError(str(path), what, hint="dpuc export tiny-seeded -o DIR", code="E106")
        self.path, self.where = path, str(path)

    def names(self) -> list[str]:
        """Every file, sorted."""
        # Parts may be links to folders elsewhere, which rglob does not follow.
        found = [Path(base, name) for base, _, names in os.walk(self.path, followlinks=True) for name in names]
        names = {p.relative_to(self.path).as_posix() for p in found if p.is_file()}
        if not names.isdisjoint(VAE_CONFIGS):
            names.add(VAE_CONFIGS[0])
        return sorted(names)

    def view(self, name: str) -> memoryview:
        """The bytes of one file, mapped."""
        try:
            file = vae_config(self.path) if name == VAE_CONFIGS[0] else self.path / name
            with file.open("rb") as f:
                if not f.seek(0, 2):
                    return memoryview(b"")
                return memoryview(mmap.mmap(f.fileno(), 0, access=mmap.ACCESS_READ))
        except OSError as e:
            raise _missing(self.where, name) from e


class BundledFiles:
    """The files inside a program."""

    def __init__(self, files: Mapping[str, bytes], where: str) -> None:
        self.files, self.where = files, where

    def names(self) -> list[str]:
        """Every file, sorted."""
        return sorted(self.files)

    def view(self, name: str) -> memoryview:
        """The bytes of one file."""
        if name not in self.files:
            raise _missing(self.where, name)
        return memoryview(self.files[name])


def require(files: PipelineFiles, names: list[str]) -> None:
    """Check that the files a prompt needs are there.

    Raises:
        DpuError: some are not; all of them are named.
    """
    have = set(files.names())
    missing = [n for n in names if n not in have]
    if missing:
        program = isinstance(files, BundledFiles)
        raise DpuError(
            files.where,
            f"cannot make an image from a prompt: it has no {', '.join(missing)}",
            why="a program compiled from a single ONNX file holds the UNet only" if program else "",
            hint="compile the exported pipeline folder: dpuc compile DIR -o model.dpu"
            if program
            else "give a folder that dpuc export wrote",
            code="E405",
        )


def read_json(files: PipelineFiles, name: str) -> dict[str, Any]:
    """A JSON object.

    Raises:
        DpuError: the file is missing or holds something else.
    """
    try:
        value = json.loads(bytes(files.view(name)))
        if isinstance(value, dict):
            return value
        raise ValueError("not an object")
    except ValueError as e:
        raise DpuError(f"{files.where}: {name}", f"not a readable JSON file ({e})", code="E110") from e


def extract(files: PipelineFiles, prefix: str, to: Path) -> Path:
    """Copy the files under `prefix/` into the folder `to`, for libraries that read folders only."""
    for name in files.names():
        if name.startswith(f"{prefix}/"):
            target = to / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(files.view(name))
    return to / prefix


def _missing(where: str, name: str) -> DpuError:
    return DpuError(f"{where}: {name}", "missing", hint="export or compile the pipeline again", code="E111")
