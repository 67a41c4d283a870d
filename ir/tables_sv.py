"""rtl/dpu_tables_pkg.sv: the fixed function tables (exp2, recip, rsqrt) as constant arrays of SystemVerilog.

Written with the other generated files by `python -m dpu.ir.isa_doc`. Gate tables are not here: LOAD brings them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .functions import I64, function_table

REMAINDER_BITS: Final = {"exp2": 20, "recip": 16, "rsqrt": 17}


def _signed_width(values: I64) -> int:
    low, high = int(values.min()), int(values.max())
    return 1 + max(high.bit_length(), (-low - 1).bit_length() if low < 0 else 0)


def _literal(value: int, width: int) -> str:
    return f"{'-' if value < 0 else ''}{width}'sd{abs(value)}"


def _table(name: str) -> Iterator[str]:
    table, rb = function_table(name), REMAINDER_BITS[name]
    title = name.capitalize()
    columns = {"c0": table.c0, "c1": table.c1, "c2": table.c2}
    widths = {c: _signed_width(values) for c, values in columns.items()}
    d, s2, s1 = table.shifts(rb)
    yield ""
    yield f"  // {name}: c0, c1, c2 with {table.of}, {table.f1}, {table.f2} fraction bits; CRC32 {table.crc:08x}"
    yield ""
    for key, value in {"Entries": len(table.c0), "Rb": rb, "D": d, "S2": s2, "S1": s1}.items():
        yield f"  parameter int unsigned {title}{key} = {value};"
    yield ""
    yield "  typedef struct packed {"
    yield from (f"    logic signed [{width - 1}:0] {c};" for c, width in widths.items())
    yield f"  }} {name}_entry_t;"
    yield ""
    yield f"  parameter {name}_entry_t {title}Table [{title}Entries] = '{{"
    rows = zip(*columns.values(), strict=True)
    entries = (", ".join(_literal(int(v), w) for v, w in zip(row, widths.values(), strict=True)) for row in rows)
    yield ",\n".join(f"    '{{{entry}}}" for entry in entries)
    yield "  };"


def tables_package() -> str:
    """rtl/dpu_tables_pkg.sv."""
    out = [
        "// Function tables of the vector unit, docs/numerics.md section 4: for a remainder r of Rb bits",
        "// y = c0[i] + ((((c2[i] * (r >> D)) >> S2) + c1[i]) * r >> S1).",
        "// Generated from ir/numerics_tables.json by `python -m dpu.ir.isa_doc`; do not edit.",
        "",
        "package dpu_tables_pkg;",
        "",
        "  /* verilator lint_off UNUSEDPARAM */  // a module uses the table that it needs",
    ]
    for name in REMAINDER_BITS:
        out += _table(name)
    return "\n".join([*out, "", "  /* verilator lint_on UNUSEDPARAM */", "", "endpackage"]) + "\n"
