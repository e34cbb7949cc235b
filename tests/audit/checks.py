"""Auditing a case: on a placement of ours, and on torch.utils.checkpoint as others put it on a model."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from bench.audit import AuditOptions, Verdict, audit_replay
from tests.audit.blocks import BATCH, WIDTH
from tests.audit.cases import Case, reset


def built(case: Case) -> nn.Module:
    reset()
    torch.manual_seed(0)
    return case.build()


def loss_of(case: Case, *, amp: bool = False, scale: float = 1.0) -> Any:
    """The step of a case: its forward, what the loop does then, and the loss."""

    def loss(model: nn.Module) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=amp):
            made = model(torch.randn(BATCH, WIDTH))
        if case.between is not None:
            case.between(model)
        return scale * made

    return loss


def checkpointed(case: Case) -> Any:
    """Puts torch.utils.checkpoint on the units' forwards, as a training script does by hand."""

    def transform(model: nn.Module) -> None:
        for path in case.units:
            unit = model.get_submodule(path)
            unit.forward = functools.partial(checkpoint, unit.forward, **{"use_reentrant": False, **case.options})

    return transform


def audited(
    case: Case,
    *,
    by_hand: bool = False,
    placement: str = "",
    amp: bool = False,
    scale: float = 1.0,
    options: AuditOptions | None = None,
) -> Verdict:
    """`placement`: another than the case's own."""
    model = built(case)
    how: dict[str, Any] = {"replayed": checkpointed(case)} if by_hand else {"placement": placement or case.placement}
    options = options or AuditOptions(trials=1, confirm=1)
    try:
        return audit_replay(model, loss_of(case, amp=amp, scale=scale), options=options, name=case.name, **how)
    finally:
        reset()
