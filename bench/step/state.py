"""The state that a training step changes, kept aside so that every measurement starts from the same one."""

from __future__ import annotations

import copy
from collections.abc import Iterator

import torch
from torch.utils._pytree import tree_leaves

from bench.step.build import TrainingStep


class StepState:
    """A copy, in host memory, of weights, buffers, optimizer state, loss scale and RNG states of a step."""

    def __init__(self, step: TrainingStep) -> None:
        self._values = {name: tensor.detach().to("cpu", copy=True) for name, tensor in _named_tensors(step)}
        self._scaler = copy.deepcopy(step.scaler.state_dict()) if step.scaler else None
        self._rng = torch.get_rng_state()
        self._device_rng = torch.cuda.get_rng_state(step.device) if step.device.type == "cuda" else None

    @torch.no_grad()
    def restore(self, step: TrainingStep) -> None:
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
        step.optimizer.zero_grad(set_to_none=True)
        if step.scaler and self._scaler is not None:
            step.scaler.load_state_dict(copy.deepcopy(self._scaler))
        torch.set_rng_state(self._rng)
        if self._device_rng is not None:
            torch.cuda.set_rng_state(self._device_rng, step.device)


def state_bytes(step: TrainingStep) -> int:
    """What a StepState of the step takes."""
    return sum(tensor.nbytes for _, tensor in _named_tensors(step))


def _named_tensors(step: TrainingStep) -> Iterator[tuple[str, torch.Tensor]]:
    yield from step.model.named_parameters()
    yield from step.model.named_buffers()
    names: dict[torch.Tensor, str] = {parameter: name for name, parameter in step.model.named_parameters()}
    for parameter, state in step.optimizer.state.items():
        for key, value in state.items():
            if isinstance(value, torch.Tensor):
                yield f"optimizer {key} of {names[parameter]}", value


def persistent_tensors(step: TrainingStep) -> Iterator[torch.Tensor]:
    """Every tensor that is alive between two steps: the state, gradients that outlive a step, and the batches."""
    yield from (tensor for _, tensor in _named_tensors(step))
    for gradient in (parameter.grad for parameter in step.model.parameters() if parameter.grad is not None):
        yield from (gradient._indices(), gradient._values()) if gradient.is_sparse else (gradient,)
    yield from (leaf for leaf in tree_leaves(step.batches) if isinstance(leaf, torch.Tensor))
