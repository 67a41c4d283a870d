"""The rows of `dpubench cycles`, made side by side.

A row says what it was made of: a run takes rows of the same words, arch, RTL and timing model from the file that it
writes, so one that was stopped goes on, and one after a change does what changed.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from ..codegen.dpufile import load, save
from ..errors import DpuError
from ..ir.arch import Arch
from ..ir.isa import Words
from ..rtl import model as rtl_model
from ..rtl import toolchain
from ..simulator.dram.params import load_dram
from ..simulator.memory import with_dram
from . import cycles
from .cycles import RUNS, SIZE, Row, archs, compare, run


@cache
def _judges() -> bytes:
    """Digest of the RTL with its memory, and of the timing model."""
    simulator, h = Path(__file__).parent.parent / "simulator", hashlib.sha256()
    files = [*toolchain.sources(rtl_model.TOP), *rtl_model.SIM.glob("*.?pp")]
    files += [*simulator.glob("timing*.py"), *(simulator / "timing_cpp").iterdir(), *(simulator / "dram").glob("*.?pp")]
    files += [
        simulator / "plan.py",
        simulator / "memory.py",
        simulator.parent / "ir" / "cost.py",
        Path(cycles.__file__),
    ]
    for path in sorted(p for p in files if p.is_file()):
        h.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return h.digest()


def made_of(arch: Arch, streams: Iterable[Words]) -> str:
    """Of all that decides a row: words, arch with its memory, RTL, timing model."""
    h = hashlib.sha256(_judges())
    h.update(arch.model_dump_json().encode())
    if arch.dram.model not in rtl_model.MODES:
        h.update(load_dram(arch.dram.parameters).model_dump_json().encode())
    for words in streams:
        h.update(np.ascontiguousarray(words).tobytes())
    return h.hexdigest()[:16]


@dataclass(frozen=True)
class _Case:
    """A row that is to be made."""

    program: Path
    arch: Arch
    dram: str
    entry: str

    def row(self) -> Row:
        ((entry, rtl, model),) = run(load(self.program), self.arch, [self.entry])
        return compare(rtl, model, self.dram, entry)


def measure(
    only: Sequence[str] = (),
    kept: Iterable[Row] = (),
    jobs: int = 1,
    say: Callable[[str], None] = lambda _: None,
) -> Iterator[Row]:
    """The table's rows, in order; those of `kept` that are made of the same come from there. An entry alone is a run.

    The tiny pipeline, compiled for each arch. Ten minutes, and 15 to build four RTL models; side by side in `jobs`.

    Raises:
        DpuError: E505, no such arch; E428, the RTL cannot be built.
    """
    from joblib import Parallel, delayed

    known, old = archs(), {r.made_of: r for r in kept if r.made_of}
    if unknown := [n for n in only if n not in known]:
        raise DpuError(unknown[0], "no such arch", hint=f"one of {', '.join(known)}", code="E505")
    with tempfile.TemporaryDirectory() as work:
        programs = _programs([n for n in known if not only or n in only], Path(work))
        cases, keys = [], []
        for name, dram, names in RUNS:
            if name not in programs:
                continue
            path, words = programs[name]
            arch = with_dram(known[name], dram)
            for entry in names:
                cases.append(_Case(path, arch, dram, entry))
                keys.append(made_of(arch, words[entry]))
        new = Parallel(n_jobs=jobs, backend="loky", return_as="generator", batch_size=1)(
            delayed(case.row)() for case, key in zip(cases, keys, strict=True) if key not in old
        )
        for n, (case, key) in enumerate(zip(cases, keys, strict=True), 1):
            row = old[key] if key in old else next(new).model_copy(update={"made_of": key})
            where = f"{case.arch.name} {case.dram} {case.entry}: {100 * row.error:+.3f} %"
            say(f"{n} of {len(cases)}  {where}{'  (kept)' if key in old else ''}")
            yield row


def _programs(names: Sequence[str], work: Path) -> dict[str, tuple[Path, Mapping[str, Sequence[Words]]]]:
    """By arch: the tiny pipeline as a file, and the words of its entries."""
    from ..codegen.driver import compile_folder
    from ..frontend.sdxl import export_tiny
    from ..runtime.calibrate import calibrate_folder

    folder, statistics = work / "tiny", work / "calib.safetensors"
    export_tiny(folder)
    calibrate_folder(folder, statistics, prompts=2, steps=10, size=SIZE)
    found: dict[str, tuple[Path, Mapping[str, Sequence[Words]]]] = {}
    for name in names:
        path = work / f"{name}.json"
        path.write_text(archs()[name].model_dump_json())
        program = compile_folder(folder, arch=str(path), calibration=statistics, size=SIZE).program
        save(program, work / f"{name}.dpu")
        found[name] = (work / f"{name}.dpu", program.words)
    return found
