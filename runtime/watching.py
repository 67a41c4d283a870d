"""Watching a device while an image is made, where it can be watched."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from .device import Device

if TYPE_CHECKING:
    from .pipeline import Step


@contextmanager
def watching(
    device: Device, steps: int, wanted: bool, on_step: Callable[[Step], None] | None
) -> Iterator[Callable[[Step], None] | None]:
    """The function to call after each step: `on_step`, and if `wanted` lines about the F2 card until the end."""
    if not wanted:
        yield on_step
        return
    from .f2.device import F2Device
    from .f2.watch import Watch

    assert isinstance(device, F2Device)  # `targets.check_card` lets nothing else through
    watch = Watch(device, steps)

    def step(done: Step) -> None:
        watch.step()
        if on_step:
            on_step(done)

    try:
        yield step
    finally:
        watch.stop()
