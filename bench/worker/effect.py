"""Did a placement take effect? Counted passes of every region, held against what the placement predicts."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from bench.placement.applying import Applied
from bench.placement.types import Placement, Region
from bench.placement.wiring import Wiring
from bench.records import RegionEffect
from bench.step import Step
from bench.step.build import BACKWARD
from bench.step.precision import Precision


class NoEffectError(RuntimeError):
    """The placement changed nothing, or not what it says: names the regions."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """Passes of one region in one optimizer step."""

    replays: int
    """Fewer where a call's tensors need no gradient: under no_grad, wholly frozen, an output that nobody uses."""
    entries_min: int
    entries_max: int
    """First passes and replays together. They differ where an enclosing region's replay may stop early before it
    comes to this one."""


def predict(placement: Placement, region: Region, wiring: Wiring, accumulation: int) -> Prediction:
    """Each call in a micro-batch is one first pass and one replay. Each region around it replays its first pass once
    more, unless that replay stops early first, which it may where this region lies in its last unit."""
    calls = accumulation * wiring.num_calls(region.units[0])
    around = sorted((o for o in placement.regions if o.contains(region)), key=placement.depth, reverse=True)
    # The first pass of a reentrant region runs without gradients, where an inner region does not count its passes.
    counted = list(itertools.takewhile(lambda other: not other.options.reentrant, around))
    skippable = sum(other.options.early_stop and _in_last_unit(region, other) for other in counted)
    return Prediction(
        replays=calls,
        entries_min=calls * (2 + len(counted) - skippable),
        entries_max=calls * (2 + len(counted)),
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
    missing = steps * expected.replays - counts.replays
    low, high = steps * expected.entries_min - missing, steps * expected.entries_max
    if missing < 0 or not low <= entries <= high:
        raise RuntimeError(
            f"{Placement((region,)).text} was entered {entries} times and replayed {counts.replays} times in {steps} "
            f"steps; expected {low} to {high} entries and at most {steps * expected.replays} replays"
        )


class OtherStepError(RuntimeError):
    """The placed step is not the plain step."""


class UnstableStepError(RuntimeError):
    """The plain step itself does not repeat, so that nothing can be held against it."""


FP32_TOLERANCE, AUTOCAST_TOLERANCE, LOW_PRECISION_TOLERANCE = 1e-4, 1e-3, 2e-2
"""Relative. Sums in another order change the weights of a step by rounding, and the next loss by far less than this."""


def check_losses(losses: Sequence[float | None], plain_losses: Sequence[float | None], precision: Precision) -> None:
    """Holds the losses of a placement's steps against the plain step's, from the same state. It is a coarse net under
    the rule that skipped work must not look cheap: a lost gradient or another dropout mask shows in the next loss.

    Raises:
        OtherStepError: they differ by more than rounding.
    """
    differing = _first_difference(losses, plain_losses, precision)
    if differing is not None:
        step, loss, plain = differing
        raise OtherStepError(
            f"the loss of its step {step} is {loss}, the plain step's from the same state is {plain}: "
            "the replay does not train the same way"
        )


def check_repeats(first: Sequence[float | None], second: Sequence[float | None], precision: Precision) -> None:
    """Holds two passes of plain steps from the same state against each other, in one process and one after the other.

    Raises:
        UnstableStepError: they differ by more than rounding.
    """
    differing = _first_difference(first, second, precision)
    if differing is not None:
        step, loss, again = differing
        raise UnstableStepError(
            f"the plain step does not repeat: from the same state the loss of its step {step} was {loss} and then "
            f"{again}, so nothing can be held against it; have the model draw random numbers from torch's generators "
            "alone and keep no state of its own in Python"
        )


def _first_difference(
    losses: Sequence[float | None], others: Sequence[float | None], precision: Precision
) -> tuple[int, float | None, float | None] | None:
    """(step counted from 1, loss, other loss) of the first step whose losses differ by more than the tolerance."""
    tolerance = FP32_TOLERANCE if precision.autocast is None else AUTOCAST_TOLERANCE
    if precision.weights != torch.float32:
        tolerance = LOW_PRECISION_TOLERANCE
    for step, (loss, other) in enumerate(zip(losses, others, strict=True), start=1):
        if loss is None and other is None:
            continue
        if loss is None or other is None or abs(loss - other) > tolerance * abs(other):
            return step, loss, other
    return None


def check_retained(retained_bytes: int, plain_retained_bytes: int) -> None:
    """Raises NoEffectError where the step holds no less after its forward than the plain step does."""
    if retained_bytes >= plain_retained_bytes:
        more = retained_bytes - plain_retained_bytes
        difference = f"{more} bytes more than" if more else "exactly what"
        raise NoEffectError(
            f"after forward it retains {difference} the plain step retains: what its boundaries keep is all that it "
            "frees, as around a single Linear, whose input is its saved tensor; try a wider region"
        )


def replayed_in_plain_step(step: Step) -> list[str]:
    """Runs the plain step once; names of modules that it replays by itself."""
    is_backward = [False]

    def note_phase(phase: str) -> None:
        is_backward[0] = phase == BACKWARD

    with replayed_modules(step.model, is_backward) as found:
        step.run(note_phase)
    return found


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
