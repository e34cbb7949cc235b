"""Did a placement take effect? Counted passes of every region, held against what the placement predicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import nn

from bench.placement.apply import Applied
from bench.placement.types import Placement, Region
from bench.placement.wiring import Wiring
from bench.records import RegionEffect


class NoEffectError(RuntimeError):
    """The placement changed nothing, or not what it says: names the regions."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Passes of one region in one optimizer step."""

    replays: int
    entries_min: int
    entries_max: int
    """First passes and replays together. They differ where an enclosing region's replay may stop early before it
    comes to this one."""


def predict(placement: Placement, region: Region, wiring: Wiring, accumulation: int) -> Prediction:
    """Each call in a micro-batch is one first pass and one replay. Each region around it replays its first pass once
    more, unless that replay stops early first, which it may where this region lies in its last unit."""
    calls = accumulation * wiring.num_calls(region.units[0])
    around = [other for other in placement.regions if other.contains(region)]
    skippable = sum(other.options.early_stop and _in_last_unit(region, other) for other in around)
    return Prediction(
        replays=calls,
        entries_min=calls * (2 + len(around) - skippable),
        entries_max=calls * (2 + len(around)),
    )


def _in_last_unit(region: Region, other: Region) -> bool:
    """Whether `region` reaches into the last unit of `other`. A part of a unit may come anywhere in it."""
    last = other.units[-1]
    return any(unit == last or unit.startswith(last + ".") for unit in region.units)


def region_effects(applied: Applied) -> tuple[RegionEffect, ...]:
    return tuple(
        RegionEffect(
            region=Placement((region,)).text,
            first_passes=counts.first_passes,
            replays=counts.replays,
            kept_calls=counts.kept_calls,
        )
        for region, counts in applied.counts
    )


def check_effect(applied: Applied, wiring: Wiring, steps: int, accumulation: int) -> None:
    """Holds the counts of `steps` optimizer steps against the prediction.

    A region without a saved tensor (wholly frozen, or a dropout of 0) is never replayed; that is no fault as long as
    others are.

    Raises:
        NoEffectError: no region was replayed, one was not called at all, or a policy kept nothing.
        RuntimeError: a region was entered otherwise than predicted.
    """
    placement = applied.placement
    if not placement.regions:
        return
    for region, _ in applied.counts:
        if wiring.num_calls(region.units[0]) == 0:
            raise NoEffectError(f"the model's forward never calls {region.units[0]}")
    keeping = [(region, counts) for region, counts in applied.counts if region.keeps]
    if keeping and not any(counts.kept_calls for _, counts in keeping):
        ops = ", ".join(sorted({kept.op for region, _ in keeping for kept in region.keeps}))
        raise NoEffectError(f"its policy keeps {ops}, and none of these ops was called in its regions")
    replayed = sum(counts.replays > 0 for _, counts in applied.counts)
    if replayed == 0:
        raise NoEffectError(f"requested {len(placement.regions)} regions, 0 replayed")
    for region, counts in applied.counts:
        if counts.replays:
            _check_counts(placement, region, counts, predict(placement, region, wiring, accumulation), steps)


def _check_counts(placement: Placement, region: Region, counts: Any, expected: Prediction, steps: int) -> None:
    entries = counts.first_passes + counts.replays
    reentrant_around = any(other.options.reentrant and other.contains(region) for other in placement.regions)
    low = expected.entries_min - (expected.replays if reentrant_around else 0)  # its first pass there has no gradients
    if counts.replays != steps * expected.replays or not steps * low <= entries <= steps * expected.entries_max:
        raise RuntimeError(
            f"{Placement((region,)).text} was entered {entries} times and replayed {counts.replays} times in {steps} "
            f"steps; expected {steps * expected.entries_min} to {steps * expected.entries_max} entries and "
            f"{steps * expected.replays} replays"
        )


def check_retained(placement: str, retained_bytes: int, plain_retained_bytes: int) -> None:
    """Raises NoEffectError where the step holds no less after its forward than the plain step does."""
    if retained_bytes >= plain_retained_bytes:
        more = retained_bytes - plain_retained_bytes
        difference = f"{more} bytes more than" if more else "exactly what"
        raise NoEffectError(
            f"after forward it retains {difference} the plain step retains: what its boundaries keep is all that it "
            "frees, as around a single Linear, whose input is its saved tensor; try a wider region"
        )


@contextmanager
def replayed_modules(model: nn.Module, is_backward: Sequence[bool]) -> Iterator[list[str]]:
    """Names of modules whose forward runs while `is_backward[0]` holds: in a plain model, none."""
    seen: list[str] = []

    def note(name: str) -> Any:
        def hook(_module: nn.Module, _args: Any) -> None:
            if is_backward[0] and name not in seen:
                seen.append(name)

        return hook

    handles = [module.register_forward_pre_hook(note(name)) for name, module in model.named_modules() if name]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()
