"""Which objects of a person's own are sources, which a forward uses up, and which are records that it only changes."""

from __future__ import annotations

import dis
import functools
import itertools
import types
from typing import Any

from bench.audit.owned import is_own

_USES_UP = frozenset({"pop", "popleft", "popitem", "next", "__next__", "get_nowait"})
_WRITES = frozenset({"STORE_ATTR", "STORE_SUBSCR", "DELETE_SUBSCR", "DELETE_ATTR"})


def hands_out(cls: type) -> bool:
    """Whether a method of a person's own class both changes something and returns something: a source that is used up.
    What only counts, or is only read, is a record."""
    return _hands_out(cls)


@functools.cache
def _hands_out(cls: Any) -> bool:
    functions = [
        value
        for each in cls.__mro__
        if is_own(each)
        for name, value in vars(each).items()
        if isinstance(value, types.FunctionType)
        and not (name.startswith("__") and name not in ("__next__", "__call__"))
    ]
    return any(_returns(function) and _changes(function) for function in functions)


def _returns(function: types.FunctionType) -> bool:
    code = list(dis.get_instructions(function))
    before = {instruction.offset: last for last, instruction in itertools.pairwise(code)}
    ends = [before[each.offset] for each in code if each.opname == "RETURN_VALUE"]
    constants = any(each.opname == "RETURN_CONST" and each.argval is not None for each in code)
    return constants or any(not (end.opname == "LOAD_CONST" and end.argval is None) for end in ends)


def _changes(function: types.FunctionType) -> bool:
    names = set(function.__code__.co_names)
    return bool(names & _USES_UP) or any(each.opname in _WRITES for each in dis.get_instructions(function))
