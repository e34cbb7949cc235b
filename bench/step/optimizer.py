"""Optimizers by name, with the fused kernel where there is one."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from bench.spec import OptimizerSpec, SpecError

CLASSES: dict[str, type[torch.optim.Optimizer]] = {"adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
FUSED_DEVICES = ("cpu", "cuda")


def runs_fused(spec: OptimizerSpec, device: torch.device) -> bool:
    return spec.fused and device.type in FUSED_DEVICES


def build_optimizer(
    spec: OptimizerSpec, parameters: Iterable[torch.nn.Parameter], device: torch.device
) -> torch.optim.Optimizer:
    """Over the parameters that require gradients.

    Raises:
        SpecError: `spec.settings` does not fit the optimizer.
    """
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    settings: dict[str, Any] = dict(spec.settings)
    try:
        return CLASSES[spec.name](trained, fused=runs_fused(spec, device), **settings)  # type: ignore[call-arg]
    except (TypeError, ValueError) as error:
        raise SpecError(f"optimizer.settings: {spec.name} refuses {settings} ({error})") from None
