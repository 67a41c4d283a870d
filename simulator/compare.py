"""Two reports against each other: where the time went, operation by operation, largest difference first."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

from .profile import Report, Row
from .report import ProgramReport
from .report_page import number, page, table, text

_LINES = 25  # operations that the text lists


@dataclass(frozen=True)
class Change:
    """One operation in both reports; None: only the other one has it. Times are own seconds of a run, mean of tiles."""

    entry: str
    name: str
    before: Row | None
    after: Row | None
    seconds_before: float
    seconds_after: float

    @property
    def delta(self) -> float:
        """Seconds that it became slower by."""
        return self.seconds_after - self.seconds_before

    def difference(self, field: str) -> int:
        """Of a counter of rows; an operation that is not there has none."""
        return (int(getattr(self.after, field)) if self.after else 0) - (
            int(getattr(self.before, field)) if self.before else 0
        )

    @property
    def bound(self) -> str:
        """`mxu`, `memory -> mxu`, `new: mxu`, `gone: mxu`."""
        if self.before is None or self.after is None:
            row = self.after or self.before
            return f"{'new' if self.after else 'gone'}: {row.bound if row else ''}"
        same = self.before.bound == self.after.bound
        return self.after.bound if same else f"{self.before.bound} -> {self.after.bound}"


@dataclass(frozen=True)
class Comparison:
    """Names are what the user called the two. `changes` of all entries, largest difference of time first."""

    names: tuple[str, str]
    reports: tuple[ProgramReport, ProgramReport]
    entries: tuple[str, ...]
    changes: tuple[Change, ...]

    def entry(self, name: str) -> tuple[Report | None, Report | None]:
        """An entry point in both."""
        a, b = (next((e for e in r.entries if e.entry == name), None) for r in self.reports)
        return a, b


def _times(report: Report | None) -> dict[str, tuple[Row, float]]:
    if report is None:
        return {}
    return {r.name: (r, r.own / report.tiles / report.clock_hz) for r in report.rows}


def compare(a: ProgramReport, b: ProgramReport, names: tuple[str, str] = ("A", "B")) -> Comparison:
    """Match entries and operations by name. The differences of an entry's operations add up to the entry's."""
    entries = list(dict.fromkeys([e.entry for e in a.entries] + [e.entry for e in b.entries]))
    made = Comparison(names, (a, b), tuple(entries), ())
    changes = []
    for entry in entries:
        before, after = (_times(r) for r in made.entry(entry))
        for name in dict.fromkeys([*before, *after]):
            old, new = before.get(name), after.get(name)
            changes.append(
                Change(
                    entry,
                    name,
                    old[0] if old else None,
                    new[0] if new else None,
                    old[1] if old else 0.0,
                    new[1] if new else 0.0,
                )
            )
    changes.sort(key=lambda c: (-abs(c.delta), entries.index(c.entry), c.name))
    return Comparison(names, (a, b), tuple(entries), tuple(changes))


def _percent(before: float, after: float) -> str:
    return f"{100 * (after - before) / before:+.1f} %" if before else "new" if after else ""


def _moved(c: Comparison) -> list[Change]:
    """Changes worth a line: any counter or time differs."""
    fields = ("executed_macs", "bytes_read", "bytes_written")
    return [x for x in c.changes if x.delta or any(x.difference(f) for f in fields) or "->" in x.bound]


def compare_text(c: Comparison) -> str:
    """The entries, then the operations that differ most."""
    lines = [f"A {c.names[0]} on {c.reports[0].arch}", f"B {c.names[1]} on {c.reports[1].arch}"]
    lines.append(f"{'entry':16} {'A ms':>12} {'B ms':>12} {'change':>9} {'A Mcycles':>10} {'B Mcycles':>10}")
    for name in c.entries:
        a, b = c.entry(name)
        ms = [1e3 * r.seconds if r else 0.0 for r in (a, b)]
        cycles = [f"{r.cycles / 1e6:.3f}" if r else "-" for r in (a, b)]
        change = _percent(*ms) if a and b else "gone" if a else "new"
        lines.append(f"{name:16} {ms[0]:12.3f} {ms[1]:12.3f} {change:>9} {cycles[0]:>10} {cycles[1]:>10}")
    moved = _moved(c)
    if not moved:
        return "\n".join([*lines, "no operation differs"])
    lines.append("largest differences of own time, us a run:")
    lines.append(f"{'A':>10} {'B':>10} {'B - A':>10} {'of all':>8} {'MMACs':>9} {'DRAM kB':>9}  operation, bound by")
    whole = sum(abs(x.delta) for x in moved) or 1.0
    for x in moved[:_LINES]:
        size = x.difference("bytes_read") + x.difference("bytes_written")
        lines.append(
            f"{1e6 * x.seconds_before:10.2f} {1e6 * x.seconds_after:10.2f} {1e6 * x.delta:+10.2f} "
            f"{100 * abs(x.delta) / whole:6.1f} % {x.difference('executed_macs') / 1e6:+9.3f} {size / 1e3:+9.1f}  "
            f"{x.entry}: {x.name}, {x.bound}"
        )
    if len(moved) > _LINES:
        rest = moved[_LINES:]
        total = 1e6 * sum(x.delta for x in rest)
        lines.append(f"{'':10} {'':10} {total:+10.2f}  {len(rest)} more")
    return "\n".join(lines)


def compare_page(c: Comparison) -> str:
    """All operations that differ, in a table that sorts; sums by entry above."""
    entry_head = [("entry", True)] + [
        (x, False) for x in ("A ms", "B ms", "B - A ms", "change", "A cycles", "B cycles")
    ]
    entry_rows = []
    for name in c.entries:
        a, b = c.entry(name)
        seconds = [1e3 * r.seconds if r else 0.0 for r in (a, b)]
        cycles = [r.cycles if r else 0 for r in (a, b)]
        entry_rows.append(
            f"<tr>{text(name)}{''.join(number(s, f'{s:.3f}') for s in seconds)}"
            f"{number(seconds[1] - seconds[0], f'{seconds[1] - seconds[0]:+.3f}')}"
            f"{number(seconds[1] - seconds[0], _percent(*seconds))}{''.join(number(n) for n in cycles)}</tr>"
        )
    head = [("entry", True), ("operation", True), ("kind", True)]
    head += [(x, False) for x in ("A us", "B us", "B - A us", "change", "of all", "MACs", "DRAM read", "DRAM written")]
    head += [("bound by", True), ("A tiles", True), ("B tiles", True)]
    moved = _moved(c)
    whole = sum(abs(x.delta) for x in moved) or 1.0
    rows = []
    for x in moved:
        row = x.after or x.before
        old, new, delta = (1e6 * s for s in (x.seconds_before, x.seconds_after, x.delta))
        counters = ("executed_macs", "bytes_read", "bytes_written")
        rows.append(
            f"<tr>{text(x.entry)}{text(x.name)}{text(row.kind if row else '')}{number(old, f'{old:.3f}')}"
            f"{number(new, f'{new:.3f}')}{number(delta, f'{delta:+.3f}')}{number(delta, _percent(old, new))}"
            f"{number(abs(x.delta) / whole, _bar(abs(x.delta) / whole))}"
            + "".join(number(x.difference(f), f"{x.difference(f):+,}") for f in counters)
            + text(x.bound)
            + text(x.before.tiling if x.before else "")
            + text(x.after.tiling if x.after else "")
            + "</tr>"
        )
    total = 1e6 * sum(x.delta for x in moved)
    foot = f"<tr>{text('all')}{text('')}{text('')}<td></td><td></td>{number(total, f'{total:+.3f}')}"
    foot += "<td></td>" * 2
    foot += "".join(
        number(n, f"{n:+,}")
        for n in (sum(x.difference(f) for x in moved) for f in ("executed_macs", "bytes_read", "bytes_written"))
    )
    foot += f"{text('') * 3}</tr>"
    same = len(c.changes) - len(moved)
    body = f"""<p class="note">A: {escape(c.names[0])} on {escape(c.reports[0].arch)}.
B: {escape(c.names[1])} on {escape(c.reports[1].arch)}. Provenance: <b>simulated</b>. Times are own times of one run,
mean of the tiles; those of an entry add up to its time. {same} operations do not differ.</p>
{table(entry_head, entry_rows)}
<input class="find" data-table="changes" placeholder="show operations that contain">
<div class="wide">{table(head, rows, foot, "changes")}</div>"""
    return page("B against A", body)


def _bar(part: float) -> str:
    return f'<span class="bar"><i style="width:{100 * part:.1f}%"></i></span> {100 * part:.1f} %'
