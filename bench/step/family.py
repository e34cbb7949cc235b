"""Model families: the modules behind `model.target`, held against what a step needs of them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench.spec import ChainInfo, ModelSpec, SpecError, WorkloadSpec

Batch = dict[str, Any]


@dataclass(frozen=True)
class Family:
    build: Callable[..., nn.Module]
    """Keyword settings → model in training mode."""
    batch: Callable[[nn.Module, WorkloadSpec, torch.Generator], Batch]
    """(model, workload, CPU generator) → one micro-batch of `workload.micro_batch` samples."""
    loss: Callable[[nn.Module, Batch], torch.Tensor]
    """(model, micro-batch) → scalar loss."""
    chains: Callable[[nn.Module], tuple[ChainInfo, ...]]
    shape: tuple[str, ...] | None
    """Names of sizes that `batch` knows in a workload's shape; None where the family does not say."""
    library: str
    """Distribution whose version is part of the control key."""


def load_family(spec: ModelSpec) -> Family:
    """Imports `spec.target`.

    Raises:
        SpecError: no such module, a function is missing, or `spec.settings` does not fit its `build`.
    """
    try:
        module = importlib.import_module(spec.target)
    except ModuleNotFoundError as error:
        raise SpecError(f"model.target: cannot import {spec.target!r} ({error})") from None
    missing = [name for name in ("build", "batch", "loss", "chains") if not callable(getattr(module, name, None))]
    if missing:
        raise SpecError(f"model.target: {spec.target} has no function {missing[0]}()")
    known = inspect.signature(module.build).parameters
    unknown = sorted(set(spec.settings) - set(known))
    if unknown:
        raise SpecError(f"model.settings.{unknown[0]}: no such setting of {spec.target}; there are {', '.join(known)}")
    return Family(
        build=module.build,
        batch=module.batch,
        loss=module.loss,
        chains=module.chains,
        shape=getattr(module, "SHAPE", None),
        library=getattr(module, "LIBRARY", "torch"),
    )


def check_shape(family: Family, shape: Mapping[str, int]) -> None:
    """Raises SpecError for a size that the family's batches would not have."""
    unknown = sorted(set(shape) - set(family.shape)) if family.shape is not None else []
    if unknown:
        raise SpecError(f"workload.shape.{unknown[0]}: no such size; there are {', '.join(family.shape or ())}")
