"""Calibration statistics as passes read them: a safetensors file that `runtime/calibrate.py` writes.

A key is `<operation name>:<operand>`, as in `/down_blocks.1/attentions.0/proj_in/MatMul:x`; names are those of
`ir/naming.py` on the canonical graph. Tensors of the file are called `<key>:<statistic>`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ..errors import DpuError

FORMAT = "dpu-calibration-1"
METADATA = "calibration"  # the one metadata entry of the file, a JSON object
F32 = npt.NDArray[np.float32]


def stat_key(op_name: str, operand: str) -> str:
    """The key of one operand of one operation."""
    return f"{op_name}:{operand}"


def statistic_name(part: str, op_name: str) -> str:
    """What a part's operation is called in keys: the UNet's names are plain, others carry the part's name."""
    return op_name if part == "unet" else f"{part}{'' if op_name.startswith('/') else '/'}{op_name}"


@dataclass(frozen=True)
class Calibration:
    """Statistics over all calibration prompts, steps and samples.

    `info` says over what: model digest, prompts, steps, size.
    """

    info: Mapping[str, str]
    tensors: Mapping[str, F32]
    where: str = "calibration"
    grams: Mapping[str, Callable[[], F32]] = field(default_factory=dict)  # by key; read when they are asked for

    def gram(self, key: str) -> Callable[[], F32] | None:
        """Reads the sums of x^T x over all rows of a linear's input, where the calibration recorded them."""
        return self.grams.get(key)

    def absmax(self, key: str) -> float:
        """The largest magnitude of an operand of a linear, convolution or attention, or of a result (`...:y`)."""
        name = f"{key}:absmax"
        return float(self.tensors[name]) if name in self.tensors else float(self.channel_absmax(key).max())

    def channel_absmax(self, key: str) -> F32:
        """The largest magnitude of each channel of an operand."""
        return self._get(key, "channel_absmax")

    def centred_absmax(self, key: str) -> F32:
        """The largest magnitude of each channel after the mean over a sample's tokens is taken off (attention v)."""
        return self._get(key, "centred_absmax")

    def mean(self, key: str) -> F32:
        """The mean of each channel over everything (attention v)."""
        return self._get(key, "mean")

    def record(self, key: str, statistic: str, option: str) -> F32:
        """A statistic that only `option` needs: `runtime/statistics.py` says which there are.

        Raises:
            DpuError: an earlier version made the file.
        """
        if key in self and f"{key}:{statistic}" not in self.tensors:
            raise DpuError(
                self.where,
                f"no statistic '{statistic}' for '{key}'",
                why=f"{option} needs it, and an earlier version that did not record it made the file",
                hint="calibrate again: dpuc calibrate DIR -o calib.safetensors",
                code="E240",
            )
        return self._get(key, statistic)

    def __contains__(self, key: object) -> bool:
        return any(f"{key}:{s}" in self.tensors for s in ("absmax", "channel_absmax"))

    def _get(self, key: str, statistic: str) -> F32:
        name = f"{key}:{statistic}"
        if name not in self.tensors:
            raise DpuError(
                self.where,
                f"no statistic '{statistic}' for '{key}'",
                why="the graph has an operation that calibration did not see",
                hint="calibrate this model again: dpuc calibrate DIR -o calib.safetensors",
                code="E240",
            )
        return self.tensors[name]


GRAM = "gram"
"""The statistic that is not held in memory: a matrix of all channels of an input."""


def _read(path: str, name: str) -> F32:
    from safetensors import safe_open

    with safe_open(path, framework="numpy") as f:
        return np.asarray(f.get_tensor(name))


def load_calibration(path: Path | str) -> Calibration:
    """Read a calibration file.

    Raises:
        DpuError: it is unreadable, of another format, or holds NaN or infinity.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy") as f:
            info: dict[str, str] = dict(json.loads((f.metadata() or {}).get(METADATA, "{}")))
            names = list(f.keys())  # it is no dict
            tensors = {name: f.get_tensor(name) for name in names if not name.endswith(f":{GRAM}")}
    except (OSError, SafetensorError, ValueError, TypeError) as e:
        reason = "is a folder" if Path(path).is_dir() else str(e)
        raise DpuError(
            str(path),
            f"not a readable calibration file ({reason})",
            hint="write one: dpuc calibrate DIR -o calib.safetensors",
            code="E241",
        ) from e
    if info.get("format") != FORMAT:
        found = json.dumps(info.get("format", "none"))
        raise DpuError(str(path), f"its format is {found}, expected {FORMAT}", hint="calibrate again", code="E241")
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise DpuError(
                str(path),
                f"statistic '{name}' is not finite",
                why="scales are made from it",
                hint="calibrate again",
                code="E242",
            )
    keys = [name.removesuffix(f":{GRAM}") for name in names if name.endswith(f":{GRAM}")]
    grams = {key: partial(_read, str(path), f"{key}:{GRAM}") for key in keys}
    return Calibration(info, tensors, str(path), grams)
