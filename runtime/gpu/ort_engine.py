"""The ONNX Runtime engine: CUDA provider, rewritten graph, IO binding to torch tensors, one CUDA graph a step.

A session with every node on the GPU is asked for first; only if ONNX Runtime refuses, one with what it leaves on the
CPU, which `notes` lists.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx_ir as ir

from ...errors import DpuError, reason
from .graphs import part_graph
from .ort_rewrite import FUSIONS, rewrite
from .ort_session import load_session, placement
from .static_unet import StaticUnet
from .weights import find

if TYPE_CHECKING:
    import torch

    from .weights import State

# The bits that ONNX Runtime's `sdpa_kernel` knows: flash 1, memory-efficient 2, cuDNN 8; 0 leaves the choice to it.
ATTENTION_KERNELS = {"default": "0", "flash": "3", "cudnn": "10"}


@dataclass(frozen=True)
class OrtOptions:
    """How to run: rewrites, CUDA graph, and the choices of the CUDA provider."""

    fusions: tuple[str, ...] = FUSIONS
    cuda_graph: bool = True
    attention_kernel: str = "default"
    fuse_conv_bias: bool = False
    strict_layer_norm: bool = False
    algorithm_search: str = "EXHAUSTIVE"

    def provider(self) -> tuple[str, dict[str, str]]:
        """As ONNX Runtime takes it."""
        if self.attention_kernel not in ATTENTION_KERNELS:
            hint = f"one of {', '.join(ATTENTION_KERNELS)}"
            raise DpuError("--attention-kernel", f"there is no '{self.attention_kernel}'", hint=hint, code="E501")
        options = {
            "device_id": "0",
            "enable_cuda_graph": str(int(self.cuda_graph)),
            "cudnn_conv_algo_search": self.algorithm_search,
            "cudnn_conv_use_max_workspace": "1",
            "arena_extend_strategy": "kSameAsRequested",
        }
        if self.attention_kernel != "default":
            options["sdpa_kernel"] = ATTENTION_KERNELS[self.attention_kernel]
        if self.fuse_conv_bias:
            options["fuse_conv_bias"] = "1"
        if self.strict_layer_norm:
            options["enable_skip_layer_norm_strict_mode"] = "1"
        return "CUDAExecutionProvider", options


class OrtUnet(StaticUnet):
    """The UNet in ONNX Runtime.

    Args:
        limits: as in `ort_rewrite.rewrite`.
        graph: an exported graph of this batch and size; default: the committed one, or a trace.

    Raises:
        DpuError: ONNX Runtime cannot load or run the graph.
    """

    def __init__(
        self,
        config: Mapping[str, Any],
        state: State,
        batch: int,
        latent: tuple[int, int],
        options: OrtOptions | None = None,
        device: str = "cuda",
        precision: str = "fp16",
        limits: bool = True,
        graph: ir.Model | None = None,
    ) -> None:
        import onnxruntime as ort
        import torch

        super().__init__(config, batch, latent, device, torch.float16 if precision == "fp16" else torch.float32)
        self.options = options or OrtOptions()
        self.label = f"onnxruntime {ort.__version__} {device} {precision}"
        if device == "cuda" and hasattr(ort, "preload_dlls"):
            ort.preload_dlls()
        started = time.perf_counter()
        graph = graph or part_graph("unet", config, batch, latent, precision)
        self.made = rewrite(graph, self.options.fusions, limits)
        self.notes["rewrite seconds"] = time.perf_counter() - started
        self.notes["operators"] = self.made.operators
        self.notes["fusions"] = self.made.counts
        names = self._sources()
        self._arrays = {name: find(state, name).to(self.dtype).numpy() for name in names}
        started = time.perf_counter()
        self.session = self._session()
        self.notes["session seconds"] = time.perf_counter() - started
        self._binding = self._bind(self.session)
        started = time.perf_counter()
        try:
            self._warm_up()
        except DpuError as e:
            if not self.notes.get("cuda graph"):
                raise
            self.notes |= {"cuda graph": False, "cuda graph refused": e.what}
            self.session = self._session(graph=False)
            self._binding = self._bind(self.session)
            self._warm_up()
        self.notes["compile seconds"] = time.perf_counter() - started + self.notes["session seconds"]

    def _warm_up(self) -> None:
        for _ in range(3):  # chooses algorithms, then records the CUDA graph, then replays it
            self.forward()

    def _sources(self) -> list[str]:
        external = [
            n for n, v in self.made.model.graph.initializers.items() if isinstance(v.const_value, ir.ExternalTensor)
        ]
        return list(dict.fromkeys(self.made.derived.get(n, (n, ""))[0] for n in external))

    def _session(self, profile: Path | None = None, graph: bool = True) -> Any:
        model, derived = self.made.model, self.made.derived
        if self.device != "cuda":
            cpu = ["CPUExecutionProvider"]
            return self._refusing(lambda: load_session(model, self._arrays, derived, cpu, profile=profile))
        name, given = self.options.provider()
        if profile is not None or not graph:
            plain = {**given, "enable_cuda_graph": "0"}
            providers: list[Any] = [(name, plain), "CPUExecutionProvider"]
            return self._refusing(lambda: load_session(model, self._arrays, derived, providers, profile=profile))
        try:
            no_fallback = {"session.disable_cpu_ep_fallback": "1"}
            found = load_session(model, self._arrays, derived, [(name, given)], no_fallback)
            self.notes["nodes on the CPU"] = "none: a session that forbids them was made"
            self.notes["cuda graph"] = self.options.cuda_graph
            return found
        except Exception as e:  # ONNX Runtime's own classes
            self.notes["refused without CPU nodes"] = reason(e)
        found = self._session(graph=False)
        self.notes["cuda graph"] = False
        self.notes["nodes on the CPU"] = "some: see placement"
        return found

    def _refusing(self, make: Any) -> Any:
        try:
            return make()
        except Exception as e:
            raise DpuError("unet", f"ONNX Runtime cannot load it ({reason(e)})", code="E406") from e

    def _bind(self, session: Any) -> Any:
        binding = session.io_binding()
        for name in [i.name for i in session.get_inputs()]:
            self._bind_one(binding.bind_input, name, self.buffers[name])
        self._bind_one(binding.bind_output, session.get_outputs()[0].name, self.out)
        return binding

    def _bind_one(self, bind: Any, name: str, tensor: torch.Tensor) -> None:
        kind = {2: np.float16, 4: np.float32}[tensor.element_size()]
        bind(name, self.device, 0, kind, tuple(tensor.shape), tensor.data_ptr())

    def forward(self) -> None:
        """Run once, and wait: ONNX Runtime has a stream of its own."""
        import torch

        if self.device == "cuda":
            torch.cuda.synchronize()
        self._run(self.session, self._binding)
        if self.device == "cuda":
            torch.cuda.synchronize()

    def _run(self, session: Any, binding: Any) -> None:
        try:
            session.run_with_iobinding(binding)
        except Exception as e:
            raise DpuError("unet", f"ONNX Runtime failed ({reason(e)})", code="E406") from e

    def placement(self) -> dict[str, dict[str, int]]:
        """Nodes by provider and operator, from the profile of one run in another session without a CUDA graph."""
        with tempfile.TemporaryDirectory() as folder:
            session = self._session(Path(folder) / "ort")
            self._run(session, self._bind(session))
            return placement(Path(session.end_profiling()))

    def close(self) -> None:
        """Free the device's memory."""
        super().close()
        self._binding = None
        self.session = None
