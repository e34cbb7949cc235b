"""What an audit runs: a model with its optimizers, one step of it, and one forward that no backward follows."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from bench.audit.names import Names
from bench.audit.seeds import Seeds, kept_seeds, restore_seeds
from bench.audit.settings import Settings, kept_settings, restore_settings
from bench.audit.world import KeptWorld
from bench.step.interface import Stateful, Step
from bench.step.state import to_host


@dataclass(frozen=True, kw_only=True)
class Subject:
    model: nn.Module
    optimizers: tuple[torch.optim.Optimizer, ...]
    run: Callable[[], Any]
    """Takes one optimizer step and returns its loss, or None."""
    forward: Callable[[], Any]
    """The step's forward alone."""
    names: Names
    others: Sequence[Stateful] = ()
    roots: tuple[Any, ...] = field(default=())
    """Functions whose closures and globals belong to the state: the step's own."""
    is_wrapped: bool = False
    """Whether somebody's wrapper made its model of the plain one, and may keep things of its own on the modules."""


def of_step(step: Step) -> Subject:
    return Subject(
        model=step.model,
        optimizers=(step.optimizer,),
        run=step.run,
        forward=step.forward,
        names=Names(step.model),
        others=tuple(step.others),
    )


class KeptSubject:
    """Everything that a step of the subject changes, as it is now: weights, buffers, optimizer and Python state, random
    generators, settings of the process. In host memory, and put back in place."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._world = KeptWorld(subject.model, subject.names, subject.roots)
        trained = [p for o in subject.optimizers for group in o.param_groups for p in group["params"]]
        parameters = {id(p): p for p in [*subject.model.parameters(), *trained]}
        self._parameters = [(p, p.requires_grad, to_host(p)) for p in parameters.values()]
        self._optimizers = [_KeptOptimizer(optimizer) for optimizer in subject.optimizers]
        self._others = [to_host(other.state_dict()) for other in subject.others]
        self._seeds: Seeds = kept_seeds()
        self._settings: Settings = kept_settings()

    def restore(self) -> None:
        """Gradients are freed."""
        self._world.restore()
        with torch.no_grad():
            for parameter, requires_grad, value in self._parameters:
                parameter.detach().copy_(value)
                parameter.requires_grad_(requires_grad)
                parameter.grad = None
        for optimizer in self._optimizers:
            optimizer.restore()
        for other, state in zip(self._subject.others, self._others, strict=True):
            other.load_state_dict(copy.deepcopy(state))
        restore_seeds(self._seeds)
        restore_settings(self._settings)


class _KeptOptimizer:
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._state = {key: _kept(state) for key, state in optimizer.state.items()}
        self._groups = [_kept(group, but=("params",)) for group in optimizer.param_groups]

    def restore(self) -> None:
        state = self._optimizer.state
        for key in [key for key in state if key not in self._state]:
            del state[key]
        for key, values in self._state.items():
            _put_back(state[key], values)
        for group, values in zip(self._optimizer.param_groups, self._groups, strict=True):
            _put_back(group, values, but=("params",))


Entries = dict[str, tuple[Any, torch.device | None]]
"""Name → value in host memory, and the device that it is a tensor on."""


def _kept(held: dict[str, Any], but: tuple[str, ...] = ()) -> Entries:
    return {
        key: (to_host(value), value.device) if isinstance(value, torch.Tensor) else (copy.deepcopy(value), None)
        for key, value in held.items()
        if key not in but
    }


def _put_back(held: dict[str, Any], entries: Entries, but: tuple[str, ...] = ()) -> None:
    for key in [key for key in held if key not in entries and key not in but]:
        del held[key]
    for key, (value, device) in entries.items():
        now = held.get(key)
        if device is None:
            held[key] = copy.deepcopy(value)
        elif isinstance(now, torch.Tensor) and now.shape == value.shape:
            now.detach().copy_(value)
        else:
            held[key] = value.to(device, copy=True)
