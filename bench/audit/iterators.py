"""Iterators: which can be copied, and how far each has come, read without moving it."""

from __future__ import annotations

import copy
import io
import types
from typing import Any

LONG = 1000
"""Characters of what is told of a position."""


def is_iterator(value: Any) -> bool:
    """One of Python's own, which can be copied; an object of a class of somebody's own is read by its attributes."""
    if isinstance(value, (types.GeneratorType, io.IOBase)) or not hasattr(value, "__next__"):
        return False
    return type(value).__module__ in ("builtins", "itertools")


def copied(iterator: Any) -> Any:
    """The iterator itself where it cannot be copied."""
    try:
        return copy.copy(iterator)
    except TypeError:
        return iterator


def is_copyable(value: Any) -> bool:
    try:
        copy.copy(value)
    except Exception:  # whatever its class raises for that
        return False
    return True


def iterator_position(iterator: Any) -> Any:
    """Equal for two looks at an iterator that nobody used between them."""
    try:
        _, args, *state = iterator.__reduce__()
    except (TypeError, ValueError):
        return type(iterator).__name__
    inner = [iterator_position(a) if is_iterator(a) else a if isinstance(a, int) else type(a).__name__ for a in args]
    return repr((type(iterator).__name__, inner, [part for part in state if isinstance(part, (int, tuple))]))[:LONG]


def frame_position(generator: types.GeneratorType[Any, Any, Any]) -> Any:
    """Of a generator function: where it waits, and its plain variables."""
    frame = generator.gi_frame
    if frame is None:
        return "finished"
    plain = {name: value for name, value in frame.f_locals.items() if isinstance(value, (int, float, str, bool))}
    return repr((frame.f_lasti, plain))[:LONG]
