"""`python -m dpu.rtl.formal`: prove, cover, refute seeded bugs; print the table and write it.

python -m dpu.rtl.formal                   # all; results/rtl/formal.json and the table of rtl/formal/README.md
python -m dpu.rtl.formal --only fifo,axil  # some; their rows are replaced
python -m dpu.rtl.formal --limit 60        # CPU seconds a solver may take; what it reached then is in the table
"""

from __future__ import annotations

import argparse
import sys

from ...errors import DpuError
from . import floats, report, solve
from .subjects import SUBJECTS


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 if nothing was refuted that should hold, every cover was reached, and every bug was found."""
    parser = argparse.ArgumentParser(prog="python -m dpu.rtl.formal", description="Proofs of the RTL.")
    parser.add_argument("--only", default="", help="names, comma-separated (default: all)")
    parser.add_argument("--limit", type=int, default=600, help="CPU seconds a solver may take (default 600)")
    given = parser.parse_args(arguments)
    only = {x for x in given.only.split(",") if x}
    names = [s.name for s in SUBJECTS] + [f.name for f in floats.FUNCTIONS]
    if unknown := sorted(only - set(names)):
        print(f"no proof is called {', '.join(unknown)}; there are {', '.join(names)}", file=sys.stderr)
        return 2
    if why := solve.missing() or floats.missing():
        print(f"nothing is proved: {why}", file=sys.stderr)
        return 0
    rows = []
    try:
        for subject in SUBJECTS:
            if not only or subject.name in only:
                rows.append(report.prove_subject(subject, given.limit))
                report.write(rows)
                print(report.line(rows[-1]), flush=True)
        for function in floats.FUNCTIONS:
            if not only or function.name in only:
                rows.append(report.prove_function(function))
                report.write(rows)
                print(report.line(rows[-1]), flush=True)
    except DpuError as e:
        print(e, file=sys.stderr)
        return 2
    return int(not all(row.good for row in rows))


if __name__ == "__main__":
    raise SystemExit(main())
