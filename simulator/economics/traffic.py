"""When requests for images come: Poisson, diurnal or bursty by a file of configs/traffic, or the times of a CSV file.

A diurnal process is Poisson with the rate mean x (1 + swing x sin(2 pi t / period)), drawn by thinning (Lewis and
Shedler, 1979); it begins at its mean and rises. A bursty one is Poisson with two rates, the lengths of bursts and of
the times between them exponential (a Markov-modulated Poisson process).
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import NonNegativeInt

from ...errors import DpuError
from .inputs import find
from .schema import Config, Rate, Seconds, Share, Utilisation, load

TRAFFIC = "dpu.traffic/1"
COLUMN = "arrival_s"
NEEDS = {"diurnal": ("swing", "period"), "bursty": ("burst_share", "burst_requests", "burst_length")}

Times = npt.NDArray[np.float64]


class Traffic(Config):
    """Requests of a service and what it promises. docs/economics.md describes the fields."""

    format: Literal["dpu.traffic/1"]
    name: str
    title: str
    description: str
    process: Literal["poisson", "diurnal", "bursty"]
    rate: Rate  # mean over the duration
    duration: Seconds
    swing: Share | None = None  # diurnal: of the mean
    period: Seconds | None = None  # diurnal
    burst_share: Utilisation | None = None  # bursty: of the time
    burst_requests: Share | None = None  # bursty: of the requests
    burst_length: Seconds | None = None  # bursty: mean of one burst
    objective: Seconds  # within which 99 of 100 requests are to be served
    queue_limit: NonNegativeInt  # requests that may wait; more are turned away
    duty: Utilisation | None = None  # of the devices kept, where it is known; no more are kept than the objective needs


@dataclass(frozen=True)
class Arrivals:
    """Times of requests from 0 on, ascending, in s, of one run of `duration` s."""

    times: Times
    duration: float

    @property
    def rate(self) -> float:
        """Requests a second."""
        return len(self.times) / self.duration


def traffic(name_or_path: str) -> Traffic:
    """A file of configs/traffic, by name or path.

    Raises:
        DpuError: no such file, or a field is wrong.
    """
    path = find("traffic", name_or_path)
    found = load(path, Traffic, TRAFFIC)

    def refuse(field: str, what: str) -> DpuError:
        return DpuError(
            str(path), f"field '{field}': {what}", hint="docs/economics.md describes every field", code="E520"
        )

    for process, fields in NEEDS.items():
        for field in fields:
            if process == found.process and getattr(found, field) is None:
                raise refuse(field, f"is missing, allowed: a number, because the process is '{process}'")
            if process != found.process and getattr(found, field) is not None:
                raise refuse(field, f"is there, allowed: only with the process '{process}'")
    for field in ("duration", "period", "burst_length", "objective"):
        number = getattr(found, field)
        if number is not None and number.value <= 0:
            raise refuse(field, f"value is {number.value:g} {number.unit}, allowed: above 0 s")
    if found.burst_share is not None and found.burst_share.value >= 1:
        raise refuse("burst_share", "value is 1, allowed: above 0 and below 1")
    return found


def poisson(rate: float, duration: float, random: np.random.Generator) -> Times:
    """Times of a Poisson process: as many as its law says, uniform over the duration."""
    return np.sort(random.uniform(0.0, duration, random.poisson(rate * duration)))


def diurnal(rate: float, swing: float, period: float, duration: float, random: np.random.Generator) -> Times:
    """Times of a Poisson process whose rate swings around its mean by `swing` (a share of it)."""
    times = poisson(rate * (1 + swing), duration, random)
    kept = random.uniform(0.0, 1 + swing, len(times)) < 1 + swing * np.sin(2 * np.pi * times / period)
    return times[kept]


def bursty(
    rate: float, share: float, requests: float, length: float, duration: float, random: np.random.Generator
) -> Times:
    """Times of a process with bursts: `share` of the time has `requests` of the requests; bursts last `length` s."""
    rates = rate * (1 - requests) / (1 - share), rate * requests / share
    lengths = length * (1 - share) / share, length
    found: list[Times] = []
    now, burst = 0.0, bool(random.uniform() < share)
    while now < duration:
        until = now + random.exponential(lengths[burst])
        found.append(now + poisson(rates[burst], until - now, random))
        now, burst = until, not burst
    times = np.concatenate(found)
    return times[times < duration]


def draw(t: Traffic, rate: float, seed: int) -> Arrivals:
    """Arrivals of one run at a mean rate (requests/s); a seed has always the same."""
    random = np.random.default_rng(seed)
    duration = _seconds(t.duration)
    made: dict[str, Callable[[], Times]] = {
        "poisson": lambda: poisson(rate, duration, random),
        "diurnal": lambda: diurnal(rate, _number(t.swing), _seconds(t.period), duration, random),
        "bursty": lambda: bursty(
            rate,
            _number(t.burst_share),
            _number(t.burst_requests),
            _seconds(t.burst_length),
            duration,
            random,
        ),
    }
    return Arrivals(made[t.process](), duration)


def read_arrivals(path: Path, after: float) -> Arrivals:
    """The times of a CSV file with the column `arrival_s`; the run ends `after` s behind the last.

    Raises:
        DpuError: unreadable, without that column or a line, or a time is no number, negative, or before the last.
    """

    def refuse(what: str) -> DpuError:
        hint = f"one column '{COLUMN}' with a time in seconds from 0 on each line, ascending"
        return DpuError(str(path), what, hint=hint, code="E520")

    times: list[float] = []
    try:
        with path.open(newline="") as f:
            rows = csv.DictReader(f)
            if COLUMN not in (rows.fieldnames or []):
                raise refuse(f"column '{COLUMN}': is missing, found: {', '.join(rows.fieldnames or []) or 'nothing'}")
            for row in rows:
                seen = row[COLUMN]
                try:
                    time = float(seen)
                except (TypeError, ValueError):
                    time = float("nan")
                least = times[-1] if times else 0.0
                if not isfinite(time) or time < least:
                    raise refuse(f"line {rows.line_num}: value is {seen!r}, allowed: a number from {least:g} s on")
                times.append(time)
    except FileNotFoundError as e:
        raise DpuError(str(path), "no such file", code="E106") from e
    except (OSError, UnicodeDecodeError, csv.Error) as e:
        raise refuse(f"is no readable CSV ({e})") from e
    if not times:
        raise refuse("holds no arrivals")
    return Arrivals(np.array(times), times[-1] + after)


def _number(stated: Share | None) -> float:
    assert stated is not None  # the model's check
    return stated.value


def _seconds(stated: Seconds | None) -> float:
    assert stated is not None
    return stated.quantity("").to("s").value
