"""What the tests of the GPU path share: the tiny UNet's graph, traced once."""

from __future__ import annotations

import onnx_ir as ir
import pytest
from dpu.frontend.tiny import tiny_configs
from dpu.runtime.gpu.graphs import part_graph

LATENT = (8, 8)
BATCH = 2


@pytest.fixture(scope="session")
def exported() -> bytes:
    """The float32 graph for two samples of 8x8 latents."""
    return ir.to_proto(part_graph("unet", tiny_configs()["unet"], BATCH, LATENT, "fp32")).SerializeToString()
