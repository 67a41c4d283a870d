"""The weights of a pipeline's components by name: seeded ones, or those of an exported folder.

Seeded weights are those that `dpuc export sdxl` writes: time and power of a GPU do not depend on their values, and two
engines can be compared with each other.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from os import cpu_count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import DpuError

if TYPE_CHECKING:
    import torch

    State = Mapping[str, torch.Tensor]

COMPONENTS = ("text_encoder", "text_encoder_2", "unet", "vae")


def seeded(component: str, config: Mapping[str, Any], dtype: torch.dtype, seed: int = 0) -> dict[str, torch.Tensor]:
    """Seeded weights of a component, on the CPU."""
    from ...frontend.export import meta_module
    from ...frontend.seeded import seeded_tensor

    shapes = {name: tuple(t.shape) for name, t in meta_module(component, config).state_dict().items()}

    def make(name: str) -> torch.Tensor:
        return seeded_tensor(seed, component, name.removeprefix("text_model."), shapes[name]).to(dtype)

    with ThreadPoolExecutor(max(1, min(16, cpu_count() or 1))) as pool:
        return dict(zip(shapes, pool.map(make, shapes), strict=True))


def stored(folder: Path, component: str) -> dict[str, torch.Tensor]:
    """The weights that `dpuc export` wrote beside a component's graph.

    Raises:
        DpuError: there is no safetensors file.
    """
    from ...frontend.weight_files import read_header

    files = sorted((folder / component).glob("*.safetensors"))
    if not files:
        raise DpuError(
            f"{folder}: {component}",
            "holds no safetensors file",
            why="target gpu reads the weights by their names in the state dictionary",
            hint="give a folder that dpuc export wrote",
            code="E111",
        )
    return {name: ref.load() for file in files for name, ref in read_header(file).items()}


def weights_sha256(state: State) -> str:
    """`frontend.onnx_load.weights_digest` of a part whose weights are these, as `dpuc export` writes them.

    The bytes of the safetensors file (`frontend.weight_files.write_weights`) go into the digest without a file.

    Args:
        state: of `seeded` or `stored`: one type, in the order of the module's state dictionary.
    """
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    offset = 0
    for name, value in state.items():
        dtype = {"torch.float16": "F16", "torch.float32": "F32"}[str(value.dtype)]
        end = offset + value.numel() * value.element_size()
        header[name] = {"dtype": dtype, "shape": list(value.shape), "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 64)
    file = hashlib.sha256(len(text).to_bytes(8, "little") + text)
    for value in state.values():
        file.update(value.contiguous().numpy().reshape(-1).view("u1").data)
    return hashlib.sha256(file.hexdigest().encode()).hexdigest()


def find(state: State, name: str) -> torch.Tensor:
    """A weight by name; transformers 5 drops `text_model.` from one of its classes.

    Raises:
        DpuError: there is none.
    """
    for key in (name, f"text_model.{name}", name.removeprefix("text_model.")):
        if key in state:
            return state[key]
    raise DpuError("weights", f"tensor '{name}' is missing", hint="export the pipeline again", code="E113")


def build(component: str, config: Mapping[str, Any], state: State, dtype: torch.dtype, device: str) -> Any:
    """The torch module of a component on `device` with the weights of `state`."""
    import torch

    from ...frontend.export import build_module

    with torch.device("meta"):
        module = build_module(component, config)
    module = torch.nn.Module.to(module, dtype).to_empty(device=device).eval().requires_grad_(False)
    with torch.no_grad():
        for name, value in module.state_dict().items():
            value.copy_(find(state, name))
        for name, buffer in module.named_buffers():
            if name.rpartition(".")[2] == "position_ids":  # no part of the state: to_empty left it undefined
                buffer.copy_(torch.arange(buffer.shape[-1], device=device).expand_as(buffer))
    return module
