"""The tile dialect, the text form of `tile_program.py`: what each engine of each tile does, on named on-chip buffers
and DRAM tensors.

A `tile.program` is one entry point. Its body is straight-line: the sequential execution of its operations, top to
bottom, is the program's meaning, and instruction streams, semaphores and addresses are derived from it. One operation
becomes one instruction word (an instruction is itself a nest of up to six loops, so nothing is left to loop over).

`tile.section` opens a group of operations: the tile they run on, the graph operation they belong to, the stream (the
guidance image or row half), the step and the phase. Sections are what the scheduler moves.

    tile.program "step" {
      %x = tile.dram "x" "f16" row 128 : i64 kind "work" {shape = array<i64: 2, 64, 48>}
      tile.section tile 0 : i64 op 3 : i64 stream 0 : i64 step 0 : i64 phase "main" name "/conv_in"
      %a = tile.alloc 128 : i64 at -1 : i64 : !tile.buffer<"act">
      tile.load dst(%a) src(%x) <inner = 96, n = [64, 1, 1], dstride = [128, 0, 0], sstride = [1, 0, 0]>
    }

Fields have the names of the instruction's fields (`isa.py`) and hold offsets relative to the operand of the same name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from xdsl.dialects.builtin import (
    DenseArrayBase,
    IntegerAttr,
    StringAttr,
    i64,
)
from xdsl.ir import Data, Dialect, ParametrizedAttribute, Region, SSAValue, TypeAttribute
from xdsl.irdl import (
    BaseAttr,
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    param_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import NoTerminator
from xdsl.utils.exceptions import VerifyException

from .container import ROW_ALIGN
from .isa import DTYPE, Opcode
from .tile_program import DRAM_KINDS, ITEM_BYTES, SPACES


@irdl_attr_definition
class BufferType(ParametrizedAttribute, TypeAttribute):
    """An on-chip buffer: a contiguous range of words of one scratchpad of one tile."""

    name = "tile.buffer"
    space: StringAttr = param_def(BaseAttr(StringAttr))


@irdl_attr_definition
class DramType(ParametrizedAttribute, TypeAttribute):
    """A DRAM tensor."""

    name = "tile.tensor"


@irdl_attr_definition
class Fields(Data[tuple[tuple[str, Any], ...]]):
    """Instruction fields by name: integers, floats, or short integer lists. Zero is left out."""

    name = "tile.fields"

    @staticmethod
    def of(values: Mapping[str, Any]) -> Fields:
        """The fields that are not zero, in the given order."""
        return Fields(tuple((k, v) for k, v in values.items() if v != 0 and v != (0, 0, 0) and v != (0, 0, 0, 0)))

    def lookup(self, name: str, default: Any = 0) -> Any:
        """The value of a field; `default` if it was left out."""
        for k, v in self.data:
            if k == name:
                return v
        return default

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[tuple[str, Any], ...]:
        def number() -> Any:
            return parser.parse_number()

        def pair() -> tuple[str, Any]:
            key = parser.parse_identifier()
            parser.parse_punctuation("=")
            if parser.parse_optional_punctuation("["):
                parser_values = [number()]
                while parser.parse_optional_punctuation(","):
                    parser_values.append(number())
                parser.parse_punctuation("]")
                return key, tuple(parser_values)
            return key, number()

        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, pair))

    def print_parameter(self, printer: Printer) -> None:
        def text(v: Any) -> str:
            if isinstance(v, tuple):
                return "[" + ", ".join(text(x) for x in v) + "]"
            return repr(float(v)) if isinstance(v, float) else str(int(v))

        printer.print_string("<" + ", ".join(f"{k} = {text(v)}" for k, v in self.data) + ">")


@irdl_attr_definition
class Roles(Data[tuple[str, ...]]):
    """Names of an instruction's operands, in order."""

    name = "tile.roles"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[str, ...]:
        return tuple(parser.parse_comma_separated_list(parser.Delimiter.ANGLE, parser.parse_identifier))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string("<" + ", ".join(self.data) + ">")


