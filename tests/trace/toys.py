"""Training steps of toy modules, small enough that every tensor is known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from bench.placement.wiring import Wiring, record_wiring
from bench.spec import RecipeSpec
from bench.step import Family, TrainingStep
from bench.step.precision import PRECISIONS
from bench.trace.log import StepLog
from bench.trace.record import record_real_step

CPU = torch.device("cpu")


def toy_step(
    model: nn.Module,
    batches: Sequence[Any],
    *,
    loss: Callable[[nn.Module, Any], torch.Tensor] = lambda model, batch: model(batch).sum(),
    optimizer: torch.optim.Optimizer | None = None,
    recipe: RecipeSpec | None = None,
    precision: str = "fp32",
) -> TrainingStep:
    """A step of plain SGD without state, fused so that it takes no memory of its own."""
    family = Family(
        build=lambda: model,
        batch=lambda *_: batches[0],
        loss=loss,
        chains=lambda _: (),
        shape=None,
        libraries=("torch",),
    )
    return TrainingStep(
        family=family,
        model=model,
        optimizer=optimizer or torch.optim.SGD(model.parameters(), lr=0.1, fused=True),
        batches=list(batches),
        precision=PRECISIONS[precision],
        recipe=recipe or RecipeSpec(),
        device=CPU,
    )


def wiring_of(step: TrainingStep, *units: str) -> Wiring:
    return record_wiring(step.model, units, step.forward)


def recorded(step: TrainingStep, placement: str = "none", *units: str) -> StepLog:
    """`units` are those of spans."""
    return record_real_step(step, placement, wiring_of(step, *units), model="toy")
