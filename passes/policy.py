"""Which precision each layer gets: a default and rules by layer name, as a JSON file or a shipped one by name.

    {"format": "dpu.policy/1", "name": "mixed", "description": "...",
     "default": {"weights": 8, "activations": 8, "scale": "dynamic", "probabilities": 8},
     "rules": [{"layers": "/down_blocks*", "weights": 4}, {"layers": "*/conv_in*", "part": "unet", "activations": 16}]}

A layer is a linear, a convolution or an attention. The first rule that names it decides; what the rule leaves out is
the default's. A pattern (shell style, `*` crosses `/`) is compared with the layer's name in reports and with each of
its ONNX nodes; `part` limits a rule to one model of a pipeline.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation

from ..errors import DpuError
from ..ir import graph as g
from ..ir.locations import nodes_of

FORMAT = "dpu.policy/1"
_EXAMPLE = "configs/policy/w4a8.json shows every field, passes/policy.py says what each means"
_FOLDER = Path(str(resources.files("dpu.configs"))) / "policy"

LAYERS = (g.LinearOp, g.ConvOp, g.AttentionOp)
"""What a policy speaks of."""


class _Config(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Precision(_Config):
    """One layer's precision.

    `weights` and `activations` are bits of linears and convolutions; 16 is 15 bits in two int8 passes. `scale` is that
    of a linear's input, `dynamic` for each token or `static`; a convolution's is always static. `probabilities` are
    bits of an attention's; its queries, keys and values are int8.
    """

    weights: Literal[8, 4] = 8
    activations: Literal[8, 16] = 8
    scale: Literal["dynamic", "static"] = "dynamic"
    probabilities: Literal[8, 15] = 8

    @property
    def activation_bits(self) -> int:
        """Bits that an activation has in its two int8 planes, or in its one."""
        return 15 if self.activations == 16 else 8


class Rule(_Config):
    """The precision of the layers that a pattern names; what is left out is the default's."""

    layers: str
    part: str | None = None
    weights: Literal[8, 4] | None = None
    activations: Literal[8, 16] | None = None
    scale: Literal["dynamic", "static"] | None = None
    probabilities: Literal[8, 15] | None = None

    def names(self, part: str, names: Iterable[str]) -> bool:
        """Whether the rule speaks of a layer of `part` with these names."""
        return self.part in (None, part) and any(fnmatchcase(n, self.layers) for n in names)


class Policy(_Config):
    """A default and rules, of which the first that names a layer decides."""

    format: Literal["dpu.policy/1"] = "dpu.policy/1"
    name: str = Field(min_length=1)
    description: str = ""
    default: Precision = Precision()
    rules: tuple[Rule, ...] = ()

    @cached_property
    def text(self) -> str:
        """The policy as JSON, every field written out."""
        return json.dumps(self.model_dump(mode="json", exclude_none=True), sort_keys=True)

    @cached_property
    def digest(self) -> str:
        """16 hex digits over what decides precisions: not over name and description."""
        fields = self.model_dump(mode="json", include={"format", "default", "rules"})
        return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()[:16]

    @property
    def has_int4(self) -> bool:
        """Whether any layer may have int4 weights."""
        return 4 in (self.default.weights, *(r.weights for r in self.rules))

    def resolve(self, rule: int | None) -> Precision:
        """The precision by a rule's number, or the default."""
        if rule is None:
            return self.default
        given = self.rules[rule].model_dump(exclude={"layers", "part"}, exclude_none=True)
        return self.default.model_copy(update=given)


def policy_names() -> list[str]:
    """Names of the policies that ship with the package: what `--precision` takes."""
    return sorted(f.stem for f in _FOLDER.glob("*.json"))


def named_policy(name: str) -> Policy:
    """A shipped policy.

    Raises:
        DpuError: there is none of this name.
    """
    if name not in policy_names():
        hint = f"one of {', '.join(policy_names())}"
        raise DpuError(f"--precision {name}", "not available", hint=hint, code="E503")
    return read_policy(_FOLDER / f"{name}.json")


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON; a field that is there twice would else be the last one without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"field '{next(n for n in names if names.count(n) > 1)}' is there twice")
    return found


