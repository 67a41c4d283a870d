"""The files of an exported pipeline that run on the host: what a `.dpu` carries to be sufficient on its own."""

from __future__ import annotations

from pathlib import Path

_HOST = ("scheduler", "tokenizer", "tokenizer_2", "text_encoder", "text_encoder_2", "vae_decoder")
_SINGLE = ("model_index.json", "unet/config.json", "vae/config.json", "dpu_pipeline.json")


def host_files(folder: Path) -> dict[str, bytes]:
    """Everything but the UNet's graph and weights, by path relative to `folder`; empty for a folder of another kind."""
    if not (folder / "model_index.json").is_file():
        return {}
    paths = [folder / name for name in _SINGLE]
    for name in _HOST:
        paths += sorted(p for p in (folder / name).rglob("*") if p.is_file() and p.name != "dpu_part.json")
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in paths if p.is_file()}
