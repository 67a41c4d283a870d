"""Looking at a compiled program: its instructions, and the proof of what it keeps."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from ..errors import DpuError


def disassembly(
    path: Path,
    entry: str | None = None,
    tile: int | None = None,
    operation: str | None = None,
    tag: int | None = None,
    engine: str | None = None,
) -> Iterator[str]:
    """The lines of a `.dpu` file; each argument that is given narrows them.

    Raises:
        DpuError: the file is no program, or an argument names nothing in it.
    """
    from ..codegen.disassembler import disassemble_program
    from ..codegen.dpufile import load
    from ..ir.isa import Engine

    program = load(path, verify=False)
    names = [e.name for e in program.entries]
    if entry is not None and entry not in names:
        raise DpuError("--entry", f"no entry '{entry}'", hint=f"one of {', '.join(names)}", code="E501")
    if tile is not None and not 0 <= tile < program.arch.tiles:
        raise DpuError("--tile", f"no tile {tile}, they are 0 to {program.arch.tiles - 1}", code="E501")
    if engine is not None and engine.upper() not in Engine.__members__:
        known = ", ".join(e.name.lower() for e in Engine)
        raise DpuError("--engine", f"no engine '{engine}'", hint=f"one of {known}", code="E501")
    if tag is not None and not 0 <= tag < 1 << 16:
        raise DpuError("--tag", f"{tag} is not between 0 and 65535", code="E501")
    try:
        re.compile(operation or "")
    except re.error as e:
        raise DpuError("--op", f"'{operation}' is no regular expression ({e})", code="E501") from e
    kind = Engine[engine.upper()] if engine is not None else None
    return disassemble_program(program, entry, tile, operation, tag, kind)


def verify_file(path: Path) -> str:
    """Check every checksum of a `.dpu` file and prove its words (`codegen/verify`); what was proved, in a few lines.

    Raises:
        DpuError: the first fault.
    """
    from ..codegen.dpufile import load
    from ..codegen.verify.verify import verify_program

    proofs = verify_program(load(path))
    sound = "bounds, tokens, drains, order and the writers of every read are sound"
    return "\n".join([f"{path}: {sound}", *(f"  {p}" for p in proofs)])
