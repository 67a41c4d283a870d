"""The functional machine on a GPU: the same streams, byte for byte, in one to three launches a word; nothing waits.

The host decodes and checks every word as the CPU's machine does, and launches it with the word itself as argument; a
second run of the same read-only streams starts the launches recorded in the first (`launches.py`).
What the kernels do not do (int4 weights, gate tables, overlapping boxes, illegal words) is executed on the CPU, on
copies of the tile. What only data can tell (counts, a weight of -128, an inexact sum) is read at the end of a run: the
place of a fault is exact, but later words have been executed too.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.container import Base
from ...ir.isa import TABLE_SLOTS, Buffer, DmaFormat, Flag, Function, MmMode, Opcode, Words
from .. import vpu
from ..decode import Decoded, where
from ..load_store import LOADS, STORES, disjoint, load, store
from ..machine import Counters, Machine, OnStore, trap
from ..mxu import checked, matrix
from ..state import Fault, Region, Tally, Tile
from ..vpu_kernel import order
from .launches import AT, BASES, KERNEL, HostStep, Launcher, Launches, Pending, Plan
from .library import ROWS, Context, Word, kernels

TABLES = 3 + TABLE_SLOTS
STEP = 3 * 256 + 8
GATES = (Function.GATE, Function.GATE_MUL)
FINE = (1 << 64) - 1
_TOGETHER = 1 << 16  # launches that are started while the host decodes the words after them


class CudaTile:
    """The scratchpads of one tile on the device, and a twin on the host for what is executed there."""

    def __init__(self, arch: Arch, device: str, shared: Context) -> None:
        import torch

        self.twin = Tile(arch)
        self.memory = {b: torch.zeros(m.size, dtype=torch.uint8, device=device) for b, m in self.twin.memory.items()}
        self.tables = torch.zeros(TABLES * STEP, dtype=torch.int32, device=device)
        self.context = Context.from_buffer_copy(shared)
        for name, b in (("act", 0), ("wgt", 1), ("acc", 2), ("vbuf", 3), ("param", 4)):
            setattr(self.context, name, self.memory[Buffer(b)].data_ptr())
        self.context.tables, self.context.cols = self.tables.data_ptr(), arch.cols
        self.sizes = tuple(arch.words[n] for n in ("act", "acc", "vbuf", "param"))
        for i, func in enumerate((1, 2, 3)):
            self.set_table(i, vpu.coefficients(self.twin, func))

    def set_table(self, index: int, found: vpu.Coefficients | None) -> None:
        import torch

        assert found is not None
        (c0, c12), constants = found
        image = np.zeros(STEP, np.int32)
        for at, values in ((0, c0), (256, c12 >> 32), (512, c12.astype(np.int32)), (768, np.array(constants))):
            image[at : at + len(values)] = values
        self.tables[index * STEP : index * STEP + STEP].copy_(torch.from_numpy(image))

    def down(self) -> Tile:
        """The twin with what the device's scratchpads hold."""
        import torch

        for b, m in self.memory.items():
            torch.from_numpy(self.twin.memory[b]).copy_(m)
        return self.twin

    def up(self) -> None:
        import torch

        for b, m in self.memory.items():
            m.copy_(torch.from_numpy(self.twin.memory[b]))


