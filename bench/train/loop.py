"""Stages that train, each for a share of the time: plan, learning rate, moving average, checkpoints and log.

A step draws everything random from a generator seeded by (seed, stage, step), so a run that was stopped and goes on
from its last checkpoint takes the very steps of one that was not. No step waits for the device.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ...errors import DpuError
from ...files import atomic_write

_WARM_UP = 400  # steps over which the learning rate rises
_MEASURE_AFTER, _MEASURED = 20, 80  # steps: the first compile and choose kernels, the next are timed for the plan
_LOG_EVERY = 200  # steps
_SAFETY = 0.97  # of the time left that a plan uses

Losses = Callable[[int, torch.Generator], dict[str, torch.Tensor]]
"""(step, generator) -> losses by name; the one called "loss" is minimised, the others are logged."""


@dataclass
class Run:
    """What all stages share.

    Args:
        out: where checkpoints and the log go.
        seed: of everything random.
        device: where it computes.
        checkpoint_seconds: between checkpoints.
        steps: steps of a stage, by its name; a stage that is not named is planned by time.
        compiled: whether to use torch.compile; turned off where that fails.
    """

    out: Path
    seed: int
    device: torch.device
    checkpoint_seconds: float = 120.0
    steps: Mapping[str, int] = field(default_factory=dict)
    compiled: bool = False
    stop_after: int | None = None  # steps of a stage after which to stop as if killed; for tests

    def generator(self, stage: str, step: int) -> torch.Generator:
        """The generator of one step, on the device."""
        digest = hashlib.sha256(f"{self.seed} {stage} {step}".encode()).digest()
        return torch.Generator(self.device).manual_seed(int.from_bytes(digest[:7], "little"))

    def log(self, stage: str, **values: Any) -> None:
        """Append a line of JSON to the log, and print it."""
        line = json.dumps({"stage": stage, **values})
        print(line, flush=True)
        with (self.out / "log.jsonl").open("a") as file:
            file.write(line + "\n")

    def checkpoint(self, stage: str) -> Path:
        """The checkpoint file of a stage."""
        return self.out / "checkpoints" / f"{stage}.pt"


class Average:
    """Exponential moving average of a module's parameters, faster at first."""

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.names = [n for n, _ in module.named_parameters()]
        self.current = [p.detach() for p in module.parameters()]
        self.values = [p.clone() for p in self.current]

    def update(self, step: int) -> None:
        """Take in the parameters after step number `step`, from 0."""
        decay = min(self.decay, (1 + step) / (10 + step))
        torch._foreach_lerp_(self.values, self.current, 1 - decay)

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The averages by parameter name."""
        return dict(zip(self.names, self.values, strict=True))

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Put back what `state_dict` gave."""
        for name, value in zip(self.names, self.values, strict=True):
            value.copy_(state[name])


@dataclass
class Trained:
    """How a stage ended: steps, seconds of all runs together, samples, and the last mean losses."""

    steps: int
    seconds: float
    samples: int
    losses: dict[str, float]


def learning_rate(peak: float, step: int, total: int | None) -> float:
    """Linear rise, then half a cosine down to 1 % of `peak` at `total`."""
    rise = _WARM_UP if total is None or total >= 10 * _WARM_UP else max(1, total // 10)
    if step < rise or total is None:
        return peak * min(1.0, (step + 1) / rise)
    return peak * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - rise) / max(1, total - rise))))


def compile_or_not(run: Run, function: Any) -> Any:
    """`torch.compile(function)` as long as the run is `compiled`, else `function`."""
    if not run.compiled:
        return function
    compiled: Any = torch.compile(function)
    return lambda *arguments: (compiled if run.compiled else function)(*arguments)


def _gradients(
    run: Run, stage: str, optimizer: torch.optim.Optimizer, losses: Losses, step: int
) -> dict[str, torch.Tensor]:
    """The losses of a step, their gradients computed. If torch.compile fails, it says so and goes on without."""
    try:
        optimizer.zero_grad(set_to_none=True)
        found = losses(step, run.generator(stage, step))
        torch.autograd.backward(found["loss"])
    except torch.OutOfMemoryError:
        raise
    except Exception as e:  # inductor, triton and the C compiler each raise their own, backward's only in backward
        if not run.compiled:
            raise
        run.compiled = False
        run.log(stage, warning=f"failed with torch.compile, going on without it: {type(e).__name__}: {str(e)[:400]}")
        return _gradients(run, stage, optimizer, losses, step)
    return found


