"""What a name in `--precisions` means: a policy, and how its scales and integers are chosen.

    w8a8     w4a8+gptq     w8a8-static+percentile+smooth     mine.json+mean

Suffixes come in any order and each at most once: `+gptq` (errors of int4 weights are compensated), `+smooth`, and one
collector of static scales: `+mean`, `+percentile` or one of another share, such as `+percentile99.9`. Tables and files
write them in one order, so that two spellings are one row.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from ...errors import DpuError
from ...passes.collectors import ABSMAX, Collector, parse_collector
from ...passes.policy import Policy, named_policy, read_policy

GPTQ, SMOOTH = "gptq", "smooth"
_SUFFIXES = "suffixes are +gptq, +smooth, +mean, +percentile (or such as +percentile99.9)"
_FILE = ".json"
_NAME = re.compile(r"(.*\.json|[^+]*)((?:\+[^+]*)*)")


@dataclass(frozen=True)
class Variant:
    """A policy and the options of `dpuc compile` that go with it."""

    policy: Policy
    gptq: bool = False
    collector: Collector = ABSMAX
    smooth: bool = False

    @property
    def label(self) -> str:
        """The name in tables and files: a policy file by the name inside, suffixes in one order."""
        found = [self.policy.name]
        found += [GPTQ] * self.gptq + [self.collector.text] * (self.collector != ABSMAX) + [SMOOTH] * self.smooth
        return "+".join(found)


def parse_variant(name: str) -> Variant:
    """The variant of a name, or of the path of a policy file and suffixes.

    Raises:
        DpuError: there is no such policy or suffix, one is there twice, or the policy has no use for it.
    """
    found = _NAME.fullmatch(name)
    base, *suffixes = (found[1], *found[2].split("+")[1:]) if found else (name,)
    where = f"--precisions {name}"
    policy = read_policy(Path(base)) if base.endswith(_FILE) else named_policy(base)
    collectors = [s for s in suffixes if s not in (GPTQ, SMOOTH)]
    for s in collectors:
        if not s.startswith(("mean", "percentile")):
            raise DpuError(where, f"no such suffix '+{s}'", hint=_SUFFIXES, code="E501")
    for s in suffixes:
        if suffixes.count(s) > 1:
            raise DpuError(where, f"'+{s}' is there twice", hint="leave out one of the two", code="E501")
    if len(collectors) > 1:
        what = f"'+{collectors[0]}' and '+{collectors[1]}' are two collectors"
        raise DpuError(where, what, hint="leave out one of the two", code="E501")
    if GPTQ in suffixes and not policy.has_int4:
        raise DpuError(where, f"policy '{policy.name}' has no int4 weights", code="E501")
    collector = parse_collector(collectors[0], where) if collectors else ABSMAX
    return Variant(policy, GPTQ in suffixes, collector, SMOOTH in suffixes)
