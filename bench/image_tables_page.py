"""`results/sim/README.md`: the tables of `dpubench tables` and `dpubench sizes` as a page, and what they say."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ..files import atomic_write
from ..ir.arch import Arch, load_arch
from .image_tables import NOTHING, SCHEDULERS, ArchTable, ImageTables, read
from .sizes import EntryRow, SizesResult

REASONS = {
    "semaphore LOAD": "operands are not on chip yet",
    "semaphore VPU": "the vector engine has not finished what is multiplied next, or holds the accumulators",
    "semaphore MXU": "an earlier matrix word is not done",
    "semaphore STORE": "a buffer is not written back yet",
    "semaphore remote": "another tile is not done",
    "drain": "a word asks for the pipeline to be empty",
    "dispatch": "its word has not come: instruction fetch, or a full queue before it",
    "pipeline": "the array fills: first weights",
    "finished": "the tile has no more matrix words in this entry",
}
"""Of the MXU (`simulator/idle.py`)."""


def write_page(tables: Path) -> Path:
    """README.md beside the tables, with the sizes if `sizes.json` is there; its path.

    Raises:
        DpuError: `tables` is no file of `dpubench tables`.
    """
    sizes = tables.parent / "sizes.json"
    found = SizesResult.model_validate_json(sizes.read_bytes()) if sizes.is_file() else None
    path = tables.parent / "README.md"
    with atomic_write(path) as temporary:
        temporary.write_text(page(read(tables), found) + "\n", encoding="utf-8")
    return path


def page(found: ImageTables, sizes: SizesResult | None = None) -> str:
    """The page in Markdown."""
    lines = [
        "# Full-size SDXL on the timing simulation",
        "",
        f"Rendered by `dpubench tables`; do not edit. Provenance of every number: {found.provenance}, unless it says "
        "otherwise. GB are 10^9 bytes; DRAM bytes are whole beats. Weights are random; cycles do not depend "
        "on values. Utilisation is MACs of the graph over tiles x R x C x cycles; *executed* counts the MACs of the "
        "words, with padding and with upsampling folded into convolutions.",
    ]
    for arch in found.archs:
        lines += ["", *_arch(arch)]
    if found.archs:
        lines += ["", *_legend(found.archs)]
    if sizes is not None:
        lines += ["", *_sizes(sizes)]
    return "\n".join(lines)


def _arch(arch: ArchTable) -> Iterator[str]:
    peak = 2e-12 * arch.peak_macs_per_cycle * arch.clock_hz
    yield f"## {arch.arch}"
    yield ""
    commit = arch.commit[:8] + ("+" if arch.commit.endswith("+") else "")
    yield (
        f"Tiles: {arch.tiles}; {arch.peak_macs_per_cycle:,} MACs a cycle at {arch.clock_hz / 1e6:g} MHz, "
        f"{peak:.3g} TOPS; {arch.dram}, {arch.dram_bytes_per_second / 1e9:.0f} GB/s sustained by the arch file. "
        f"Commit {commit}, `{arch.command}`."
    )
    yield ""
    for left_out in arch.not_modelled:
        if "L2" in left_out:
            yield f"**Not modelled here: {left_out}.**"
            yield ""
    yield from _entries(arch)
    yield ""
    yield from _waits(arch)
    yield ""
    yield from _transfers(arch)
    yield ""
    yield from _classes(arch)
    yield ""
    yield from _image(arch)


def _entries(arch: ArchTable) -> Iterator[str]:
    cached = any(e.l2_hit_rate is not None for e in arch.entries)
    columns = ["entry", "Mcycles", "ms", "GMAC", "executed", "utilisation", "executed", "words"]
    columns += ["LOAD GB", "STORE GB", "DRAM read GB", "written GB", "GB/s", "of sustained", *["L2 hits"] * cached]
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for e in arch.entries:
        rate = e.bytes / e.seconds
        hits = "" if e.l2_hit_rate is None else f" {e.l2_hit_rate:.1%} |"
        yield (
            f"| {e.entry} | {e.cycles / 1e6:.3f} | {1e3 * e.seconds:.2f} | {e.logical_macs / 1e9:.1f} "
            f"| {e.executed_macs / 1e9:.1f} | {e.utilisation:.1%} | {e.executed_utilisation:.1%} | {e.words:,} "
            f"| {e.bytes_read / 1e9:.2f} | {e.bytes_written / 1e9:.2f} | {e.dram_read / 1e9:.2f} "
            f"| {e.dram_written / 1e9:.2f} | {rate / 1e9:.1f} | {rate / arch.dram_bytes_per_second:.0%} |{hits}"
        )


def shares(cycles: Mapping[str, int]) -> dict[str, str]:
    """Percentages with a digit that add up to 100.0: the largest remainders are rounded up."""
    total = sum(cycles.values())
    if not total:
        return {}
    exact = {k: 1000 * n / total for k, n in cycles.items()}
    floor = {k: int(v) for k, v in exact.items()}
    up = sorted(exact, key=lambda k: floor[k] - exact[k])[: 1000 - sum(floor.values())]
    return {k: f"{(floor[k] + (k in up)) / 10:.1f}" for k in cycles}


def _ordered(accounts: Sequence[Mapping[str, int]]) -> list[str]:
    """Reasons, the largest in sum first."""
    total: dict[str, int] = {}
    for a in accounts:
        for k, n in a.items():
            total[k] = total.get(k, 0) + n
    return sorted((k for k, n in total.items() if n), key=lambda k: -total[k])


def _waits(arch: ArchTable) -> Iterator[str]:
    """Of each entry, and of each class in the entries that have one, why the array does not run."""
    reasons = _ordered([e.idle() for e in arch.entries])
    yield "Why the array does not run: shares of its idle tile cycles, %, by the reason that its next word waits for."
    yield ""
    yield f"| entry | class | idle, of tile cycles | {' | '.join(reasons)} |"
    yield "|---|---|---|" + "---|" * len(reasons)
    for e in arch.entries:
        rows = [("all", e.idle())]
        rows += [(name, s.waits) for name, s in e.classes.items() if sum(s.waits.values()) > 0.001 * e.tile_cycles]
        for name, account in rows:
            percent = shares(account)
            cells = " | ".join(percent.get(r, "") for r in reasons)
            yield f"| {e.entry} | {name} | {sum(account.values()) / e.tile_cycles:.1%} | {cells} |"


def _transfers(arch: ArchTable) -> Iterator[str]:
    """What the other engines do, by entry."""
    others = ("VPU", "LOAD", "STORE")
    reasons = _ordered([{k: n for k, n in e.engines[o].items() if k != "runs"} for e in arch.entries for o in others])
    yield "What the other engines do, % of an entry's tile cycles. LOAD and STORE run while data move at any rate."
    yield ""
    yield f"| entry | engine | runs | {' | '.join(reasons)} |"
    yield "|---|---|---|" + "---|" * len(reasons)
    for e in arch.entries:
        for engine in others:
            percent = shares(e.engines[engine])
            yield f"| {e.entry} | {engine} | {percent['runs']} | {' | '.join(percent.get(r, '') for r in reasons)} |"


def _classes(arch: ArchTable) -> Iterator[str]:
    runs = ("MXU", "VPU", "LOAD", "STORE", NOTHING)
    yield (
        "Whose the tile cycles are, and what runs in them, % of an entry's tile cycles: the array, or without it the "
        "vector engine, or only a transfer, or nothing. *Array filled*: executed MACs over what the array could do in "
        "the cycles in which it runs; it is low where a word has fewer rows than the array takes to load its weights."
    )
    yield ""
    yield f"| entry | class | operations | GMAC | LOAD and STORE GB | own | {' | '.join(runs)} | array filled |"
    yield "|---|---|---|---|---|---|" + "---|" * (len(runs) + 1)
    for e in arch.entries:
        whole = shares({f"{c}/{r}": s.own.get(r, 0) for c, s in e.classes.items() for r in runs})
        for name, s in e.classes.items():
            own = sum(s.own.values())
            cells = " | ".join(whole.get(f"{name}/{r}", "") for r in runs)
            ran = s.own.get("MXU", 0) * arch.peak_macs_per_cycle / arch.tiles
            filled = f"{s.executed_macs / ran:.1%}" if ran else ""
            moved = (s.bytes_read + s.bytes_written) / 1e9
            yield (
                f"| {e.entry} | {name} | {s.operations} | {s.logical_macs / 1e9:.1f} | {moved:.2f} "
                f"| {own / e.tile_cycles:.1%} | {cells} | {filled} |"
            )


def _image(arch: ArchTable) -> Iterator[str]:
    if arch.missing:
        yield f"No image: {', '.join(arch.missing)} of {arch.arch} are missing."
        return
    inputs = next(e.inputs for e in arch.entries if e.entry == "unet")
    shapes = ", ".join(f"{k} {v}" for k, v in inputs.items())
    text = (
        f"**An image** ({shapes} in samples x tokens x channels): text encoders, `context` and VAE decoder once, "
        "`time` and `unet` in every call. "
    )
    if all(i.calls == i.steps for i in arch.images):
        text += (
            f"{' and '.join(SCHEDULERS)} call the UNet once a step: only work of the host differs, not counted here."
        )
    yield text
    yield ""
    yield "| scheduler | steps | UNet calls | Gcycles | s an image | images/s | utilisation | DRAM GB an image |"
    yield "|---|---|---|---|---|---|---|---|"
    for i in arch.images:
        yield (
            f"| {i.scheduler} | {i.steps} | {i.calls} | {i.cycles / 1e9:.3f} | {i.seconds:.3f} | {1 / i.seconds:.4f} "
            f"| {i.utilisation:.1%} | {i.bytes / 1e9:.1f} |"
        )
    yield ""
    encoders = [e for e in arch.entries if e.entry.startswith("text_encoder")]
    yield (
        f"With a negative prompt both text encoders run again: {1e3 * sum(e.seconds for e in encoders):.1f} ms and "
        f"{sum(e.bytes for e in encoders) / 1e9:.2f} GB more."
    )
    yield ""
    yield rest(arch, arch.images[0].calls)


def rest(arch: ArchTable, calls: int) -> str:
    """What eats the cycles of an image in which the arrays do not multiply, in sentences."""
    runs = list(arch.runs(calls))
    all_cycles = sum(n * e.tile_cycles for n, e in runs)
    ran = sum(n * e.engines["MXU"].get("runs", 0) for n, e in runs)
    per_tile = arch.peak_macs_per_cycle / arch.tiles
    executed = sum(n * e.executed_macs for n, e in runs)
    logical = sum(n * e.logical_macs for n, e in runs)
    reasons: dict[str, int] = {}
    beside: dict[str, int] = {}
    where: dict[str, int] = {}
    for n, e in runs:
        for k, c in e.idle().items():
            reasons[k] = reasons.get(k, 0) + n * c
        for name, s in e.classes.items():
            for r, c in s.own.items():
                if r != "MXU":
                    beside[r] = beside.get(r, 0) + n * c
                    key = f"{e.entry} {name}"
                    where[key] = where.get(key, 0) + n * c
    idle = sum(reasons.values())
    folded = "more than" if logical > executed else "of"
    return (
        f"**What eats the rest** ({calls} calls): the arrays run in {ran / all_cycles:.1%} of the tile cycles, and are "
        f"{executed / (ran * per_tile):.1%} filled while they do: {executed / (per_tile * all_cycles):.1%} executed, "
        f"{logical / (per_tile * all_cycles):.1%} in MACs of the graph ({abs(logical / executed - 1):.1%} {folded} "
        f"executed). Of the {idle / all_cycles:.1%} in which they do not run, by reason: {_listed(reasons)}. "
        f"Meanwhile: {_listed(beside, _BESIDE)}. Most of it is in {_listed(where, most=4)}."
    )


_BESIDE = {
    "VPU": "the vector engine runs",
    "LOAD": "only transfers run, LOAD among them",
    "STORE": "only STORE runs",
    NOTHING: "nothing runs",
}


def _listed(cycles: Mapping[str, int], names: Mapping[str, str] | None = None, most: int = 9) -> str:
    percent = shares(cycles)
    order = sorted((k for k in cycles if cycles[k]), key=lambda k: -cycles[k])[:most]
    return ", ".join(f"{(names or {}).get(k, k)} {percent[k]} %" for k in order)


def _legend(archs: Sequence[ArchTable]) -> Iterator[str]:
    yield "## Words"
    yield ""
    seen = _ordered([e.idle() for a in archs for e in a.entries])
    for reason in seen:
        yield f"- `{reason}`: {REASONS.get(reason, 'see simulator/idle.py')}"
    yield "- classes: norms, activations, gates and sums that are part of the product they follow count there"
    for left_out in dict.fromkeys(t for a in archs for t in a.not_modelled):
        names = [a.arch for a in archs if left_out in a.not_modelled]
        yield f"- not modelled ({', '.join(names)}): {left_out}"


def _sizes(sizes: SizesResult) -> Iterator[str]:
    yield "## Sizes and batches"
    yield ""
    yield (
        f"`{sizes.command}`: full-size programs compiled from graphs with open sizes, without weights, and proved. "
        "A UNet of batch 2 is one guided image. CPU seconds and memory are measured, on a shared computer."
    )
    yield ""
    yield (
        "| arch | part | size | batch | words a tile | GMAC | Mcycles | ms | utilisation | DRAM GB | compile CPU s "
        "| memory GB |"
    )
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|"
    for row in sizes.rows:
        c, arch = row.case, load_arch(row.case.arch)
        head = f"| {c.arch} | {c.part} | {c.width}x{c.height} | {c.batch} "
        if row.error:
            yield f"{head}| {row.error} |" + " |" * 7
        for name, e in row.entries.items():
            if name not in ("time", "context"):
                yield f"{head}| {_size(e, arch)} | {row.cpu_seconds:.0f} | {row.anonymous_peak / 1e9:.2f} |"


def _size(e: EntryRow, arch: Arch) -> str:
    counted, used = f"{e.words:,} | {e.macs / 1e9:.0f}", e.utilisation(arch)
    if e.cycles is None or used is None:
        return f"{counted} | | | | "
    moved = ((e.bytes_read or 0) + (e.bytes_written or 0)) / 1e9
    return f"{counted} | {e.cycles / 1e6:.1f} | {1e3 * e.cycles / arch.clock_hz:.1f} | {used:.1%} | {moved:.2f}"
