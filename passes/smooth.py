"""SmoothQuant: a factor for each channel moves from a linear's input into its weights, where that changes nothing.

    s[j] = max |x[j]|^alpha / max |w[j, :]|^(1 - alpha)        x / s, then w * s

What makes x takes the division: `gamma` and `beta` of a LayerNorm or of a GroupNorm without activation; the columns of
a linear without activation, of a GEGLU those of its value half; the columns that make an attention's values, also in
another function. All readers of x share the factors. These are any float32: the changed parameters are float32 until
they are quantised, so float results change by rounding alone. Powers of two would change no bit, and gain next to
nothing (README).

Alpha is searched for each x: that whose readers' outputs have the least predicted noise over signal, or no smoothing
(`smooth_search.py`). Layers whose integers the model gives keep them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..ir import graph as g
from ..ir.naming import op_names
from ..ir.signature import argument_names, result_names
from .calibration import statistic_name
from .collectors import Collected
from .derived import DERIVED, F32, Derived, Folded
from .policy import Choices, Precision
from .smooth_search import ALPHAS, Reader, best
from .weights import fixed

Fetch = Callable[[str, tuple[str, ...]], npt.NDArray[Any]]


@dataclass(frozen=True)
class Smooth(ModulePass):
    """Divide inputs of linears by a factor a channel, multiply their weights by it: exact, off by default."""

    name = "smooth"

    factor: float = 4.0  # of every channel, as text has no statistics

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite = _Rewrite("unet", {}, None)
        for place in places(op):
            rewrite.divide(place, np.full(place.channels, self.factor, np.float32))


@dataclass(frozen=True)
class Place:
    """A value that can be divided: who makes it, and the linears that alone read it."""

    value: SSAValue
    maker: g.LayerNormOp | g.GroupNormOp | g.LinearOp
    readers: tuple[g.LinearOp, ...]
    attention: g.AttentionOp | None = None  # the value is its result, the maker makes its values

    @property
    def channels(self) -> int:
        """How many factors there are."""
        return g.shape_of(self.value)[2]


def places(module: ModuleOp) -> Iterator[Place]:
    """Every value of a canonical module that can be divided exactly, in program order."""
    functions = [f for f in module.ops if isinstance(f, FuncOp)]
    returned = {
        name: value
        for f in functions
        for op in f.body.block.ops
        if isinstance(op, ReturnOp)
        for name, value in zip(result_names(f), op.operands, strict=True)
    }
    taken = Counter(name for f in functions for name in argument_names(f))
    for f in functions:
        for op in f.body.block.ops:
            if isinstance(op, g.AttentionOp):
                v, readers = op.v, _readers(op.y)
                if isinstance(v, BlockArgument):
                    name = argument_names(f)[v.index]
                    alone = len(list(v.uses)) == 1 and taken[name] == 1
                    v = returned[name] if alone and name in returned else v
                maker = v.owner
                alone = len(list(v.uses)) == 1
                if readers and alone and isinstance(maker, g.LinearOp) and _columns_scale(maker) and not maker.geglu:
                    yield Place(op.y, maker, readers, op)
            elif isinstance(op, g.LayerNormOp | g.GroupNormOp | g.LinearOp):
                readers = _readers(op.y)
                scales = _columns_scale(op) if isinstance(op, g.LinearOp) else getattr(op, "act", None) is None
                if readers and scales:
                    yield Place(op.y, op, readers)


def _readers(value: SSAValue) -> tuple[g.LinearOp, ...]:
    """The linears that read a value as their only source, if nothing else reads it."""
    found = []
    for use in value.uses:
        op = use.operation
        if not isinstance(op, g.LinearOp) or op.x2 is not None or use.index != 0 or op.x_scale is not None:
            return ()
        found.append(op)
    order = {op: i for i, op in enumerate(found[0].parent.ops)} if found and found[0].parent else {}
    return tuple(sorted(found, key=lambda op: order[op]))


def _columns_scale(op: g.LinearOp) -> bool:
    """Whether a linear's result is a multiple of its columns and bias, or of those of its value half."""
    return op.act is None and op.residual is None and op.x_scale is None


@dataclass(frozen=True)
class Smoothed:
    """What was chosen for one input: the alpha, none for no smoothing, and the predicted noise over signal in dB."""

    layers: tuple[str, ...]
    alpha: float | None
    before_db: float
    after_db: float