@irdl_op_definition
class ProgramOp(IRDLOperation):
    """One entry point, all tiles."""

    name = "tile.program"

    sym_name = prop_def(StringAttr)
    body = region_def("single_block")

    traits = traits_def(NoTerminator())
    assembly_format = "$sym_name $body attr-dict"

    def __init__(self, name: str, body: Region) -> None:
        super().__init__(properties={"sym_name": StringAttr(name)}, regions=[body])


@irdl_op_definition
class DramOp(IRDLOperation):
    """A DRAM tensor samples x tokens x channels with its row pitch in bytes.

    `kind`: const (weights, parameters), work (dead after the entry), state (kept between entries), io (host).
    """

    name = "tile.dram"

    sym_name = prop_def(StringAttr)
    dtype = prop_def(StringAttr)
    shape = prop_def(DenseArrayBase)
    row_bytes = prop_def(IntegerAttr)
    kind = prop_def(StringAttr)
    tensor = result_def(DramType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$sym_name $dtype `row` $row_bytes `kind` $kind attr-dict"

    def __init__(self, name: str, dtype: str, shape: Sequence[int], kind: str, row_bytes: int | None = None) -> None:
        if row_bytes is None:
            row_bytes = -(-shape[2] * ITEM_BYTES[dtype] // ROW_ALIGN) * ROW_ALIGN
        super().__init__(
            properties={
                "sym_name": StringAttr(name),
                "dtype": StringAttr(dtype),
                "shape": DenseArrayBase.from_list(i64, list(shape)),
                "row_bytes": IntegerAttr(row_bytes, 64),
                "kind": StringAttr(kind),
            },
            result_types=[DramType()],
        )

    def verify_(self) -> None:
        if self.dtype.data not in ITEM_BYTES:
            raise VerifyException(f"dtype '{self.dtype.data}' is none of {', '.join(ITEM_BYTES)}")
        if self.kind.data not in DRAM_KINDS:
            raise VerifyException(f"kind '{self.kind.data}' is none of {', '.join(DRAM_KINDS)}")
        need = int(self.shape.get_values()[2]) * ITEM_BYTES[self.dtype.data]
        if self.row_bytes.value.data < need:
            raise VerifyException(f"a row holds {need} bytes but its pitch is {self.row_bytes.value.data}")


@irdl_op_definition
class SectionOp(IRDLOperation):
    """Opens a section: the operations up to the next one belong to it."""

    name = "tile.section"

    tile = prop_def(IntegerAttr)
    op = prop_def(IntegerAttr)  # tag of the graph operation
    stream = prop_def(IntegerAttr)
    step = prop_def(IntegerAttr)
    phase = prop_def(StringAttr)
    source = prop_def(StringAttr)  # name of the graph operation

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "`tile` $tile `op` $op `stream` $stream `step` $step `phase` $phase `name` $source attr-dict"

    def __init__(self, tile: int, op: int, stream: int, step: int, phase: str, source: str) -> None:
        super().__init__(
            properties={
                "tile": IntegerAttr(tile, 64),
                "op": IntegerAttr(op, 64),
                "stream": IntegerAttr(stream, 64),
                "step": IntegerAttr(step, 64),
                "phase": StringAttr(phase),
                "source": StringAttr(source),
            }
        )


@irdl_op_definition
class AllocOp(IRDLOperation):
    """Names `words` words of a scratchpad; `at`, once planned, is where they are. Dead after its last use."""

    name = "tile.alloc"

    words = prop_def(IntegerAttr)
    at = prop_def(IntegerAttr)  # -1: not planned yet
    buffer = result_def(BufferType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$words `at` $at attr-dict `:` type($buffer)"

    def __init__(self, space: str, words: int, at: int = -1) -> None:
        super().__init__(
            properties={"words": IntegerAttr(words, 64), "at": IntegerAttr(at, 64)},
            result_types=[BufferType(StringAttr(space))],
        )

    @property
    def space(self) -> str:
        """The scratchpad: one of `SPACES`."""
        return self.buffer.type.space.data

    def verify_(self) -> None:
        if self.space not in SPACES:
            raise VerifyException(f"space '{self.space}' is none of {', '.join(SPACES)}")
        if self.words.value.data <= 0:
            raise VerifyException(f"a buffer of {self.words.value.data} words")


class Instruction(IRDLOperation):
    """Base of the four instructions. `roles` names the operands; a role is also the field its address goes into."""

    OPCODE: ClassVar[Opcode]
    ROLE_SPACES: ClassVar[dict[str, tuple[str, ...]]]

    arguments = var_operand_def()
    roles = prop_def(Roles)
    fields = prop_def(Fields)

    def __init__(self, operands: Mapping[str, SSAValue], fields: Mapping[str, Any]) -> None:
        super().__init__(
            operands=[list(operands.values())],
            properties={"roles": Roles(tuple(operands)), "fields": Fields.of(fields)},
        )

    @classmethod
    def parse(cls, parser: Parser) -> Instruction:
        roles: list[str] = []
        values: list[SSAValue] = []
        while (role := parser.parse_optional_identifier()) is not None:
            parser.parse_punctuation("(")
            values.append(parser.parse_operand())
            parser.parse_punctuation(")")
            roles.append(role)
        fields = Fields(Fields.parse_parameter(parser))
        return cls.create(operands=values, properties={"roles": Roles(tuple(roles)), "fields": fields})

    def print(self, printer: Printer) -> None:
        for role, value in zip(self.roles.data, self.operands, strict=True):
            printer.print_string(f" {role}(")
            printer.print_ssa_value(value)
            printer.print_string(")")
        printer.print_string(" ")
        self.fields.print_parameter(printer)

    def verify_(self) -> None:
        names = DTYPE[self.OPCODE].names or ()
        if len(self.roles.data) != len(self.operands):
            raise VerifyException(f"{len(self.roles.data)} roles for {len(self.operands)} operands")
        for role, value in zip(self.roles.data, self.operands, strict=True):
            if role not in self.ROLE_SPACES:
                raise VerifyException(f"no operand '{role}', one of {', '.join(self.ROLE_SPACES)}")
            space = value.type.space.data if isinstance(value.type, BufferType) else "dram"
            if space not in self.ROLE_SPACES[role]:
                raise VerifyException(f"operand '{role}' is in {space}, must be in {self.ROLE_SPACES[role]}")
        for key, _ in self.fields.data:
            if key not in names and key not in self.ROLE_SPACES:
                raise VerifyException(f"no field '{key}'")


@irdl_op_definition
class LoadOp(Instruction):
    """DRAM to scratchpad. `dst` is the buffer, `src` the tensor (absent for FILL)."""

    name = "tile.load"
    OPCODE: ClassVar = Opcode.LOAD
    ROLE_SPACES: ClassVar = {"dst": ("act", "wgt", "vbuf", "param", "table"), "src": ("dram",)}


@irdl_op_definition
class StoreOp(Instruction):
    """Scratchpad to DRAM. `src` is the buffer, `dst` the tensor."""

    name = "tile.store"
    OPCODE: ClassVar = Opcode.STORE
    ROLE_SPACES: ClassVar = {"src": ("act", "vbuf", "param"), "dst": ("dram",)}


@irdl_op_definition
class MmOp(Instruction):
    """Matrix product of ACT rows with WGT tiles into ACC."""

    name = "tile.mm"
    OPCODE: ClassVar = Opcode.MM
    ROLE_SPACES: ClassVar = {
        "act": ("act",),
        "wgt": ("wgt",),
        "acc": ("acc",),
        "rowmax_at": ("param",),
        "init_at": ("param",),
    }


_VECTOR = ("param",)


@irdl_op_definition
class VecOp(Instruction):
    """One fused vector pass; see `isa.py` for the pipeline."""

    name = "tile.vec"
    OPCODE: ClassVar = Opcode.VEC
    ROLE_SPACES: ClassVar = {
        "a": ("acc", "vbuf", "param"),
        "b": ("acc", "vbuf", "param"),
        "d": ("act", "vbuf", "param"),
        "a1": _VECTOR,
        "b1": _VECTOR,
        "a2": _VECTOR,
        "b2": _VECTOR,
        "r": _VECTOR,
        "sub_at": _VECTOR,
        "red_at": _VECTOR,
        "table": ("table",),
    }


TILE = Dialect(
    "tile",
    [ProgramOp, DramOp, SectionOp, AllocOp, LoadOp, StoreOp, MmOp, VecOp],
    [BufferType, DramType, Fields, Roles],
)
