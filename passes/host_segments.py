"""The record of what was cut out of a module to run on the host: attribute `dpu.host_segments` of the module.

Each segment is a dictionary with at least `kind`, `entry` (a function), `input` and `output` (names):

- `sinusoid`: argument `output` of `entry` is the sinusoidal embedding, with `half` frequencies, of the scalars `input`.
- `embedding`: argument `output` of `entry` is row `table[id]` plus `position[token]` for each id of `input`.
- `pick`: `output` is the row of result `input` of `entry` at the first place where `ids` has its maximum, or equals
  `token` when that is given.
"""

from __future__ import annotations

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.ir import Attribute

NAME = "dpu.host_segments"


def add_segment(module: ModuleOp, **fields: str | int | Attribute) -> None:
    """Append one segment to the module's record."""
    values: dict[str, Attribute] = {}
    for key, value in fields.items():
        if isinstance(value, str):
            values[key] = StringAttr(value)
        else:
            values[key] = IntegerAttr(value, i64) if isinstance(value, int) else value
    old = module.attributes.get(NAME)
    segments = list(old.data) if isinstance(old, ArrayAttr) else []
    module.attributes[NAME] = ArrayAttr([*segments, DictionaryAttr(values)])


def segments(module: ModuleOp) -> list[dict[str, str | int]]:
    """The segments of a module as plain dictionaries."""
    found = module.attributes.get(NAME)
    result = []
    for each in found.data if isinstance(found, ArrayAttr) else []:
        assert isinstance(each, DictionaryAttr)
        plain: dict[str, str | int] = {}
        for key, value in each.data.items():
            if isinstance(value, StringAttr):
                plain[key] = value.data
            elif isinstance(value, IntegerAttr):
                plain[key] = value.value.data
        result.append(plain)
    return result
