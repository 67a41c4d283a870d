"""From a quantised module to a `Program`: lower, schedule, place, encode, synchronise, check."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import ModuleOp

from ..ir.arch import Arch
from ..ir.container import Base, Entry, Program, Slot, SourceOp
from ..ir.isa import Words
from ..ir.macs import macs as logical_macs
from ..ir.tile_program import Dram, uncollected
from ..passes.lower.constants import ConstantPool, ConstantsImage, Fetch, Maker
from ..passes.lower.program import LoweredEntry, lower_module
from ..passes.overlap_prologues import overlap
from ..passes.plan_scratchpad import plan
from ..passes.weave_attention import weave
from .ahead import ahead
from .dpufile import load, save
from .encode import Encoded, encode
from .memory import MemoryPlan
from .sync import insert_semaphores
from .verify.provenance import Source, record
from .witness import check_program

Lowered = Sequence[tuple[LoweredEntry, ConstantPool]]
HostInputs = Mapping[str, tuple[str, int, int]]
"""How the host's tensors map onto host slots: `<entry>/<name>` or `<name>` -> (layout, height, width)."""


@dataclass
class Emitted:
    """A program and what tools need beside it. Its constants are made when somebody asks, or written as a stream."""

    bare: Program  # without constants as long as there is `image`
    entries: list[LoweredEntry]
    places: dict[Dram, tuple[int, int]]
    memory: MemoryPlan
    image: ConstantsImage | None = None

    @property
    def program(self) -> Program:
        """The program with its constants in memory."""
        if self.image is not None:
            self.bare.constants, self.image = self.image.array(), None
        return self.bare

    @program.setter
    def program(self, program: Program) -> None:
        self.bare, self.image = program, None

    def save(self, path: Path | str, progress: Callable[[int, int], None] | None = None) -> None:
        """Write the `.dpu`, constants one after the other; those of `program` are then a view of the file.

        `progress` is called with (bytes of constants written, bytes in all).

        Raises:
            DpuError: see `dpufile.save`.
        """
        if self.image is None:
            save(self.bare, path)
            return
        save(self.bare, path, _counted(ahead(self.image.chunks()), self.image.size, progress))
        self.bare.constants, self.image = load(path, verify=False).constants, None


def _counted(
    pieces: Iterator[npt.NDArray[np.uint8]], total: int, progress: Callable[[int, int], None] | None
) -> Iterator[npt.NDArray[np.uint8]]:
    """The same pieces; `progress` hears of each after it was used."""
    done = 0
    for piece in pieces:
        yield piece
        done += piece.nbytes
        if progress:
            progress(done, total)


def emit(
    module: ModuleOp,
    arch: Arch,
    fetch: Fetch,
    host_inputs: HostInputs,
    constants: bool = True,
) -> Emitted:
    """Compile every function of a quantised module into an entry point.

    Raises:
        DpuError: something does not fit the arch.
    """
    lowered = lower_module(module, arch, fetch)
    for e, _ in lowered:
        overlap(e.program)
        weave(e.program, arch)
        plan(e.program, arch)
    return assemble(lowered, arch, host_inputs, constants)


def assemble(lowered: Lowered, arch: Arch, host_inputs: HostInputs, write_constants: bool = True) -> Emitted:
    """Scheduled and placed tile programs of one model to a `Program`, see `Assembler`.

    Raises:
        DpuError: a field is too narrow for what it should hold.
    """
    assembler = Assembler(arch)
    assembler.add(lowered, host_inputs)
    return assembler.finish(write_constants)


