"""What a program holds, for `dpuc inspect`: as plain text or as JSON."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import numpy as np

from ..ir.container import Base, Entry, Program, Slot
from ..ir.isa import ENGINE_OF, WORD_BYTES, Engine, Opcode, Words
from ..passes.policy import Kept, kept_lines
from .precisions import as_json as layers_as_json
from .precisions import by_class, layers


def _slot(s: Slot) -> dict[str, Any]:
    base = Base(s.base).name if s.base in set(Base) else str(s.base)
    return {"name": s.name, "shape": list(s.shape), "dtype": s.dtype, "layout": s.layout, "base": base,
            "offset": s.offset, "bytes": s.bytes}  # fmt: skip


def _per_engine(words: Words) -> dict[str, int]:
    counts = np.bincount(words["opcode"], minlength=max(Opcode) + 1)
    out = {e.name: 0 for e in Engine}
    for opcode, engine in ENGINE_OF.items():
        out[engine.name] += int(counts[opcode])
    return out


def _entry(program: Program, e: Entry) -> dict[str, Any]:
    streams = program.words[e.name]
    digest = hashlib.sha256()
    for s in streams:
        digest.update(np.ascontiguousarray(s).view(np.uint8).data)
    return {
        "name": e.name,
        "once": e.once,
        "inputs": [_slot(s) for s in e.inputs],
        "outputs": [_slot(s) for s in e.outputs],
        "operations": len(e.sources),
        "macs": sum(s.macs for s in e.sources),
        "tiles": [{"words": len(s), "engines": _per_engine(s)} for s in streams],
        "words": sum(map(len, streams)),
        "word_bytes": WORD_BYTES * sum(map(len, streams)),
        "digest": digest.hexdigest()[:16],
    }


def summary(program: Program) -> dict[str, Any]:
    """The facts as JSON values: arch, precisions, entry points, sizes, memory, host segments, files, digests."""
    found = layers(program)
    return {
        "arch": {"name": program.arch.name, "digest": program.arch.digest, "tiles": program.arch.tiles},
        "info": program.info,
        "precisions": by_class(found),
        "layers": layers_as_json(found),
        "entries": [_entry(program, e) for e in program.entries],
        "constants_bytes": int(program.constants.nbytes),
        "regions": {
            (Base(b).name if b in set(Base) else str(b)): n for b, n in sorted(program.base_bytes.items())
        },
        "host_segments": [s.model_dump(mode="json") for s in program.host_segments],
        "tables": {n: {"dtype": str(t.dtype), "shape": list(t.shape)} for n, t in program.tables.items()},
        "files": {n: len(content) for n, content in program.files.items()},
    }  # fmt: skip


def _size(n: int) -> str:
    """`12.3 MiB`"""
    value, unit = float(n), "B"
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            break
        value /= 1024
    return f"{n} B" if unit == "B" else f"{value:.1f} {unit}"


def _slots(title: str, slots: list[dict[str, Any]]) -> list[str]:
    """One line a tensor; those that stay on the device between entries are many and share one."""
    state = [s for s in slots if s["base"] == Base.STATE.name]
    if len(state) > 2:
        slots = [s for s in slots if s not in state]
    else:
        state = []
    lines = [
        f"  {title:8}{s['name']}: {'x'.join(map(str, s['shape']))} {s['dtype']} {s['layout']}, "
        f"{s['base']} + {s['offset']:#x}, {_size(s['bytes'])}"
        for s in slots
    ]
    if state:
        first, last = state[0]["name"], state[-1]["name"]
        size = _size(sum(s["bytes"] for s in state))
        lines.append(f"  {title:8}{len(state)} tensors in STATE, {size}: {first} ... {last} (--json has all)")
    return lines


_FOR_PROGRAMS = ("segments", "kept", "smooth")  # facts that other lines say in words


def _fact(name: str, value: str) -> str:
    return f"{name:13}{value}"


def _value(value: object) -> str:
    if isinstance(value, dict):  # digests and a policy's text are in the JSON
        return ", ".join(f"{k} {v}" for k, v in value.items() if len(str(v)) < 64)
    return str(value)


def _tables(tables: dict[str, dict[str, Any]]) -> list[str]:
    """One line a table, or one for all that share the first part of their names."""
    groups: dict[str, list[str]] = {}
    for name in tables:
        groups.setdefault(name.partition("/")[0], []).append(name)
    lines = []
    for group, names in groups.items():
        if len(names) == 1:
            t = tables[names[0]]
            lines.append(f"  {names[0]}: {t['dtype']} {t['shape']}")
        else:
            size = sum(math.prod(tables[n]["shape"]) * np.dtype(tables[n]["dtype"]).itemsize for n in names)
            lines.append(f"  {group}/...: {len(names)} arrays, {_size(size)}")
    return lines


def inspect(program: Program, as_json: bool = False) -> str:
    """The summary as text for a person, or as JSON."""
    facts = summary(program)
    if as_json:
        return json.dumps(facts, indent=2)
    arch = facts["arch"]
    out = [_fact("arch", f"{arch['name']} (digest {arch['digest']}), {arch['tiles']} tile{'s' * (arch['tiles'] > 1)}")]
    out += [_fact(k, _value(v)) for k, v in facts["info"].items() if k not in _FOR_PROGRAMS]
    out += [_fact("layers", f"{count:>4} {text}") for text, count in facts["precisions"].items()]
    if smooth := facts["info"].get("smooth"):
        out.append(_fact("smooth", f"alpha of {smooth['inputs']} inputs of linears: {smooth['alphas']}"))
    kept = [Kept(**k) for k in facts["info"].get("kept", ())]
    out += [_fact("kept", line) for line in kept_lines(kept)]
    out.append(_fact("constants", _size(facts["constants_bytes"])))
    out += [_fact("region", f"{name:8}{_size(n)}") for name, n in facts["regions"].items()]
    for e in facts["entries"]:
        once = ", once an image" if e["once"] else ""
        out += ["", f"entry '{e['name']}' (digest {e['digest']}){once}"]
        out.append(
            f"  {e['words']:,} words, {_size(e['word_bytes'])}; {e['operations']} graph operations, {e['macs']:,} MACs"
        )
        out += _slots("input", e["inputs"]) + _slots("output", e["outputs"])
        for t, tile in enumerate(e["tiles"]):
            engines = ", ".join(f"{n:,} {name}" for name, n in tile["engines"].items() if n)
            out.append(f"  tile {t}: {tile['words']:,} words ({engines})")
    if facts["host_segments"]:
        out += ["", "on the host:"]
        out += [
            f"  {s['name']}: {s['why']}" + (f" ({len(s['nodes'])} nodes)" if s["nodes"] else "")
            for s in facts["host_segments"]
        ]
    if facts["tables"]:
        out += ["", "tables:", *_tables(facts["tables"])]
    if facts["files"]:
        out += ["", "files:"]
        out += [f"  {n}: {_size(size)}" for n, size in facts["files"].items()]
    return "\n".join(out)
