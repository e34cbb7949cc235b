"""One whole step, looked at once before anything is measured: what it is, as executed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from bench.measure import OpCounter, is_out_of_memory
from bench.own.kept import Kept
from bench.own.step import OwnStepFunction, as_loss
from bench.placement import parse_placement
from bench.placement.applying import apply
from bench.spec import SpecError
from bench.step.phases import backward_watched


@dataclass(frozen=True, kw_only=True)
class Observed:
    micro_batch: int | None
    """Leading size of the first tensor of the model's first call; None where the model itself is never called."""
    micro_batches: int
    """Backward passes in the step."""
    autocast: torch.dtype | None
    """Of the model's first call."""
    attention_ops: tuple[str, ...]
    gradients_outlive_step: bool
    plain_loss: float | None
    """Of the plain step, from the state that `measure` began with; None where there is none, or plain does not fit."""


def observe(
    step: OwnStepFunction,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    placements: Sequence[str],
    device: torch.device,
    kept: Kept,
) -> Observed:
    """Takes one step and puts everything back. Where the plain step does not fit in memory, the first of `placements`
    without spans under which it does is used.

    Raises:
        SpecError: the step calls no backward, takes several optimizer steps, or returns what is no loss.
    """
    spanless = [p for p in placements if all(len(region.units) == 1 for region in parse_placement(p).regions)]
    candidates = sorted(spanless, key=lambda text: bool(parse_placement(text).regions)) or ["none"]
    for text in candidates:
        try:
            with apply(model, text):
                seen = _look(step, model, optimizer, device)
                return seen if not parse_placement(text).regions else dataclasses.replace(seen, plain_loss=None)
        except Exception as error:
            if not is_out_of_memory(error) or text == candidates[-1]:
                raise
        finally:
            kept.restore()
    raise AssertionError("there is a candidate, and each returns or raises")


def _look(step: OwnStepFunction, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device) -> Observed:
    calls: list[tuple[int | None, torch.dtype | None]] = []
    backward_passes = optimizer_steps = 0

    def called(_module: nn.Module, args: Any, kwargs: Any) -> None:
        if calls:
            return
        tensors = (leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor) and leaf.dim())
        first = next(tensors, None)
        is_autocast = torch.is_autocast_enabled(device.type)
        calls.append(
            (
                None if first is None else int(first.shape[0]),
                torch.get_autocast_dtype(device.type) if is_autocast else None,
            )
        )

    def count_backward() -> None:
        nonlocal backward_passes
        backward_passes += 1

    def count_step(*_: object) -> None:
        nonlocal optimizer_steps
        optimizer_steps += 1

    handles = (
        model.register_forward_pre_hook(called, with_kwargs=True),
        optimizer.register_step_post_hook(count_step),
    )
    try:
        with backward_watched(count_backward, lambda: None), OpCounter() as counter:
            loss = as_loss(step())
    finally:
        for handle in handles:
            handle.remove()
    if not backward_passes:
        raise SpecError("step: it ran no backward; one call must take one whole training step")
    if optimizer_steps > 1:
        raise SpecError(f"step: the optimizer took {optimizer_steps} steps in one call; it must be one")
    micro_batch, autocast = calls[0] if calls else (None, None)
    return Observed(
        micro_batch=micro_batch,
        micro_batches=backward_passes,
        autocast=autocast,
        attention_ops=tuple(counter.attention_ops),
        plain_loss=float(loss) if loss is not None and loss.isfinite() else None,
        gradients_outlive_step=any(parameter.grad is not None for parameter in model.parameters()),
    )
