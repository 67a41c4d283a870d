"""The process in which cases run: a limit of time a case, a limit of memory, one line of JSON a case.

`python -m dpu.bench.fuzz_worker FORMAT FIRST LAST` runs cases FIRST to LAST - 1. A crash ends it after the line
`{"start": seed}` of the case at fault; the process that reads goes on behind it.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from ..errors import DpuError

SECONDS = 5.0
"""Processor time of one case. Wall time would blame a case for its neighbours."""
MEMORY = 2 << 30
"""Address space beyond what the process has when it starts with the first case."""


WORDS = 30_000
"""Instruction words of one tile, in place of the compiler's own limit: making more takes longer than a case may."""


class Hang(BaseException):
    """A case took longer than `SECONDS`."""


def _expired(number: int, frame: FrameType | None) -> None:
    raise Hang


def attempt(run_case: Callable[[int], None], seed: int) -> dict[str, str]:
    """Run one case: `{"outcome": code or "ok"}`, and for a finding its `kind`, `text` and `place`."""
    signal.signal(signal.SIGPROF, _expired)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        run_case(seed)
    except DpuError as e:
        if not (e.where.strip() and e.what.strip()) or len(e.text()) > 20_000:
            return {"outcome": "finding", "kind": "error text", "text": e.text()[:300], "place": e.code}
        return {"outcome": e.code}
    except BaseException as e:  # xDSL has errors of its own that are no Exception
        if isinstance(e, KeyboardInterrupt | SystemExit):
            raise
        return {"outcome": "finding", "kind": type(e).__name__, "text": str(e)[:300], "place": _place(e)}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {"outcome": "ok"}


def _place(e: BaseException) -> str:
    """The innermost frame of this project, and the innermost of all."""
    root = str(Path(__file__).resolve().parent.parent)
    while e.__cause__ is not None:
        e = e.__cause__
    frames = traceback.extract_tb(e.__traceback__)
    own = [f for f in frames if f.filename.startswith(root) and not any(x in f.filename for x in (".venv", "/bench/"))]
    shown = frames[-1:] + own[-2:][::-1]
    return " <- ".join(f"{'/'.join(Path(f.filename).parts[-2:])}:{f.lineno} {f.name}" for f in shown)


def limit_memory() -> None:
    """Allow `MEMORY` bytes more than now."""
    now = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (now + MEMORY, now + MEMORY))


def main(name: str, first: int, last: int) -> None:
    """Run cases and tell about each."""
    from ..passes.lower.context import Lowering
    from .fuzz_subjects import SUBJECTS

    Lowering.most_words = WORDS

    with tempfile.TemporaryDirectory() as folder:
        subject = SUBJECTS[name](Path(folder))
        limit_memory()
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        for seed in range(first, last):
            print(json.dumps({"start": seed}), flush=True)
            print(json.dumps({"seed": seed, **attempt(subject.run, seed)}), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
