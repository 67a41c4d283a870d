"""Quantise: float canonical operations become the quantised ones, W8A8, with scales from calibration.

Convolutions take static scales, linears dynamic ones for each token, attention a static scale a head (keys) and a
channel (values). Linears that feed one attention and share their input become sections of one operation. Statistics are
asked of the producer wherever it can give them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    ArrayAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    ModuleOp,
    StringAttr,
    TensorType,
    f16,
    f32,
    i8,
    i64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass

from ..errors import DpuError
from ..ir import graph as g
from ..ir import qgraph as q
from ..ir.arch import Arch, load_arch
from ..ir.locations import fuse, where
from ..ir.naming import op_names
from ..ir.signature import argument_names, result_names, set_argument_names, set_result_names
from .calibration import statistic_name
from .exponents import exponents
from .lower.attention import fitting_key_block
from .unsupported import check, plain
from .weights import SCALES

F32 = npt.NDArray[np.float32]


class Statistics(Protocol):
    """What `Calibration` offers; see `passes/calibration.py`."""

    def __contains__(self, key: object) -> bool: ...
    def absmax(self, key: str) -> float: ...
    def channel_absmax(self, key: str) -> F32: ...
    def centred_absmax(self, key: str) -> F32: ...


@dataclass(frozen=True)
class Folded:
    """A stored parameter times a factor for each column: made when it is read."""

    source: str
    transform: tuple[str, ...]
    factor: F32

    def read(self, fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]]) -> F32:
        """The parameter in float32, columns (the last dimension) multiplied."""
        return np.asarray(fetch(self.source, self.transform)).astype(np.float32) * self.factor

    def part(self, fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]], which: str) -> npt.NDArray[Any]:
        """Integers or scales of a parameter that is stored as int8: the factor belongs to the scales."""
        found = np.asarray(fetch(self.source, (which, *self.transform)))
        return found * self.factor if which == SCALES else found


DERIVED = "derived::"
"""Prefix of the sources of parameters that quantisation makes; the part's name follows, then `::`."""

Derived = dict[str, "F32 | Folded"]
"""Parameters that quantisation makes, by source."""


def fetcher(
    fetch: Callable[[str, tuple[str, ...]], npt.NDArray[Any]], derived: Derived
) -> Callable[[str, tuple[str, ...]], npt.NDArray[Any]]:
    """`fetch` extended by the parameters in `derived`."""

    def read(source: str, transform: tuple[str, ...]) -> npt.NDArray[Any]:
        found = derived.get(source)
        if found is None:
            return fetch(source, transform)
        if not isinstance(found, Folded):
            return found
        return found.part(fetch, transform[0]) if transform else found.read(fetch)

    return read


@dataclass(frozen=True)
class Quantise(ModulePass):
    """Turn float operations into W8A8 operations with scales from calibration."""

    name = "quantise"

    arch: str = "dpu_tiny"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        quantise(op, load_arch(self.arch), None, {})


def quantise(module: ModuleOp, arch: Arch, statistics: Statistics | None, derived: Derived, part: str = "unet") -> None:
    """Rewrite every function of `module`. Without statistics every maximum is taken as one.

    `derived` receives the arrays behind parameters with source `derived::...` (scales of keys and values). Statistics
    of parts other than the UNet carry the part's name before the operation's.

    Raises:
        DpuError: an operation has no quantised form, named with its ONNX node.
    """
    names = {op: statistic_name(part, name) for op, name in op_names(module).items()}
    functions = [f for f in module.ops if isinstance(f, FuncOp)]
    state = _cross_function_values(functions)
    returned_kv: dict[str, tuple[g.AttentionOp, str]] = {}
    for f in functions:
        for op in f.body.block.ops:
            if isinstance(op, g.AttentionOp):
                for role in ("k", "v"):
                    value = getattr(op, role)
                    if isinstance(value, BlockArgument):
                        returned_kv[_argument_name(f, value)] = (op, role)
    for f in functions:
        _Function(f, arch, statistics, derived, names, returned_kv, state, part).rewrite()
    module.verify()


