"""Where state lies, which decides what kind of fault it is when replay moves it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

BUFFER_PLACE = "buffer"
ATTRIBUTE_PLACE = "attribute"
"""A module's own Python attribute, and what it holds in lists, dicts and records."""
EXTERNAL_PLACE = "external"
"""Iterators, files, and objects that hand out data."""
GLOBAL_PLACE = "global"
"""Attributes of classes, variables of closures, values of modules that the model's code reads, settings of torch."""
ARGUMENT_PLACE = "argument"
"""What a region was given beside tensors: numbers, and what lists, dicts and objects among its arguments hold."""
GENERATOR_PLACE = "generator"
"""A random generator that somebody holds."""
HOOK_PLACE = "hook"
"""What only a hook can reach."""
HOOKS_OF = "hooks of "
"""How the reading of which hooks a module has begins."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    place: str
    value: Any
    """Plain values as they are; of a tensor (dtype, shape, digest)."""

    def told(self) -> str:
        if isinstance(self.value, tuple) and len(self.value) == 3:
            return f"{str(self.value[0]).removeprefix('torch.')}{list(self.value[1])}"
        return str(self.value)[:60]
