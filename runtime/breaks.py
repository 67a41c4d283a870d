"""Stopping a run at an operation and stepping through its words: `dpurun --break-at`.

`Breakpoint.run` takes the place of a device's runner. At the first word of the first matching operation it shows where
the machine stands and reads commands, from a terminal or from a script, until one lets it go on.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from ..codegen.disassembler import disassemble_word
from ..ir.container import Entry, Program
from ..ir.isa import ENGINE_OF, Engine, Words
from ..simulator.decode import semaphore_name
from ..simulator.machine import Counters, Machine, OnStore, waits_for
from ..simulator.stepping import Stepper
from .looking import Quit
from .memory_text import buffer_lines, dram_lines
from .operations import matching

HELP = """\
step [n]               execute n words, in stream order
continue               run until the operation starts again, in a later run of its entry
where                  what executes next, in every tile
semaphores             tokens of this tile
buffers NAME lo n      n words from word lo of act, wgt, acc, vbuf or param of this tile; [f16|f32|i8|i32|u8]
dram BASE OFF n        n bytes of const, work, state, io or a base number; [f16|f32|i8|i32|u8]
quit                   end the run here, without an image"""

_MOST_STEPS = 20  # words that one `step` shows, the last ones


class Breakpoint:
    """Stops at the first operation that `pattern` matches, in each run of its entry, until `lines` end.

    Args:
        program: what runs.
        pattern: a glob over operations, ONNX nodes and tensors; `ENTRY:` before it narrows it.
        lines: the commands. After the last one the run goes on without stopping.
        show: prints a line.

    Raises:
        DpuError: the pattern matches nothing.
    """

    def __init__(self, program: Program, pattern: str, lines: Iterator[str], show: Callable[[str], None]) -> None:
        self.program, self.lines, self.show = program, lines, show
        self.entry, self.source = matching(program, "--break-at", [pattern])[0]
        self.runs = 0
        self.over = False

    def run(self, machine: Machine, streams: Sequence[Words], on_store: OnStore | None, entry: str) -> Counters:
        """Run an entry, stopping if it is the one.

        Raises:
            Quit: the user asked to end.
        """
        if entry != self.entry.name or self.over:
            return machine.run(streams, on_store, entry)
        stepper = Stepper(machine, streams, on_store, entry)
        stops = [np.flatnonzero(words["tag"] == self.source.tag).tolist() for words in streams]
        self.runs += 1
        if stepper.until(stops):
            self.show(f"stopped at '{self.source.name}' ({self.source.kind}), run {self.runs} of entry '{entry}'")
            _Prompt(self, stepper, streams, self.entry).read()
        return stepper.finish()


class _Prompt:
    """Commands at one stop."""

    def __init__(self, owner: Breakpoint, stepper: Stepper, streams: Sequence[Words], entry: Entry) -> None:
        self.owner, self.stepper, self.streams, self.show = owner, stepper, streams, owner.show
        self.sources = {s.tag: s for s in entry.sources}
        self.names = {s.tag: s.name for s in entry.sources}
        engine = np.full(256, int(Engine.CTRL))
        for opcode, e in ENGINE_OF.items():
            engine[int(opcode)] = int(e)
        self.engines = [engine[w["opcode"][: s.length]] for w, s in zip(streams, stepper.states, strict=True)]

    def read(self) -> None:
        """Read commands until one lets the run go on, or they end."""
        self._next()
        for line in self.owner.lines:
            try:
                name, *arguments = shlex.split(line, comments=True) or [""]
                if name and self._execute(name, arguments):
                    return
            except ValueError as e:
                self.show(f"{line.strip()}: {e}")
        self.owner.over = True

    def _execute(self, name: str, arguments: list[str]) -> bool:
        """Do one command; whether the run goes on.

        Raises:
            ValueError: it cannot be done, with the reason.
            Quit: it is `quit`.
        """
        if name in ("continue", "c"):
            return True
        if name in ("quit", "q"):
            raise Quit
        if name in ("step", "s"):
            self._step(int(arguments[0]) if arguments else 1)
        elif name in ("where", "w"):
            self._where()
        elif name == "semaphores":
            self.show(f"semaphores  {self._semaphores(self.stepper.tile)}")
        elif name == "buffers":
            for line in buffer_lines(self.stepper.machine, self.stepper.tile, arguments):
                self.show(line)
        elif name == "dram":
            for line in dram_lines(self.stepper.machine, arguments):
                self.show(line)
        elif name == "help":
            self.show(HELP)
        else:
            raise ValueError("no such command; help lists them")
        return False

    def _step(self, n: int) -> None:
        if n < 1:
            raise ValueError(f"{n} is not 1 or more")
        quiet = max(n - _MOST_STEPS, 0)
        while quiet and not self.stepper.done:
            quiet -= self.stepper.step(quiet)
        for i in range(min(n, _MOST_STEPS)):
            if self.stepper.done:
                break
            if i:
                self.show(self._word(self.stepper.tile))
            self.stepper.step()
        self._next()

    def _word(self, t: int) -> str:
        s = self.stepper.states[t]
        if s.next is None:
            return f"tile {t} has ended after {s.at} words"
        return f"tile {t} word {s.at:04d} of {s.length}: {disassemble_word(s.words[s.at], self.names)}"

    def _next(self) -> None:
        """What executes next, and all that it depends on."""
        if self.stepper.done:
            self.show("all tiles have ended; continue goes on with the next entry")
            return
        t = self.stepper.tile
        s = self.stepper.states[t]
        self.show(self._word(t))
        source = self.sources.get(int(s.words[s.at]["tag"]))
        if source is not None:
            self.show(f"operation   {source.name} ({source.kind})")
            self.show(f"nodes       {', '.join(source.nodes) or 'none'}")
        self.show(f"semaphores  {self._semaphores(t)}")
        self.show(f"queues      {self._queues(t)}")

    def _semaphores(self, t: int) -> str:
        s = self.stepper.states[t]
        held = [f"{semaphore_name(k)} {n}" for k, n in enumerate(s.tokens) if n]
        held += [f"tile {i} {n}" for i, n in enumerate(s.remote) if n]
        return ", ".join(held) or "no tokens"

    def _queues(self, t: int) -> str:
        """Of each engine: words executed and all, and the index of its next one in the stream."""
        at, engines, parts = self.stepper.states[t].at, self.engines[t], []
        for e in (Engine.LOAD, Engine.MXU, Engine.VPU, Engine.STORE):
            mine = np.flatnonzero(engines == int(e))
            done = int(np.searchsorted(mine, at))
            following = f", next {int(mine[done])}" if done < len(mine) else ""
            parts.append(f"{e.name} {done} of {len(mine)}{following}")
        return "; ".join(parts)

    def _where(self) -> None:
        for t, s in enumerate(self.stepper.states):
            here = " <- next" if t == self.stepper.tile and not self.stepper.done else ""
            why = waits_for(t, self.stepper.states)
            self.show(self._word(t) + (f" waits for {why}" if why else "") + here)
            if s.next is None:
                continue
            tag = int(s.words[s.at]["tag"])
            mine = s.words["tag"][: s.length] == tag
            done, source = int(mine[: s.at].sum()), self.sources.get(tag)
            if source is not None:
                nodes = ", ".join(source.nodes) or "none"
                self.show(f"  {source.name} ({source.kind}): {done} of its {int(mine.sum())} words done; nodes {nodes}")
