"""User interrupt 0 of a card, as the XDMA driver gives it: a file that has something to read when it came."""

from __future__ import annotations

import os
import select
import time
from pathlib import Path

_SHORTEST, _LONGEST = 20e-6, 2e-3  # seconds between two looks without an interrupt


class Interrupts:
    """Waits for the interrupt if there is a file at `path` that can be read; else sleeps. `text` says which."""

    def __init__(self, path: str) -> None:
        self._handle: int | None = None
        self.text = f"polling ({path} does not exist)"
        if Path(path).exists():
            try:
                self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
                self.text = f"interrupts of {path}"
            except OSError as e:
                self.text = f"polling ({path}: {e.strerror})"

    @property
    def enabled(self) -> bool:
        """Whether there are any."""
        return self._handle is not None

    def wait(self, since: float) -> bool:
        """Until the interrupt, or for a moment that is short beside the time `since` (monotonic); whether it came."""
        moment = min(max((time.monotonic() - since) / 20, _SHORTEST), _LONGEST)
        if self._handle is None:
            time.sleep(moment)
            return False
        ready, _, _ = select.select([self._handle], [], [], moment)
        return bool(ready) and self.take()

    def take(self) -> bool:
        """Whether it came since the last look."""
        if self._handle is None:
            return False
        try:
            return bool(os.read(self._handle, 64))
        except (BlockingIOError, InterruptedError):
            return False

    def close(self) -> None:
        """Let go of the file."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None
