"""The control key: a hash over everything that is held fixed. Two keys never share a frontier."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from bench.spec.controls import Controls
from bench.spec.mapping import to_mapping

KEY_DIGITS = 16
SHORT_KEY_DIGITS = 8
AUDIT_VERSION = 1
"""Raised when the audit learns to see more or less than before: verdicts of another version are not reused."""


def control_key(controls: Controls) -> str:
    """16 hex digits over the canonical JSON of `controls`, facts as executed included.

    Raises:
        ValueError: the controls have not been probed yet, so their facts are unknown.
    """
    if controls.facts is None:
        raise ValueError("controls without facts have no key: probe the worker first")
    mapping = to_mapping(controls)
    mapping["device"]["index"] = 0  # which of several equal devices it was is no control
    return hashed(mapping)


def audit_key(controls: Controls, placement: str) -> str:
    """16 hex digits over what a verdict on `placement` depends on: model, workload, optimizer, recipe, precision,
    device, versions, and the audit itself; not how often is measured, nor how memory is allocated.

    Raises:
        ValueError: the controls have not been probed yet.
    """
    if controls.facts is None:
        raise ValueError("controls without facts have no key: probe the worker first")
    mapping = to_mapping(controls)
    del mapping["protocol"]
    mapping["device"] = {"kind": controls.device.kind, "threads": controls.device.threads}
    mapping |= {"placement": placement, "audit_version": AUDIT_VERSION}
    return hashed(mapping)


def hashed(mapping: Any) -> str:
    """16 hex digits over the canonical JSON."""
    text = json.dumps(_canonical(mapping), sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:KEY_DIGITS]


def _canonical(value: Any) -> Any:
    """`dropout: 0` and `dropout: 0.0` are one setting."""
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def short_key(key: str) -> str:
    return key[:SHORT_KEY_DIGITS]


def differing_controls(first: Controls, second: Controls) -> dict[str, tuple[Any, Any]]:
    """Dotted option → its two values, for every control that differs; a side without the option shows None."""
    left, right = flat_controls(first), flat_controls(second)
    return {
        name: (left.get(name), right.get(name))
        for name in sorted(left.keys() | right.keys())
        if left.get(name) != right.get(name)
    }


def flat_controls(controls: Controls) -> dict[str, Any]:
    """Dotted option → value; an empty mapping has no entry."""
    return _flat(to_mapping(controls), "")


def _flat(value: Any, name: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        return {name: value}
    flat: dict[str, Any] = {}
    for key, item in value.items():
        flat |= _flat(item, f"{name}.{key}" if name else key)
    return flat
