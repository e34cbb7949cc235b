"""Applying a placement to a live model, and undoing it.

Only `forward` of the units is rebound, on the instance: module names, state-dict keys, parameter order and hooks stay
those of the plain model, a deep copy carries a placement of its own, and `undo` leaves no trace.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import nn

from bench.placement.errors import UnsupportedPlacementError
from bench.placement.fingerprint import OtherModelWarning, differences
from bench.placement.grammar import parse_placement
from bench.placement.match import check_modules
from bench.placement.region_forward import PlacedForward, RegionCounts, UnitForward
from bench.placement.span import MemberForward, Span, plan_span
from bench.placement.types import Placement, PlacementError, Region
from bench.placement.wiring import Wiring, record_wiring

__all__ = ["Applied", "UnsupportedPlacementError", "apply", "self_checkpointing", "undo"]


@dataclass(frozen=True, repr=False)
class Applied:
    """A placement on a model. `counts` says what each region did since they were last reset."""

    model: nn.Module
    placement: Placement
    counts: tuple[tuple[Region, RegionCounts], ...]

    def reset_counts(self) -> None:
        for _, counts in self.counts:
            counts.reset()

    def undo(self) -> None:
        undo(self.model)

    def __repr__(self) -> str:
        count = len(self.counts)
        return f"Applied({self.placement.text!r}, {count} region{'' if count == 1 else 's'})"

    def __enter__(self) -> Applied:
        return self

    def __exit__(self, *_: object) -> None:
        self.undo()


def apply(
    model: nn.Module,
    placement: Placement | str,
    *,
    forward: Callable[[], Any] | None = None,
    wiring: Wiring | None = None,
) -> Applied:
    """Puts `placement` on `model`.

    Args:
        forward: runs the model once on a batch like those it will train with. Only spans need it: it is called once,
            without gradients, to see how the model connects the members.
        wiring: what `record_wiring` saw before, in place of `forward`.

    Raises:
        PlacementError: a unit is not in the model, or `forward` is missing for a span.
        UnsupportedPlacementError: the model already checkpoints itself or carries a placement, or a span's units
            cannot be replayed as one region.

    Warns:
        OtherModelWarning: the placement was loaded from a file, and the model, torch, the device or the weights' dtype
            are not those of the study that it was chosen from.
    """
    if isinstance(placement, str):
        placement = parse_placement(placement)
    check_modules([placement], {name for name, _ in model.named_modules()})
    _refuse_checkpointing_model(model)
    _warn_of_differences(model, placement)
    spans = [region for region in placement.regions if len(region.units) > 1]
    if spans and wiring is None:
        if forward is None:
            raise PlacementError(
                f"placement {placement.text}: a span needs apply(…, forward=lambda: model(batch)) to see how its units "
                "are connected"
            )
        wiring = record_wiring(model, sorted({unit for region in spans for unit in region.units}), forward)
    plans = {region: plan_span(region, wiring) for region in spans if wiring is not None}
    for region in spans:
        _refuse_hooks(model, region)
    counts: list[tuple[Region, RegionCounts]] = []
    for region in sorted(placement.regions, key=placement.depth, reverse=True):  # innermost first: outer ones wrap them
        if region in plans:
            span = Span(region, plans[region])
            for member, unit in enumerate(region.units):
                module = model.get_submodule(unit)
                module.forward = MemberForward(span, member, module, _switches(model, unit))
            counts.append((region, span.counts))
        else:
            module = model.get_submodule(region.units[0])
            placed = UnitForward(region, module, _switches(model, region.units[0]))
            module.forward = placed
            counts.append((region, placed.counts))
    return Applied(model, placement, tuple(counts))


def undo(model: nn.Module) -> None:
    """Takes every placement off `model`, also off a copy of a model that one was applied to."""
    for module in model.modules():
        placed = vars(module).get("forward")
        while isinstance(placed, PlacedForward):
            if placed.was_own:
                module.forward = placed.inner
            else:
                del module.forward
            placed = vars(module).get("forward")


def self_checkpointing(model: nn.Module) -> str | None:
    """Names what in `model` checkpoints by itself, or None. Sees transformers' and diffusers' switch and torch's and
    fairscale's wrappers; a model that calls torch.utils.checkpoint on its own is found by its replays instead."""
    for name, module in model.named_modules():
        if getattr(module, "gradient_checkpointing", False) is True:
            return f"{name or 'the model'} has gradient checkpointing of its own; turn it off"
        if type(module).__name__ == "CheckpointWrapper" or hasattr(module, "_checkpoint_wrapped_module"):
            return f"{name or 'the model'} is a checkpoint wrapper; take it off"
    return None


def _refuse_checkpointing_model(model: nn.Module) -> None:
    why = self_checkpointing(model)
    if why:
        raise UnsupportedPlacementError(f"the model already checkpoints itself: {why}")
    for name, module in model.named_modules():
        if isinstance(vars(module).get("forward"), PlacedForward):
            raise UnsupportedPlacementError(f"{name or 'the model'} already carries a placement; undo it first")


def _switches(model: nn.Module, unit: str) -> dict[str, nn.Module]:
    """Path → the unit and the modules around it that a library can tell to checkpoint themselves."""
    parts = unit.split(".")
    paths = [".".join(parts[:end]) for end in range(len(parts), -1, -1)]
    modules = ((path, model.get_submodule(path)) for path in paths)
    return {path: module for path, module in modules if hasattr(module, "gradient_checkpointing")}


def _warn_of_differences(model: nn.Module, placement: Placement) -> None:
    found = () if placement.origin is None else differences(model, placement.origin)
    if found:
        warnings.warn(
            f"placement {placement.text} was chosen on other terms, so time and memory may differ: {'; '.join(found)}",
            OtherModelWarning,
            stacklevel=3,
        )


def _refuse_hooks(model: nn.Module, region: Region) -> None:
    """Hooks that run before a member would see a call whose work is already done, and backward hooks change the
    identity of what is passed along. A forward hook is fine: it sees each call once, with its true output."""
    for member, unit in enumerate(region.units):
        module = model.get_submodule(unit)
        if module._backward_hooks or module._backward_pre_hooks or (member and module._forward_pre_hooks):
            raise UnsupportedPlacementError(
                f"span {region.units[0]}..{region.units[-1]} cannot be replayed as one region: {unit} carries hooks; "
                "make its units regions of their own"
            )
