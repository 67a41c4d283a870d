"""A service of images as a queue: requests arrive, wait, are made in batches by equal devices, or are turned away.

One line of waiting requests, first come first served. A free device takes up to `batch` of them, and may hold on for
`hold` s from the oldest's arrival for more to come. A request is turned away where `limit` wait and no device is free.
Every run begins empty and stops at its end; requests that are in the service then are counted as left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from math import ceil, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import simpy

from .traffic import Arrivals

GOAL = 0.99
"""Share of the requests that the objective is about."""
MOST_DEVICES = 100_000
T_99 = (0.0, 63.66, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.25, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947)
"""Student's t, two-sided 99 %, by degrees of freedom; beyond the table its last number, which is too large."""

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Service:
    """The devices of a service. `seconds(n)` is the time of a batch of n, drawn anew each time where it is random."""

    seconds: Callable[[int], float]
    devices: int
    batch: int = 1
    limit: int = 1 << 60
    hold: float = 0.0


@dataclass(frozen=True)
class Run:
    """What happened. Times in s, one of each request: `done` is infinite if it was not served before the end."""

    arrived: Floats
    done: Floats
    rejected: int
    busy: float  # device-seconds
    duration: float
    devices: int

    @property
    def served(self) -> int:
        """Requests."""
        return int(np.isfinite(self.done).sum())

    @property
    def left(self) -> int:
        """Requests that wait or are being made at the end."""
        return len(self.arrived) - self.served - self.rejected

    @property
    def duty(self) -> float:
        """Share of the time that a device works."""
        return self.busy / (self.devices * self.duration)

    def latencies(self, after: float = 0.0) -> Floats:
        """Of the served requests that arrived after `after` s."""
        kept = np.isfinite(self.done) & (self.arrived >= after)
        return (self.done - self.arrived)[kept]

    def in_time(self, objective: float) -> tuple[int, int]:
        """Requests served within `objective` s, and those that could have been: the last ones' time is not over."""
        counted = self.arrived <= self.duration - objective
        good = (self.done - self.arrived)[counted] <= objective + 1e-9
        return int(good.sum()), int(counted.sum())


def simulate(arrivals: Arrivals, service: Service) -> Run:
    """One run. Deterministic unless `service.seconds` draws."""
    env = simpy.Environment()
    times = arrivals.times
    done = np.full(len(times), np.inf)
    waiting: deque[int] = deque()
    sleeping: deque[simpy.Event] = deque()
    free, rejected, busy = service.devices, 0, 0.0

    def arrive() -> Generator[simpy.Event, Any, None]:
        nonlocal rejected
        for i, time in enumerate(times.tolist()):
            if time > env.now:
                yield env.timeout(time - env.now)
            if len(waiting) >= service.limit + free * service.batch:
                rejected += 1
                continue
            waiting.append(i)
            if sleeping:
                sleeping.popleft().succeed()

    def device() -> Generator[simpy.Event, Any, None]:
        nonlocal free, busy
        while True:
            while len(waiting) < service.batch:
                until = times[waiting[0]] + service.hold if waiting else np.inf
                if until <= env.now:
                    break
                woken = env.event()
                sleeping.append(woken)
                if waiting:
                    yield woken | env.timeout(until - env.now)
                    if not woken.triggered:
                        sleeping.remove(woken)
                else:
                    yield woken
            taken = [waiting.popleft() for _ in range(min(service.batch, len(waiting)))]
            seconds = service.seconds(len(taken))
            free -= 1
            busy += min(seconds, arrivals.duration - env.now)
            yield env.timeout(seconds)
            free += 1
            done[taken] = env.now

    env.process(arrive())
    for _ in range(service.devices):
        env.process(device())
    env.run(until=arrivals.duration)
    return Run(times, done, rejected, busy, arrivals.duration, service.devices)


@dataclass(frozen=True)
class Served:
    """Several runs of one service together."""

    runs: tuple[Run, ...]
    objective: float  # s

    @property
    def in_time(self) -> float:
        """Share of the requests served within the objective; 1 where none came."""
        good, counted = (sum(n) for n in zip(*(r.in_time(self.objective) for r in self.runs), strict=True))
        return good / counted if counted else 1.0

    @property
    def per_second(self) -> float:
        """Images served."""
        return sum(r.served for r in self.runs) / sum(r.duration for r in self.runs)

    def percentile(self, share: float) -> float:
        """Of the latencies of served requests, s; infinite where none was served."""
        found = np.concatenate([r.latencies() for r in self.runs])
        return float(np.quantile(found, share)) if len(found) else float("inf")

    def spread(self, of: Callable[[Run], float]) -> tuple[float, float]:
        """Mean over the runs, and half the width of its 99 % confidence interval; infinite for one run."""
        return interval([of(r) for r in self.runs])


def interval(values: Sequence[float]) -> tuple[float, float]:
    """Mean and half width of its 99 % confidence interval (Student's t)."""
    n = len(values)
    if n < 2:
        return float(np.mean(values)), float("inf")
    t = T_99[min(n - 1, len(T_99) - 1)]
    return float(np.mean(values)), t * float(np.std(values, ddof=1)) / sqrt(n)


def serve(arrivals: Sequence[Arrivals], service: Service, objective: float) -> Served:
    """All runs of a service."""
    return Served(tuple(simulate(a, service) for a in arrivals), objective)


def fewest(arrivals: Sequence[Arrivals], service: Service, objective: float, least: int = 1) -> Served | None:
    """The service with the fewest devices, `least` or more, that serves 99 of 100 requests within the objective.

    None where no number does: a batch of one takes longer. Found by doubling and halving, as more devices never serve
    fewer requests in time where batches do not grow with the load.
    """
    if service.seconds(1) > objective:
        return None

    def served(devices: int) -> Served:
        tried = Service(service.seconds, devices, service.batch, service.limit, service.hold)
        return serve(arrivals, tried, objective)

    below, n = least - 1, least
    while (found := served(n)).in_time < GOAL:
        if n > MOST_DEVICES:
            return None
        below, n = n, 2 * n
    while n - below > 1:
        middle = (below + n) // 2
        tried_found = served(middle)
        if tried_found.in_time >= GOAL:
            n, found = middle, tried_found
        else:
            below = middle
    return found


def devices_at(rate: float, capacity: float, duty: float) -> int:
    """Devices of `capacity` images/s each that `rate` images/s keep busy for `duty` of the time, at most."""
    return max(1, ceil(rate / (capacity * duty) - 1e-9))
