"""The state that a training step changes, kept aside so that every measurement starts from the same one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from bench.spec.roles import BUFFER, GRADIENT, INPUT, OPTIMIZER_STATE, PARAMETER, SCALER
from bench.step.interface import Stateful, Step


class StepState:
    """A copy, in host memory, of weights, buffers, optimizer state, whatever else has state, and RNG states of a
    step."""

    def __init__(self, step: Step) -> None:
        self._values = {name: tensor.detach().to("cpu", copy=True) for name, tensor in _named_tensors(step)}
        self._numbers = [dict(numbers) for numbers in map(_numbers, _optimizer_dicts(step.optimizer))]
        self._others = [to_host(other.state_dict()) for other in step.others]
        self._rng = torch.get_rng_state()
        self._device_rng = torch.cuda.get_rng_state(step.device) if step.device.type == "cuda" else None

    @torch.no_grad()
    def restore(self, step: Step) -> None:
        """Copies the state back in place and frees gradients; the next step frees nothing and makes them anew.

        Raises:
            RuntimeError: the step has come to hold other tensors than were copied, so it is not the same step any more.
        """
        there = dict(_named_tensors(step))
        if there.keys() != self._values.keys():
            changed = sorted(there.keys() ^ self._values.keys())
            raise RuntimeError(f"the step's state has changed its members: {', '.join(changed[:3])}")
        for name, tensor in there.items():
            tensor.copy_(self._values[name])
        for values, numbers in zip(_optimizer_dicts(step.optimizer), self._numbers, strict=True):
            values.update(numbers)
        step.optimizer.zero_grad(set_to_none=True)
        step.model.zero_grad(set_to_none=True)  # what another optimizer would clear
        for other, state in zip(step.others, self._others, strict=True):
            other.load_state_dict(copy.deepcopy(state))
        torch.set_rng_state(self._rng)
        if self._device_rng is not None:
            torch.cuda.set_rng_state(self._device_rng, step.device)


def state_bytes(step: Step) -> int:
    """What a StepState of the step takes."""
    return sum(tensor.nbytes for _, tensor in _named_tensors(step))


def roles(step: Step) -> Iterator[tuple[str, str, torch.Tensor]]:
    """(role, name, tensor) of every tensor that is alive between two steps: the state, gradients that outlive a step,
    and the batches. Sparse gradients come as their two parts."""
    kept = list(_roles(step))
    yield from kept
    for role, name, tensor in kept:
        gradient = tensor.grad if role == PARAMETER and tensor.is_leaf else None
        if gradient is not None:
            parts = (gradient._indices(), gradient._values()) if gradient.is_sparse else (gradient,)
            yield from ((GRADIENT, name, part) for part in parts)
    for role, held in ((INPUT, step.batches), (SCALER, [_held(other) for other in step.others])):
        yield from ((role, "", leaf) for leaf in tree_leaves(held) if isinstance(leaf, torch.Tensor))


def _held(other: Stateful) -> Any:
    """What it keeps on the device: a loss scaler keeps two tensors, and tells their values as numbers."""
    if isinstance(other, torch.amp.GradScaler):
        return [other._scale, other._growth_tracker]
    return other.state_dict()


def _named_tensors(step: Step) -> Iterator[tuple[str, torch.Tensor]]:
    return ((name, tensor) for _, name, tensor in _roles(step))


def _roles(step: Step) -> Iterator[tuple[str, str, torch.Tensor]]:
    yield from ((PARAMETER, *named) for named in step.model.named_parameters())
    yield from ((BUFFER, *named) for named in step.model.named_buffers())
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in step.model.named_parameters()}
    for index, group in enumerate(step.optimizer.param_groups):
        for parameter in group["params"]:
            if parameter not in names:  # trained, but no part of the model: a loss with weights of its own
                names[parameter] = f"parameter {len(names)} of the optimizer"
                yield PARAMETER, names[parameter], parameter
        for key, value in group.items():
            if isinstance(value, torch.Tensor):  # a learning rate that a schedule fills in place
                yield OPTIMIZER_STATE, f"optimizer group {index} {key}", value
    for parameter, state in step.optimizer.state.items():
        for key, value in state.items():
            for index, leaf in enumerate(tree_leaves(value)):
                if isinstance(leaf, torch.Tensor):
                    yield OPTIMIZER_STATE, f"optimizer {key} {index} of {names.get(parameter, 'all')}", leaf


def _optimizer_dicts(optimizer: torch.optim.Optimizer) -> Iterator[dict[str, Any]]:
    yield from optimizer.param_groups
    yield from (state for state in optimizer.state.values() if isinstance(state, dict))


def _numbers(values: dict[str, Any]) -> dict[str, Any]:
    """Learning rates, step counts: what is no tensor and changes by being replaced."""
    return {key: value for key, value in values.items() if isinstance(value, (int, float, bool, tuple))}


def persistent_tensors(step: Step) -> Iterator[torch.Tensor]:
    """Every tensor that is alive between two steps."""
    return (tensor for _, _, tensor in roles(step))


def to_host(state: Any) -> Any:
    """A copy of a nested state whose tensors lie in host memory, so that it weighs on no device's peak."""
    return tree_map(lambda leaf: leaf.detach().to("cpu", copy=True) if isinstance(leaf, torch.Tensor) else leaf, state)
