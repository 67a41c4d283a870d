"""A rewritten graph and its weights in an ONNX Runtime session; what it placed on the CPU."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir

from .ort_rewrite.nodes import Derived, derive, dims

Array = np.ndarray[Any, Any]


def arrays_of(model: ir.Model, weights: Mapping[str, Array], derived: Derived) -> dict[str, Array]:
    """The array of every external initialiser of `model`.

    Raises:
        KeyError: a weight is missing.
    """
    found = {}
    for name, value in model.graph.initializers.items():
        if isinstance(value.const_value, ir.ExternalTensor):
            source, kind = derived.get(name, (name, "as is"))
            found[name] = derive(weights[source], kind)
            assert found[name].shape == dims(value), name
    return found


def load_session(
    model: ir.Model,
    weights: Mapping[str, Array],
    derived: Derived,
    providers: Sequence[str | tuple[str, dict[str, str]]],
    config: Mapping[str, str] | None = None,
    profile: Path | None = None,
) -> Any:
    """An `onnxruntime.InferenceSession`.

    Args:
        model: from `ort_rewrite.rewrite`, or unchanged.
        weights: arrays by the names of the state dictionary.
        derived: weights that are made from others.
        providers: as ONNX Runtime takes them.
        config: session configuration entries.
        profile: prefix of a profile to write when the session ends.

    Raises:
        RuntimeError: the first provider did not start, or of ONNX Runtime's own kinds.
    """
    import onnxruntime as ort

    ort.set_default_logger_severity(3)
    options = ort.SessionOptions()
    options.log_severity_level = 3
    for key, value in (config or {}).items():
        options.add_session_config_entry(key, value)
    if profile is not None:
        options.enable_profiling = True
        options.profile_file_prefix = str(profile)
    arrays = arrays_of(model, weights, derived)
    values = [ort.OrtValue.ortvalue_from_numpy(a) for a in arrays.values()]
    options.add_external_initializers(list(arrays), values)
    graph = ir.to_proto(model).SerializeToString()
    session = ort.InferenceSession(graph, options, list(providers), enable_fallback=0)
    wanted = providers[0] if isinstance(providers[0], str) else providers[0][0]
    if wanted not in session.get_providers():
        # ONNX Runtime goes on without a provider whose libraries it cannot load, and only logs that.
        raise RuntimeError(f"{wanted} did not start; session providers: {', '.join(session.get_providers())}")
    session.weights = (arrays, values)  # ONNX Runtime does not copy them
    return session


def placement(profile: Path) -> dict[str, dict[str, int]]:
    """Nodes by provider and operator, of a profile that ONNX Runtime wrote; copies between CPU and GPU are nodes."""
    found: dict[str, Counter[str]] = {}
    seen = set()
    for event in json.loads(profile.read_text()):
        what = event.get("args", {})
        if event.get("cat") != "Node" or "provider" not in what or event["name"] in seen:
            continue
        seen.add(event["name"])
        found.setdefault(what["provider"], Counter())[what["op_name"]] += 1
    return {provider: dict(ops) for provider, ops in found.items()}
