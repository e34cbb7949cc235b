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
        self._values = [tensor.detach().to("cpu", copy=True) for tensor in _tensors(step)]
        self._scaler = copy.deepcopy(step.scaler.state_dict()) if step.scaler else None
        self._rng = torch.get_rng_state()
        self._device_rng = torch.cuda.get_rng_state(step.device) if step.device.type == "cuda" else None

    @torch.no_grad()
    def restore(self, step: TrainingStep) -> None:
        """Copies the state back in place and frees gradients; the next step frees nothing and makes them anew."""
        for tensor, value in zip(_tensors(step), self._values, strict=True):
            tensor.copy_(value)
        step.optimizer.zero_grad(set_to_none=True)
        if step.scaler and self._scaler is not None:
            step.scaler.load_state_dict(copy.deepcopy(self._scaler))
        torch.set_rng_state(self._rng)
        if self._device_rng is not None:
            torch.cuda.set_rng_state(self._device_rng, step.device)


def _tensors(step: TrainingStep) -> Iterator[torch.Tensor]:
    yield from step.model.parameters()
    yield from step.model.buffers()
    for group in step.optimizer.param_groups:
        for parameter in group["params"]:
            yield from (v for v in step.optimizer.state.get(parameter, {}).values() if isinstance(v, torch.Tensor))


def persistent_tensors(step: TrainingStep) -> Iterator[torch.Tensor]:
    """Every tensor that is alive between two steps: the state, gradients that outlive a step, and the batches."""
    yield from _tensors(step)
    yield from (p.grad for p in step.model.parameters() if p.grad is not None)
    yield from (leaf for leaf in tree_leaves(step.batches) if isinstance(leaf, torch.Tensor))
