"""Packages of the optional extra `quality`."""

from __future__ import annotations

import importlib
from types import ModuleType

from ...errors import DpuError


def quality_package(module: str, purpose: str) -> ModuleType:
    """Import a package of the extra.

    Raises:
        DpuError: it is not installed.
    """
    try:
        return importlib.import_module(module)
    except ImportError as e:
        raise DpuError(
            f"package '{module}'",
            "is not installed",
            why=f"{purpose} needs it; it belongs to the optional extra 'quality'",
            hint="pip install 'dpu[quality]'",
            code="E526",
        ) from e
