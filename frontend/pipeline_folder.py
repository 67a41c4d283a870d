"""The layout of an exported pipeline: a diffusers folder with ONNX files beside the weights they point to.

    DIR/dpu_pipeline.json              what is here: parts, files, digests, how it was exported
    DIR/model_index.json, scheduler/, tokenizer/, tokenizer_2/
    DIR/unet/model.onnx                and the same for text_encoder, text_encoder_2
    DIR/unet/config.json, diffusion_pytorch_model.safetensors
    DIR/vae/config.json, diffusion_pytorch_model.safetensors
    DIR/vae_decoder/model.onnx         with a hard link to the VAE's weights

Each subfolder is a unit: written beside its place, renamed when complete, and described by its own `dpu_part.json`, so
that an interrupted export continues with the first unit that is missing or differs, and there with the weights, if a
killed one had them whole.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DpuError
from ..files import atomic_dir, atomic_write, sha256

MANIFEST = "dpu_pipeline.json"
RECORD = "dpu_part.json"
WHOLE = ".whole.json"
FORMAT = 1
COMPONENTS = ("unet", "vae", "text_encoder", "text_encoder_2")
WEIGHT_STEMS = {
    "unet": "diffusion_pytorch_model",
    "vae": "diffusion_pytorch_model",
    "text_encoder": "model",
    "text_encoder_2": "model",
}


@dataclass(frozen=True)
class PipelineFolder:
    """An exported pipeline, as its `dpu_pipeline.json` describes it."""

    path: Path
    manifest: Mapping[str, Any]

    @classmethod
    def load(cls, path: Path) -> PipelineFolder:
        """Read the manifest of `path` and check that the files it names are there.

        Raises:
            DpuError: there is no manifest, it is of another format, or a file is missing.
        """
        file = path / MANIFEST
        try:
            manifest = json.loads(file.read_text())
            if manifest["format"] != FORMAT:
                raise ValueError(f"format {manifest['format']}, this version reads {FORMAT}")
            if any(not isinstance(part["files"], dict) for part in manifest["parts"].values()):
                raise ValueError("the files of a part are no object")
            folder = cls(path, manifest)
            files = [name for part in manifest["parts"].values() for name in part["files"]]
            missing = [name for name in files if not (path / name).is_file()]
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as e:
            raise DpuError(
                str(file),
                f"no readable pipeline manifest ({e})",
                hint="export a pipeline first: dpuc export tiny-seeded -o DIR",
                code="E110",
            ) from e
        if missing:
            raise DpuError(
                str(path / missing[0]),
                f"missing, though {MANIFEST} lists it",
                hint="run the same export again: finished parts are kept",
                code="E111",
            )
        return folder

    @property
    def parts(self) -> tuple[str, ...]:
        """The parts that have an ONNX file."""
        return tuple(name for name, part in self.manifest["parts"].items() if part.get("onnx"))

    def onnx(self, part: str) -> Path:
        """The ONNX file of a part.

        Raises:
            DpuError: the pipeline has no such part.
        """
        entry = self.manifest["parts"].get(part, {})
        if not entry.get("onnx"):
            raise DpuError(str(self.path), f"no part '{part}'", hint=f"it has {', '.join(self.parts)}", code="E111")
        return self.path / str(entry["onnx"])

    def verify(self) -> None:
        """Compare every file with its digest.

        Raises:
            DpuError: a file has changed since the export.
        """
        for part in self.manifest["parts"].values():
            for name, digest in part["files"].items():
                if sha256(self.path / name) != digest:
                    raise DpuError(
                        str(self.path / name),
                        f"its SHA-256 is not the one in {MANIFEST}",
                        hint="run the export again: changed parts are replaced",
                        code="E116",
                    )


def check_diffusers_folder(path: Path) -> None:
    """Refuse a folder that is not a diffusers SDXL pipeline, naming the first file that is missing.

    Raises:
        DpuError: a file is missing, or `model_index.json` is of another pipeline class.
    """
    needed = ["model_index.json", "scheduler/scheduler_config.json"]
    needed += [f"{component}/config.json" for component in COMPONENTS]
    for name in needed:
        if not (path / name).is_file():
            raise DpuError(
                str(path / name),
                "missing",
                why="an SDXL source is a diffusers folder with model_index.json and one subfolder for each part",
                hint="give the folder that pipeline.save_pretrained(...) wrote",
                code="E111",
            )
    kind = read_json(path / "model_index.json").get("_class_name", "")
    if not str(kind).startswith("StableDiffusionXL"):
        raise DpuError(
            str(path / "model_index.json"),
            f"the pipeline class is '{kind}'",
            why="only Stable Diffusion XL pipelines have the parts that are exported here",
            code="E110",
        )


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file.

    Raises:
        DpuError: the file is unreadable or holds something else.
    """
    try:
        value = json.loads(path.read_text())
        if not isinstance(value, dict):
            raise ValueError("not an object")
    except (OSError, ValueError) as e:
        raise DpuError(str(path), f"not a readable JSON file ({e})", code="E110") from e
    return value