@dataclass
class SmoothQuant:
    """Smoothing at work on the models of a program; `chosen` is what it did."""

    statistics: Collected
    choices: Choices
    alphas: Sequence[float] = ALPHAS
    chosen: list[Smoothed] = field(default_factory=list)

    def apply(self, module: ModuleOp, derived: Derived, fetch: Fetch, part: str = "unet") -> None:
        """Rewrite `module`; `derived` receives the new parameters, `fetch` reads them and the model's own.

        Raises:
            DpuError: the calibration lacks a statistic.
        """
        names = {op: statistic_name(part, name) for op, name in op_names(module).items()}
        asked = Choices(self.choices.policy, self.choices.gptq)  # its notes are those of quantisation
        precisions = asked.of_module(module, names, part)
        rewrite = _Rewrite(part, derived, fetch)
        for place in list(places(module)):
            if all(f"{names[op]}:x" in self.statistics for op in place.readers) and not rewrite.is_fixed(place):
                self._one(rewrite, place, names, precisions)

    def _one(
        self,
        rewrite: _Rewrite,
        place: Place,
        names: Mapping[Operation, str],
        precisions: Mapping[Operation, Precision],
    ) -> None:
        readers = [
            Reader(f"{names[op]}:x", rewrite.read(op.w), precisions[op].weights, precisions[op]) for op in place.readers
        ]
        found = best(self.statistics, readers, self.alphas)
        layers = tuple(names[op] for op in place.readers)
        self.chosen.append(Smoothed(layers, found.alpha, found.before_db, found.after_db))
        if found.alpha is None:
            return
        rewrite.divide(place, found.factor)
        keys = [r.key for r in readers] + ([f"{names[place.attention]}:v"] if place.attention is not None else [])
        for key in keys:
            self.statistics.factors[key] = found.factor

    def info(self) -> dict[str, Any]:
        """What the `.dpu` says of it."""
        return {
            "inputs": len(self.chosen),
            "alphas": _counted(self.chosen),
            "layers": [[list(s.layers), s.alpha, round(s.before_db, 2), round(s.after_db, 2)] for s in self.chosen],
        }

    def line(self) -> str:
        """The alphas in a line, for the summary."""
        return f"smooth: alpha of {len(self.chosen)} inputs of linears: {_counted(self.chosen)}"


def _counted(chosen: Sequence[Smoothed]) -> str:
    counts = Counter(s.alpha for s in chosen)
    none = counts.pop(None, 0)
    found = [f"{alpha:g} x {n}" for alpha, n in sorted((a, n) for a, n in counts.items() if a is not None)]
    return ", ".join(found + [f"none x {none}"] * bool(none))


class _Rewrite:
    """Changes of parameters: a new one takes the old one's place, which stays, as names count operations."""

    def __init__(self, part: str, derived: Derived, fetch: Fetch | None) -> None:
        self._part, self._derived, self._fetch = part, derived, fetch
        self._count = 0

    def read(self, value: SSAValue) -> F32:
        """A parameter's values as they are by now."""
        assert self._fetch is not None
        owner = cast(g.ParamOp, value.owner)
        found = np.asarray(self._fetch(owner.source.data, _transform(owner)))
        return found.reshape(g.shape_of(value)).astype(np.float32, copy=False)

    def is_fixed(self, place: Place) -> bool:
        """Whether the model gives the integers of a reader's weight."""
        fetch = self._fetch
        if fetch is None:
            return False
        owners = [cast(g.ParamOp, op.w.owner) for op in place.readers]
        return any(fixed(fetch, o.source.data, _transform(o)) is not None for o in owners)

    def divide(self, place: Place, factor: F32) -> None:
        """Divide a place's value by `factor`, and multiply its readers' weights."""
        inverse = (np.float32(1) / factor).astype(np.float32)
        maker = place.maker
        if isinstance(maker, g.LinearOp):
            half = g.shape_of(maker.w)[1] - len(factor) if maker.geglu is not None else 0
            inverse = np.concatenate([inverse, np.ones(half, np.float32)])
            self._multiply(maker, "w", inverse)
            if maker.bias is not None:
                self._multiply(maker, "bias", inverse)
        else:
            self._multiply(maker, "gamma", inverse)
            self._multiply(maker, "beta", inverse)
        for op in place.readers:
            self._multiply(op, "w", factor[:, None])

    def _multiply(self, op: Operation, name: str, factor: F32) -> None:
        value: SSAValue = getattr(op, name)
        owner = cast(g.ParamOp, value.owner)
        self._count += 1
        source = f"{DERIVED}{self._part}::{owner.source.data} smoothed {self._count}"
        self._derived[source] = Folded(owner.source.data, _transform(owner), factor)
        properties: dict[str, Attribute] = {"source": StringAttr(source)}
        new = g.ParamOp(properties=properties, result_types=[value.type])
        assert op.parent is not None
        op.parent.insert_op_before(new, op)
        op.operands[next(i for i, v in enumerate(op.operands) if v is value)] = new.value


def _transform(op: g.ParamOp) -> tuple[str, ...]:
    return tuple(t.data for t in op.transform.data) if op.transform else ()
