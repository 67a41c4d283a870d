"""What an estimate needs of a quantised graph: the shape of every operation and which tensors it reads and writes.

Read once from the graph; nothing here depends on an arch, so estimates for further archs do not touch the graph again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from ...errors import DpuError
from ...ir.graph import ParamOp, btc, conv_out_size, ints, shape_of
from ...ir.locations import where
from ...ir.macs import macs
from ...ir.naming import op_names
from ...ir.qgraph import (
    QAttentionOp,
    QCentreOp,
    QConvOp,
    QGroupNormOp,
    QLinearOp,
    QQuantiseOp,
    QSiluOp,
    planes_of,
    section_bits,
    weight_bits,
)
from .linear import linear_grid
from .program import dtype_of

NO_TENSOR = -1


@dataclass(frozen=True)
class SectionShape:
    """A section of a linear: what it writes, its statistics, columns, 2 halves for GEGLU, bits of the weight."""

    kind: str
    stats: str
    n: int
    halves: int
    bits: int = 8


@dataclass(frozen=True)
class LinearShape:
    """A linear as lowered: `supplied` the producer left the row pair or maximum, `stored` its input is int8, `static`
    its scale is, `planes` of what the product reads."""

    samples: int
    tokens: int
    widths: tuple[int, ...]
    sections: tuple[SectionShape, ...]
    heads: int
    norm: bool
    supplied: bool
    stored: bool
    residual: bool
    gate: bool
    static: bool = False
    planes: int = 1


@dataclass(frozen=True)
class ConvShape:
    """A convolution; `size` is that of its input, `out` of its output, (height, width)."""

    samples: int
    size: tuple[int, int]
    out: tuple[int, int]
    kernel: tuple[int, int]
    stride: int
    origin: tuple[int, int]
    upsample: bool
    widths: tuple[int, ...]
    n: int
    temb: bool
    residual: bool
    stats: bool
    bits: int = 8
    planes: int = 1


@dataclass(frozen=True)
class AttentionShape:
    """An attention; `longest_block` is the graph's limit of a key block, the arch has its own."""

    samples: int
    tokens: int
    channels: int
    keys: int
    heads: int
    longest_block: int
    wide: bool
    causal: bool
    row_max: bool


@dataclass(frozen=True)
class RowwiseShape:
    """A pass over rows: `kind` is group_norm, quantise, silu or centre; items are bytes of a stored element, of 15-bit
    integers in each of two `planes`."""

    kind: str
    samples: int
    tokens: int
    widths: tuple[int, ...]
    in_item: int
    out_item: int
    gate: bool
    row_max: bool
    groups: int
    planes: int = 1


Shape = LinearShape | ConvShape | AttentionShape | RowwiseShape


@dataclass(frozen=True)
class OpShape:
    """One operation. `reads` and `writes` are tensor numbers by role (`NO_TENSOR`: from outside); `macs` are logical.

    Roles read: linear x, x2, rows, residual; conv x, x2, temb, residual; attention q, q_scale, k, v, mu; row passes x,
    x2, stats, stats2. Roles written: sections' results and companions in turn; else y and the companion.
    """

    name: str
    kind: str
    where: str
    shape: Shape
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    macs: int


@dataclass(frozen=True)
class EntryShape:
    """One entry: its operations in order."""

    name: str
    ops: tuple[OpShape, ...]


_ITEM = {"f16": 2, "f32": 4, "i8": 1}


def describe(f: FuncOp, longest_blocks: list[int]) -> EntryShape:
    """The operations of a quantised function; `longest_blocks` are the key blocks that its float attentions allow.

    Raises:
        DpuError: E226, an operation that has no lowering.
    """
    names = op_names(f)
    numbers: dict[SSAValue, int] = {}
    blocks = iter(longest_blocks)
    found = []
    for op in f.body.block.ops:
        if isinstance(op, ParamOp | ReturnOp):
            continue
        for r in op.results:
            numbers[r] = len(numbers)

        def role(v: SSAValue | None) -> int:
            return NO_TENSOR if v is None or isinstance(v, BlockArgument) else numbers.get(v, NO_TENSOR)

        shape, reads, writes = _shape(op, blocks)
        found.append(
            OpShape(
                names[op],
                op.name,
                str(where(op)),
                shape,
                tuple(role(v) for v in reads),
                tuple(role(v) for v in writes),
                macs(op),
            )
        )
    return EntryShape(f.sym_name.data, tuple(found))


