"""What the benches of the F2 custom logic share: valid-ready channels that pause at random, and their payloads."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Sequence
from typing import Any, ClassVar

from control_bench import get, settle, tick

OKAY, SLVERR, DECERR = 0, 2, 3


def address(addr: int, beats: int) -> int:
    """`mem_a_t`."""
    return addr << 8 | beats - 1


def data_in(data: int, strobe: int, last: bool) -> int:
    """`mem_w_t`."""
    return data << 65 | strobe << 1 | int(last)


def data_out(data: int, resp: int, last: bool) -> int:
    """`mem_r_t`."""
    return data << 3 | resp << 1 | int(last)


async def again(dut: Any, **inputs: int) -> None:
    """Reset, with all `inputs` set; the clock runs. New channels are made before: theirs are at rest then."""
    for name, value in inputs.items():
        getattr(dut, name).value = value
    dut.rst_ni.value = 0
    await tick(dut)
    await tick(dut)
    dut.rst_ni.value = 1
    await tick(dut)


class Port:
    """A port, or element `way` of the `ways` that are packed in it."""

    shared: ClassVar[dict[str, int]] = {}  # what packed inputs hold

    def __init__(self, dut: Any, name: str, way: int = 0, ways: int = 1) -> None:
        self.handle, self.name = getattr(dut, name), name
        self.ways, self.width = ways, len(self.handle) // ways
        self.low = way * self.width
        self.mask = (1 << self.width) - 1 << self.low

    def set(self, value: int) -> None:
        if self.ways == 1:
            self.handle.value = value
            return
        held = self.shared.get(self.name, 0) & ~self.mask | value << self.low
        self.shared[self.name] = held
        self.handle.value = held

    def get(self) -> int:
        return (get(self.handle) & self.mask) >> self.low


class Source:
    """Offers what is in `queue`, in order; an offer stays until it is taken."""

    def __init__(
        self, dut: Any, rng: random.Random, valid: str, ready: str, payload: Sequence[str], way: int = 0, ways: int = 1
    ) -> None:
        self.rng, self.rate = rng, 1.0
        self.valid, self.ready = Port(dut, valid, way, ways), Port(dut, ready, way, ways)
        self.ports = [Port(dut, p, way, ways) for p in payload]
        self.queue: deque[tuple[int, ...]] = deque()
        self.offered = False
        self.valid.set(0)

    def drive(self) -> None:
        if not self.offered and self.queue and self.rng.random() < self.rate:
            self.offered = True
            for port, value in zip(self.ports, self.queue[0], strict=True):
                port.set(value)
        self.valid.set(int(self.offered))

    def take(self) -> None:
        if self.offered and self.ready.get():
            self.offered = False
            self.queue.popleft()


class Sink:
    """Takes what is offered; an offer must not change before it is taken. `common`: one payload for all ways."""

    def __init__(
        self,
        dut: Any,
        rng: random.Random,
        valid: str,
        ready: str,
        payload: Sequence[str],
        way: int = 0,
        ways: int = 1,
        common: bool = False,
    ) -> None:
        self.rng, self.rate, self.name = rng, 1.0, valid
        self.valid, self.ready = Port(dut, valid, way, ways), Port(dut, ready, way, ways)
        self.ports = [Port(dut, p) if common else Port(dut, p, way, ways) for p in payload]
        self.got: deque[tuple[int, ...]] = deque()
        self.held: tuple[int, ...] | None = None
        self.now = 0
        self.ready.set(0)

    def drive(self) -> None:
        self.now = int(self.rng.random() < self.rate)
        self.ready.set(self.now)

    def take(self) -> None:
        offer = tuple(p.get() for p in self.ports) if self.valid.get() else None
        assert self.held is None or offer == self.held, f"{self.name}: the offer changed before it was taken"
        self.held = None if self.now else offer
        if offer is not None and self.now:
            self.got.append(offer)


async def cycle(dut: Any, channels: Sequence[Source | Sink]) -> None:
    """One cycle of all channels."""
    for c in channels:
        c.drive()
    await settle()
    for c in channels:
        c.take()
    await tick(dut)
