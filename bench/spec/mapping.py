"""Spec dataclasses to plain mappings (JSON, YAML) and back, with errors that name the option as it was written."""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Mapping
from typing import Any, TypeVar

from bench.spec.errors import SpecError

T = TypeVar("T")


def to_mapping(value: Any) -> Any:
    """Recursively turns dataclasses, tuples and mappings into dicts, lists and scalars."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_mapping(getattr(value, f.name)) for f in dataclasses.fields(value)}
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
    return _convert(cls, data, where)


def _convert(kind: Any, data: Any, where: str) -> Any:
    origin = typing.get_origin(kind)
    if dataclasses.is_dataclass(kind):
        return _dataclass(kind, data, where)
    if origin in (typing.Union, types.UnionType):
        return _union(typing.get_args(kind), data, where)
    if origin is tuple:
        if not isinstance(data, (list, tuple)):
            raise _wrong(where, "a list", data)
        return tuple(_convert(typing.get_args(kind)[0], item, f"{where}[{i}]") for i, item in enumerate(data))
    if origin is not None and isinstance(origin, type) and issubclass(origin, Mapping):
        if not isinstance(data, Mapping):
            raise _wrong(where, "a mapping", data)
        value_kind = typing.get_args(kind)[1]
        return {str(key): _convert(value_kind, item, f"{where}.{key}") for key, item in data.items()}
    return _scalar(kind, data, where)


def _dataclass(cls: Any, data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise _wrong(where, "a mapping", data)
    hints, required_fields = _shape(cls)
    prefix = f"{where}." if where else ""
    unknown = sorted(set(map(str, data)) - set(hints))
    if unknown:
        raise SpecError(f"{prefix}{unknown[0]}: no such option; there are {', '.join(hints)}")
    missing = [name for name in required_fields if name not in data]
    if missing:
        raise SpecError(f"{prefix}{missing[0]}: missing")
    return cls(**{name: _convert(hints[name], item, f"{prefix}{name}") for name, item in data.items()})


@functools.lru_cache
def _shape(cls: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Field → type, and the fields without a default."""
    fields = dataclasses.fields(cls)
    hints = typing.get_type_hints(cls)
    required = tuple(
        f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    )
    return {f.name: hints[f.name] for f in fields}, required


def _union(kinds: tuple[Any, ...], data: Any, where: str) -> Any:
    if data is None and type(None) in kinds:
        return None
    for kind in kinds:
        if kind is not type(None) and not dataclasses.is_dataclass(kind):
            try:
                return _scalar(kind, data, where, exact=True)
            except SpecError:
                continue
    errors = []
    for kind in kinds:
        if kind is not type(None):
            try:
                return _convert(kind, data, where)
            except SpecError as error:
                errors.append(error)
    raise errors[0]


def _scalar(kind: Any, data: Any, where: str, exact: bool = False) -> Any:
    if kind is Any or type(data) is kind:
        return data
    if kind is float and type(data) is int and not exact:
        return float(data)
    names = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
    raise _wrong(where, names.get(kind, str(kind)), data)


def _wrong(where: str, expected: str, data: Any) -> SpecError:
    return SpecError(f"{where or 'value'}: expected {expected}, got {data!r}")
