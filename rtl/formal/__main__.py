"""`python -m dpu.rtl.formal`: prove, cover, refute seeded bugs; print the table and write it.

python -m dpu.rtl.formal                   # all; results/rtl/formal.json and the table of rtl/formal/README.md
python -m dpu.rtl.formal --only fifo,axil  # some; their rows are replaced
python -m dpu.rtl.formal --changed         # those whose sources are not those of their row; also goes on after a stop
python -m dpu.rtl.formal --limit 60        # CPU seconds a solver may take; what it reached then is in the table

Proofs that reached the limit last time, or have no row, come last.
"""

from __future__ import annotations

import argparse
import sys

from ...errors import DpuError
from . import floats, report, solve
from .subjects import SUBJECTS

LIMIT = 240
"""CPU seconds of a solver: seven proofs reach it, and the whole takes less than an hour of a core."""


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 if nothing was refuted that should hold, every cover was reached, and every bug was found."""
    parser = argparse.ArgumentParser(prog="python -m dpu.rtl.formal", description="Proofs of the RTL.")
    parser.add_argument("--only", default="", help="names, comma-separated (default: all)")
    parser.add_argument("--changed", action="store_true", help="only proofs whose sources changed since their row")
    parser.add_argument("--limit", type=int, default=LIMIT, help=f"CPU seconds a solver may take (default {LIMIT})")
    given = parser.parse_args(arguments)
    only = {x for x in given.only.split(",") if x}
    names = [s.name for s in SUBJECTS] + [f.name for f in floats.FUNCTIONS]
    if unknown := sorted(only - set(names)):
        print(f"no proof is called {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    if why := solve.missing() or floats.missing():
        print(f"nothing is proved: {why}", file=sys.stderr)
        return 0
    rows: list[report.Row] = []
    try:
        chosen = (only or {*names}) & (report.changed() if given.changed else {*names})
        for proof in _in_order(chosen):
            if isinstance(proof, floats.Function):
                rows.append(report.prove_function(proof))
            else:
                rows.append(report.prove_subject(proof, given.limit))
            report.write(rows)
            print(report.line(rows[-1]), flush=True)
    except DpuError as e:
        print(e, file=sys.stderr)
        return 2
    print(f"{len(rows)} proofs, {sum(row.cpu for row in rows):.0f} CPU s; {report.JSON}")
    return int(not all(row.good for row in rows))


def _in_order(chosen: set[str]) -> list[solve.Subject | floats.Function]:
    """What is known to end, then what reached the limit or has no row, each in the order of the tables."""
    ends = {row.name for row in report.read() if row.result == "proved"}
    return sorted((p for p in (*SUBJECTS, *floats.FUNCTIONS) if p.name in chosen), key=lambda p: p.name not in ends)


if __name__ == "__main__":
    raise SystemExit(main())