_Values = list[SSAValue | None]


def _shape(op: Operation, blocks: Iterator[int]) -> tuple[Shape, _Values, _Values]:
    match op:
        case QConvOp():
            kh, kw = shape_of(op.w)[2:]
            top, left, _, _ = ints(op.pad)
            up = op.upsample is not None
            conv = ConvShape(
                samples=btc(op.x, "x")[0],
                size=(op.height.value.data, op.width.value.data),
                out=conv_out_size(op),
                kernel=(2, 2) if up else (kh, kw),
                stride=1 if up else op.stride.value.data,
                origin=(-1, -1) if up else (-top, -left),
                upsample=up,
                widths=tuple(btc(v, "x")[2] for v in (op.x, op.x2) if v is not None),
                n=shape_of(op.w)[0],
                temb=op.temb is not None,
                residual=op.residual is not None,
                stats=op.stats is not None,
                bits=weight_bits(op),
                planes=op.planes,
            )
            return conv, [op.x, op.x2, op.temb, op.residual], [op.y, op.stats]
        case QLinearOp():
            return _linear(op)
        case QAttentionOp():
            b, t, n = btc(op.q, "q")
            attention = AttentionShape(
                samples=b,
                tokens=t,
                channels=n,
                keys=btc(op.k, "k")[1],
                heads=op.heads.value.data,
                longest_block=next(blocks),
                wide=op.prob_bits.value.data == 15,
                causal=op.causal is not None,
                row_max=op.row_max is not None,
            )
            return attention, [op.q, op.q_scale, op.k, op.v, op.mu], [op.y, op.row_max]
        case QGroupNormOp() | QQuantiseOp() | QSiluOp() | QCentreOp():
            return _rowwise(op)
    raise DpuError(where(op), f"'{op.name}' has no lowering", hint="run the quantise pass first", code="E226")


def _linear(op: QLinearOp) -> tuple[Shape, _Values, _Values]:
    samples, tokens = linear_grid(op)
    sections: list[SectionShape] = []
    writes: _Values = []
    results = iter(op.results_)
    for w, kind, stats, bits in zip(op.weights, op.kinds.data, op.stats.data, section_bits(op), strict=True):
        halves = 2 if kind.data == "geglu" else 1
        sections.append(SectionShape(kind.data, stats.data, shape_of(w)[1] // halves, halves, bits))
        writes.append(next(results))
        writes.append(next(results) if kind.data == "q8_head" or stats.data != "none" else None)
    shape = LinearShape(
        samples=samples,
        tokens=tokens,
        widths=tuple(btc(v, "x")[2] for v in (op.x, op.x2) if v is not None),
        sections=tuple(sections),
        heads=op.heads.value.data if op.heads is not None else 0,
        norm=op.gamma is not None,
        supplied=op.rows is not None,
        stored=op.is_stored,
        residual=op.residual is not None,
        gate=op.act is not None,
        static=op.x_scale is not None,
        planes=op.planes,
    )
    return shape, [op.x, op.x2, op.rows, op.residual], writes


def _rowwise(op: QGroupNormOp | QQuantiseOp | QSiluOp | QCentreOp) -> tuple[Shape, _Values, _Values]:
    x: SSAValue = op.v if isinstance(op, QCentreOp) else op.x
    samples, tokens, width = btc(x, "x")
    widths = [width]
    reads: _Values = [x, None, None, None]
    writes: _Values = [op.y, None]
    gate, row_max, groups = isinstance(op, QSiluOp), False, 0
    if isinstance(op, QGroupNormOp):
        reads = [op.x, op.x2, op.stats, op.stats2]
        if op.x2 is not None:
            widths.append(btc(op.x2, "x2")[2])
        writes[1] = op.row_max
        gate, row_max, groups = op.act is not None, op.row_max is not None, op.groups.value.data
    elif isinstance(op, QCentreOp):
        reads[2], writes[1] = op.stats, op.mu
    elif tokens == 1:
        samples, tokens = 1, samples
    shape = RowwiseShape(
        kind=op.name.rpartition(".")[2],
        samples=samples,
        tokens=tokens,
        widths=tuple(widths),
        in_item=_ITEM[dtype_of(x)],
        out_item=_ITEM[dtype_of(op.y)],
        gate=gate,
        row_max=row_max,
        groups=groups,
        planes=planes_of(op.y),
    )
    return shape, reads, writes
