"""A walk through Python state: every plain value that can be reached from somewhere, read, and kept to be put back."""

from __future__ import annotations

import contextvars
import enum
import functools
import hashlib
import io
import threading
import types
from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy
import torch
from torch import nn

from bench.audit.digest import digest
from bench.audit.iterators import frame_position, is_copyable, is_iterator, iterator_position
from bench.audit.owned import is_own
from bench.audit.places import ATTRIBUTE_PLACE, EXTERNAL_PLACE, GENERATOR_PLACE, GLOBAL_PLACE, HOOK_PLACE, Reading
from bench.audit.sources import hands_out
from bench.audit.undos import Undos, refill
from bench.placement.held_state import is_data_source, is_generator, set_value, value_of

LONG = 1000
"""Of a longer sequence only length, head and tail are read: a data set, not state."""
DEPTH = 12
_PLAIN: tuple[Any, ...] = (type(None), bool, int, float, complex, str, bytes, enum.Enum, range, slice)
_PLAIN += (torch.dtype, torch.device, torch.layout, torch.memory_format)
_SKIPPED = (
    type,
    types.ModuleType,
    types.BuiltinFunctionType,
    torch.optim.Optimizer,
    property,
    staticmethod,
    classmethod,
)
_PLUMBING = frozenset({"_thread", "asyncio", "concurrent", "logging", "multiprocessing", "socket", "threading"})
"""Modules of Python whose objects are how a program runs, and no state that a model computes with."""


