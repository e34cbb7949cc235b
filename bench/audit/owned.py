"""Whose code something is: the person's own is looked into, that of installed libraries and of ourselves is not."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from typing import Any

_INSTALLED = tuple(
    {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    | {str(Path(__file__).parents[1])}
)


@functools.cache
def is_own_file(file: str) -> bool:
    if file.startswith("<"):
        return False
    return not Path(file).resolve().is_relative_to(Path(__file__).parents[1]) and not any(
        file.startswith(root + "/") for root in _INSTALLED
    )


def is_own(thing: Any) -> bool:
    """For a class, a function or an instance's class: whether it was defined in the person's own code."""
    name = getattr(thing, "__module__", None)
    module = sys.modules.get(name) if isinstance(name, str) else None
    file = getattr(module, "__file__", None)
    if name == "__main__" or (module is None and name not in (None, "builtins")):
        return True
    return file is not None and is_own_file(file)
