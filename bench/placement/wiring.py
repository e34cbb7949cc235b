"""How a model's own code connects its units: recorded by identity in one plain forward.

A span replays several units as one region although the model calls them one by one. For that it must know, when the
first unit is called, what the others will be given: outputs of earlier units, or what the first one got. The record
says so, or says why not. Nothing is assumed about the model's loop; every later forward is checked against the record.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import TreeSpec, tree_flatten

from bench.placement.forwards import forwards_wrapped
from bench.placement.restore import state_put_back

IMMUTABLE = (type(None), bool, int, float, complex, str, bytes, torch.dtype, torch.device, torch.layout, slice)


@dataclass(frozen=True)
class Token:
    """Stands for one tensor (or other object) of the recorded forward: equal tokens were the same object."""

    number: int


@dataclass(frozen=True, kw_only=True)
class UnitCall:
    """One call of a unit. Leaves are the flattened (args, kwargs), or outputs: a Token, or a constant."""

    unit: str
    arguments: tuple[Any, ...]
    argument_spec: TreeSpec
    argument_names: tuple[str, ...]
    outputs: tuple[Any, ...]
    output_spec: TreeSpec
    autocast: tuple[tuple[str, bool, torch.dtype], ...]
    """(device type, enabled, dtype) around the call."""
    rng_at_entry: str
    rng_at_exit: str
    versions_at_entry: dict[Token, int]
    versions_at_exit: dict[Token, int]


@dataclass(frozen=True)
class Wiring:
    calls: tuple[UnitCall, ...]
    """All calls of the recorded units, in the order in which they were entered."""

    def num_calls(self, unit: str) -> int:
        return sum(call.unit == unit for call in self.calls)

    def positions(self, unit: str) -> list[int]:
        return [index for index, call in enumerate(self.calls) if call.unit == unit]


def record_wiring(model: nn.Module, units: Collection[str], forward: Callable[[], Any]) -> Wiring:
    """Runs `forward()` once without gradients and records every call of `units` (qualified names) in it.

    Buffers, RNG states and what else `@restore` knows of are put back afterwards.
    """
    recorder = _Recorder()
    with _state_kept(model), _recorded(model, units, recorder), torch.no_grad():
        forward()
    return Wiring(tuple(call for _, call in sorted(recorder.calls, key=lambda entry: entry[0])))


@dataclass
class _Recorder:
    calls: list[tuple[int, UnitCall]] = field(default_factory=list)
    entered: int = 0
    tokens: dict[int, Token] = field(default_factory=dict)
    held: list[Any] = field(default_factory=list)
    """Keeps every object seen alive, so that no identity is used twice."""

    def leaf(self, value: Any) -> Any:
        if isinstance(value, IMMUTABLE):
            return value
        if id(value) not in self.tokens:
            self.tokens[id(value)] = Token(len(self.tokens))
            self.held.append(value)
        return self.tokens[id(value)]

    def leaves(self, values: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self.leaf(value) for value in values)

    def versions(self) -> dict[Token, int]:
        return {self.tokens[id(t)]: t._version for t in self.held if isinstance(t, torch.Tensor)}


class _Recording:
    def __init__(self, recorder: _Recorder, unit: str, inner: Callable[..., Any]) -> None:
        self.recorder, self.unit, self.inner = recorder, unit, inner

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        recorder = self.recorder
        order = recorder.entered
        recorder.entered += 1
        values, spec = tree_flatten((args, kwargs))
        arguments, entry, versions = recorder.leaves(values), _rng_digest(), recorder.versions()
        names = _argument_names(self.inner, args, kwargs)
        outputs = self.inner(*args, **kwargs)
        output_values, output_spec = tree_flatten(outputs)
        call = UnitCall(
            unit=self.unit,
            arguments=arguments,
            argument_spec=spec,
            argument_names=names,
            outputs=recorder.leaves(output_values),
            output_spec=output_spec,
            autocast=_autocast(),
            rng_at_entry=entry,
            rng_at_exit=_rng_digest(),
            versions_at_entry=versions,
            versions_at_exit=recorder.versions(),
        )
        recorder.calls.append((order, call))
        return outputs


def _recorded(model: nn.Module, units: Collection[str], recorder: _Recorder) -> AbstractContextManager[None]:
    modules = [(unit, model.get_submodule(unit)) for unit in units]
    return forwards_wrapped(modules, lambda unit, _, forward: _Recording(recorder, unit, forward))


@contextmanager
def _state_kept(model: nn.Module) -> Iterator[None]:
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=devices), state_put_back([model]):
        yield


def _autocast() -> tuple[tuple[str, bool, torch.dtype], ...]:
    return tuple((d, torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in ("cpu", "cuda"))


def _rng_digest() -> str:
    states = [torch.get_rng_state()] + (torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [])
    return hashlib.sha256(b"".join(bytes(state.tolist()) for state in states)).hexdigest()


def _argument_names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, ...]:
    """The parameter name behind each flattened leaf of (args, kwargs), for messages."""
    try:
        parameters = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        parameters = []
    positional = [parameters[i] if i < len(parameters) else f"argument {i}" for i in range(len(args))]
    return tuple(
        name
        for name, value in [*zip(positional, args, strict=True), *kwargs.items()]
        for _ in range(len(tree_flatten(value)[0]))
    )
