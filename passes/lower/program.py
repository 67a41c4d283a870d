"""Lower a quantised graph function to a tile program: DRAM tensors, gate tables, then every operation in order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from xdsl.dialects.builtin import Float16Type, Float32Type, IntegerType, LocationAttr, ModuleOp, TensorType
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.functions import GATES, table_image
from ...ir.graph import ParamOp, shape_of
from ...ir.isa import TABLE_BYTES, TABLE_SLOTS
from ...ir.locations import fuse, nodes_of, where
from ...ir.naming import op_names
from ...ir.qgraph import (
    QAttentionOp,
    QCentreOp,
    QConvOp,
    QGroupNormOp,
    QLinearOp,
    QQuantiseOp,
    QSiluOp,
)
from ...ir.signature import argument_names, result_names
from ...ir.tile_program import Dram, Instr, Section, TileProgram, uncollected
from .attention import AttentionLowering
from .constants import ConstantPool, Fetch
from .context import Lowering
from .conv import ConvLowering
from .emitter import Emitter
from .linear import GATE, LinearLowering
from .rowwise import lower_centre, lower_group_norm, lower_quantise, lower_silu


@dataclass(frozen=True)
class LoweredOp:
    """One graph operation of an entry: its tag, name, kind, ONNX nodes and output tensors."""

    tag: int
    name: str
    kind: str
    nodes: tuple[str, ...]
    outputs: tuple[Dram, ...]


@dataclass
class LoweredEntry:
    """One entry: its tile program and what the container says about it."""

    name: str
    program: TileProgram
    inputs: dict[str, Dram]
    outputs: dict[str, Dram]
    part: str = "unet"
    ops: list[LoweredOp] = field(default_factory=list)
    qops: dict[int, Operation] = field(default_factory=dict)
    written: tuple[Section, ...] = ()  # the sections before any pass moved one
    locations: dict[int, LocationAttr] = field(default_factory=dict)  # of each tag


def element_name(t: Attribute) -> str:
    """DRAM dtype of a tensor element type."""
    if isinstance(t, Float16Type):
        return "f16"
    if isinstance(t, Float32Type):
        return "f32"
    assert isinstance(t, IntegerType) and t.width.data in (8, 16)
    return "i8"  # 15-bit integers are two planes of them


def dtype_of(v: SSAValue) -> str:
    """DRAM dtype of a value."""
    return element_name(cast(TensorType[Attribute], v.type).get_element_type())


def lower_entry(f: FuncOp, arch: Arch, pool: ConstantPool, state: set[str]) -> LoweredEntry:
    """Lower one function. Values named in `state` are kept between entries, the others are the host's.

    Raises:
        DpuError: an operation has no lowering or does not fit the arch.
    """
    low = Lowering(arch, pool)
    inputs: dict[str, Dram] = {}
    outputs: dict[str, Dram] = {}
    for value in (*f.body.block.args, *(f.body.block.last_op.operands if f.body.block.last_op else ())):
        if not isinstance(value.type, TensorType) or len(shape_of(value)) != 3:
            raise DpuError(
                f"function '{f.sym_name.data}'",
                f"takes or returns {value.type}",
                why="programs work on samples x tokens x channels",
                hint="run the graph passes first, or keep this part on the host",
                code="E225",
            )
    for arg, name in zip(f.body.block.args, argument_names(f), strict=True):
        kind = "state" if name in state else "io"
        inputs[name] = low.tensors[arg] = low.declare(name, dtype_of(arg), cast(Any, shape_of(arg)), kind)
    last = f.body.block.last_op
    if not isinstance(last, ReturnOp):
        raise DpuError(f"function '{f.sym_name.data}'", "does not end in a return", code="E225")
    for value, name in zip(last.operands, result_names(f), strict=True):
        if value in low.tensors:
            what = "its argument" if isinstance(value, BlockArgument) else "one value twice, the second time"
            raise DpuError(f"function '{f.sym_name.data}'", f"returns {what} as '{name}'", code="E225")
        kind = "state" if name in state else "io"
        outputs[name] = low.tensors[value] = low.declare(name, dtype_of(value), cast(Any, shape_of(value)), kind)
    entry = LoweredEntry(f.sym_name.data, cast(Any, None), inputs, outputs)
    _load_tables(low, gate_tables(f))
    names = op_names(f)
    for op in f.body.block.ops:
        if isinstance(op, ParamOp | ReturnOp):
            continue
        low.tag += 1
        low.source = names[op]
        before = len(low.body)
        lower_op(low, op)
        made = sum(isinstance(one, Instr) for section in low.body[before:] for one in section.ops)
        low.words += made // arch.tiles
        entry.locations[low.tag] = fuse(op.location)
        results = tuple(low.tensors[r] for r in op.results if r in low.tensors)
        entry.ops.append(LoweredOp(low.tag, low.source, op.name, nodes_of(op), results))
        entry.qops[low.tag] = op
    entry.written = tuple(low.body)
    entry.program = TileProgram(f.sym_name.data, [], low.body)
    low.body = []  # the makers of constants keep `low`
    used: set[Dram] = set()
    for _, instruction in entry.program.instructions():
        used.update(thing for thing in instruction.things if isinstance(thing, Dram))
    entry.program.drams = [*(d for d in pool.drams.values() if d in used), *low.declared]
    return entry


@uncollected()
def lower_module(
    module: ModuleOp, arch: Arch, fetch: Fetch, part: str = "unet"
) -> list[tuple[LoweredEntry, ConstantPool]]:
    """Lower the functions of a quantised module, which stays as it is; `part` names the model they are of.

    Raises:
        DpuError: an operation has no lowering or does not fit the arch.
    """
    functions = [f for f in module.ops if isinstance(f, FuncOp)]
    state = state_names(functions)
    lowered = []
    for f in functions:
        pool = ConstantPool(fetch)
        lowered.append((lower_entry(f, arch, pool, state), pool))
        lowered[-1][0].part = part
    return lowered


def state_names(functions: list[FuncOp]) -> set[str]:
    """Values that one function returns and another takes."""
    return {n for f in functions for n in result_names(f)} & {n for f in functions for n in argument_names(f)}


def gate_tables(f: FuncOp) -> list[str]:
    """The gate tables that a function's operations use, in order of first use.

    Raises:
        DpuError: more than a tile holds.
    """
    found: dict[str, None] = {}
    for op in f.body.block.ops:
        if isinstance(op, QSiluOp) or (isinstance(op, QGroupNormOp) and op.act is not None):
            found["sigmoid"] = None
        elif isinstance(op, QLinearOp):
            if op.act is not None:
                found[GATE[op.act.data]] = None
            if any(k.data == "geglu" for k in op.kinds.data):
                found["phi"] = None
    if len(found) > TABLE_SLOTS:
        raise DpuError(
            f"function '{f.sym_name.data}'",
            f"uses {len(found)} gate tables: {', '.join(found)}",
            why=f"a tile holds {TABLE_SLOTS}, loaded once",
            hint="split it into functions",
            code="E227",
        )
    return list(found)


def _load_tables(low: Lowering, names: list[str]) -> None:
    """Every tile loads its gate tables once."""
    low.source = "gate tables"
    drams = {}
    for name in names:
        drams[name] = low.pool.raw(f"table.{name}", TABLE_BYTES, lambda name=name: [table_image(GATES[name])])  # type: ignore[misc]
    for tile in range(low.arch.tiles):
        e: Emitter = low.emitter()
        low.tables.append({name: e.alloc("table", 1) for name in names})
        for name in names:
            e.load(low.tables[tile][name], drams[name], TABLE_BYTES)
        if e.ops:
            low.body.append(Section(tile, 0, 0, 0, "prologue", low.source, e.ops))


def _at_least(low: Lowering, op: Operation) -> int:
    """Words of one tile that an operation takes at the very least, before anything is made of its size: each sample
    and each block of rows has a load, an operation and a store."""
    words, least = low.arch.words, 0
    rowwise = isinstance(op, QGroupNormOp | QQuantiseOp | QSiluOp | QCentreOp)
    for value in (*op.operands, *op.results):
        shape = shape_of(value) if isinstance(value.type, TensorType) else ()
        if len(shape) == 3:
            samples, tokens, channels = shape
            tiles = max(1, low.tiles_of(channels)) if rowwise else 1
            rows = max(1, min(words["vbuf"] // 8 // tiles, words["act"] // 8 // tiles, words["param"] // 32))
            blocks = samples * -(-low.share(tokens) // (rows if rowwise else max(words.values())))
            least = max(least, 3 * (blocks if tokens > 1 else -(-low.share(samples) // max(words.values()))))
    return least


def lower_op(low: Lowering, op: Operation, work: bool = True) -> None:
    """Lower one operation; without `work`, only declare its results.

    Raises:
        DpuError: it has no lowering.
    """
    low.admit(_at_least(low, op))
    match op:
        case QConvOp():
            conv = ConvLowering(low, op)
            if work:
                conv.lower()
        case QLinearOp():
            linear = LinearLowering(low, op)
            if work:
                linear.lower()
        case QGroupNormOp():
            lower_group_norm(low, op, work)
        case QQuantiseOp():
            lower_quantise(low, op, work)
        case QSiluOp():
            lower_silu(low, op, work)
        case QCentreOp():
            lower_centre(low, op, work)
        case QAttentionOp():
            attention = AttentionLowering(low, op)
            if work:
                attention.lower()
        case _:
            raise DpuError(where(op), f"'{op.name}' has no lowering", hint="run the quantise pass first", code="E226")
