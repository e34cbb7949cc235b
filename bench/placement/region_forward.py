"""The forward of a unit under a placement: a picklable, deep-copyable object that stands in for `unit.forward`.

It lies inside the unit's hooks (`__call__` runs them, then this), so hooks see each call once, as in the plain model.
Without gradients, nothing is checkpointed.
"""

from __future__ import annotations

import copy
import itertools
import types
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch.utils.checkpoint import checkpoint

from bench.placement.errors import UnsupportedPlacementError, WrongGradientsError
from bench.placement.policy import PolicyContexts
from bench.placement.restore import RestoringContexts, restoring_passes
from bench.placement.types import Region
from bench.placement.wiring import IMMUTABLE


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


class ClassForward:
    """The forward that a unit has from its class, looked up anew so that it survives copying and pickling."""

    def __init__(self, unit: nn.Module) -> None:
        self.unit = unit

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return type(self.unit).forward(self.unit, *args, **kwargs)

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return types.MethodType(type(self.unit).forward, self.unit)


class PlacedForward:
    """Base of the forwards that a placement puts on units.

    Args:
        unit: the module.
        switches: path → the unit and those of the modules around it that can be told to checkpoint themselves.
    """

    def __init__(self, unit: nn.Module, switches: Mapping[str, nn.Module]) -> None:
        self.was_own = "forward" in vars(unit)
        """Whether the unit had a forward of its own instance before."""
        self.inner: Callable[..., Any] = unit.forward if self.was_own else ClassForward(unit)
        """What was there before."""
        self.is_trained = any(parameter.requires_grad for parameter in unit.parameters())
        self.unit = unit
        self._switches = {path: weakref.ref(module) for path, module in switches.items()}

    @property
    def __wrapped__(self) -> Callable[..., Any]:
        return self.inner

    def __getstate__(self) -> dict[str, Any]:
        """Weak references cannot be pickled; strong ones would bring the whole model with a block."""
        return vars(self) | {"_switches": {}}

    def __deepcopy__(self, memo: dict[int, Any]) -> PlacedForward:
        """Looks at the copies of the modules around it, where those are copied too."""
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        vars(copied).update(copy.deepcopy(self.__getstate__(), memo))
        around = {path: memo.get(id(found())) for path, found in self._switches.items()}
        copied._switches = {path: weakref.ref(module) for path, module in around.items() if module is not None}
        return copied

    def refuse_switched_on(self) -> None:
        """transformers' Trainer turns checkpointing on as it begins; regions would then be replayed inside replays."""
        for path, found in self._switches.items():
            module = found()
            if getattr(module, "gradient_checkpointing", False) is True:
                raise UnsupportedPlacementError(
                    f"{path or 'the model'} was told to checkpoint itself after the placement was applied: leave "
                    "activation_checkpointing and gradient_checkpointing off"
                )


class UnitForward(PlacedForward):
    """A region of one unit."""

    def __init__(self, region: Region, unit: nn.Module, switches: Mapping[str, nn.Module]) -> None:
        super().__init__(unit, switches)
        self.region = region
        self.counts = RegionCounts()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_grad_enabled():
            return self.inner(*args, **kwargs)
        self.refuse_switched_on()
        leaves, spec = tree_flatten((args, kwargs))
        as_given = [(args, kwargs)]

        def run(leaves: list[Any]) -> Any:
            # The first pass is given the caller's own lists and dicts, which it may fill; a replay, new ones that hold
            # what those held at first.
            args, kwargs = as_given.pop() if as_given else tree_unflatten(leaves, spec)
            return self.inner(*args, **kwargs)

        del args, kwargs
        return checkpointed(self.region, self.counts, run, leaves, self.is_trained, [self.unit])


_TENSOR = object()
"""Stands for a tensor among the leaves of a reentrant region's output."""
_replay_depth = 0


def in_replay() -> bool:
    """Whether a region is being replayed right now, so that an observer can tell replayed ops from others."""
    return _replay_depth > 0


class RegionWatcher(Protocol):
    """Sees every pass of every region as it begins and ends."""

    def enter(self, region: Region, call: int, is_replay: bool, tensors: Sequence[torch.Tensor]) -> None:
        """`call` is the same number for the first pass and the replay of one call of a region."""

    def leave(self, result: Any) -> None:
        """`result` is None where the pass stopped early."""


_watcher: RegionWatcher | None = None
_calls = itertools.count()


@contextmanager
def watching_regions(watcher: RegionWatcher) -> Iterator[None]:
    """One watcher at a time; regions that it sees hold nothing of it."""
    global _watcher
    before, _watcher = _watcher, watcher
    try:
        yield
    finally:
        _watcher = before


