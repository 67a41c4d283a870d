"""The files of an exported pipeline that run on the host: what a `.dpu` carries to be sufficient on its own."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

_HOST = ("scheduler", "tokenizer", "tokenizer_2", "text_encoder", "text_encoder_2", "vae_decoder")
_SINGLE = ("model_index.json", "unet/config.json", "vae/config.json", "dpu_pipeline.json")


VAE_CONFIGS = ("vae/config.json", "vae_decoder/config.json")
"""Where a folder keeps the VAE's configuration: diffusers, Optimum."""


def vae_config(folder: Path) -> Path:
    """The VAE's configuration in an exported folder; the first place if it is in none."""
    found = [folder / name for name in VAE_CONFIGS if (folder / name).is_file()]
    return found[0] if found else folder / VAE_CONFIGS[0]


def host_files(folder: Path, without: Collection[str] = ()) -> dict[str, bytes]:
    """What runs on the host, by path relative to `folder`; empty for a folder of another kind.

    Parts in `without` are compiled: their graphs and weights stay behind, like the UNet's.
    """
    if not (folder / "model_index.json").is_file():
        return {}
    paths = [folder / name for name in _SINGLE]
    for name in (n for n in _HOST if n not in without):
        paths += sorted(p for p in (folder / name).rglob("*") if p.is_file() and p.name != "dpu_part.json")
    files = {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths if p.is_file()}
    if VAE_CONFIGS[0] not in files and vae_config(folder).is_file():
        files[VAE_CONFIGS[0]] = vae_config(folder).read_bytes()
    return files
