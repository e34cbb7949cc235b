"""The state that a forward can move: what modules hold besides parameters, found by walking their attributes.

It lies in cells: a module's buffers and attributes, the lists, dicts, sets and plain objects that these lead to, the
variables that the modules' hooks and functions among their attributes hold in closures, NumPy arrays, generators of
random numbers, and Python's and NumPy's own. A cell can be read and written back.

Left alone, since it is not the modules' own: other modules, classes and what stands in them, module-level names,
libraries' functions and objects, and whatever hands out data (an iterator, a file).
"""

from __future__ import annotations

import enum
import functools
import random
import sys
import types
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy
import torch
from torch import nn
from torch.utils._mode_utils import no_dispatch

MAX_DEPTH = 4
"""How many containers or objects deep an attribute is followed: a dict of objects that hold lists is 3."""

MODULE_INTERNALS = (frozenset(vars(nn.Module())) - {"training"}) | {"forward"}
"""What every module has, and a forward that stands in for that of its class."""
_HANDS_OUT_DATA = ("__next__", "next", "read", "recv", "get_nowait")
_NOT_FOLLOWED = (type(None), bool, int, float, complex, str, bytes, frozenset, torch.Tensor)
"""Nothing in them can move, or (tensors) it is looked for elsewhere."""
ABSENT = object()
"""Stands for a name that is not there."""


class Cell(Protocol):
    """One place that holds state."""

    by_name: bool
    """Whether single entries are written back by their name, and the others left alone."""

    def read(self) -> dict[Any, Any]:
        """Entry → value; what it gives does not change when the cell does."""

    def write(self, contents: Mapping[Any, Any]) -> None: ...


class Names:
    """Attributes of an object, or a module's buffers: entries are written back one by one."""

    by_name = True

    def __init__(self, names: dict[str, Any], *, without: frozenset[str] = frozenset()) -> None:
        self._names, self._without = names, without

    def read(self) -> dict[Any, Any]:
        return {name: value for name, value in self._names.items() if name not in self._without}

    def write(self, contents: Mapping[Any, Any]) -> None:
        for name, value in contents.items():
            if value is ABSENT:
                self._names.pop(name, None)
            else:
                self._names[name] = value


class Buffers(Names):
    """A module's buffers."""


class Items:
    """A list, deque, set or dict: written back as a whole, so that its order is right, in the object that it is, so
    that others who hold it see the same."""

    by_name = False

    def __init__(self, container: Any) -> None:
        self._container = container

    def read(self) -> dict[Any, Any]:
        return dict(self._container) if isinstance(self._container, dict) else dict(enumerate(self._container))

    def write(self, contents: Mapping[Any, Any]) -> None:
        self._container.clear()
        if isinstance(self._container, dict | set):
            self._container.update(contents if isinstance(self._container, dict) else contents.values())
        else:
            self._container.extend(contents.values())


class Variables:
    """What a function holds in its closure."""

    by_name = True

    def __init__(self, function: types.FunctionType) -> None:
        self._cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def read(self) -> dict[Any, Any]:
        return {name: value for name, cell in self._cells.items() if (value := _contents(cell)) is not ABSENT}

    def write(self, contents: Mapping[Any, Any]) -> None:
        for name, value in contents.items():
            if value is not ABSENT:
                self._cells[name].cell_contents = value


