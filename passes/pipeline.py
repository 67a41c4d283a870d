"""The passes by name, and running a list of them with numbered dumps."""

from __future__ import annotations

import importlib
import json
import resource
import time
import tracemalloc
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError

from ..errors import DpuError, refusing
from ..files import atomic_write
from ..ir.dialects import context, print_module, verify

PASSES: dict[str, str] = {
    "recognise-activation": "recognise_activation:RecogniseActivation",
    "recognise-norm": "recognise_norm:RecogniseNorm",
    "recognise-linear": "recognise_linear:RecogniseLinear",
    "recognise-geglu": "recognise_geglu:RecogniseGeglu",
    "recognise-attention": "recognise_attention:RecogniseAttention",
    "recognise-time-embedding": "recognise_time_embedding:RecogniseTimeEmbedding",
    "cut-host": "cut_host:CutHost",
    "canonicalise": "canonicalise:Canonicalise",
    "merge-duplicates": "merge_duplicates:MergeDuplicates",
    "fold-upsample": "fold_upsample:FoldUpsample",
    "fuse-epilogue": "fuse_epilogue:FuseEpilogue",
    "fuse-concat": "fuse_concat:FuseConcat",
    "split-entries": "split_entries:SplitEntries",
    "smooth": "smooth:Smooth",
    "quantise": "quantise:Quantise",
    "lower-to-tile": "lower_to_tile:LowerToTile",
    "overlap-prologues": "overlap_prologues:OverlapPrologues",
    "weave-attention": "weave_attention:WeaveAttention",
    "plan-scratchpad": "plan_scratchpad:PlanScratchpad",
}
"""Every pass: its name -> module in this folder and class. A class is imported when its pass is asked for."""

FLOAT_PIPELINE: list[str] = [
    "recognise-activation",
    "recognise-norm",
    "recognise-linear",
    "recognise-geglu",
    "recognise-attention",
    "recognise-time-embedding",
    "cut-host",
    "canonicalise",
    "merge-duplicates",
    "fold-upsample",
    "fuse-epilogue",
    "fuse-concat",
    "split-entries",
]
"""From the tensor dialect to canonical functions: the passes that every precision shares."""


@dataclass(frozen=True)
class PassRecord:
    """What one pass did: time, memory, operations before and after, and how their counts changed."""

    name: str
    seconds: float
    peak_mib: float
    ops_before: int
    ops_after: int
    changes: dict[str, int]

    def text(self) -> str:
        """One line for people."""
        changed = ", ".join(f"{n:+d} {op}" for op, n in sorted(self.changes.items()))
        counts = f"{self.ops_before:>6} -> {self.ops_after:<6}"
        spent = f"{self.seconds:7.3f} s {self.peak_mib:7.1f} MiB"
        return f"{self.name:<26} {spent} {counts} {changed or 'the same operations'}"


def get_pass(name: str) -> type[ModulePass]:
    """The class of a pass.

    Raises:
        DpuError: no pass has this name.
    """
    if name not in PASSES:
        raise DpuError(f"pass '{name}'", "no such pass", hint=f"one of {', '.join(PASSES)}", code="E202")
    module, _, cls = PASSES[name].partition(":")
    found: type[ModulePass] = getattr(importlib.import_module(f".{module}", __package__), cls)
    return found


def make_pass(spec: str) -> ModulePass:
    """A pass from its name and options, such as `quantise{arch=dpu_f2}`.

    Raises:
        DpuError: no pass has this name, or it has no such option.
    """
    name = spec.partition("{")[0]
    cls = get_pass(name)
    if name == spec:
        return cls()
    try:
        (parsed,) = parse_pipeline(spec)
        return cls.from_pass_spec(parsed)
    except (Exception, ArgSpecParseError) as e:  # the latter is a BaseException
        reason = str(e).strip().splitlines()[-1].strip()
        raise DpuError(
            f"pass '{name}'",
            f"cannot read options '{spec.removeprefix(name)}' ({reason})",
            hint=f"write {name}{{option=value}}, more of them separated by spaces",
            code="E202",
        ) from e


def describe(name: str) -> str:
    """A pass in one sentence, from its docstring."""
    return (get_pass(name).__doc__ or "").strip().splitlines()[0]


def run_passes(
    module: ModuleOp,
    names: Sequence[str | ModulePass],
    dump_dir: Path | None = None,
    locations: bool = True,
    first: int = 1,
) -> list[PassRecord]:
    """Run passes in order on a module, in place, verifying after each.

    Args:
        module: what to transform.
        names: passes of the registry, with options in braces if any, or pass objects.
        dump_dir: a folder for `00-input.mlir`, `NN-<pass>.mlir`, `summary.txt` and `summary.json`.
        locations: whether dumps name the ONNX nodes.
        first: number of the first pass, for a later part of one compilation.

    Raises:
        DpuError: an unknown pass, or a graph that a pass refuses.
    """
    passes = [make_pass(p) if isinstance(p, str) else p for p in names]
    ctx = context()
    records = []
    if dump_dir is not None and first == 1:
        _dump(module, dump_dir, 0, "input", locations)
    for number, one in enumerate(passes, first):
        name = one.name
        before = _count(module)
        started = time.perf_counter()
        with refusing(
            f"pass '{name}'",
            "cannot handle this module",
            why="it meets something that the passes before it never leave, or has a fault of its own",
            hint="run the passes in the order of `dpuc passes`; dpuc reduce --when compile-error makes a small module",
            code="E205",
        ):
            one.apply(ctx, module)
        verify(module, f"pass '{name}'")
        seconds = time.perf_counter() - started
        after = _count(module)
        changes = {op: after[op] - before[op] for op in before | after if after[op] != before[op]}
        records.append(PassRecord(name, seconds, _peak_mib(), before.total(), after.total(), changes))
        if dump_dir is not None:
            _dump(module, dump_dir, number, name, locations)
    if dump_dir is not None:
        write_summary(records, dump_dir)
    return records


def write_summary(records: Sequence[PassRecord], folder: Path) -> None:
    """`summary.txt` for people and `summary.json` for programs: what each pass did."""
    with atomic_write(folder / "summary.txt") as path:
        path.write_text("".join(r.text() + "\n" for r in records))
    with atomic_write(folder / "summary.json") as path:
        path.write_text(json.dumps([asdict(r) for r in records], indent=1) + "\n")


def _count(module: ModuleOp) -> Counter[str]:
    return Counter(op.name for op in module.walk())


def _peak_mib() -> float:
    """Peak memory of the process so far; of Python's own allocations where those are traced."""
    if tracemalloc.is_tracing():
        return tracemalloc.get_traced_memory()[1] / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def _dump(module: ModuleOp, folder: Path, number: int, name: str, locations: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / f"{number:02d}-{name}.mlir") as path:
        path.write_text(print_module(module, locations))
