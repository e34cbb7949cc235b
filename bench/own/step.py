"""Somebody's own step as the harness sees one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn

from bench.spec import SpecError
from bench.step import Stateful, digest_of
from bench.step.interface import BACKWARD, END, FORWARD, OPTIMIZER, OnPhase
from bench.step.phases import backward_watched, until_backward
from bench.step.precision import Precision

BETWEEN = "step"
"""What a step does outside forward, backward and the optimizer's step, such as clipping gradients."""
BATCH_NOT_GIVEN = "not given"
OwnStepFunction = Callable[[], Any]


class OwnStep:
    """Runs `function`, which takes one whole training step, and counts the optimizer's steps by its own hook."""

    def __init__(
        self,
        function: OwnStepFunction,
        *,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        device: torch.device,
        precision: Precision,
        num_micro_batches: int,
        batch: Any,
        others: Sequence[Stateful],
    ) -> None:
        self._function = function
        self.model = model
        self.optimizer = optimizer
        self.device = device
        self.precision = precision
        self.batches: Sequence[Any] = [batch] + [None] * (num_micro_batches - 1)
        """As many as the step has micro-batches; the tensors that were given are those of the first."""
        self.batch_digest = BATCH_NOT_GIVEN if batch is None else digest_of(batch)
        self.others = tuple(others)
        self.scaler = next((other for other in others if isinstance(other, torch.amp.GradScaler)), None)
        self._steps: int | torch.Tensor = 0
        self._no_loss = torch.tensor(float("nan"))
        self._counting = optimizer.register_step_post_hook(self._count)

    def close(self) -> None:
        """Takes the hook off the optimizer."""
        self._counting.remove()

    def run(self, on_phase: OnPhase | None = None) -> torch.Tensor:
        """One step; returns its loss, which is not a number where `function` returned None."""
        if on_phase is None:
            returned = self._function()
        else:
            with self._marked(on_phase):
                returned = self._function()
            on_phase(END)
        loss = as_loss(returned)
        return self._no_loss if loss is None else loss

    def forward(self) -> None:
        """The forward of the first micro-batch; the rest of the step is not run."""
        until_backward(self._function)

    @contextmanager
    def _marked(self, on_phase: OnPhase) -> Iterator[None]:
        """Marks phases: forward from the model's first call after a backward, or from the step's start where another
        part of the model is called; the optimizer's from its own hooks."""
        in_forward = False

        def forward_begins(_module: nn.Module, _args: Any) -> None:
            nonlocal in_forward
            if not in_forward:
                in_forward = True
                on_phase(FORWARD)

        def backward_begins() -> None:
            nonlocal in_forward
            in_forward = False
            on_phase(BACKWARD)

        handles = (
            self.model.register_forward_pre_hook(forward_begins),
            self.optimizer.register_step_pre_hook(lambda *_: on_phase(OPTIMIZER)),
            self.optimizer.register_step_post_hook(lambda *_: on_phase(BETWEEN)),
        )
        on_phase(FORWARD)
        try:
            with backward_watched(backward_begins, lambda: on_phase(BETWEEN)):
                yield
        finally:
            for handle in handles:
                handle.remove()

    def _count(self, *_: object) -> None:
        """A fused optimizer is called for a step that a loss scaler makes it skip, too; whether it did is read later,
        so that no timed step waits for the device."""
        skipped = getattr(self.optimizer, "found_inf", None)
        self._steps = self._steps + (1 if skipped is None else 1 - skipped)

    @property
    def optimizer_steps(self) -> int:
        """Steps that were taken so far."""
        return int(self._steps)


def as_loss(returned: Any) -> torch.Tensor | None:
    """The loss in what a step returned; None where it returned None.

    Raises:
        SpecError: it is not one number.
    """
    if returned is None:
        return None
    if isinstance(returned, torch.Tensor) and returned.numel() == 1:
        return returned.detach()
    if isinstance(returned, (int, float)):
        return torch.tensor(float(returned))
    is_tensor = isinstance(returned, torch.Tensor)
    what = f"a tensor of shape {tuple(returned.shape)}" if is_tensor else f"a {type(returned).__name__}"
    raise SpecError(f"step: it returned {what}; return the loss as one number, or None")
