"""Static input shapes of text encoders and VAE decoder, whatever the exporter called their input."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as ir

from ..errors import DpuError

TOKENS = 77  # of a CLIP text encoder


def part_shapes(onnx: Path, latent: tuple[int, int], samples: int = 1) -> dict[str, tuple[int, ...]]:
    """Shapes by input name of a part with one input: token ids, or a latent of `latent` (height, width).

    Raises:
        DpuError: the file cannot be read.
    """
    try:
        inputs = ir.load(onnx).graph.inputs
    except Exception as e:  # protobuf's DecodeError has no public base
        raise DpuError(str(onnx), "not a readable ONNX file", why=str(e).splitlines()[0][:200], code="E102") from e
    shapes: dict[str, tuple[int, ...]] = {}
    for value in inputs:
        rank = len(value.shape) if value.shape is not None else 0
        channels = value.shape[1] if value.shape is not None and rank == 4 else 4
        count = channels if isinstance(channels, int) else 4
        shapes[str(value.name)] = (samples, count, *latent) if rank == 4 else (samples, TOKENS)
    return shapes