def read_policy(path: Path) -> Policy:
    """A policy file.

    Raises:
        DpuError: unreadable, no JSON, of another format, or a field is wrong or there twice (the field is named).
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"), object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as e:  # of a file that is no text or no JSON: ValueErrors
        why = e.strerror if isinstance(e, OSError) else str(e)
        raise DpuError(str(path), f"not a readable JSON file ({why})", hint=_EXAMPLE, code="E507") from e
    if not isinstance(content, dict):
        raise DpuError(str(path), "not a JSON object", hint=_EXAMPLE, code="E507")
    if (seen := content.get("format")) != FORMAT:
        what = f"field 'format': value is {seen!r}, allowed: '{FORMAT}'"
        raise DpuError(str(path), what, hint=f"write it as {FORMAT}: {_EXAMPLE}", code="E521")
    try:
        found = Policy.model_validate(content)
    except ValidationError as e:
        first = e.errors()[0]
        name = ".".join(str(x) for x in first["loc"])
        what = f"{first['msg']}, it is {first['input']!r}"
        if first["type"] in ("extra_forbidden", "missing"):
            what = "there is no such field" if first["type"] == "extra_forbidden" else "is missing"
        raise DpuError(str(path), f"field '{name}': {what}", hint=_EXAMPLE, code="E507") from e
    shipped = path.parent == _FOLDER
    if not shipped and found.name in policy_names() and found.digest != named_policy(found.name).digest:
        what = f"field 'name': '{found.name}' is a shipped policy that says something else"
        raise DpuError(str(path), what, hint=_EXAMPLE, code="E507")
    return found


def choose_policy(precision: str | None, file: Path | None) -> Policy:
    """The policy of the options `--precision` and `--policy`, of which at most one is given; neither is w8a8.

    Raises:
        DpuError: both are given, or see `named_policy`, `read_policy`.
    """
    if file is None:
        return named_policy(precision or "w8a8")
    if precision is not None:
        raise DpuError("--policy", f"there is --precision {precision}", hint="leave out one of the two", code="E501")
    return read_policy(file)


def follows_model(op: Operation) -> bool:
    """Whether a layer's input has the static int8 scale that the model gives; not after LayerNorm, which is fused."""
    if isinstance(op, g.LinearOp) and isinstance(op.x.owner, g.LayerNormOp):
        return False
    return isinstance(op, g.LinearOp | g.ConvOp) and op.x_scale is not None


@dataclass(frozen=True)
class Kept:
    """A layer that has another precision than the policy asks for."""

    layer: str
    asked: str
    has: str
    why: str


_NAMED = 3  # layers that one line names


def kept_lines(kept: Iterable[Kept]) -> list[str]:
    """A line for each reason, with how many layers it is about and the first of them."""
    groups: dict[str, list[str]] = {}
    for k in kept:
        groups.setdefault(f"{k.asked} asked for, has {k.has} ({k.why})", []).append(k.layer)
    lines = []
    for reason, names in groups.items():
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        lines.append(f"{', '.join(names[:_NAMED])}{more}: {reason}")
    return lines


@dataclass
class Choices:
    """A policy at work on the models of a program: which rules named a layer, and which layers keep something else."""

    policy: Policy
    gptq: bool = False  # errors of int4 weights of linears are compensated by gram matrices of the calibration
    kept: list[Kept] = field(default_factory=list)
    named: set[int] = field(default_factory=set)  # rules that name a layer
    used: set[int] = field(default_factory=set)  # rules that decide a layer's precision

    def of_module(self, module: ModuleOp, names: dict[Operation, str], part: str) -> dict[Operation, Precision]:
        """The precision of every layer of a canonical module; `names` are those of calibration and reports."""
        found: dict[Operation, Precision] = {}
        for op in module.walk():
            if isinstance(op, LAYERS):
                found[op] = self._of(op, names[op], part)
        return found

    def _of(self, op: Operation, name: str, part: str) -> Precision:
        every = (name, *nodes_of(op))
        rules = [i for i, r in enumerate(self.policy.rules) if r.names(part, every)]
        self.named.update(rules)
        self.used.update(rules[:1])
        precision = self.policy.resolve(rules[0] if rules else None)
        rule = self.policy.rules[rules[0]] if rules else None
        given = follows_model(op)
        if given and precision.activations == 16:
            why = "the model gives an int8 scale for its input"
            self.kept.append(Kept(name, "16-bit activations", "8 bits", why))
        if isinstance(op, g.ConvOp) and rule is not None and rule.scale == "dynamic":
            why = "a convolution adds products of several tokens, so they share a scale"
            self.kept.append(Kept(name, "a dynamic scale", "a static one", why))
        if isinstance(op, g.LinearOp) and given and rule is not None and rule.scale is not None:
            self.kept.append(Kept(name, f"a {rule.scale} scale", "the model's static one", "the model gives it"))
        if self.gptq and isinstance(op, g.ConvOp) and precision.weights == 4:
            why = "gram matrices are those of linears"
            self.kept.append(Kept(name, "GPTQ", "rounding to nearest", why))
        return precision

    def check(self) -> None:
        """Refuse rules without effect, after all models.

        Raises:
            DpuError: a rule names no layer, or only layers that earlier rules decide.
        """
        for i, rule in enumerate(self.policy.rules):
            if i in self.used:
                continue
            where = f"policy '{self.policy.name}', rule {i + 1}"
            of = f" of part '{rule.part}'" if rule.part else ""
            if i in self.named:
                what = f"every layer{of} that '{rule.layers}' names is decided by an earlier rule"
                raise DpuError(where, what, hint="put it before the wider rule, or remove it", code="E508")
            raise DpuError(
                where,
                f"'{rule.layers}' names no layer{of}",
                why="a rule without effect is most often a misspelt name",
                hint="dpuc inspect --json lists the layers of a compiled program; * stands for any text",
                code="E508",
            )
