"""What `measure` must leave as it found it."""

from __future__ import annotations

import copy
import random
import sys
from collections.abc import Sequence
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from bench.step import Stateful


class PythonRandom:
    """The random generators of Python and numpy, which a step may draw from."""

    def state_dict(self) -> dict[str, Any]:
        numpy = sys.modules.get("numpy")
        return {"python": random.getstate(), "numpy": numpy.random.get_state() if numpy else None}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        random.setstate(state_dict["python"])
        if state_dict["numpy"] is not None:
            sys.modules["numpy"].random.set_state(state_dict["numpy"])


class Kept:
    """A copy, in host memory, of weights, buffers, optimizer, RNG states and whatever else was named."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer, others: Sequence[Stateful]) -> None:
        self._model, self._optimizer, self._others = model, optimizer, others
        self._named = {name: _to_host(tensor) for name, tensor in _named(model)}
        trained = {parameter for group in optimizer.param_groups for parameter in group["params"]}
        outside = trained - set(model.parameters())
        self._tensors = [(parameter, _to_host(parameter)) for parameter in outside]
        self._optimizer_state = tree_map(_to_host, optimizer.state_dict())
        self._tensor_options = [
            (index, key, value.device)
            for index, group in enumerate(optimizer.param_groups)
            for key, value in group.items()
            if isinstance(value, torch.Tensor)
        ]
        self._states = [tree_map(_to_host, other.state_dict()) for other in others]
        self._rng = torch.get_rng_state()
        self._device_rng = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else None

    @torch.no_grad()
    def restore(self) -> None:
        """Puts everything back in place; gradients are freed."""
        for name, tensor in _named(self._model):  # by name: a module may have put other buffers in the place of its own
            if name in self._named:
                tensor.copy_(self._named[name])
        for tensor, value in self._tensors:
            tensor.copy_(value)
        # A copy, since the optimizer would take the tensors themselves and go on to change them.
        self._optimizer.load_state_dict(copy.deepcopy(self._optimizer_state))
        for index, key, device in self._tensor_options:
            group = self._optimizer.param_groups[index]
            group[key] = group[key].to(device)
        self._optimizer.zero_grad(set_to_none=True)
        self._model.zero_grad(set_to_none=True)
        for other, state in zip(self._others, self._states, strict=True):
            other.load_state_dict(copy.deepcopy(state))
        torch.set_rng_state(self._rng)
        if self._device_rng is not None:
            torch.cuda.set_rng_state_all(self._device_rng)


def _named(model: nn.Module) -> tuple[tuple[str, torch.Tensor], ...]:
    return (*model.named_parameters(), *model.named_buffers())


def _to_host(value: Any) -> Any:
    return value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else copy.deepcopy(value)
