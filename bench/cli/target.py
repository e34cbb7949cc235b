"""The Hydra group `target`: a GPU that need not be here."""

from __future__ import annotations

from typing import Any

from bench.spec import from_mapping
from bench.target.spec import Target, validate_target


def asked_target(option: Any) -> Target | None:
    """None for `target=none`. Raises SpecError where it is not described as it should be."""
    if option is None:
        return None
    target = from_mapping(Target, option, where="target")
    validate_target(target)
    return target
