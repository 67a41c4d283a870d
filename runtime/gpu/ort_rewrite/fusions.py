"""The rewrites in their order, and which of them are on."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import onnx_ir as ir

from ....errors import DpuError
from .attention import attention
from .group_norm import group_norm
from .nhwc import nhwc
from .nodes import MS, Derived, sweep
from .skip_group_norm import skip_group_norm
from .skip_layer_norm import skip_layer_norm
from .split_gelu import split_gelu
from .weight_transpose import weight_transpose

FUSIONS = ("attention", "group_norm", "skip_group_norm", "split_gelu", "skip_layer_norm", "nhwc_conv")
"""Each can be switched off. `skip_group_norm` has nothing to do without `group_norm`."""
_OLD = 18  # every operator that a fully fused graph still has is older than this opset
_NEWER = ("Attention", "GroupNormalization", "Gelu")


@dataclass
class Rewritten:
    """A graph for ONNX Runtime: its weights are external, by name; `derived` are made from others (`nodes.derive`)."""

    model: ir.Model
    fusions: tuple[str, ...]
    counts: dict[str, int] = field(default_factory=dict)  # rewrite: nodes that it changed
    derived: Derived = field(default_factory=dict)

    @property
    def operators(self) -> dict[str, int]:
        """How many nodes of each operator are left."""
        found: dict[str, int] = {}
        for node in self.model.graph:
            name = node.op_type if not node.domain else f"{node.domain}.{node.op_type}"
            found[name] = found.get(name, 0) + 1
        return dict(sorted(found.items(), key=lambda x: (-x[1], x[0])))


def chosen_fusions(text: str) -> tuple[str, ...]:
    """`all`, `none`, names with commas, or `all,-name`.

    Raises:
        DpuError: there is no such fusion.
    """
    found: list[str] = []
    for word in (w.strip() for w in text.split(",") if w.strip()):
        name = word.removeprefix("-")
        if word == "all":
            found = list(FUSIONS)
        elif word == "none":
            found = []
        elif name not in FUSIONS:
            hint = f"all, none, or some of {', '.join(FUSIONS)}; -NAME leaves one out"
            raise DpuError("--fusions", f"there is no '{name}'", hint=hint, code="E501")
        elif word.startswith("-"):
            found = [f for f in found if f != name]
        else:
            found.append(name)
    return tuple(f for f in FUSIONS if f in found)


def rewrite(model: ir.Model, fusions: Iterable[str] = FUSIONS, limits: bool = True) -> Rewritten:
    """Rewrite `model` in place; its shapes must be static.

    Args:
        model: an exported part, opset 23.
        fusions: names of `FUSIONS`.
        limits: keep to the sizes that the CUDA kernels are made for; without, no provider may be able to run the graph.
    """
    on = tuple(f for f in FUSIONS if f in set(fusions))
    made = Rewritten(model, on)
    steps: list[tuple[str, Callable[[], int], bool]] = [
        ("weight_transpose", lambda: weight_transpose(model, made.derived), bool(on)),
        ("attention", lambda: attention(model, made.derived), "attention" in on),
        ("group_norm", lambda: group_norm(model, made.derived, limits), "group_norm" in on),
        ("skip_group_norm", lambda: skip_group_norm(model, made.derived), "skip_group_norm" in on),
        ("split_gelu", lambda: split_gelu(model, made.derived, limits), "split_gelu" in on),
        ("skip_layer_norm", lambda: skip_layer_norm(model, made.derived), "skip_layer_norm" in on),
        # The GroupNorm kernel reads channels last, so that the layout moves for it alone, too.
        (
            "nhwc_conv",
            lambda: nhwc(model, made.derived, "nhwc_conv" in on),
            "nhwc_conv" in on or "group_norm" in on,
        ),
    ]
    for name, step, wanted in steps:
        if wanted:
            made.counts[name] = step()
            sweep(model.graph)
    if any(node.domain == MS for node in model.graph):
        model.opset_imports[MS] = 1
    if not any(node.op_type in _NEWER and not node.domain for node in model.graph):
        _restamp(model)
    return made


def _restamp(model: ir.Model) -> None:
    """Say opset 18: the newest opsets have the same operators in versions that a provider may have no kernel for."""
    model.opset_imports[""] = _OLD
    model.graph.opset_imports[""] = _OLD
    for node in model.graph:
        node.version = None