class Walk:
    """One walk. `readings` says what was found; `undos` put it back, but for running generator functions, of which only
    the position can be read."""

    def __init__(self, *, keep: bool) -> None:
        self.readings: dict[str, Reading] = {}
        self.undos = Undos(keeps=keep)
        self.tensors: list[tuple[str, str, torch.Tensor]] = []
        """(path, place, tensor), parameters and buffers left out."""
        self.graph_tensors: list[torch.Tensor] = []
        """Tensors that a step left behind with their graph, which Python cannot copy."""
        self.uncopyable: list[Any] = []
        """Running generator functions, open files, locks and the like, and modules of Python."""
        self.objects: list[Any] = []
        """Instances of classes that are nothing that the walk knows."""
        self.functions: list[types.FunctionType] = []
        """A person's own that were met."""
        self._seen: set[int] = set()
        self._seen_names: set[tuple[int, str]] = set()
        """Names that code asked for, of modules by identity."""
        self._alive: list[Any] = []

    def skip(self, thing: Any) -> None:
        self._seen.add(id(thing))

    def visit(self, path: str, value: Any, place: str, depth: int = 0) -> None:
        if isinstance(value, _PLAIN):
            self._read(path, place, value if not isinstance(value, (str, bytes)) else value[:LONG])
            return
        if isinstance(value, (types.FunctionType, types.BuiltinFunctionType)) and place != HOOK_PLACE:
            self._read(path, place, _told_function(value))
        if isinstance(value, types.ModuleType):
            self.uncopyable.append(value)
        if depth > DEPTH or isinstance(value, (*_SKIPPED, nn.Module)) or id(value) in self._seen:
            return
        self._seen.add(id(value))
        self._alive.append(value)  # so that no identity is met twice
        if isinstance(value, torch.Tensor):
            self._tensor(path, value, place)
        elif is_generator(value):
            state = value_of(value)
            self._read(path, GENERATOR_PLACE, digest(state) if isinstance(state, torch.Tensor) else hash(repr(state)))
            self.undos.add(functools.partial(set_value, value, state))
        elif isinstance(value, numpy.ndarray):
            self._array(path, value, place)
        elif isinstance(value, contextvars.ContextVar):
            self._context_variable(path, value, depth)
        elif isinstance(value, dict):
            self.undos.of_dict(value)
            for key, item in self._some(path, list(value.items()), place):
                self.visit(f"{path}[{_key(key)}]", item, place, depth + 1)
        elif isinstance(value, (list, tuple, deque)):
            if isinstance(value, list):
                self.undos.of_items(list(value), value, lambda old: value.__setitem__(slice(None), old))
            elif isinstance(value, deque):
                self.undos.of_items(list(value), value, functools.partial(refill, value.clear, value.extend))
            self._read(path, place, f"{len(value)} items")
            for index, item in self._some(path, list(enumerate(value)), place):
                self.visit(f"{path}[{index}]", item, place, depth + 1)
        elif isinstance(value, (set, frozenset)):
            if isinstance(value, set):
                self.undos.of_items(set(value), value, functools.partial(refill, value.clear, value.update))
            self._read(path, place, repr(sorted(map(repr, value)))[:LONG] if len(value) < LONG else len(value))
        elif isinstance(value, io.IOBase):
            self.uncopyable.append(value)
            self._file(path, value)
        elif isinstance(value, types.GeneratorType):
            self.uncopyable.append(value)
            self._read(path, EXTERNAL_PLACE, frame_position(value))
        elif isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
            self._callable(path, value, depth)
        elif is_iterator(value):
            self._read(path, EXTERNAL_PLACE, iterator_position(value))
        elif is_data_source(value) and not is_own(type(value)):
            if not is_copyable(value):
                self.uncopyable.append(value)
            self._object(path, value, EXTERNAL_PLACE, depth)
        else:
            self._object(path, value, place, depth)

    def attributes(
        self, path: str, owner: Any, place: str, *, without: frozenset[str] = frozenset(), depth: int = 0
    ) -> None:
        """What an object's `__dict__` holds."""
        held = vars(owner)
        self.undos.of_dict(held, without)
        for name, value in [item for item in held.items() if item[0] not in without]:
            self.visit(f"{path}.{name}" if path else name, value, place, depth + 1)

    def members(self, path: str, module: nn.Module) -> None:
        """Which modules a module is made of."""
        self.undos.of_dict(module._modules)
        for name, member in module._modules.items():
            self._read(f"{path}.{name}" if path else name, ATTRIBUTE_PLACE, type(member).__qualname__)

    def own_class(self, cls: type) -> None:
        """A class's attributes, methods included, and what its methods read of their module."""
        if id(cls) in self._seen or not is_own(cls):
            return
        self.skip(cls)
        for name, value in list(vars(cls).items()):
            if name.startswith("__") or name in ("_abc_impl",):
                continue
            function = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            function = function.fget if isinstance(function, property) else function
            if isinstance(function, types.FunctionType):
                self.undos.of_name(functools.partial(_held_by, cls, name), functools.partial(setattr, cls, name))
                self._read(f"{cls.__name__}.{name}", GLOBAL_PLACE, _told_function(function))
                self._callable(f"{cls.__name__}.{name}", function, 0)
            elif not callable(value):
                self.undos.of_name(functools.partial(_held_by, cls, name), functools.partial(setattr, cls, name))
                self.visit(f"{cls.__name__}.{name}", value, GLOBAL_PLACE)

    # Kinds of values

    def _tensor(self, path: str, tensor: torch.Tensor, place: str) -> None:
        if isinstance(tensor, nn.Parameter):
            return
        self.tensors.append((path, place, tensor))
        if not tensor.is_leaf:
            self.graph_tensors.append(tensor)
        self._read(path, place, (str(tensor.dtype), tuple(tensor.shape), digest(tensor)))
        gradient = tensor.grad if tensor.is_leaf or tensor.retains_grad else None
        if gradient is not None:
            self._read(f"{path}.grad", place, (str(gradient.dtype), tuple(gradient.shape), digest(gradient)))
        self.undos.of_tensor(tensor, gradient)

    def _array(self, path: str, array: numpy.ndarray[Any, Any], place: str) -> None:
        if array.dtype.hasobject:
            self._read(path, place, f"{array.shape} objects")
            return
        self._read(path, place, (str(array.dtype), array.shape, hashlib.blake2b(array.tobytes()).hexdigest()))
        if array.flags.writeable:
            self.undos.of_array(array)

    def _context_variable(self, path: str, variable: contextvars.ContextVar[Any], depth: int) -> None:
        try:
            value = variable.get()
        except LookupError:
            return
        self.undos.of_name(variable.get, lambda old: variable.set(old) and None)
        self.visit(path, value, GLOBAL_PLACE, depth + 1)

    def _file(self, path: str, file: Any) -> None:
        if file.closed or not file.seekable():
            return
        position = file.tell()
        self._read(path, EXTERNAL_PLACE, position)
        self.undos.add(lambda: None if file.closed else file.seek(position))

    def _callable(self, path: str, function: Any, depth: int) -> None:
        if isinstance(function, functools.partial):
            for index, part in enumerate((function.func, *function.args, *function.keywords.values())):
                self.visit(f"{path}({index})", part, GLOBAL_PLACE, depth + 1)
            return
        if isinstance(function, types.MethodType):
            self.visit(path, function.__self__, GLOBAL_PLACE, depth + 1)
            function = function.__func__
            if not isinstance(function, types.FunctionType) or id(function) in self._seen:
                return
            self.skip(function)
        if not is_own(function):
            return
        self.functions.append(function)
        for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
            try:
                value = cell.cell_contents
            except ValueError:  # not bound yet
                continue
            self.undos.of_name(
                functools.partial(getattr, cell, "cell_contents"), functools.partial(setattr, cell, "cell_contents")
            )
            self.visit(name, value, GLOBAL_PLACE, depth + 1)
        for part in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self.visit(f"{function.__name__}'s default", part, GLOBAL_PLACE, depth + 1)
        if vars(function):
            self.attributes(function.__name__, function, GLOBAL_PLACE, without=frozenset({"__wrapped__"}), depth=depth)
        self._names(set(_names_in(function.__code__)), function.__globals__, depth)

    def _names(self, names: set[str], scope: dict[str, Any], depth: int) -> None:
        """What code reads of its module: plain values, own functions, classes and objects, and names in own modules."""
        for name in sorted(names & scope.keys()):
            value = scope[name]
            if isinstance(value, type):
                self.own_class(value)
            elif isinstance(value, types.ModuleType):
                fresh = {each for each in names if (id(value), each) not in self._seen_names}
                self._seen_names |= {(id(value), each) for each in fresh}
                if fresh and is_own(types.SimpleNamespace(__module__=value.__name__)):
                    self._names(fresh, vars(value), depth + 1)
            elif depth <= DEPTH:
                self.undos.of_name(
                    functools.partial(scope.__getitem__, name), functools.partial(scope.__setitem__, name)
                )
                self.visit(name, value, GLOBAL_PLACE, depth + 1)

    def _object(self, path: str, value: Any, place: str, depth: int) -> None:
        self.objects.append(value)
        if type(value).__module__.partition(".")[0] in _PLUMBING and not isinstance(value, threading.local):
            self.uncopyable.append(value)
            return
        held = getattr(value, "__dict__", None)
        slots = [name for cls in type(value).__mro__ for name in _slots(cls) if hasattr(value, name)]
        if not isinstance(held, dict) and not slots:
            self._read(path, place, type(value).__qualname__)
            return
        is_source = is_data_source(value) or hands_out(type(value))
        inner = EXTERNAL_PLACE if is_source and place == ATTRIBUTE_PLACE else place
        if isinstance(held, dict):
            self.attributes(path, value, inner, depth=depth)
        for name in slots:
            self.undos.of_name(functools.partial(getattr, value, name), functools.partial(setattr, value, name))
            self.visit(f"{path}.{name}", getattr(value, name), inner, depth + 1)
        self.own_class(type(value))

    # Reading

    def _read(self, path: str, place: str, value: Any) -> None:
        self.readings.setdefault(path, Reading(place=place, value=value))

    def _some(self, path: str, items: list[Any], place: str) -> Iterator[Any]:
        if len(items) > LONG:
            self._read(f"{path} (length)", place, len(items))
            items = items[:8] + items[-8:]
        yield from items


def _held_by(cls: type, name: str) -> Any:
    """As it stands in the class: a static method is not the function that it gives."""
    return vars(cls)[name]


def _told_function(function: Any) -> str:
    code = getattr(function, "__code__", None)
    return f"{function.__qualname__}:{code.co_firstlineno}" if code is not None else function.__qualname__


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ()) if is_own(cls) else ()
    named = (slots,) if isinstance(slots, str) else tuple(slots)
    return tuple(name for name in named if not name.startswith("__"))


def _key(key: Any) -> str:
    return repr(key) if isinstance(key, (str, int, float, bool, tuple, type(None))) else type(key).__qualname__
