"""All Python state and buffers that a model's forward can reach, read at a moment, or kept to be put back."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from bench.audit.digest import digest
from bench.audit.names import Names
from bench.audit.owned import is_own
from bench.audit.places import (
    ARGUMENT_PLACE,
    ATTRIBUTE_PLACE,
    BUFFER_PLACE,
    GLOBAL_PLACE,
    HOOK_PLACE,
    HOOKS_OF,
    Reading,
)
from bench.audit.walk import Walk
from bench.placement.held_state import MODULE_INTERNALS
from bench.step.state import to_host

_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_HOOK_TABLES = tuple(name for name, held in vars(nn.Module()).items() if "hooks" in name and isinstance(held, dict))
_GLOBAL_HOOKS: tuple[dict[Any, Any], ...] = tuple(getattr(torch.nn.modules.module, f"_global{name}") for name in _HOOKS)
Readings = Mapping[str, Reading]


def read_world(model: nn.Module, names: Names, roots: Sequence[Any] = ()) -> Readings:
    """Path → what is there: buffers, attributes of modules, of their classes, globals that their code names, what
    their hooks hold, and what `roots` (functions) reach. Paths are those of the plain model, without wrappers."""
    return walked(model, names, roots).readings


def read_arguments(arguments: Mapping[str, Any]) -> Readings:
    """Path → what lists, dicts, objects and numbers among a region's arguments hold. Tensors that it is given as they
    are, or in tuples, are looked at elsewhere."""
    walk = Walk(keep=False)
    for name, value in arguments.items():
        if not isinstance(value, torch.Tensor):
            walk.visit(f"argument {name}", value, ARGUMENT_PLACE)
    return {path: dataclasses.replace(reading, place=ARGUMENT_PLACE) for path, reading in walk.readings.items()}


def walked(model: nn.Module, names: Names, roots: Sequence[Any] = ()) -> Walk:
    """The same, with what the walk met on its way."""
    return _walked(model, names, roots, keep=False)


class KeptWorld:
    """The world as it is now, in host memory. It lives on the same model: what is put back is put back in place."""

    def __init__(self, model: nn.Module, names: Names, roots: Sequence[Any] = ()) -> None:
        self._walk = _walked(model, names, roots, keep=True)
        self._buffers = [(m, name, b, None if b is None else to_host(b)) for m, name, b in _buffers(model)]
        # A model that hooks itself at its first forward notes so in an attribute, which is put back as well:
        # transformers' routers would hand out their logits once more from each trial to the next.
        self._hooks = [(hooks, dict(hooks)) for hooks in _hook_tables(model)]

    def restore(self) -> None:
        self._walk.undos.run()
        for hooks, before in self._hooks:
            if hooks != before:
                hooks.clear()
                hooks.update(before)
        for module, name, buffer, value in self._buffers:
            module._buffers[name] = buffer
            if buffer is not None and value is not None:
                buffer.detach().copy_(value)


def _walked(model: nn.Module, names: Names, roots: Sequence[Any], *, keep: bool) -> Walk:
    walk = Walk(keep=keep)
    modules = [(names.module(name, module), module) for name, module in model.named_modules()]
    for _, _, buffer in _buffers(model):
        if buffer is not None:
            walk.skip(buffer)
    for name, module in modules:
        for key, buffer in module._buffers.items():
            if buffer is not None:
                walk.readings[_join(name, key)] = _buffer_reading(buffer)
        walk.attributes(name, module, ATTRIBUTE_PLACE, without=MODULE_INTERNALS)
        walk.members(name, module)
    hooked = [(name, hook) for name, module in modules for kind in _HOOKS for hook in getattr(module, kind).values()]
    for name, parameter in names.parameters(model):
        hooked += [(name, hook) for hooks in hooks_of(parameter) for hook in hooks]
    for cls in dict.fromkeys(cls for _, module in modules for cls in type(module).__mro__):
        walk.own_class(cls)
    before = set(walk.readings)
    for name, hook in [*hooked, *(("every module", hook) for hook in _global_hooks())]:
        walk.visit(f"hook of {name or 'the model'}", hook, HOOK_PLACE)
    for name, module in modules:
        kinds = [_told(hook) for table in _HOOKS for hook in getattr(module, table).values()]
        walk.readings[f"{HOOKS_OF}{name or 'the model'}"] = Reading(place=HOOK_PLACE, value=kinds)
    for path in walk.readings.keys() - before:
        walk.readings[path] = dataclasses.replace(walk.readings[path], place=HOOK_PLACE)
    for root in roots:
        walk.visit("step", root, GLOBAL_PLACE)
    return walk


def _buffers(model: nn.Module) -> list[tuple[nn.Module, str, Any]]:
    return [(module, name, buffer) for module in model.modules() for name, buffer in module._buffers.items()]


def hooks_of(tensor: torch.Tensor) -> tuple[list[Any], list[Any]]:
    """Those on its gradient, and those that run once it is added up."""
    accumulated = getattr(tensor, "_post_accumulate_grad_hooks", None)
    return list((tensor._backward_hooks or {}).values()), list((accumulated or {}).values())


def _hook_tables(model: nn.Module) -> list[dict[Any, Any]]:
    of_modules = [getattr(module, name) for module in model.modules() for name in _HOOK_TABLES]
    return [*of_modules, *_GLOBAL_HOOKS]  # a step that is ended early may leave hooks of every module behind


def _global_hooks() -> list[Any]:
    """Those of a person's own that run at every module."""
    return [hook for table in _GLOBAL_HOOKS for hook in table.values() if is_own(hook)]


def _told(hook: Any) -> str:
    return getattr(hook, "__qualname__", type(hook).__qualname__)


def _buffer_reading(buffer: Any) -> Reading:
    return Reading(place=BUFFER_PLACE, value=(str(buffer.dtype), tuple(buffer.shape), digest(buffer)))


def _join(name: str, key: str) -> str:
    return f"{name}.{key}" if name else key