def _argument_name(f: FuncOp, value: BlockArgument) -> str:
    return argument_names(f)[value.index]


def _cross_function_values(functions: list[FuncOp]) -> dict[str, Attribute]:
    """Names that one function returns and another takes."""
    returned = {n for f in functions for n in result_names(f)}
    return {n: f16 for f in functions for n in argument_names(f) if n in returned}


def tensor(shape: tuple[int, ...], element: Attribute) -> TensorType[Attribute]:
    return TensorType(element, shape)


def scale_of(amax: npt.ArrayLike) -> F32:
    """`amax / 127` in float32; 1 where nothing was seen."""
    a = np.asarray(amax, np.float32)
    return np.where(a > 0, a / np.float32(127), np.float32(1)).astype(np.float32)


def static_of(op: Operation) -> tuple[float, int] | None:
    """Scale and zero point of a convolution's or linear's input, where the model gives them."""
    if not isinstance(op, g.ConvOp | g.LinearOp) or op.x_scale is None:
        return None
    return op.x_scale.value.data, 0 if op.x_zero is None else op.x_zero.value.data


def same_input(a: g.LinearOp, b: g.LinearOp) -> bool:
    """Whether two linears read the same values, quantised the same way."""
    return (a.x, a.x2, static_of(a)) == (b.x, b.x2, static_of(b))