def record_of(folder: Path, key: Mapping[str, Any]) -> dict[str, Any] | None:
    """The record of a finished unit made with the same `key` whose files still have their digests, else None."""
    try:
        record = json.loads((folder / RECORD).read_text())
        same = record["key"] == json.loads(json.dumps(key))
        if same and all(sha256(folder / name) == digest for name, digest in record["files"].items()):
            return dict(record)
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return None


@dataclass(frozen=True)
class Unit:
    """A unit being written: its folder, and what is known to be whole there."""

    folder: Path
    _whole: dict[str, dict[str, Any]]  # of a file, the key that it was made with and its digest

    def is_whole(self, name: str, key: Mapping[str, Any]) -> bool:
        """Whether a killed run finished the file `name` with the same `key`; else it is not there."""
        found = self._whole.get(name)
        if found is not None and found["key"] == json.loads(json.dumps(key)) and self._unchanged(name):
            return True
        self._whole.pop(name, None)
        (self.folder / name).unlink(missing_ok=True)
        return False

    def _unchanged(self, name: str) -> bool:
        return bool(sha256(self.folder / name) == self._whole[name]["sha256"])

    def whole(self, name: str, key: Mapping[str, Any]) -> None:
        """The file `name` is finished: a run that goes on after this one was killed need not make it again."""
        self._whole[name] = {"key": dict(key), "sha256": sha256(self.folder / name)}
        write_json(self.folder / WHOLE, self._whole)

    def files(self) -> dict[str, str]:
        """The digest of each file."""
        names = sorted(p.name for p in self.folder.iterdir())
        return {n: self._whole[n]["sha256"] if n in self._whole else sha256(self.folder / n) for n in names}


@contextmanager
def unit(folder: Path, key: Mapping[str, Any], info: dict[str, Any]) -> Iterator[Unit]:
    """Yield a unit whose folder becomes `folder`, with a record of its files; `info` is filled by the caller.

    An older `folder` that the export does not own (no record in it) is not replaced.

    Raises:
        DpuError: `folder` exists and was not written by an export, or another process is writing it.
    """
    if folder.exists() and not (folder / RECORD).exists():
        raise DpuError(
            str(folder),
            "exists, and no export wrote it",
            hint="choose an empty output folder",
            code="E101",
        )
    with atomic_dir(folder) as temporary:
        made = Unit(temporary, _whole_files(temporary))
        for left in list(temporary.iterdir()):  # of a run that was killed
            if left.name not in (WHOLE, *made._whole):
                left.unlink()
        yield made
        (temporary / WHOLE).unlink(missing_ok=True)
        write_json(temporary / RECORD, {"key": dict(key), "files": made.files(), **info})
        if folder.exists():
            shutil.rmtree(folder)


def _whole_files(folder: Path) -> dict[str, dict[str, Any]]:
    """What a killed run left whole in a unit's folder, by its own account."""
    try:
        found = json.loads((folder / WHOLE).read_text())
        return {n: {"key": f["key"], "sha256": str(f["sha256"])} for n, f in found.items() if (folder / n).is_file()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write a JSON object atomically, indented, with a final newline."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n")
