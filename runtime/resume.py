"""A run that can be killed: what each model gave is a file in a folder, and the same run takes it from there.

Everything that takes long is a call of a model (text encoder, forward of the UNet, VAE decoder) in a pass (`found`,
`forced`, `whole`, see `sqnr.py`). The n-th call of a model in a pass is `<pass>-<model>-<n>.safetensors`: its inputs'
digest, its outputs, its seconds, and what the device counted in it. Scheduler and guidance are computed again from
these outputs, so a scheduler that remembers steps resumes as well as one that does not, and the image is the same, byte
for byte.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import DpuError
from ..files import atomic_write
from .device import DeviceCounters
from .tensors import F32

if TYPE_CHECKING:
    from .parts import Part
    from .pipeline import Unet
    from .session import Session

Tensors = dict[str, npt.NDArray[Any]]
_SEGMENTS = {"text_encoder": "text encoders", "text_encoder_2": "text encoders", "vae_decoder": "vae decoder"}
FORMAT = "dpu-resume-1"
_FILE = "run.json"


@dataclass(frozen=True)
class Call:
    """One call of a model: `taken` from a run before this one, or computed now."""

    scope: str
    model: str
    number: int
    seconds: float
    taken: bool


@dataclass
class Work:
    """What a device did, as its session counts it."""

    counters: dict[str, int] = field(default_factory=dict)
    input_overflows: int = 0
    exceptions: dict[tuple[str, int], int] = field(default_factory=dict)
    cycles: dict[str, int] = field(default_factory=dict)  # of one run of each entry

    @property
    def device_counters(self) -> DeviceCounters:
        """The sums of the device."""
        return DeviceCounters(**self.counters)

    def add(self, other: Work, sign: int = 1) -> None:
        """Add what another counted, or take it away; cycles are facts and stay."""
        for name, n in other.counters.items():
            self.counters[name] = self.counters.get(name, 0) + sign * n
        self.input_overflows += sign * other.input_overflows
        for key, n in other.exceptions.items():
            self.exceptions[key] = self.exceptions.get(key, 0) + sign * n
        self.cycles |= other.cycles

    def dump(self) -> dict[str, Any]:
        """As JSON."""
        exceptions = [[*key, n] for key, n in self.exceptions.items() if n]
        return {**vars(self), "exceptions": exceptions}

    @staticmethod
    def load(found: Mapping[str, Any]) -> Work:
        """What `dump` wrote."""
        exceptions = {(str(entry), int(tag)): int(n) for entry, tag, n in found["exceptions"]}
        return Work(dict(found["counters"]), int(found["input_overflows"]), exceptions, dict(found["cycles"]))


def work_of(session: Session) -> Work:
    """All that a session counted so far."""
    cycles = {name: done.cycles for name, done in session.completions.items()}
    return Work(dict(vars(session.device.counters())), session.input_overflows, dict(session.exceptions), dict(cycles))


class Log:
    """Computes everything; remembers how long each call took."""

    def __init__(self) -> None:
        self.scope = "found"
        self.calls: list[Call] = []
        self._numbers: dict[str, int] = {}

    def enter(self, scope: str) -> None:
        """Begin a pass."""
        self.scope, self._numbers = scope, {}

    def __call__(self, model: str, given: Mapping[str, npt.ArrayLike], compute: Callable[[], Tensors]) -> Tensors:
        """What `compute` gives."""
        number = self._next(model)
        start = time.perf_counter()
        made = compute()
        self.calls.append(Call(self.scope, model, number, time.perf_counter() - start, False))
        return made

    def again(self, compute: Callable[[], None]) -> None:
        """Compute."""
        compute()

    def work(self, session: Session) -> Work:
        """What the session counted."""
        return work_of(session)

    def add_taken(self, scope: str, seconds: dict[str, float]) -> None:
        """Add the calls of a pass that were taken to seconds by segment, as a pipeline measures them."""
        for call in self.calls:
            if call.taken and call.scope == scope:
                segment = _SEGMENTS.get(call.model, "unet")
                seconds[segment] = seconds.get(segment, 0.0) + call.seconds

    def _next(self, model: str) -> int:
        number = self._numbers.get(model, 0)
        self._numbers[model] = number + 1
        return number


class Folder(Log):
    """Takes from `folder` what is there, and leaves there what is computed.

    Args:
        folder: made if it is missing.
        key: what identifies the run: digests of program and request.

    Raises:
        DpuError: E501, the folder is of another run; E101, it cannot be written.
    """

    def __init__(self, folder: Path, key: Mapping[str, Any], session: Session) -> None:
        super().__init__()
        self.folder, self._session = folder, session
        self._credit = Work()
        key = {"format": FORMAT, **json.loads(json.dumps(key))}
        self._digest = _sha256(json.dumps(key, sort_keys=True).encode())
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as e:
            raise DpuError(str(folder), f"cannot be made ({e.strerror})", code="E101") from e
        file = folder / _FILE
        if file.exists():
            self._check(file, key)
            return
        with atomic_write(file) as temporary:
            temporary.write_text(json.dumps(key, indent=2, sort_keys=True) + "\n")

    def __call__(self, model: str, given: Mapping[str, npt.ArrayLike], compute: Callable[[], Tensors]) -> Tensors:
        """What is in the folder, or what `compute` gives.

        Raises:
            DpuError: E501, the folder has it for other inputs, or damaged.
        """
        number = self._next(model)
        file = self.folder / f"{self.scope}-{model}-{number:03}.safetensors"
        inputs = _digest(given)
        if file.exists():
            tensors, info = self._read(file)
            if info["inputs"] != inputs:
                what = "was computed from other inputs"
                raise DpuError(str(file), what, why="something changed below this run", hint=_DELETE, code="E501")
            self._credit.add(Work.load(info["work"]))
            self.calls.append(Call(self.scope, model, number, float(info["seconds"]), True))
            return tensors
        before, start = work_of(self._session), time.perf_counter()
        made = compute()
        seconds = time.perf_counter() - start
        work = work_of(self._session)
        ran = dict(work.cycles)
        work.add(before, -1)
        work.cycles = ran
        info = {"run": self._digest, "inputs": inputs, "seconds": seconds, "work": work.dump()}
        _write(file, made, info)
        self.calls.append(Call(self.scope, model, number, seconds, False))
        return made

    def again(self, compute: Callable[[], None]) -> None:
        """Compute without counting: the run before this one did."""
        before = work_of(self._session)
        compute()
        found = work_of(self._session)
        found.add(before, -1)
        self._credit.add(found, -1)

    def work(self, session: Session) -> Work:
        """What the session counted, and what the runs before this one did in the calls taken from them."""
        found = work_of(session)
        found.add(self._credit)
        return found

    def _read(self, file: Path) -> tuple[Tensors, dict[str, Any]]:
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(str(file), framework="numpy") as f:
                info = json.loads((f.metadata() or {})["call"])
                tensors = {name: f.get_tensor(name) for name in f.keys()}  # noqa: SIM118 - it is no dict
        except (OSError, SafetensorError, ValueError, KeyError) as e:
            raise DpuError(str(file), f"not a readable call ({e})", hint=_DELETE, code="E501") from e
        if info.get("run") != self._digest:
            raise DpuError(str(file), "is of another run", hint=_DELETE, code="E501")
        return tensors, info

    @staticmethod
    def _check(file: Path, key: Mapping[str, Any]) -> None:
        try:
            found = json.loads(file.read_text())
            assert isinstance(found, dict)
        except (OSError, ValueError, AssertionError) as e:
            raise DpuError(str(file), f"not a readable run ({e})", hint=_DELETE, code="E501") from e
        other = [f"{k} {found.get(k)!r}, now {v!r}" for k, v in key.items() if found.get(k) != v]
        if other:
            hint = "name another folder, or delete this one"
            raise DpuError("--resume", f"{file.parent} is of another run: {'; '.join(other)}", hint=hint, code="E501")


_DELETE = "delete it: it is computed again"


class KeptUnet:
    """A UNet whose forwards are kept; it is prepared when one is computed."""

    def __init__(self, unet: Unet, log: Log, name: str = "unet") -> None:
        self._unet, self._log, self._name = unet, log, name
        self._fixed: dict[str, F32] = {}
        self._ready = self._taken = False

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        """Keep the conditioning of one image."""
        self._fixed, self._ready, self._taken = dict(conditioning), False, False

    def step(self, sample: F32, timestep: float) -> F32:
        """One forward."""
        computed = False

        def compute() -> Tensors:
            nonlocal computed
            computed = True
            if not self._ready and self._taken:  # the first forward of the pass has counted it
                self._log.again(lambda: self._unet.prepare(self._fixed))
            elif not self._ready:
                self._unet.prepare(self._fixed)
            self._ready = True
            return {"noise": self._unet.step(sample, timestep)}

        given: dict[str, npt.ArrayLike] = {**self._fixed, "sample": sample, "timestep": np.float32(timestep)}
        found = self._log(self._name, given, compute)["noise"]
        self._taken |= not computed
        return np.asarray(found, np.float32)


class KeptPart:
    """A text encoder or VAE decoder whose calls are kept."""

    def __init__(self, part: Part, log: Log, name: str) -> None:
        self._part, self._log, self._name = part, log, name

    @property
    def inputs(self) -> Mapping[str, Any]:
        """Input names."""
        return self._part.inputs

    @property
    def outputs(self) -> Sequence[str]:
        """Result names."""
        return self._part.outputs

    def __call__(self, inputs: Mapping[str, npt.ArrayLike]) -> dict[str, F32]:
        """Results by name."""
        return self._log(self._name, inputs, lambda: dict(self._part(inputs)))


class Later:
    """A UNet that is made when it is needed."""

    def __init__(self, make: Callable[[], Unet]) -> None:
        self._make = make
        self._made: Unet | None = None

    def prepare(self, conditioning: Mapping[str, F32]) -> None:
        """Make it, and hand it the conditioning."""
        self._made = self._made or self._make()
        self._made.prepare(conditioning)

    def step(self, sample: F32, timestep: float) -> F32:
        """One forward."""
        assert self._made is not None
        return self._made.step(sample, timestep)


def _write(file: Path, tensors: Tensors, info: Mapping[str, Any]) -> None:
    from safetensors.numpy import save_file

    with atomic_write(file) as temporary:
        packed = {k: np.ascontiguousarray(v) for k, v in sorted(tensors.items())}
        save_file(packed, temporary, {"call": json.dumps(info, sort_keys=True)})


def _digest(given: Mapping[str, npt.ArrayLike]) -> str:
    digest = hashlib.sha256()
    for name, value in sorted(given.items()):
        array = np.ascontiguousarray(value)
        digest.update(f"{name} {array.dtype} {np.shape(value)}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