class _Function:
    """Rewrites one function, operation by operation, in order."""

    def __init__(
        self,
        f: FuncOp,
        arch: Arch,
        statistics: Statistics | None,
        derived: Derived,
        names: dict[Operation, str],
        returned_kv: dict[str, tuple[g.AttentionOp, str]],
        state: dict[str, Attribute],
        part: str,
    ) -> None:
        self.part = part
        self.f, self.arch, self.derived, self.names = f, arch, derived, names
        self.statistics = statistics
        self.returned_kv, self.state = returned_kv, state
        self.block = f.body.block
        self.new: dict[SSAValue, SSAValue] = {}  # float value -> its float16 (or float32) replacement
        self.stats: dict[SSAValue, tuple[str, SSAValue]] = {}  # float value -> what its producer left
        self.int8: dict[tuple[SSAValue, float, int], SSAValue] = {}  # statically quantised values, by scale and zero
        self.mu: dict[SSAValue, SSAValue] = {}  # centred values' means
        self.q_scale: dict[SSAValue, SSAValue] = {}
        self.done: set[Operation] = set()
        self.exponents: dict[SSAValue, int] = {}
        if statistics is not None:
            self.exponents = exponents(f, self.result_absmax)
        self.anchor: Operation | None = None

    # -- helpers ---------------------------------------------------------------------------------------------------

    def emit(self, op: Operation, *sources: Operation) -> None:
        """Insert before the operation at work, with the fused locations of `sources`."""
        op.location = fuse(*(s.location for s in sources))
        assert self.anchor is not None
        self.block.insert_op_before(op, self.anchor)

    def value(self, v: SSAValue) -> SSAValue:
        return self.new.get(v, v)

    def set_exponent(self, properties: dict[str, Attribute], name: str, v: SSAValue) -> None:
        """Store a value's exponent if it has one."""
        if v in self.exponents:
            properties[name] = IntegerAttr(self.exponents[v], 64)

    def optional(self, v: SSAValue | None) -> list[SSAValue]:
        """An operand group of one or none."""
        return [] if v is None else [self.value(v)]

    def wanted(self, v: SSAValue) -> str:
        """The statistics that readers of `v` need most."""
        kinds = set()
        for use in v.uses:
            if isinstance(use.operation, g.GroupNormOp):
                kinds.add("column_pair")
            elif isinstance(use.operation, g.LayerNormOp):
                kinds.add("row_pair")
            elif isinstance(use.operation, g.LinearOp) and use.index == 0 and use.operation.x2 is None:
                kinds.add("row_max")
        return next((k for k in ("column_pair", "row_pair", "row_max") if k in kinds), "none")

    def stats_type(self, kind: str, shape: tuple[int, int, int]) -> TensorType[Attribute]:
        b, t, n = shape
        if kind == "column_pair":
            return tensor((b, DYNAMIC_INDEX, 2 * n), f32)
        return tensor((b, 2 if kind == "row_pair" else 1, t), f32)

    def absmax(self, op: Operation, operand: str) -> float:
        if self.statistics is None:
            return 1.0
        return self.statistics.absmax(f"{self.names[op]}:{operand}")

    def result_absmax(self, op: Operation) -> float:
        """The calibrated maximum of a result, 0 if calibration did not record it."""
        key = f"{self.names[op]}:y"
        return self.statistics.absmax(key) if self.statistics is not None and key in self.statistics else 0.0

    def channels(self, op: Operation, operand: str, n: int, centred: bool = False) -> F32:
        if self.statistics is None:
            return np.ones(n, np.float32)
        key = f"{self.names[op]}:{operand}"
        return self.statistics.centred_absmax(key) if centred else self.statistics.channel_absmax(key)

    def param(self, source: str, array: F32, at: Operation) -> SSAValue:
        self.derived[source] = array
        op = g.ParamOp(properties={"source": StringAttr(source)}, result_types=[tensor(array.shape, f32)])
        self.emit(op, at)
        return op.value

    def quantised(self, v: SSAValue, scale: float, at: Operation, zero: int = 0) -> SSAValue:
        """The int8 form of a value with a static scale and zero point, made once."""
        key = (v, scale, zero)
        if key not in self.int8:
            op = q.QQuantiseOp(
                operands=[self.value(v)],
                properties={
                    "scale": FloatAttr(math.ldexp(scale, -self.exponents.get(v, 0)), 32),
                    "zero": IntegerAttr(zero, 64) if zero else None,
                },
                result_types=[tensor(g.shape_of(v), i8)],
            )
            self.emit(op, at)
            self.int8[key] = op.y
        return self.int8[key]

    # -- the walk --------------------------------------------------------------------------------------------------

    def rewrite(self) -> None:
        if self.f.arg_attrs is None:
            set_argument_names(self.f, argument_names(self.f))
        if self.f.res_attrs is None:
            set_result_names(self.f, result_names(self.f))
        for op in list(self.block.ops):
            self.anchor = op
            if op in self.done or isinstance(op, g.ParamOp):
                continue
            if isinstance(op, ReturnOp):
                self._return(op)
                break
            rule = _RULES.get(type(op))
            if rule is None:
                raise DpuError(
                    where(op),
                    f"'{op.name}' of {' and '.join('x'.join(map(str, g.shape_of(v))) for v in op.operands)}",
                    why="it has no quantised form on the DPU",
                    hint="run the graph passes first (dpuc passes lists them), or keep this part on the host",
                    code="E220",
                )
            check(op)
            rule(self, op)
        self._retype_arguments()
        for op in reversed(list(self.block.ops)):
            if type(op) in _RULES:
                self.block.erase_op(op, safe_erase=False)
        for op in reversed(list(self.block.ops)):
            if isinstance(op, g.ParamOp) and not op.value.uses:
                self.block.erase_op(op)

    def conv(self, op: g.ConvOp) -> None:
        sources, scales = [op.x] + ([op.x2] if op.x2 else []), []
        quantised: list[SSAValue] = []
        for operand, v in zip(("x", "x2"), sources, strict=False):
            producer = v.owner
            scale, zero = static_of(op) or (float(scale_of(self.absmax(op, operand))), 0)
            if isinstance(producer, g.GroupNormOp) and (v, -1.0, 0) in self.int8:
                q_op = cast(q.QGroupNormOp, self.int8[v, -1.0, 0].owner)
                assert q_op.scale is not None
                scale = q_op.scale.value.data
                quantised.append(q_op.y)
            else:
                quantised.append(self.quantised(v, scale, op, zero))
            scales.append(scale)
        shape = g.btc(op.y, "y")
        want = self.wanted(op.y)
        results: list[Attribute] = [tensor(shape, f16)]
        if want == "column_pair":
            results.append(self.stats_type(want, shape))
        properties: dict[str, Attribute] = {
            k: v for k, v in op.properties.items() if k not in ("operandSegmentSizes", "resultSegmentSizes")
        }
        properties["x_scale"] = FloatAttr(scales[0], 32)
        self.set_exponent(properties, "y_exp", op.y)
        if len(scales) > 1:
            properties["x2_scale"] = FloatAttr(scales[1], 32)
        new = q.QConvOp(
            operands=[
                [quantised[0]],
                quantised[1:],
                [op.w],
                self.optional(op.bias),
                self.optional(op.temb),
                self.optional(op.residual),
            ],
            properties=properties,
            result_types=[[results[0]], results[1:]],
        )
        self.emit(new, op)
        self.new[op.y] = new.y
        if new.stats is not None:
            self.stats[op.y] = (want, new.stats)

    def group_norm(self, op: g.GroupNormOp) -> None:
        stats = []
        for v in [op.x] + ([op.x2] if op.x2 else []):
            kind, value = self.stats.get(v, ("none", None))
            if kind != "column_pair" or value is None:
                raise DpuError(
                    where(op),
                    f"GroupNorm of {'x'.join(map(str, g.shape_of(v)))} whose producer leaves no channel statistics",
                    why="statistics come from the epilogue of a convolution or linear",
                    hint="keep this part on the host",
                    code="E221",
                )
            stats.append(value)
        convs = [u.operation for u in op.y.uses if isinstance(u.operation, g.ConvOp)]
        shape = g.btc(op.y, "y")
        # Statistics of x * 2^-e: the variance, and what is added to it, are smaller by 4^e.
        eps = math.ldexp(op.eps.value.data, -2 * self.exponents.get(op.x, 0))
        properties: dict[str, Attribute] = {"groups": op.groups, "eps": FloatAttr(eps, 32)}
        if op.act:
            properties["act"] = op.act
        results: list[Attribute] = []
        static = {static_of(c) for c in convs}
        if len(static) > 1 or any(s is not None and s[1] for s in static):
            convs = []  # each reader quantises for itself
        if convs:
            given = next(iter(static))
            amax = max(self.absmax(c, "x" if c.x is op.y else "x2") for c in convs) if given is None else 0.0
            properties["scale"] = FloatAttr(given[0] if given else float(scale_of(amax)), 32)
        elif self.wanted(op.y) == "row_max":
            results.append(self.stats_type("row_max", shape))
        new = q.QGroupNormOp(
            operands=[
                [self.value(op.x)],
                [stats[0]],
                [self.value(op.x2)] if op.x2 else [],
                stats[1:],
                [op.gamma],
                [op.beta],
            ],
            properties=properties,
            result_types=[[tensor(shape, i8 if convs else f16)], results],
        )
        self.emit(new, op)
        if convs:
            self.int8[op.y, -1.0, 0] = new.y
        else:
            self.new[op.y] = new.y
            if new.row_max is not None:
                self.stats[op.y] = ("row_max", new.row_max)

    def layer_norm(self, op: g.LayerNormOp) -> None:
        """Becomes the prologue of each linear that reads it."""

    def linear(self, op: g.LinearOp) -> None:
        """One linear, or all that share its input and feed the same attention."""
        group = self._siblings(op)
        self.done.update(group)
        sections = [self._section(x) for x in group]
        self._emit_linear(group, sections)

    def _siblings(self, op: g.LinearOp) -> list[g.LinearOp]:
        attention = self._attention_of(op)
        if attention is None or not plain(op):
            return [op]
        found = []
        for role in ("q", "k", "v"):
            owner = getattr(attention, role).owner
            if isinstance(owner, g.LinearOp) and same_input(owner, op) and plain(owner):
                found.append(owner)
        return found if op in found else [op]

    def _attention_of(self, op: g.LinearOp) -> g.AttentionOp | None:
        users = [u.operation for u in op.y.uses]
        return users[0] if len(users) == 1 and isinstance(users[0], g.AttentionOp) else None

    def _role(self, op: g.LinearOp) -> tuple[g.AttentionOp | None, str]:
        """The attention a linear's result goes to and as what, also through a function's result."""
        attention = self._attention_of(op)
        if attention is not None:
            return attention, next(r for r in ("q", "k", "v") if getattr(attention, r) is op.y)
        for use in op.y.uses:
            if isinstance(use.operation, ReturnOp):
                name = result_names(self.f)[use.index]
                if name in self.returned_kv:
                    return self.returned_kv[name]
        return None, "none"

    def _section(self, op: g.LinearOp) -> tuple[str, str, g.AttentionOp | None]:
        """(kind, statistics, attention) of a linear as a section."""
        attention, role = self._role(op)
        if op.geglu is not None:
            want = self.wanted(op.y)
            return "geglu", want if want == "row_max" else "none", None
        if attention is not None:
            return {"q": ("q8_head", "none"), "k": ("q8_static", "none"), "v": ("f16", "column_pair")}[role] + (
                attention,
            )
        if any(isinstance(u.operation, ReturnOp) for u in op.y.uses) or any(
            isinstance(u.operation, g.ConvOp) and u.operation.temb is op.y for u in op.y.uses
        ):
            return ("f32", "none", None) if g.shape_of(op.y)[1] == 1 else ("f16", self.wanted(op.y), None)
        return "f16", self.wanted(op.y), None

    def _emit_linear(self, group: list[g.LinearOp], sections: list[tuple[str, str, g.AttentionOp | None]]) -> None:
        first = group[0]
        norm = first.x.owner if isinstance(first.x.owner, g.LayerNormOp) else None
        x = norm.x if norm is not None else first.x
        static = static_of(first) if norm is None else None  # LayerNorm's linears keep a scale for each token
        sources = [v for v in (x, first.x2) if v is not None]
        inputs = [self.value(v) if static is None else self.quantised(v, static[0], first, static[1]) for v in sources]
        kind, rows = self.stats.get(x, ("none", None))
        use_rows = (
            static is None
            and rows is not None
            and first.x2 is None
            and kind == ("row_pair" if norm is not None else "row_max")
        )
        results: list[Attribute] = []
        k_scales: list[SSAValue] = []
        heads: IntegerAttr[Any] | None = None
        for op, (section, stats, attention) in zip(group, sections, strict=True):
            b, t, n = g.btc(op.y, "y")
            element = {"f32": f32, "q8_head": i8, "q8_static": i8}.get(section, f16)
            results.append(tensor((b, t, n), element))
            if section == "q8_head":
                assert attention is not None
                heads = attention.heads
                results.append(tensor((b, heads.value.data, t), f32))
            elif stats != "none":
                results.append(self.stats_type(stats, (b, t, n)))
            if section == "q8_static":
                assert attention is not None
                scale = np.repeat(self.key_scales(attention), n // attention.heads.value.data)
                k_scales.append(self.param(f"{DERIVED}{self.part}::{self.names[attention]}.k_scale", scale, op))
        properties: dict[str, Attribute] = {
            "kinds": ArrayAttr([StringAttr(s[0]) for s in sections]),
            "stats": ArrayAttr([StringAttr(s[1]) for s in sections]),
            "has_bias": DenseArrayBase.from_list(i64, [int(op.bias is not None) for op in group]),
        }
        if norm is not None:
            properties["eps"] = FloatAttr(math.ldexp(norm.eps.value.data, -2 * self.exponents.get(x, 0)), 32)
        if first.act is not None:
            properties["act"] = first.act
        if heads is not None:
            properties["heads"] = heads
        if static is None:
            self.set_exponent(properties, "x_exp", x)
        else:
            properties["x_scale"] = FloatAttr(static[0], 32)
            if static[1]:
                properties["x_zero"] = IntegerAttr(static[1], 64)
        if len(group) == 1:
            self.set_exponent(properties, "y_exp", first.y)
        new = q.QLinearOp(
            operands=[
                inputs[:1],
                inputs[1:],
                [rows] if use_rows and rows is not None else [],
                [norm.gamma] if norm is not None else [],
                [norm.beta] if norm is not None else [],
                [self._smoothed(op, op.w) for op in group],
                [self._smoothed(op, op.bias) for op in group if op.bias is not None],
                [self.value(first.residual)] if first.residual is not None else [],
                k_scales,
            ],
            properties=properties,
            result_types=[results],
        )
        self.emit(new, *([norm] if norm is not None else []), *group)
        outs = iter(new.results_)
        for op, (section, stats, attention) in zip(group, sections, strict=True):
            y = next(outs)
            self.new[op.y] = y
            if section == "q8_head":
                self.q_scale[op.y] = next(outs)
            elif stats != "none":
                companion = next(outs)
                self.stats[op.y] = (stats, companion)
                if attention is not None:
                    self._centre(op, attention, y, companion)

    def smoothing(self, attention: g.AttentionOp) -> F32:
        """A factor for each channel of an attention's queries and keys that makes their ranges equal.

        Queries are divided by it and keys multiplied, so products do not change, and a head's one key scale serves all
        its channels: `f = sqrt(max |q| / max |k|)`, between 1/16 and 16.
        """
        n = g.shape_of(attention.q)[2]
        q_max, k_max = (np.maximum(self.channels(attention, r, n), np.float32(1e-6)) for r in ("q", "k"))
        return np.clip(np.sqrt(q_max / k_max), 1 / 16, 16).astype(np.float32)

    def _smoothed(self, op: g.LinearOp, value: SSAValue) -> SSAValue:
        """A weight or bias that gives queries or keys, with the smoothing folded in."""
        attention, role = self._role(op)
        if attention is None or role not in ("q", "k") or self.statistics is None:
            return value
        owner = cast(g.ParamOp, value.owner)
        factor = self.smoothing(attention)
        factor = np.float32(1) / factor if role == "q" else factor
        source = f"{DERIVED}{self.part}::{owner.source.data} as {role} of {self.names[attention]}"
        transform = tuple(t.data for t in owner.transform.data) if owner.transform else ()
        self.derived[source] = Folded(owner.source.data, transform, factor)
        new = g.ParamOp(properties={"source": StringAttr(source)}, result_types=[value.type])
        self.emit(new, op)
        return new.value

    def key_scales(self, attention: g.AttentionOp) -> F32:
        """One scale for each head of an attention's keys."""
        n, heads = g.shape_of(attention.k)[2], attention.heads.value.data
        k_max = self.channels(attention, "k", n)
        if self.statistics is not None:
            k_max = k_max * self.smoothing(attention)
        return scale_of(k_max.reshape(heads, -1).max(axis=1))

    def _centre(self, op: g.LinearOp, attention: g.AttentionOp, v: SSAValue, stats: SSAValue) -> None:
        b, t, n = g.btc(op.y, "y")
        scale = self.param(
            f"{DERIVED}{self.part}::{self.names[attention]}.v_scale",
            scale_of(self.channels(attention, "v", n, centred=True)),
            op,
        )
        centre = q.QCentreOp(operands=[v, stats, scale], result_types=[tensor((b, t, n), i8), tensor((b, 1, n), f32)])
        self.emit(centre, op)
        self.new[op.y], self.mu[op.y] = centre.y, centre.mu

    def attention(self, op: g.AttentionOp) -> None:
        b, t, n = g.btc(op.q, "q")
        heads = op.heads.value.data
        v_scale = self.param(
            f"{DERIVED}{self.part}::{self.names[op]}.v_scale", scale_of(self.channels(op, "v", n, centred=True)), op
        )
        mu = self.mu[op.v] if op.v in self.mu else self._state_mu(op.v)
        share = 2 if op.causal is not None else 4  # a mask needs all keys in one block
        longest = fitting_key_block(n // heads, g.shape_of(op.k)[1], self.arch, share)
        key_block = min(op.key_block.value.data, longest)
        if op.causal is not None and t > key_block:
            raise DpuError(
                where(op),
                f"causal attention of {t} tokens",
                why=f"a mask needs all keys in one block, and arch '{self.arch.name}' holds {key_block}",
                hint="use an arch with larger scratchpads",
                code="E224",
            )
        want = self.wanted(op.y) == "row_max"
        new = q.QAttentionOp(
            operands=[self.value(op.q), self.q_scale[op.q], self.value(op.k), self.value(op.v), mu, v_scale],
            properties={
                "heads": op.heads,
                "scale": FloatAttr(op.scale.value.data, 64),
                "k_scale": DenseArrayBase.from_list(f32, [float(x) for x in self.key_scales(op)]),
                "key_block": IntegerAttr(key_block, 64),
                "prob_bits": op.prob_bits,
                **({"causal": op.causal} if op.causal is not None else {}),
            },
            result_types=[tensor((b, t, n), f16), [self.stats_type("row_max", (b, t, n))] if want else []],
        )
        self.emit(new, op)
        self.new[op.y] = new.y
        if new.row_max is not None:
            self.stats[op.y] = ("row_max", new.row_max)

    def _state_mu(self, v: SSAValue) -> SSAValue:
        """The mean that comes with values computed by another entry: a new argument `<name>.mu`."""
        if v not in self.mu:
            assert isinstance(v, BlockArgument)
            b, _, n = g.btc(v, "v")
            names = [*argument_names(self.f), f"{_argument_name(self.f, v)}.mu"]
            self.mu[v] = self.block.insert_arg(tensor((b, 1, n), f32), len(self.block.args))
            set_argument_names(self.f, names)
        return self.mu[v]

    def silu(self, op: g.SiluOp) -> None:
        new = q.QSiluOp(operands=[self.value(op.x)], result_types=[tensor(g.shape_of(op.y), f16)])
        self.emit(new, op)
        self.new[op.y] = new.y

    def _return(self, op: ReturnOp) -> None:
        values, names = [], []
        stored = result_names(self.f)
        for v, name in zip(op.operands, stored, strict=True):
            values.append(self.value(v))
            names.append(name)
        for v, name in zip(op.operands, stored, strict=True):
            if v in self.mu:
                values.append(self.mu[v])
                names.append(f"{name}.mu")
        new = ReturnOp(*values)
        self.emit(new, op)
        self.block.erase_op(op)
        set_result_names(self.f, names)
        self.f.update_function_type()

    def _retype_arguments(self) -> None:
        """Arguments computed by another entry take the type that entry gives them."""
        for arg, name in list(zip(self.block.args, argument_names(self.f), strict=True)):
            if name in self.returned_kv:
                self._retype(arg, i8)
            elif (name in self.state and g.shape_of(arg)[1] == 1) or _is_time_embedding(arg):
                self._retype(arg, f32)
            elif not name.endswith(".mu"):
                self._retype(arg, f16)
        self.f.update_function_type()

    def _retype(self, arg: BlockArgument, element: Attribute) -> None:
        shape = g.shape_of(arg)
        if cast(TensorType[Attribute], arg.type).element_type == element:
            return
        names = argument_names(self.f)
        new = self.block.insert_arg(tensor(shape, element), arg.index)
        new.name_hint = arg.name_hint
        arg.replace_all_uses_with(new)
        self.block.erase_arg(arg)
        set_argument_names(self.f, names)


def _is_time_embedding(value: SSAValue) -> bool:
    return any(isinstance(u.operation, q.QConvOp) and u.operation.temb is value for u in value.uses)


_RULES: dict[type[Operation], Any] = {
    g.ConvOp: _Function.conv,
    g.GroupNormOp: _Function.group_norm,
    g.LayerNormOp: _Function.layer_norm,
    g.LinearOp: _Function.linear,
    g.AttentionOp: _Function.attention,
    g.SiluOp: _Function.silu,
}
