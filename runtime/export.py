"""Which exporter a source's name means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from ..errors import DpuError

WEIGHTS = ("seeded", "realistic")


def export_pipeline(
    source: str,
    out: Path,
    size: int = 0,
    seed: int = 0,
    opset: int = 23,
    precision: str = "fp16",
    graph_only: bool = False,
    weights: str = "seeded",
    open_sizes: bool = False,
    progress: Callable[[str], None] | None = None,
) -> None:
    """Export "tiny-seeded", "sdxl" or a local diffusers folder to `out`; size 0 is the source's own.

    Raises:
        DpuError: the source is none of these, or an argument is out of range.
    """
    folder = None if source in ("tiny-seeded", "sdxl") else Path(source)
    if folder is not None and not folder.is_dir():
        raise DpuError(source, "no such pipeline", hint="tiny-seeded, sdxl, or a local diffusers folder", code="E106")
    if folder is not None and out.resolve() == folder.resolve():
        raise DpuError(str(out), "is the source itself", hint="choose another output folder", code="E501")
    if graph_only and source == "tiny-seeded":
        raise DpuError("--graph-only", "the tiny pipeline always has weights", code="E501")
    if weights not in WEIGHTS:
        raise DpuError("--weights", f"no weights '{weights}'", hint=f"one of {', '.join(WEIGHTS)}", code="E501")
    if weights != "seeded" and (folder is not None or graph_only):
        raise DpuError("--weights", "the source has its own, or none", hint="leave it out", code="E501")
    from ..frontend.export import Precision  # after the checks: it loads torch
    from ..frontend.sdxl import export_sdxl, export_tiny

    kind = cast(Precision, precision)  # the exporter checks it
    if source == "tiny-seeded":
        export_tiny(
            out,
            seed=seed,
            size=size or 128,
            opset=opset,
            precision=kind,
            realistic=weights == "realistic",
            progress=progress,
        )
        return
    export_sdxl(
        out,
        source=folder,
        graph_only=graph_only,
        seed=seed,
        size=size or (own_size(folder) if folder is not None else 1024),
        opset=opset,
        precision=kind,
        symbolic=open_sizes,
        realistic=weights == "realistic",
        progress=progress,
    )


def own_size(folder: Path) -> int:
    """The image side in pixels that the pipeline in `folder` was trained for: its latent's, times the VAE's scale.

    Raises:
        DpuError: it is no diffusers SDXL folder, or its configs do not say.
    """
    from ..frontend.pipeline_folder import check_diffusers_folder, read_json

    check_diffusers_folder(folder)
    unet, vae = (read_json(folder / part / "config.json") for part in ("unet", "vae"))
    side, channels = unet.get("sample_size"), vae.get("block_out_channels")
    if not isinstance(side, int) or not isinstance(channels, list):
        raise DpuError(
            str(folder),
            "its configs do not say what size of image it makes",
            why=f"sample_size of the UNet is {side!r}, block_out_channels of the VAE are {channels!r}",
            hint="give --size",
            code="E110",
        )
    return side * int(2 ** (len(channels) - 1))