@contextmanager
def _in_pass(region: Region, call: int, is_replay: bool, tensors: Sequence[torch.Tensor]) -> Iterator[list[Any]]:
    """What is put in the list that it yields is what the pass handed out."""
    global _replay_depth
    watcher = _watcher
    result: list[Any] = []
    if watcher is not None:
        watcher.enter(region, call, is_replay, tensors)
    _replay_depth += is_replay
    try:
        yield result
    finally:  # an early stop leaves through an exception
        _replay_depth -= is_replay
        if watcher is not None:
            watcher.leave(result[0] if result else None)


def checkpointed(
    region: Region,
    counts: RegionCounts,
    run: Callable[[list[Any]], Any],
    leaves: list[Any],
    is_trained: bool,
    units: Sequence[nn.Module],
) -> Any:
    """Runs `run(leaves)` as a checkpointed region with the region's policy and options.

    Tensors among `leaves` reach torch.utils.checkpoint as positional arguments, keyword arguments of the unit
    included: so they are saved under autograd's version check, and a reentrant region passes gradients to them.

    Raises:
        UnsupportedPlacementError: the region would train wrongly and say nothing: it is given a cache that replay would
            fill a second time, or it is reentrant and loses gradients, also those of what a hook takes out of it.
    """
    _refuse_silent_errors(region, leaves, is_trained)
    if region.options.reentrant:
        _refuse_hooks_without_gradients(region, units)
    where = [index for index, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]
    tensors = [leaves[index] for index in where]
    template = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    passes, call = 0, next(_calls)

    def region_pass(*tensors: torch.Tensor) -> Any:
        nonlocal passes
        passes += 1
        filled = list(template)
        for index, tensor in zip(where, tensors, strict=True):
            filled[index] = tensor
        is_replay = passes > 1
        if is_replay:
            counts.replays += 1
        else:
            counts.first_passes += 1
        with _in_pass(region, call, is_replay, tensors) as handed_out:
            result = run(filled)
            if _watcher is not None:
                handed_out.append(result)
        counts.completed += 1
        return result

    options = region.options
    if options.reentrant:
        return _reentrant(region, restoring_passes(region_pass, units) if options.restore else region_pass, tensors)
    extra: dict[str, Any] = {}
    if region.keeps:
        extra["context_fn"] = PolicyContexts(region.keeps, counts.keep_one)
    if options.restore:
        extra["context_fn"] = RestoringContexts(units, extra.get("context_fn"))
    return checkpoint(
        region_pass,
        *tensors,
        use_reentrant=False,
        preserve_rng_state=options.preserve_rng,
        early_stop=options.early_stop,
        determinism_check="default" if options.determinism_check else "none",
        **extra,
    )


def _reentrant(region: Region, region_pass: Callable[..., Any], tensors: list[torch.Tensor]) -> Any:
    """A reentrant checkpoint gives gradients only to tensors that it returns in a flat tuple."""
    spec: TreeSpec | None = None
    others: list[Any] = []

    def flat_pass(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        nonlocal spec, others
        leaves, spec = tree_flatten(region_pass(*tensors))
        hidden = [leaf for leaf in leaves if not isinstance(leaf, (torch.Tensor, *IMMUTABLE))]
        if hidden:
            raise WrongGradientsError(
                f"a reentrant region around {region.units[-1]} would lose the gradients inside the "
                f"{type(hidden[0]).__name__} that it returns; leave @reentrant out"
            )
        others = [_TENSOR if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        return tuple(leaf for leaf in leaves if isinstance(leaf, torch.Tensor))

    made = iter(checkpoint(flat_pass, *tensors, use_reentrant=True, preserve_rng_state=region.options.preserve_rng))
    assert spec is not None, "the first pass ran"
    return tree_unflatten([next(made) if other is _TENSOR else other for other in others], spec)


def _refuse_silent_errors(region: Region, leaves: list[Any], is_trained: bool) -> None:
    caches = [leaf for leaf in leaves if hasattr(leaf, "update") and hasattr(leaf, "get_seq_length")]
    if caches:
        raise UnsupportedPlacementError(
            f"{region.units[0]} is given a {type(caches[0]).__name__}, which its replay would fill a second time; "
            "turn the model's cache off (use_cache=False)"
        )
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
    if region.options.reentrant and is_trained and not any(tensor.requires_grad for tensor in tensors):
        raise WrongGradientsError(
            f"no input of {region.units[0]} requires a gradient, so a reentrant region would give its parameters none; "
            "leave @reentrant out"
        )


def _refuse_hooks_without_gradients(region: Region, units: Sequence[nn.Module]) -> None:
    """The first pass of a reentrant region runs without gradients, so what a forward hook inside it takes out has none
    (transformers collects router logits for the load-balancing loss that way). Hooks of the units themselves see the
    region's outputs, which have. Looked for at each call, since libraries add hooks in the first forward."""
    for path, unit in zip(region.units, units, strict=True):
        for name, module in unit.named_modules():
            if name and module._forward_hooks:
                raise WrongGradientsError(
                    f"a forward hook inside {path}, on {name}, would see tensors without gradients in a reentrant "
                    "region, and a loss made of them would train nothing; leave @reentrant out"
                )
