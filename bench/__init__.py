"""Boundary Bench: where to put activation-checkpoint boundaries, measured.

`from bench import Placement, apply, check, audit_replay, measure` is what a training script needs; all load only when
asked for. `from bench.audit.testing import assert_valid_replay` is for its tests.
"""

import importlib
import sys
from types import ModuleType
from typing import Any

_PUBLIC = {
    "Placement": "bench.placement",
    "PlacementError": "bench.placement",
    "apply": "bench.placement",
    "audit_replay": "bench.audit",
    "check": "bench.own.check",
    "OtherModelWarning": "bench.placement",
}
# Found by __getattr__:
__all__ = ["OtherModelWarning", "Placement", "PlacementError", "apply", "audit_replay", "check", "measure"]


def __getattr__(name: str) -> Any:
    if name == "measure":
        return importlib.import_module("bench.measure")
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class _Measure(ModuleType):
    """`bench.measure` is a room and a public function: Python binds a submodule to its package under its name, so the
    room answers calls as the function `bench.own.measure`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return importlib.import_module("bench.own").measure(*args, **kwargs)


class _Bench(ModuleType):
    def __setattr__(self, name: str, value: Any) -> None:
        if name == "measure":
            value.__class__ = _Measure
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Bench
