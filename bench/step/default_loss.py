"""The loss of a model whose module does not say how it is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from bench.spec import SpecError


def default_loss(model: nn.Module, batch: Any) -> torch.Tensor:
    """Calls the model with the batch (a mapping by name, a tuple or list by position, anything else as its one
    argument) and takes the loss that it returns: `output.loss`, `output["loss"]`, or a scalar tensor.

    Raises:
        SpecError: the output has none of these.
    """
    if isinstance(batch, Mapping):
        output = model(**batch)
    elif isinstance(batch, (tuple, list)):
        output = model(*batch)
    else:
        output = model(batch)
    loss = output.get("loss") if isinstance(output, Mapping) else getattr(output, "loss", None)
    if isinstance(loss, torch.Tensor):
        return loss
    if isinstance(output, torch.Tensor) and output.dim() == 0:
        return output
    raise SpecError(f"model.target: the model returned {_described(output)}; write loss(model, batch) beside build()")


def check_loss(loss: object) -> None:
    """Raises SpecError for a loss that no backward can start from."""
    if not isinstance(loss, torch.Tensor):
        raise SpecError(f"model.target: loss() returned a {type(loss).__name__}; it must be a scalar tensor")
    if loss.dim() != 0:
        raise SpecError(f"model.target: the loss has shape {tuple(loss.shape)}; take its mean, so that it is a scalar")
    if torch.is_grad_enabled() and not loss.requires_grad:
        raise SpecError(
            "model.target: the loss does not depend on a parameter that requires gradients; was it detached, or is "
            "every parameter frozen?"
        )


def _described(output: object) -> str:
    if isinstance(output, torch.Tensor):
        return f"a tensor of shape {tuple(output.shape)} and no loss"
    if isinstance(output, Mapping):
        return f"a {type(output).__name__} with {', '.join(map(str, output)) or 'nothing'} and no loss in it"
    return f"a {type(output).__name__} without a loss"
