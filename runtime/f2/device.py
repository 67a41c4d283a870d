"""The AWS F2 card as a device: the tiles in the custom logic, driven over PCIe.

What this computer knows of device memory (`memory.py`) it can give back to a card that lost it, so a run is repeated
after a soft reset or a reload of the image, and the image that is made goes on from the last finished run: what runs
leave in STATE and IO is read back when they end.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import numpy as np

from ...errors import DpuError
from ...ir.arch import Arch
from ...ir.container import Base
from ...ir.cost import stream_macs
from ...ir.f2_regmap import COUNT_HZ, MEMORY_LOST, cl
from ...ir.isa import Words
from ...measurement import DeviceIdentity
from ..device import Bytes, Capability, Completion, DeviceCounters, Region, Ticket
from ..queued_device import QueuedDevice, closed
from ..registers import Registers
from . import bring_up
from .bus import Bus
from .card import Card, CardFault, Fault
from .host_memory import HostMemory
from .identity import identity
from .interrupts import Interrupts
from .memory import Allocation, DeviceMemory
from .program import Loaded, stored
from .readers import CopyEngine, Loads, Reader, aligned
from .remedy import lost
from .run import Run
from .settings import Settings
from .transfers import Transfers

_ATTEMPTS = 4  # as it is, after a reset, after a reload, after another one
_RELOAD = 2  # the attempt from which on the image is loaded again
_OTHER_IMAGE = ("E433", "E420", "E421", "E422")  # codes
T = TypeVar("T")


class F2Device(QueuedDevice[Loaded]):
    """The FPGA behind `card` with an image for `arch`. `image` is loaded if another one is; else what is there is used.

    Writes to memory that no submitted run is bound to happen while runs go on. `close` closes the card and calls
    `release`.

    Raises:
        DpuError: E432 to E440, E420 to E422: no card, another image, no memory that it can write to.
    """

    name = "f2"

    def __init__(
        self,
        arch: Arch,
        card: Card,
        settings: Settings | None = None,
        image: str = "",
        release: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(arch)
        self.settings = settings or Settings.of()
        self.bus = Bus(card)
        self._release = release or (lambda: None)
        try:
            self._host = self._open_host(card)
        except BaseException:
            card.close()
            raise
        reader: Reader = (
            CopyEngine(self.bus, self.settings, self._host) if self._host else Loads(self.bus, self.settings)
        )
        self.transfers = Transfers(self.bus, reader)
        self.interrupts = Interrupts(self.settings.events.format(slot=card.slot))
        self._memory = DeviceMemory(arch, card.where)
        self._bound: Counter[int] = Counter()  # runs under way, by address of an allocation
        self._mending = threading.RLock()
        self._generation = 0  # grows when the card is reset or loaded
        self._closing = threading.Event()
        self.running: Run | None = None
        try:
            self._image = self._bring_up(image)
        except BaseException:
            self.close()
            raise

    @property
    def capability(self) -> Capability:
        """What the card says of itself in its registers; its tiles run on the shell's clock, whatever the arch's is."""
        found = self._steady(lambda: Registers(self.bus.read).capability(self.name, self.arch))
        return replace(found, clock_hz=COUNT_HZ)

    @property
    def stand_in(self) -> str:
        """What takes the card's place, if anything does."""
        return "the RTL of the custom logic" if self.bus.card.simulated else ""

    @property
    def identity(self) -> DeviceIdentity:
        """The card, for records of measurements.

        Raises:
            DpuError: E523, it does not show which it is.
        """
        s = self.settings
        return identity(self.bus.card.where, self._image, s.library, s.sysfs, self.stand_in)

    @property
    def remarks(self) -> list[tuple[str, str]]:
        """What a summary should say of this run: name, text."""
        found = [("card", f"{self.bus.card.where}, {self.interrupts.text}")]
        if self.transfers.reader.name != CopyEngine.name:
            found.append(("slow read-back", "results are read by loads, about 3 MB/s (DPU_F2_READ)"))
        if noise := self.bus.noise.text():
            found.append(("mended", noise))
        return found

    def allocate(self, size: int) -> int:
        """Reserve `size` bytes, cleared; the address."""
        found = self._memory.allocate(size)
        self._steady(lambda: self.transfers.write(found.address, found.host))
        return found.address

    def write(self, address: int, data: Bytes) -> None:
        """Copy `data` to `address`, after the runs that are bound to this memory."""
        data = np.ascontiguousarray(data).reshape(-1).view(np.uint8)
        place = self._memory.at(address, len(data))
        if not len(data):
            return
        self._after_runs_of(place)
        if place.scratch:
            first, size = place.address, len(place.host)
            place.host[:] = self._steady(lambda: self.transfers.read(first, size))
            place.scratch = False
        if len(data) == len(place.host) == place.size and not data.flags.writeable:
            place.host = data  # gigabytes of constants stay one mapping of the file
        else:
            if not place.host.flags.writeable:
                place.host = place.host.copy()
            at = address - place.address
            place.host[at : at + len(data)] = data
        first, beats = place.beats(address, address + len(data))
        self._steady(lambda: self.transfers.write(first, beats))

    def read(self, address: int, size: int) -> Bytes:
        """A copy of `size` bytes at `address`, after the runs that are bound to this memory."""
        place = self._memory.at(address, size)
        self._after_runs_of(place)
        at = address - place.address
        if not place.scratch:
            return place.host[at : at + size].copy()
        first, n = aligned(address, size)
        return self._steady(lambda: self.transfers.read(first, n))[address - first :][:size].copy()

    def load(self, entry: str, streams: Sequence[Words]) -> int:
        """Place one instruction stream a tile in device memory; a handle for `submit`."""
        addresses = self._place_streams(entry, streams)
        self._programs.append(
            Loaded(entry, tuple(streams), addresses, stored(streams), stream_macs(self.arch, streams))
        )
        return len(self._programs) - 1

    def submit(self, handle: int, bases: Mapping[int, Region]) -> Ticket:
        """Queue a run; returns at once."""
        program = self._program(handle)
        places = {base: self._memory.at(r.address, r.bytes) for base, r in bases.items()}
        for base, place in places.items():
            if not place.host.flags.writeable and base != Base.CONST:
                raise DpuError(f"entry '{program.entry}'", f"base {base} is bound to read-only memory", code="E425")
        with self._lock:
            self._bound.update({p.address for p in places.values()})
            return self._queue(program.entry, self._run, program, dict(bases), places)

    def reset(self) -> None:
        """Wait for all runs, then reset the DPU and clear the counters; device memory keeps its bytes."""
        self._drain()
        self._steady(lambda: bring_up.soft_reset(self.bus))
        self._counters = DeviceCounters()

    def close(self) -> None:
        """Stop what runs and let go of the card; the image stays loaded."""
        self._closing.set()
        self._worker.shutdown(wait=True, cancel_futures=True)
        self.interrupts.close()
        self.bus.card.close()
        if self._host:
            self._host.close()
        self._release()

    # The card

    def _open_host(self, card: Card) -> HostMemory | None:
        if self.settings.read == "loads":
            return None
        if why := card.untranslated():
            hint = "boot with iommu=pt, or set DPU_F2_READ=loads and be patient"
            raise DpuError(card.where, why, "the card writes results to host memory by physical address", hint,
                           code="E436")  # fmt: skip
        size = CopyEngine.host_bytes(self.settings)
        return HostMemory(size, self.settings.hugepages, self.settings.pagemap)

    def _bring_up(self, image: str) -> str:
        """Two attempts: a card that is dead, or is not the image that it is said to be, gets its image again."""
        faults: list[CardFault] = []
        try:
            return bring_up.bring_up(self.bus, self.arch, image, self.settings)
        except DpuError as e:
            if not image or e.code not in _OTHER_IMAGE:
                raise
        except CardFault as e:
            image = image or self.bus.card.describe().image
            faults.append(e)
            if not image:
                raise lost(self.bus.card.where, faults, 0, 0) from e
        try:
            self.bus.noise.reloads += 1
            bring_up.reload(self.bus, self.arch, image, self.settings)
        except CardFault as e:
            raise lost(self.bus.card.where, [*faults, e], 0, 1) from e
        return image

    def _mend(self, attempt: int, generation: int) -> int:
        """Bring a card back that did not do what it should; the generation that it has now.

        Raises:
            CardFault: that did not help. DpuError: E433, E434, it cannot be helped.
        """
        with self._mending:
            if generation != self._generation:
                return self._generation  # somebody else did it
            if attempt < _RELOAD:
                self.bus.noise.resets += 1
                bring_up.soft_reset(self.bus)
                bring_up.check_identity(self.bus, self.arch)
                if self.bus.read(cl("CL_STATUS")) & MEMORY_LOST:
                    raise CardFault(Fault.HANG, "device memory does not answer")
            else:
                self.bus.noise.reloads += 1
                bring_up.reload(self.bus, self.arch, self._reloadable(), self.settings)
            for place in self._memory:
                if not place.scratch and (attempt >= _RELOAD or place.host.flags.writeable):
                    self.transfers.write(place.address, place.host)
            self._generation += 1
            return self._generation

    def _reloadable(self) -> str:
        if not self._image:
            what = "needs its image again, and nobody says which"
            raise DpuError(self.bus.card.where, what, hint="give it with --image AGFI", code="E434")
        return self._image

    def _steady(self, action: Callable[[], T], what: str = "") -> T:
        """What `action` gives, after mending the card as often as it takes, and as may be.

        Raises:
            DpuError: E434, E435, E437: nothing helped; what was tried.
        """
        faults: list[CardFault] = []
        attempt, generation = 0, self._generation
        noise = self.bus.noise
        resets, reloads = noise.resets, noise.reloads
        while True:
            try:
                if faults:
                    generation = self._mend(attempt, generation)
                return action()
            except CardFault as e:
                faults.append(e)
                dead = e.fault in (Fault.BUS, Fault.IMAGE, Fault.POWER)
                attempt = max(attempt + 1, _RELOAD) if dead else attempt + 1
                if attempt >= _ATTEMPTS or self._closing.is_set():
                    where = what or self.bus.card.where
                    raise lost(where, faults, noise.resets - resets, noise.reloads - reloads) from e

    # Running, on the worker's thread

    def _run(self, program: Loaded, bases: Mapping[int, Region], places: Mapping[int, Allocation]) -> Completion:
        begin = time.perf_counter()
        try:
            program.refuse_constants()

            def attempt() -> Completion:
                if self.running:
                    self._repair(program)
                run = Run(self.bus, self.arch, self.settings, self.interrupts, program, bases)
                self.running = run
                generation = self._generation
                try:
                    done = run.go(lambda: self._interrupted(program.entry, generation), begin)
                except DpuError as e:  # of the words, unless the card does not have those that were loaded
                    if e.code == closed("").code or not self._repair(program):
                        raise
                    raise CardFault(Fault.TRANSFER, "the words in device memory had changed") from e
                kept = {base: self._stored(program, bases, base) for base in program.stored if base in bases}
                for base, (at, data) in kept.items():
                    places[base].host[at : at + len(data)] = data
                return done

            return self._steady(attempt, f"entry '{program.entry}' on {self.bus.card.where}")
        finally:
            self.running = None
            for base in program.stored:
                if base == Base.WORK and base in places:
                    places[base].scratch = True
            with self._lock:
                self._bound.subtract({p.address for p in places.values()})

    def _repair(self, program: Loaded) -> bool:
        """Write the words again where device memory has others; whether it had."""
        changed = False
        for address in program.addresses:
            place = self._memory.at(address, 1)
            if not np.array_equal(self.transfers.read(address, len(place.host)), place.host):
                self.transfers.write(address, place.host)
                changed = True
        return changed

    def _stored(self, program: Loaded, bases: Mapping[int, Region], base: int) -> tuple[int, Bytes]:
        """Offset in its allocation and bytes of what a run stored through a base register; nothing of WORK."""
        region = bases[base]
        low, high = (min(max(x, 0), region.bytes) for x in program.stored[base])
        place = self._memory.at(region.address, region.bytes)
        if base == Base.WORK or low == high:
            return 0, np.zeros(0, np.uint8)
        first, beats = place.beats(region.address + low, region.address + high)
        return first - place.address, self.transfers.read(first, len(beats))

    def _interrupted(self, entry: str, generation: int) -> None:
        """Raise what ends a run from outside."""
        if self._closing.is_set():
            raise closed(entry)
        if self._generation != generation:
            raise CardFault(Fault.HANG, "the card was reset while it ran")

    def _after_runs_of(self, place: Allocation) -> None:
        with self._lock:
            bound = self._bound[place.address]
        if bound:
            self._drain()