def train(
    run: Run,
    stage: str,
    module: nn.Module,
    losses: Losses,
    *,
    peak: float,
    batch: int,
    decay: float,
    weight_decay: float,
    seconds: float,
) -> Trained:
    """Train `module`, from its checkpoint if there is one; it ends with its averaged weights.

    Args:
        run: seed, device and folder.
        stage: the name, of the checkpoint and in the log.
        module: all that trains.
        losses: called once a step.
        peak: learning rate.
        batch: samples a step, for the log.
        decay: of the moving average.
        weight_decay: of AdamW.
        seconds: what the stage may take from now on, if it has no fixed number of steps.

    Raises:
        DpuError: the checkpoint is of another run.
        FloatingPointError: a loss is not finite.
    """
    start = time.monotonic()
    on_gpu = run.device.type == "cuda"
    optimizer = torch.optim.AdamW(
        module.parameters(), lr=peak, betas=(0.9, 0.99), weight_decay=weight_decay, fused=on_gpu
    )
    average = Average(module, decay)
    total: int | None = run.steps.get(stage)
    first, before, done_losses = 0, 0.0, {}
    file = run.checkpoint(stage)
    if file.exists():
        state = torch.load(file, map_location=run.device, weights_only=True)
        if state["seed"] != run.seed or state["batch"] != batch:
            raise DpuError(
                str(file),
                f"is a checkpoint of seed {state['seed']} and batch {state['batch']}",
                why=f"this run has seed {run.seed} and batch {batch}",
                hint="give the same options, or another folder",
                code="E501",
            )
        module.load_state_dict(state["module"])
        optimizer.load_state_dict(state["optimizer"])
        average.load_state_dict(state["average"])
        first, before, done_losses = state["step"], state["seconds"], state["losses"]
        total = state["total"] if total is None else total
        run.log(stage, resumed_at=first, of=total)
    kept = start
    sums: dict[str, torch.Tensor] = {}
    summed, timed_from, timed_at = 0, None, 0.0
    step = first

    def save() -> None:
        nonlocal kept
        state = {
            "seed": run.seed,
            "batch": batch,
            "step": step,
            "total": total,
            "seconds": before + time.monotonic() - start,
            "losses": done_losses,
            "module": module.state_dict(),
            "optimizer": optimizer.state_dict(),
            "average": average.state_dict(),
        }
        file.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(file) as temporary:
            torch.save(state, temporary)
        kept = time.monotonic()

    while total is None or step < total:
        if timed_from is None and step - first >= _MEASURE_AFTER:
            _wait(on_gpu)
            timed_from, timed_at = step, time.monotonic()
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(peak, step, total)
        found = _gradients(run, stage, optimizer, losses, step)
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        average.update(step)
        step += 1
        for name, value in found.items():
            sums[name] = sums.get(name, torch.zeros((), device=run.device)) + value.detach().float()
        summed += 1
        planned = False
        if total is None and timed_from is not None and step - timed_from >= _MEASURED:
            _wait(on_gpu)
            each = (time.monotonic() - timed_at) / (step - timed_from)
            left = seconds - (time.monotonic() - start)
            total = step + max(1, int(_SAFETY * left / each))
            planned = True
            run.log(stage, planned=total, seconds_a_step=round(each, 6), samples_a_second=round(batch / each))
        if summed and (step % _LOG_EVERY == 0 or step == total):
            done_losses = {name: value.item() / summed for name, value in sums.items()}
            if not all(math.isfinite(v) for v in done_losses.values()):
                raise FloatingPointError(f"{stage}: the losses are {done_losses} at step {step}")
            run.log(
                stage,
                step=step,
                of=total,
                seconds=round(before + time.monotonic() - start, 1),
                **{k: round(v, 5) for k, v in done_losses.items()},
            )
            sums, summed = {}, 0
        if run.stop_after is not None and step - first >= run.stop_after:
            save()
            raise KeyboardInterrupt
        if planned or time.monotonic() - kept > run.checkpoint_seconds:
            save()
            if not planned and total is not None and stage not in run.steps and timed_from is not None:
                total = _shortened(run, stage, step, total, (step - timed_from, timed_at), seconds, start)
    spent = before
    if step > first:
        save()
        spent += time.monotonic() - start
    average_state = average.state_dict()
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            parameter.copy_(average_state[name])
    return Trained(step, spent, step * batch, done_losses)


def _shortened(
    run: Run, stage: str, step: int, total: int, timed: tuple[int, float], seconds: float, start: float
) -> int:
    """`total`, or fewer steps where the rate so far would overrun the stage's time by more than 3 %."""
    now = time.monotonic()
    each = (now - timed[1]) / max(1, timed[0])
    left = seconds - (now - start)
    possible = step + max(1, int(left / each))
    if possible >= 0.97 * total:
        return total
    run.log(stage, shortened=possible, was=total, seconds_a_step=round(each, 6))
    return possible


def _wait(on_gpu: bool) -> None:
    if on_gpu:
        torch.cuda.synchronize()


def write_json(path: Path, value: Any) -> None:
    """Write JSON atomically."""
    with atomic_write(path) as temporary:
        temporary.write_text(json.dumps(value, indent=2) + "\n")


def cores() -> int:
    """CPU cores that this process may use."""
    return len(os.sched_getaffinity(0))
