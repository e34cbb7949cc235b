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
from bench.audit.world import KeptWorld
from bench.step.interface import Stateful, Step


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
    generators. In host memory, and put back in place."""

    def __init__(self, subject: Subject) -> None:
        self._subject = subject
        self._world = KeptWorld(subject.model, subject.names, subject.roots)
        trained = [p for o in subject.optimizers for group in o.param_groups for p in group["params"]]
        parameters = {id(p): p for p in [*subject.model.parameters(), *trained]}
        self._parameters = [(p, p.requires_grad, _host(p)) for p in parameters.values()]
        self._optimizers = [_KeptOptimizer(optimizer) for optimizer in subject.optimizers]
        self._others = [copy.deepcopy(other.state_dict()) for other in subject.others]
        self._seeds: Seeds = kept_seeds()

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


class _KeptOptimizer:
    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self._state = {key: {k: _kept(v) for k, v in s.items()} for key, s in optimizer.state.items()}
        self._groups = [{k: _kept(v) for k, v in g.items() if k != "params"} for g in optimizer.param_groups]

    def restore(self) -> None:
        state = self._optimizer.state
        for key in [key for key in state if key not in self._state]:
            del state[key]
        for key, values in self._state.items():
            _put_back(state[key], values)
        for group, values in zip(self._optimizer.param_groups, self._groups, strict=True):
            _put_back(group, values, but=("params",))


def _put_back(held: dict[str, Any], values: dict[str, Any], but: tuple[str, ...] = ()) -> None:
    for key in [key for key in held if key not in values and key not in but]:
        del held[key]
    for key, value in values.items():
        now = held.get(key)
        if isinstance(value, torch.Tensor) and isinstance(now, torch.Tensor) and now.shape == value.shape:
            now.detach().copy_(value)
        else:
            held[key] = _kept(value)


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def _host(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().to("cpu", copy=True)