def _contents(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not bound yet
        return ABSENT


class Opaque:
    """State that is one value: a generator's, an array's."""

    by_name = False

    def __init__(self, holder: Any) -> None:
        self._holder = holder

    def read(self) -> dict[Any, Any]:
        return {"": _Value(value_of(self._holder))}

    def write(self, contents: Mapping[Any, Any]) -> None:
        set_value(self._holder, contents[""].value)


class _Value:
    """A value that is compared as a value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Value) and _equal(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]


Contents = list[tuple[Cell, dict[Any, Any]]]


def read_state(units: Sequence[nn.Module]) -> Contents:
    """Every cell that the modules in `units` lead to, each once, with what is in it now."""
    found: Contents = []
    seen: set[int] = set()
    for module in (module for unit in units for module in unit.modules()):
        if id(module) not in seen:
            seen.add(id(module))
            if module._buffers:
                _follow(Buffers(module._buffers), found, seen, 1)
            _follow(Names(vars(module), without=MODULE_INTERNALS), found, seen, 0)
            for hook in (*module._forward_pre_hooks.values(), *module._forward_hooks.values()):
                _follow_values([hook], found, seen, 0)
    for generator in (random, numpy.random):
        found.append((Opaque(generator), Opaque(generator).read()))
    return found


def is_entry_same(before: Any, now: Any) -> bool:
    """Whether an entry holds the same object, an equal whole number or text, or a generator in the same state."""
    if before is now:
        return True
    return type(before) is type(now) and isinstance(before, int | str | _Value) and bool(before == now)


def is_data_source(value: Any) -> bool:
    """Whether an object hands out data, as iterators, files and loaders do. Its position is not the model's state."""
    return any(hasattr(type(value), name) for name in _HANDS_OUT_DATA)


def _follow(cell: Cell, found: Contents, seen: set[int], depth: int) -> None:
    contents = cell.read()
    found.append((cell, contents))
    if depth >= MAX_DEPTH:
        return
    _follow_values(contents.values(), found, seen, depth)


def _follow_values(values: Iterable[Any], found: Contents, seen: set[int], depth: int) -> None:
    for value in _leading_on(values):
        if id(value) not in seen and (inner := _cell_of(value)) is not None:
            seen.add(id(value))
            _follow(inner, found, seen, depth + 1)


def _leading_on(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, tuple):
            yield from _leading_on(value)
        elif isinstance(value, functools.partial):
            yield from _leading_on((value.func, *value.args, *value.keywords.values()))
        elif isinstance(value, types.MethodType):
            yield from _leading_on((value.__self__, value.__func__))
        elif not isinstance(value, _NOT_FOLLOWED):
            yield value


def _cell_of(value: Any) -> Cell | None:
    if isinstance(value, list | deque | set | dict):
        return Items(value)
    if is_generator(value) or isinstance(value, numpy.ndarray):
        return Opaque(value)
    if isinstance(value, types.FunctionType):
        return Variables(value) if value.__closure__ and not _is_of_library(value.__module__) else None
    return Names(vars(value)) if _is_plain_object(value) else None


def is_generator(value: Any) -> bool:
    """Whether it is somebody's own generator of random numbers."""
    if isinstance(value, random.Random):
        return not isinstance(value, random.SystemRandom)
    return isinstance(value, torch.Generator | numpy.random.Generator | numpy.random.RandomState)


def _is_plain_object(value: Any) -> bool:
    """An object of a person's own class with attributes: a counter, a record of what was seen."""
    kind = type(value)
    if not hasattr(value, "__dict__") or isinstance(value, type | nn.Module | enum.Enum) or is_data_source(value):
        return False
    return isinstance(value, types.SimpleNamespace) or not _is_of_library(kind.__module__)


def _is_of_library(module: str | None) -> bool:
    """Of torch, of Python, or ours: a hook that watches must go on watching."""
    library = (module or "").partition(".")[0]
    return library in ("torch", "bench") or library in sys.stdlib_module_names


def value_of(holder: Any) -> Any:
    """The state of a generator of random numbers or an array, which does not change when the holder does."""
    if holder is random or isinstance(holder, random.Random):
        return holder.getstate()
    if holder is numpy.random or isinstance(holder, numpy.random.RandomState):
        return holder.get_state(legacy=False)
    if isinstance(holder, numpy.random.Generator):
        return holder.bit_generator.state
    if isinstance(holder, torch.Generator):
        return holder.get_state()
    return holder.copy()


def set_value(holder: Any, state: Any) -> None:
    if holder is random or isinstance(holder, random.Random):
        holder.setstate(state)
    elif holder is numpy.random or isinstance(holder, numpy.random.RandomState | torch.Generator):
        holder.set_state(state)
    elif isinstance(holder, numpy.random.Generator):
        holder.bit_generator.state = state
    else:
        holder[...] = state


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(_equal(a[key], b[key]) for key in a)
    if isinstance(a, numpy.ndarray):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, torch.Tensor):
        with no_dispatch():  # a generator's state has real values also among fake tensors
            return torch.equal(a, b)
    return bool(a == b)
