"""Boundary Bench: where to put activation-checkpoint boundaries, measured.

`from bench import Placement, apply` is what a training script needs; both load only when asked for.
"""

import importlib
from typing import Any

_PUBLIC = {"Placement": "bench.placement", "PlacementError": "bench.placement", "apply": "bench.placement"}
__all__ = ["Placement", "PlacementError", "apply"]  # found by __getattr__


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
