"""The forward of a unit under a placement: a picklable, deep-copyable object that stands in for `unit.forward`.

It lies inside the unit's hooks (`__call__` runs them, then this), so hooks see each call once, as in the plain model.
Without gradients, nothing is checkpointed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

from bench.placement.policy import PolicyContexts
from bench.placement.types import Region


@dataclass
class RegionCounts:
    """What a region did since the counts were last reset; plain integers, so that every step can prove its effect."""

    first_passes: int = 0
    replays: int = 0
    completed: int = 0
    """Passes that ran to the end; an early-stopped replay does not."""
    kept_calls: int = 0

    def reset(self) -> None:
        self.first_passes = self.replays = self.completed = self.kept_calls = 0

    def keep_one(self) -> None:
        self.kept_calls += 1


class PlacedForward:
    """Base of the forwards that a placement puts on units. `inner` is what was there before."""

    def __init__(self, inner: Callable[..., Any], was_own: bool) -> None:
        self.inner = inner
        self.was_own = was_own
        """Whether the unit had a forward of its own instance before."""

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.inner


class UnitForward(PlacedForward):
    """A region of one unit."""

    def __init__(self, region: Region, inner: Callable[..., Any], was_own: bool) -> None:
        super().__init__(inner, was_own)
        self.region = region
        self.counts = RegionCounts()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.inner(*args, **kwargs)
        leaves, spec = tree_flatten((args, kwargs))

        def run(leaves: list[Any]) -> Any:
            args, kwargs = tree_unflatten(leaves, spec)
            return self.inner(*args, **kwargs)

        return checkpointed(self.region, self.counts, run, leaves)


_replay_depth = 0


def in_replay() -> bool:
    """Whether a region is being replayed right now, so that an observer can tell replayed ops from others."""
    return _replay_depth > 0


@contextmanager
def _replaying() -> Iterator[None]:
    global _replay_depth
    _replay_depth += 1
    try:
        yield
    finally:  # an early stop leaves through an exception
        _replay_depth -= 1


def checkpointed(region: Region, counts: RegionCounts, run: Callable[[list[Any]], Any], leaves: list[Any]) -> Any:
    """Runs `run(leaves)` as a checkpointed region with the region's policy and options.

    Tensors among `leaves` reach torch.utils.checkpoint as positional arguments, keyword arguments of the unit
    included: so they are saved under autograd's version check, and a reentrant region passes gradients to them.
    """
    where = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[index] for index in where]
    template = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    passes = 0

    def region_pass(*tensors: torch.Tensor) -> Any:
        nonlocal passes
        passes += 1
        filled = list(template)
        for index, tensor in zip(where, tensors, strict=True):
            filled[index] = tensor
        if passes == 1:
            counts.first_passes += 1
            result = run(filled)
        else:
            counts.replays += 1
            with _replaying():
                result = run(filled)
        counts.completed += 1
        return result

    options = region.options
    if options.reentrant:
        return checkpoint(region_pass, *tensors, use_reentrant=True, preserve_rng_state=options.preserve_rng)
    extra: dict[str, Any] = {}
    if region.keeps:
        extra["context_fn"] = PolicyContexts(region.keeps, counts.keep_one)
    return checkpoint(
        region_pass,
        *tensors,
        use_reentrant=False,
        preserve_rng_state=options.preserve_rng,
        early_stop=options.early_stop,
        determinism_check="default" if options.determinism_check else "none",
        **extra,
    )
