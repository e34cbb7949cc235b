"""Spec dataclasses to plain mappings (JSON, YAML) and back, with errors that name the option as it was written.

A study has thousands of records, so the way back is worked out once a type: each becomes a converter, and where in the
data something is wrong is pieced together only when something is.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bench.spec.errors import SpecError

T = TypeVar("T")
Converter = Callable[[Any], Any]

SCALAR_NAMES: dict[Any, str] = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}


class _WrongError(Exception):
    """What is wrong with a value; the containers around it put their part of the path before it on the way out."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = path

    def inside(self, part: str) -> _WrongError:
        self.path = part + self.path
        return self


def to_mapping(value: Any) -> Any:
    """Recursively turns dataclasses, tuples and mappings into dicts, lists and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {name: to_mapping(getattr(value, name)) for name in _names(type(value))}
    if isinstance(value, Mapping):
        return {str(key): to_mapping(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [to_mapping(item) for item in value]
    return value


def from_mapping(cls: type[T], data: Any, where: str = "") -> T:
    """Builds the dataclass `cls` from nested mappings.

    Raises:
        SpecError: a field is missing, unknown, or of the wrong type; names it by its dotted path under `where`.
    """
    try:
        return _converter(typing.cast(typing.Hashable, cls))(data)
    except _WrongError as wrong:
        path = (where + wrong.path) if where else wrong.path.removeprefix(".")
        raise SpecError(f"{path or 'value'}: {wrong.problem}") from None


@functools.cache
def _converter(kind: Any) -> Converter:
    if dataclasses.is_dataclass(kind):
        return functools.partial(_dataclass, kind)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return _union(typing.get_args(kind))
    if origin is tuple:
        return functools.partial(_tuple, typing.get_args(kind)[0])
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return functools.partial(_mapping, typing.get_args(kind)[1])
    return functools.partial(_scalar, kind)


def _dataclass(cls: Any, data: Any) -> Any:
    if not isinstance(data, Mapping):
        raise _wrong("a mapping", data)
    converters, required = _shape(cls)
    if not data.keys() <= converters.keys():
        unknown = min(map(str, data.keys() - converters.keys()))
        raise _WrongError(f"no such option; there are {', '.join(converters)}", f".{unknown}")
    for name in required:
        if name not in data:
            raise _WrongError("missing", f".{name}")
    values = {}
    name = ""
    try:
        for name, item in data.items():
            values[name] = converters[name](item)
    except _WrongError as wrong:
        raise wrong.inside(f".{name}") from None
    return cls(**values)


@functools.cache
def _shape(cls: Any) -> tuple[dict[str, Converter], tuple[str, ...]]:
    """Field → converter, and the fields without a default."""
    fields = dataclasses.fields(cls)
    hints = typing.get_type_hints(cls)
    required = tuple(
        f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )
    return {f.name: _converter(hints[f.name]) for f in fields}, required


@functools.cache
def _names(cls: Any) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(cls))


def _tuple(kind: Any, data: Any) -> tuple[Any, ...]:
    if not isinstance(data, (list, tuple)):
        raise _wrong("a list", data)
    convert = _converter(kind)
    values: list[Any] = []
    try:
        for item in data:
            values.append(convert(item))
    except _WrongError as wrong:
        raise wrong.inside(f"[{len(values)}]") from None
    return tuple(values)


def _mapping(kind: Any, data: Any) -> dict[str, Any]:
    if not isinstance(data, Mapping):
        raise _wrong("a mapping", data)
    convert = _converter(kind)
    key = ""
    values = {}
    try:
        for key, item in data.items():
            values[str(key)] = convert(item)
    except _WrongError as wrong:
        raise wrong.inside(f".{key}") from None
    return values


def _union(kinds: tuple[Any, ...]) -> Converter:
    """The type that fits exactly comes first, so that in `str | int | float` a whole number stays one."""
    exact = frozenset(kind for kind in kinds if not dataclasses.is_dataclass(kind))
    converters = [_converter(kind) for kind in kinds if kind is not type(None)]

    def convert(data: Any) -> Any:
        if type(data) in exact or Any in exact:
            return data
        errors = []
        for convert_kind in converters:
            try:
                return convert_kind(data)
            except _WrongError as wrong:
                errors.append(wrong)
        raise errors[0]

    return convert


def _scalar(kind: Any, data: Any) -> Any:
    if type(data) is kind or kind is Any:
        return data
    if kind is float and type(data) is int:
        return float(data)
    raise _wrong(SCALAR_NAMES.get(kind, str(kind)), data)


def _wrong(expected: str, data: Any) -> _WrongError:
    return _WrongError(f"expected {expected}, got {data!r}")