class CudaMachine(Machine):
    """A `Machine` whose memories are on `device`: `cuda`, or `cpu` for tests of the same kernels.

    Regions are torch uint8 vectors on the device, used in place; arrays are copied there. `view` gives copies.
    """

    def __init__(self, arch: Arch, regions: Mapping[int, Any], device: str = "cuda") -> None:
        import torch

        self.device, self._kernels = device, kernels(device)
        elements = max(arch.words["acc"], arch.words["vbuf"], arch.words["param"] // arch.cols) * arch.cols

        def make(size: int, dtype: torch.dtype) -> torch.Tensor:
            return torch.zeros(size, dtype=dtype, device=device)

        self._elements = elements
        self._scratch = [make(elements, torch.int32), make(elements, torch.float32), make(2 * elements, torch.float32)]
        self._counts, self._failed = make(2 << 16, torch.int64), make(1, torch.int64)
        self._shared = Context()
        for name, t in zip(("stored", "tap", "sums", "counts", "failed"), self._buffers(), strict=True):
            setattr(self._shared, name, t.data_ptr())
        self._word, self.memories = Word(), [CudaTile(arch, device, self._shared) for _ in range(arch.tiles)]
        self.launcher = Launcher(self._kernels)
        self._plans: dict[Any, Plan] = {}
        self._plan: Plan | None = None  # the one being recorded
        self._pending: list[Pending] = []
        self._hosted: dict[int, Tally] = {}  # what the host's words of the run counted, by tag
        self._now, self._base = (0, 0), -1
        super().__init__(arch, regions)

    def _buffers(self) -> list[Any]:
        return [*self._scratch, self._counts, self._failed]

    def bind(self, base: int, region: Any) -> None:
        """Point base register `base` to a torch uint8 vector on the device; an array is copied to one."""
        import torch

        if isinstance(region, np.ndarray):
            region = torch.from_numpy(np.ascontiguousarray(region).copy()).to(self.device)
        if region.dtype != torch.uint8 or region.ndim != 1 or not region.is_contiguous():
            raise ValueError(f"base {base}: need a contiguous uint8 vector, not {region.dtype} {tuple(region.shape)}")
        self.regions[int(base)] = region

    def view(self, base: int, offset: int, shape: tuple[int, ...], dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """A copy of a tensor in DRAM."""
        size = int(np.prod(shape)) * np.dtype(dtype).itemsize
        data: npt.NDArray[np.generic] = self.regions[base][offset : offset + size].cpu().numpy()  # type: ignore[attr-defined]
        return data.view(dtype).reshape(shape)

    def write(self, base: int, offset: int, data: npt.NDArray[Any]) -> None:
        """Copy an array into DRAM."""
        import torch

        flat = torch.from_numpy(np.ascontiguousarray(data).reshape(-1).view(np.uint8))
        self.regions[base][offset : offset + len(flat)].copy_(flat)  # type: ignore[attr-defined]

    def reset(self) -> None:
        """Clear all scratchpads and tables; DRAM keeps its contents."""
        self.memories = [CudaTile(self.arch, self.device, self._shared) for _ in range(self.arch.tiles)]

    def run(self, streams: Sequence[Words], on_store: OnStore | None = None, entry: str = "program") -> Counters:
        """As `Machine.run`; counts of overflows and NaN are complete when it returns."""
        self._counts.zero_()
        self._failed.fill_(-1)
        key = tuple((id(w), len(w)) for w in streams), tuple((b, len(r)) for b, r in sorted(self.regions.items()))
        plan = self._plans.get(key)
        if on_store is not None:  # it looks at DRAM after each STORE
            counters = super().run(streams, on_store, entry)
        elif plan is not None and all(self._has(*slot) == known for slot, known in plan.tables.items()):
            counters = self._again(plan, entry)
        else:
            counters = self._record(streams, entry, key)
        self._settle(counters, streams, entry)
        return counters

    def _has(self, t: int, slot: int) -> bool:
        """Whether tile `t` holds a table in a slot."""
        return self.memories[t].twin.tables[slot] is not None

    def _record(self, streams: Sequence[Words], entry: str, key: Any) -> Counters:
        self._plan, self._hosted = Plan(streams), {}
        try:
            counters = super().run(streams, None, entry)
        finally:
            self._flush()
            plan, self._plan = self._plan, None
        plan.words = dict(counters.words)
        for tag, tally in counters.tags.items():
            hosted = vars(self._hosted.get(tag, Tally()))
            plan.tags[tag] = Tally(**{name: n - hosted[name] for name, n in vars(tally).items()})
        if not any(w.flags.writeable for w in streams):
            self._plans[key] = plan
        return counters

    def _again(self, plan: Plan, entry: str) -> Counters:
        counters = Counters(dict(plan.words), {tag: replace(tally) for tag, tally in plan.tags.items()})
        for step in plan.steps:
            if isinstance(step, HostStep):
                try:
                    counters.tags[step.decoded[2]].add(self._on_host(self.memories[step.tile], step.decoded))
                except Fault as e:
                    word = plan.streams[step.tile][step.at]
                    raise DpuError(where(entry, step.tile, step.at, word), e.what, e.why, code=e.code) from e
            else:
                self._start(step)
        return counters

    def _flush(self) -> None:
        """Start what was recorded since the last time."""
        if self._pending and self._plan is not None:
            self._start(self._plan.add(self._pending))
        self._pending = []

    def _start(self, launches: Launches) -> None:
        regions: Any = self.regions
        addresses = [regions[b].data_ptr() if b in regions else 0 for b in range(BASES)]
        self.launcher(launches, [m.context for m in self.memories], addresses)

    def _settle(self, counters: Counters, streams: Sequence[Words], entry: str) -> None:
        failed = int(self._failed.item()) & FINE
        if failed != FINE:
            t, at = failed >> AT, failed & ((1 << AT) - 1)
            word = streams[t][at]
            weight = word["opcode"] == Opcode.MM
            what = "field 'wgt': a weight is -128" if weight else "field 'red': an integer sum is not exact in float32"
            raise DpuError(where(entry, t, at, word), what, code="E415")
        counts = self._counts.cpu().numpy().reshape(-1, 2)
        for tag in np.flatnonzero(counts.any(axis=1)).tolist():
            counters.tags[tag].fp16_overflow += int(counts[tag, 0])
            counters.tags[tag].nan += int(counts[tag, 1])

    def execute(self, t: int, at: int, word: np.void, w: Decoded, tally: Tally) -> None:
        """Launch one word of tile `t`."""
        tile = self.memories[t]
        self._now, self._base = (t, at), -1
        if self._plan is None:
            ctypes.memmove(self._word.b, word.tobytes(), ctypes.sizeof(Word))
            tile.context.number = t << AT | at
        opcode = w[0]
        if opcode == Opcode.MM:
            self._matrix(tile, w, tally)
        elif opcode == Opcode.VEC:
            self._vector(tile, w, tally)
        elif opcode == Opcode.LOAD:
            self._load(tile, w, tally)
        elif opcode == Opcode.STORE:
            self._store(tile, w, tally)

    def _launch(self, name: str, tile: CudaTile, count: int) -> None:
        if self._plan is None:
            self._kernels.launch(name, self._word, tile.context, count)
            return
        self._pending.append((KERNEL[name], *self._now, count, self._base))
        if len(self._pending) >= _TOGETHER:
            self._flush()

    def _by_host(self, tile: CudaTile, w: Decoded, tally: Tally) -> None:
        """Execute a word on the host, after all launches before it."""
        if self._plan is not None:
            self._flush()
            self._plan.steps.append(HostStep(*self._now, w))
        found = self._on_host(tile, w)
        tally.add(found)
        self._hosted.setdefault(w[2], Tally()).add(found)

    def _on_host(self, tile: CudaTile, w: Decoded) -> Tally:
        """What a word executed on copies of the tile counts."""
        tally = Tally()
        if w[0] == Opcode.MM:
            matrix(tile.down(), w, tally)
            tile.up()
        elif w[0] == Opcode.VEC:
            vpu.kernel(tile.down(), w, tally)
            tile.up()
            if w[1] & Flag.TRAP and tally.fp16_overflow + tally.nan:
                raise Fault("E415", "flags", trap(tally, 0))
        else:
            self._transfer(tile, load if w[0] == Opcode.LOAD else store, w, tally)
        return tally

    def _matrix(self, tile: CudaTile, w: Decoded, tally: Tally) -> None:
        rows, k = checked(tile.twin, w)
        c, nn, rowmax = self.arch.cols, w[18], w[22]
        if rowmax and w[21] == MmMode.COLUMN:
            self._by_host(tile, w, tally)
            return
        if rowmax == 1:
            self._launch("row_max", tile, rows)
        self._launch("matrix", tile, -(-rows // ROWS) * nn * (c // 4))
        tally.macs += rows * k * nn * c

    def _vector(self, tile: CudaTile, w: Decoded, tally: Tally) -> None:
        c, (rows, tiles, valid) = self.arch.cols, w[5:8]
        n, d_buffer, red = (tiles - 1) * c + valid, w[10] & 15, w[31]
        function, slot = w[27] & 15, w[27] >> 4
        known = not function or vpu.coefficients(tile.twin, w[27]) is not None
        if self._plan is not None and function in GATES and slot < TABLE_SLOTS:
            self._plan.need(self._now[0], slot, known)
        how = order(w[5:34], c, tile.sizes) if known else 0
        small = rows * tiles * c <= self._elements and (not red & 16 or 8 * n <= self._elements)
        if not how or not small or w[1] & Flag.TRAP or (d_buffer == Buffer.PARAM and red & 15):
            self._by_host(tile, w, tally)
            return
        if how == 1:
            self._launch("vec_direct", tile, rows * tiles * c)
        else:
            self._launch("vec_values", tile, rows * n)
            self._launch("vec_store", tile, rows * tiles * c)
        if red & 15 and red & 16:
            self._launch("vec_eighths", tile, 8 * n)
            self._launch("vec_columns", tile, n)
        elif red & 15:
            self._launch("vec_tiles", tile, rows * tiles)
            self._launch("vec_rows", tile, rows)

    def _load(self, tile: CudaTile, w: Decoded, tally: Tally) -> None:
        (base, buffer, fmt, _, offset, sram, inner), n, d, s, pad = w[6:13], w[13:16], w[16:19], w[19:22], w[22:26]
        if not inner:
            return
        size = inner * n[0] * n[1] * n[2]
        c, unit = self.arch.cols, tile.twin.word_bytes.get(buffer, 1)
        words = -(-inner // unit)
        cells = (n[0] + pad[0] + pad[1], n[1] + pad[2] + pad[3], n[2])
        turn, filled = fmt == DmaFormat.TRANSPOSE, fmt == DmaFormat.FILL
        ok = fmt in (DmaFormat.RAW, DmaFormat.FILL) and buffer in LOADS and buffer != Buffer.TABLE and 0 not in cells
        ok = ok and _inside(sram, cells, s, words, tile.twin.words[buffer]) and disjoint(words, cells, s)
        if turn:
            ok = buffer == Buffer.WGT and not any(pad) and n[0] <= c and inner <= c and 0 not in n
            ok = ok and _inside(sram, (1, n[1], n[2]), s, c, tile.twin.words[buffer])
            ok = ok and disjoint(c, (1, n[1], n[2]), s)
        if not ok or not (filled or self._bound(tile, base, offset, n, d, inner)):
            self._by_host(tile, w, tally)
            return
        if turn:
            self._launch("turn", tile, n[1] * n[2] * c * c)
        else:
            wide = (offset | inner | unit | d[0] | d[1] | d[2]) & 7 == 0
            count = cells[0] * cells[1] * cells[2] * words * unit
            self._launch("load_words" if wide else "load_bytes", tile, count // 8 if wide else count)
        if not filled:
            tally.read += size

    def _store(self, tile: CudaTile, w: Decoded, tally: Tally) -> None:
        (base, buffer, fmt, _, offset, sram, inner), n, d, s, pad = w[6:13], w[13:16], w[16:19], w[19:22], w[22:26]
        if not inner or 0 in n:
            return
        ok = buffer in STORES and fmt == DmaFormat.RAW and not any(pad) and base != Base.CONST
        unit = tile.twin.word_bytes.get(buffer, 1)
        ok = ok and _inside(sram, n, s, -(-inner // unit), tile.twin.words[buffer]) and disjoint(inner, n, d)
        if not ok or not self._bound(tile, base, offset, n, d, inner):
            self._by_host(tile, w, tally)
            return
        wide = (offset | inner | unit | d[0] | d[1] | d[2]) & 7 == 0
        size = inner * n[0] * n[1] * n[2]
        self._launch("store_words" if wide else "store_bytes", tile, size // 8 if wide else size)
        tally.written += size

    def _bound(self, tile: CudaTile, base: int, offset: int, n: Any, d: Any, inner: int) -> bool:
        """Whether the transfer is inside its region, which the context then points to."""
        region: Any = self.regions.get(base)
        if region is None:
            return False
        low, high = _range(offset, n, d, inner)
        self._base = base
        if self._plan is None:
            tile.context.dram = region.data_ptr()
        return low >= 0 and high <= len(region)

    def _transfer(self, tile: CudaTile, execute: Any, w: Decoded, tally: Tally) -> None:
        """A transfer on the host: the scratchpads and the bytes it touches are copied there and back."""
        import torch

        base, offset, inner = w[6], w[10], w[12]
        region: Any = self.regions.get(base)
        if region is None:
            execute(tile.down(), {}, w, tally)
            tile.up()
            return
        low, high = _range(offset, w[13:16], w[16:19], inner)
        low, high = max(low, 0), min(max(high, 0), len(region))
        image: Region = np.zeros(len(region), np.uint8)  # pages that nobody touches cost nothing
        image[low:high] = region[low:high].cpu().numpy()
        tables = list(tile.twin.tables)
        if w[7] == Buffer.TABLE:
            execute(tile.twin, {base: image}, w, tally)
        else:
            execute(tile.down(), {base: image}, w, tally)
            tile.up()
        if w[0] == Opcode.STORE:
            region[low:high].copy_(torch.from_numpy(image[low:high]))
        for slot, table in enumerate(tile.twin.tables):
            if table is not tables[slot]:
                tile.set_table(3 + slot, vpu.coefficients(tile.twin, 4 | slot << 4))
                if self._plan is not None:
                    self._plan.loaded.add((self._now[0], slot))


def _inside(sram: int, cells: Any, strides: Any, words: int, size: int) -> bool:
    top = sram + words + sum((n - 1) * s for n, s in zip(cells, strides, strict=True))
    return bool(top <= size)


def _range(offset: int, n: Any, d: Any, inner: int) -> tuple[int, int]:
    """The least byte of a transfer and the one behind its greatest."""
    steps = [(count - 1) * stride for count, stride in zip(n, d, strict=True)]
    return offset + sum(min(x, 0) for x in steps), offset + sum(max(x, 0) for x in steps) + inner
