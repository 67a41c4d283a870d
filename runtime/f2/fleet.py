"""Images spread over the slots of a computer: each slot takes the next one that is left. A slot that fails gives its
image back and takes no more."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from ...errors import DpuError
from .opening import slots
from .stand_in import NAME

if TYPE_CHECKING:
    from ..generate import Summary
    from ..pipeline import Request

W = TypeVar("W")
R = TypeVar("R")


@dataclass
class Spread(Generic[W, R]):
    """What came of it: results with the slot that made them, in the order of the work; and the slots that failed."""

    made: list[tuple[int, R]]
    failed: dict[int, DpuError] = field(default_factory=dict)


def spread(work: Sequence[W], numbers: Sequence[int], make: Callable[[W, int], R]) -> Spread[W, R]:
    """`make(piece, slot)` for each piece of work, every slot on a thread of its own.

    Raises:
        DpuError: E434, every slot has failed and work is left; the first error that is no card's fault.
    """
    left: queue.SimpleQueue[int] = queue.SimpleQueue()
    for i in range(len(work)):
        left.put(i)
    made: dict[int, tuple[int, R]] = {}
    failed: dict[int, DpuError] = {}
    fatal: list[BaseException] = []
    waiting = threading.Condition()

    def serve(slot: int) -> None:
        while True:
            with waiting:
                # An image under way elsewhere may come back, if that slot fails.
                waiting.wait_for(lambda: not left.empty() or len(made) == len(work) or fatal)
                if len(made) == len(work) or fatal:
                    return
                i = left.get()
            try:
                found = make(work[i], slot)
            except BaseException as e:
                with waiting:
                    if isinstance(e, DpuError) and e.code in CARD_FAULTS:
                        failed[slot] = e
                        left.put(i)
                    else:
                        fatal.append(e)
                    waiting.notify_all()
                return
            with waiting:
                made[i] = slot, found
                waiting.notify_all()

    threads = [threading.Thread(target=serve, args=(slot,), name=f"dpu-slot-{slot}") for slot in numbers]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if fatal:
        raise fatal[0]
    if len(made) < len(work):
        what = f"every slot has failed, {len(work) - len(made)} of {len(work)} images are left"
        why = "; ".join(f"slot {slot}: {e.where}: {e.what}" for slot, e in sorted(failed.items()))
        raise DpuError("--card", what, why, next(iter(failed.values())).hint, code="E434")
    return Spread([made[i] for i in range(len(work))], failed)


CARD_FAULTS = ("E432", "E433", "E434", "E435", "E436", "E437", "E440")
"""Codes of errors that another slot need not have."""


def make_images(
    model: Path, request: Request, count: int, out: Path, image: str, card: str, on_image: Callable[[int], None]
) -> tuple[list[tuple[Path, int, Summary]], dict[int, DpuError]]:
    """`count` images with seeds from that of the request on, `out` with the seed in its name; the slots that failed.

    `on_image` hears how many are done.

    Raises:
        DpuError: as of `spread`, `make_image`.
    """
    from ..generate import make_image

    fake, numbers = slots(card)
    done = 0

    def make(one: Request, slot: int) -> tuple[Path, int, Summary]:
        nonlocal done
        path = out.with_name(f"{out.stem}-{one.seed}{out.suffix}")
        where = f"{NAME}:{slot}" if fake else str(slot)
        found = make_image(model, "f2", one, path, card_image=image, card=where)
        done += 1
        on_image(done)
        return path, slot, found

    requests = [replace(request, seed=request.seed + i) for i in range(count)]
    found = spread(requests, numbers, make)
    return [result for _, result in found.made], found.failed
