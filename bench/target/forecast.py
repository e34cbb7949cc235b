"""Forecasts for a GPU that is not there, made as those for the device at hand are."""

from __future__ import annotations

from collections.abc import Sequence

from bench.spec import Controls
from bench.target.spec import Target
from bench.target.step import TargetStep
from bench.trace.forecast import Forecaster


def target_forecaster(controls: Controls, target: Target, units: Sequence[str]) -> Forecaster:
    """What forecasts placements of `units`. Ask for one in a process of its own, as for a TargetStep.

    Raises:
        what building the step raises, and RuntimeError where this process stands in for another target.
    """
    return forecaster_of(TargetStep(controls, target), units)


def forecaster_of(step: TargetStep, units: Sequence[str]) -> Forecaster:
    return Forecaster(
        step.fake,
        list(units),
        model=step.controls.model.name,
        allocator=step.allocator,
        workspace=step.workspace,
    )
