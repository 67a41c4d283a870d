"""Rewriting an exported SDXL graph to the fused kernels of ONNX Runtime's CUDA provider.

The exporter's graph has operations that the provider runs one by one; its own optimiser does not recognise graphs of
`torch.export`. Each module here does one rewrite; `rewrite` runs those that are asked for.
"""

from __future__ import annotations

from .fusions import FUSIONS, Rewritten, chosen_fusions, rewrite

__all__ = ["FUSIONS", "Rewritten", "chosen_fusions", "rewrite"]