class Assembler:
    """Scheduled and placed tile programs to a `Program`, model by model: DRAM addresses, words, semaphores, checks.

    Of a tile program nothing is kept but its words, so that memory holds one at a time.
    """

    def __init__(self, arch: Arch) -> None:
        self.arch = arch
        self.memory = MemoryPlan()
        self.places: dict[Dram, tuple[int, int]] = {}
        self.words: dict[str, list[Words]] = {}
        self.tables: dict[str, npt.NDArray[np.generic]] = {}
        self.lowered: list[LoweredEntry] = []
        self.entries: list[Entry] = []
        self.constants: list[tuple[int, Maker]] = []

    @uncollected()
    def add(self, lowered: Lowered, host_inputs: HostInputs) -> None:
        """The entries of one model. Their sections are taken.

        Raises:
            DpuError: a field is too narrow for what it should hold.
        """
        returned = {name for e, _ in lowered for name, d in e.outputs.items() if d.kind == "state"}
        for e, pool in lowered:
            drams = self.memory.plan(e.program)
            self.places.update(drams)
            encoded = encode(e.program, drams, self.arch.tiles, e.written, take=True)
            e.program.sections, e.written = [], ()
            self.words[e.name], _ = insert_semaphores(encoded.order, encoded.placed, self.arch)
            self.tables |= record(e.name, _source(e, encoded), self.arch, self.words[e.name], drams)
            for name, dram in pool.drams.items():
                if dram in drams:
                    self.constants.append((drams[dram][1], pool.makers[name]))
            leaves_state = any(d.kind == "state" for d in e.outputs.values())
            once = e.part != "unet" or (leaves_state and not (VARYING | returned) & set(e.inputs))
            self.entries.append(_entry(e, drams, host_inputs, once))
            self.lowered.append(e)

    def finish(self, write_constants: bool = True) -> Emitted:
        """The program of all models.

        Constants are not made yet: `Emitted.save` writes them, `Emitted.program` has them in memory. Without
        `write_constants` the program can be timed but not run.
        """
        for name, streams in self.words.items():
            check_program(streams, self.arch, self.memory.base_bytes, name)
        sizes = dict(self.memory.base_bytes)
        image = ConstantsImage(sizes[Base.CONST], tuple(self.constants)) if write_constants else None
        program = Program(self.arch, self.entries, self.words, np.empty(0, np.uint8), sizes, tables=self.tables)
        return Emitted(program, self.lowered, self.places, self.memory, image)


VARYING = {"sample", "timestep", "timestep.sinusoid"}
"""Inputs that change from step to step; an entry without them runs once an image."""


def slot_of(dram: Dram, place: tuple[int, int], name: str, layout: tuple[str, int, int] = ("BTC", 0, 0)) -> Slot:
    """The container's description of a DRAM tensor."""
    return Slot(
        name=name,
        shape=dram.shape,
        dtype=cast(Any, dram.dtype),
        base=place[0],
        offset=place[1],
        row_bytes=dram.row_bytes,
        layout=layout[0],
        height=layout[1],
        width=layout[2],
    )


def _source(e: LoweredEntry, encoded: Encoded) -> Source:
    """The entry without addresses and in the order it was written, for the record of what its operands mean."""
    return Source(encoded.written, e.program.drams, encoded, list(e.inputs.values()), list(e.outputs.values()))


def _entry(
    e: LoweredEntry,
    drams: dict[Dram, tuple[int, int]],
    host: HostInputs,
    once: bool,
) -> Entry:
    def slots(tensors: dict[str, Dram]) -> Iterator[Slot]:
        for name, dram in tensors.items():
            layout = host.get(f"{e.name}/{name}", host.get(name, ("BTC", 0, 0)))
            yield slot_of(dram, drams[dram], name, layout)

    sources = [SourceOp(tag=0, name="gate tables", kind="table", nodes=(), macs=0)]
    for op in e.ops:
        outputs = tuple(slot_of(d, drams[d], d.name) for d in op.outputs if d in drams)
        sources.append(
            SourceOp(
                tag=op.tag,
                name=op.name,
                kind=op.kind,
                nodes=op.nodes,
                macs=logical_macs(e.qops[op.tag]),
                outputs=outputs,
            )
        )
    return Entry(
        name=e.name,
        inputs=tuple(slots(e.inputs)),
        outputs=tuple(slots(e.outputs)),
        sources=tuple(sources),
        once=once,
        part=e.part,
    )
