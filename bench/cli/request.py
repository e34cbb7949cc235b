"""From a composed config to controls and caps; `conf/` has the same fields as `bench.spec`, one for one."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from bench.spec import Caps, Controls, SpecError, from_mapping, validate_caps, validate_controls

CONTROL_GROUPS = tuple(field.name for field in dataclasses.fields(Controls) if field.name != "facts")


def controls_of(options: Mapping[str, Any]) -> Controls:
    """Raises SpecError, naming the option, where a control is missing, unknown, of the wrong type or out of range."""
    controls = from_mapping(Controls, {name: options[name] for name in CONTROL_GROUPS})
    validate_controls(controls)
    return controls


def caps_of(options: Mapping[str, Any]) -> Caps:
    """Raises SpecError, naming the option, where a cap is unknown, of the wrong type or out of range."""
    caps = from_mapping(Caps, options["caps"], where="caps")
    validate_caps(caps)
    return caps


def refuse_unknown(options: Mapping[str, Any], known: Collection[str]) -> None:
    """Raises SpecError for an option that a `+name=value` added and nothing would read."""
    for name in options:
        if name not in known:
            raise SpecError(f"{name}: no such option; there are {', '.join(sorted(known))}")
