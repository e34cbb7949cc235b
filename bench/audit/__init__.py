"""Is the replayed step still the same step? A verdict, and where replay breaks."""

import importlib
from typing import Any

from bench.audit.options import GATE as GATE, AuditOptions as AuditOptions
from bench.audit.verdict import (
    KINDS as KINDS,
    OUTCOMES as OUTCOMES,
    Finding as Finding,
    OpDifference as OpDifference,
    Verdict as Verdict,
)

_NEEDS_TORCH = {
    "audit_step": "bench.audit.audit",
    "plain_side": "bench.audit.audit",
    "audit_replay": "bench.audit.replay",
    "PlainSide": "bench.audit.plain",
}


def __getattr__(name: str) -> Any:
    if name in _NEEDS_TORCH:
        return getattr(importlib.import_module(_NEEDS_TORCH[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
