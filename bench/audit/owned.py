"""Whose code something is: the person's own is looked into, that of installed libraries and of ourselves is not."""

from __future__ import annotations

import functools
import sys
import sysconfig
from pathlib import Path
from typing import Any

_OURS = Path(__file__).resolve().parents[1]
_LIBRARIES = {sysconfig.get_path(name) for name in ("purelib", "platlib")}
_INSTALLED = (*{sysconfig.get_path(name) for name in ("stdlib", "platstdlib")}, *_LIBRARIES)


@functools.cache
def is_own_file(file: str) -> bool:
    return not (file.startswith("<") or _is_in(file, *_INSTALLED) or _is_ours(file))


@functools.cache
def is_library_file(file: str) -> bool:
    """Of an installed library other than torch."""
    return _is_in(file, *_LIBRARIES) and not (_is_in(file, *(f"{root}/torch" for root in _LIBRARIES)) or _is_ours(file))


def _is_ours(file: str) -> bool:
    return Path(file).resolve().is_relative_to(_OURS)


def _is_in(file: str, *folders: str) -> bool:
    return any(file.startswith(folder + "/") for folder in folders)


def is_own(thing: Any) -> bool:
    """For a class, a function or an instance's class: whether it was defined in the person's own code."""
    name = getattr(thing, "__module__", None)
    module = sys.modules.get(name) if isinstance(name, str) else None
    file = getattr(module, "__file__", None)
    if name == "__main__" or (module is None and name not in (None, "builtins")):
        return True
    return file is not None and is_own_file(file)
