"""What a training step is to those who measure it: one that we build from controls, or somebody's own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import nn

from bench.step.precision import Precision

OnPhase = Callable[[str], None]
FORWARD, BACKWARD, OPTIMIZER, ZERO_GRAD, END = "forward", "backward", "optimizer", "zero_grad", "end"


class Stateful(Protocol):
    """A loss scaler, a schedule, a sampler: anything else that a step changes and that can be put back."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state_dict: Any, /) -> Any: ...


class Step(Protocol):
    """One optimizer step a `run`, always on the same batches."""

    @property
    def model(self) -> nn.Module: ...

    @property
    def optimizer(self) -> torch.optim.Optimizer: ...

    @property
    def device(self) -> torch.device: ...

    @property
    def precision(self) -> Precision: ...

    @property
    def batches(self) -> Sequence[Any]:
        """One a micro-batch."""

    @property
    def batch_digest(self) -> str: ...

    @property
    def scaler(self) -> torch.amp.GradScaler | None: ...

    @property
    def others(self) -> Sequence[Stateful]:
        """What else has state that a step changes, the scaler included."""

    @property
    def optimizer_steps(self) -> int:
        """Optimizer steps taken so far."""

    def run(self, on_phase: OnPhase | None = None) -> torch.Tensor:
        """One whole step; returns its loss, not finite where there is none.

        Args:
            on_phase: called with the name of each phase as it begins, and with `end`; None in timed steps.
        """

    def forward(self) -> object:
        """The forward of one micro-batch, as the step runs it."""
