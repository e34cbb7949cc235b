"""Model families: the modules behind `model.target`, held against what a step needs of them.

A family of the zoo says everything. Somebody's own module needs `build` and `batch`; for what it leaves out there are
defaults, and what it gets wrong is told.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import torch
from torch import nn

from bench.spec import ChainInfo, ModelSpec, SpecError, WorkloadSpec
from bench.step.default_chains import default_chains
from bench.step.default_loss import default_loss
from bench.step.samples import check_samples, plain_batch
from bench.step.sources import source_digest
from bench.step.target import import_target, is_zoo, search_folders

Batch = Any
"""A dict, tuple or list of tensors (a pytree), or one tensor."""
SOURCE = "model_source"
"""Name, among the versions in a study's facts, of the digest of somebody's own model code."""


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
    libraries: tuple[str, ...]
    """Distributions whose versions are part of the control key."""
    draws_globally: bool = False
    """Whether `batch` takes no generator, so that the global ones must be seeded before the first micro-batch."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Digest of the code of a family that is not the zoo's; part of the control key."""


def load_family(spec: ModelSpec) -> Family:
    """Imports `spec.target`.

    Raises:
        SpecError: no such module, importing it fails, `build` or `batch` is missing, or `spec.settings` does not fit
            its `build`.
    """
    module = import_target(spec.target)
    for name in ("build", "batch"):
        if not callable(getattr(module, name, None)):
            raise SpecError(f"model.target: {spec.target} has no function {name}()")
    _check_settings(spec, module.build)
    libraries = getattr(module, "LIBRARY", "torch")
    return Family(
        build=_checked_build(module.build, spec.target),
        batch=_checked_batch(module),
        loss=getattr(module, "loss", default_loss),
        chains=getattr(module, "chains", default_chains),
        shape=getattr(module, "SHAPE", None),
        libraries=(libraries,) if isinstance(libraries, str) else tuple(libraries),
        draws_globally=not _takes_generator(module.batch),
        sources={} if is_zoo(spec.target) else {SOURCE: _digest(module)},
    )


def check_shape(family: Family, shape: Mapping[str, int]) -> None:
    """Raises SpecError for a size that the family's batches would not have."""
    unknown = sorted(set(shape) - set(family.shape)) if family.shape is not None else []
    if unknown:
        raise SpecError(f"workload.shape.{unknown[0]}: no such size; there are {', '.join(family.shape or ())}")


def _check_settings(spec: ModelSpec, build: Callable[..., Any]) -> None:
    known = inspect.signature(build).parameters
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in known.values())
    unknown = [] if takes_any else sorted(set(spec.settings) - set(known))
    if unknown:
        there = ", ".join(known) or "none"
        raise SpecError(f"model.settings.{unknown[0]}: no such setting of {spec.target}; there are {there}")
    variadic = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    needed = [n for n, p in known.items() if p.default is p.empty and p.kind not in variadic]
    missing = [name for name in needed if name not in spec.settings]
    if missing:
        raise SpecError(
            f"model.settings.{missing[0]}: build() of {spec.target} needs it; give it a default there, or say "
            f"+model.settings.{missing[0]}=…"
        )


def _checked_build(build: Callable[..., Any], target: str) -> Callable[..., nn.Module]:
    def checked(**settings: Any) -> nn.Module:
        model = build(**settings)
        if not isinstance(model, nn.Module):
            raise SpecError(f"model.target: build() of {target} returned a {type(model).__name__}, not an nn.Module")
        if not model.training:
            raise SpecError(f"model.target: build() of {target} returned a model in eval mode; return model.train()")
        return model

    return checked


def _checked_batch(module: ModuleType) -> Callable[[nn.Module, WorkloadSpec, torch.Generator], Batch]:
    batch, num_samples = module.batch, getattr(module, "num_samples", None)
    takes_generator = _takes_generator(batch)

    def checked(model: nn.Module, workload: WorkloadSpec, generator: torch.Generator) -> Batch:
        made = plain_batch(batch(model, workload, generator) if takes_generator else batch(model, workload))
        check_samples(made, workload.micro_batch, num_samples)
        return made

    return checked


def _takes_generator(batch: Callable[..., Any]) -> bool:
    parameters = inspect.signature(batch).parameters.values()
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) > 2 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def seed_everything(seed: int) -> None:
    """Seeds the global generators, for a `batch` that draws from them."""
    torch.manual_seed(seed)
    random.seed(seed)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(seed % 2**32)


def _digest(module: ModuleType) -> str:
    folders = search_folders(module)
    return source_digest(Path(str(module.__file__)), *folders)
