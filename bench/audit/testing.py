"""For the tests of a training script: `assert_valid_replay` fails with the verdict's own words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from bench.audit.options import AuditOptions
from bench.audit.replay import Transform, audit_replay
from bench.audit.verdict import VALID, Verdict
from bench.placement.types import Placement
from bench.step.interface import Stateful


def assert_valid_replay(
    model: nn.Module,
    step: Callable[..., Any],
    *,
    placement: Placement | str | None = None,
    replayed: Transform | None = None,
    baseline: Transform | None = None,
    optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer] | None = None,
    state: Sequence[Stateful] = (),
    options: AuditOptions | None = None,
    name: str | None = None,
    to_the_bit: bool = False,
) -> Verdict:
    """Asserts that training with `placement`, or with what `replayed` makes of the model, is training the plain model.

    Args:
        to_the_bit: also where the plain step's own noise, or rounding, would allow more. The others are those of
            `bench.audit_replay`.

    Returns:
        The verdict, which is valid.

    Raises:
        AssertionError: it is not; the message is the verdict as it is printed.
        SpecError, RuntimeError: as `bench.audit_replay` raises them.
    """
    __tracebackhide__ = True
    verdict = audit_replay(
        model,
        step,
        placement=placement,
        replayed=replayed,
        baseline=baseline,
        optimizer=optimizer,
        state=state,
        options=options,
        name=name,
    )
    is_good = verdict.outcome == VALID if to_the_bit else verdict.may_stand_on_a_frontier
    if not is_good:
        raise AssertionError(str(verdict))
    return verdict
