"""A whole pipeline whose UNet is one convolution: a `.dpu` that the stand-in turns into a picture within seconds."""

from __future__ import annotations

from pathlib import Path

from dpu.codegen.dpufile import save
from dpu.frontend.host_files import host_files
from dpu.ir.arch import load_arch
from dpu.ir.container import Slot
from dpu.ir.dialects import parse_module
from dpu.runtime.failures import SeededWeights, compile_module

SIDE = 8  # of the latent
_UNET = """
func.func @unet(%x: tensor<2x64x4xf16> {dpu.name = "sample"}) -> (tensor<2x64x4xf16> {dpu.name = "out_sample"}) {
  %w = dpu.param "w" : tensor<4x4x3x3xf16>
  %y = dpu.conv %x, %w size 8 x 8 stride 1 {pad = array<i64: 1, 1, 1, 1>} :
    tensor<2x64x4xf16>, tensor<4x4x3x3xf16> -> tensor<2x64x4xf16>
  func.return %y : tensor<2x64x4xf16>
}
"""


def small_pipeline(folder: Path, out: Path) -> Path:
    """Write it to `out`: text encoders and VAE are those of the exported `folder`, on the host."""
    module = parse_module(_UNET)
    program = compile_module(module, load_arch("dpu_tiny"), SeededWeights(module))[0].program
    program.entries = [
        e.model_copy(update={"inputs": _images(e.inputs), "outputs": _images(e.outputs)}) for e in program.entries
    ]
    program.files = host_files(folder)
    save(program, out)
    return out


def _images(slots: tuple[Slot, ...]) -> tuple[Slot, ...]:
    return tuple(s.model_copy(update={"layout": "NCHW", "height": SIDE, "width": SIDE}) for s in slots)
