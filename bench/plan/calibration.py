"""A few placements run on the real step, in turns with the plain one: what costs are corrected by before planning.

Costs are put together from single ops. What a whole replay takes beside them, cold caches and the modes of policies
most of all, shows in two placements of every unit: one that keeps nothing, and one that keeps its matrix products.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from bench.measure.clock import time_steps
from bench.placement.applying import apply
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.generators import every, keeping
from bench.placement.types import NONE, Placement, PlacementError
from bench.placement.wiring import record_wiring
from bench.plan.costs import NOISE_SHARE, Measured, OpCosts
from bench.plan.counts import Counts
from bench.spec import ChainInfo
from bench.step import TrainingStep
from bench.trace.forecast import Forecaster
from bench.trace.rearrange import CannotRearrangeError

ROUNDS = 5
"""The first is left out: on a CPU placements were up to 10 % slower in it, the plain step was not."""
KEPT = "matmul.conv"


def calibration_runs(
    step: TrainingStep,
    forecaster: Forecaster,
    chains: Sequence[ChainInfo],
    costs: OpCosts,
    finish: Callable[[Placement], Placement],
) -> list[Measured]:
    """Runs `3 * ROUNDS` steps, and one of each placement before; nothing for a placement that the model refuses. What
    they say is doubted by as much as they differ from round to round.

    Args:
        finish: gives regions the options that they need to be valid.
    """
    wiring = record_wiring(step.model, [unit for chain in chains for unit in chain.units], step.forward)
    counts = {}
    for placement in (every(chains, 1), keeping(chains, KEPT)):
        try:
            found = forecaster.rearranged(placement)
            with apply(step.model, finish(placement), wiring=wiring):
                step.run()
        except (CannotRearrangeError, PlacementError, UnsupportedPlacementError):
            continue
        counts[placement] = found
    times: dict[Placement, list[float]] = {}
    for _ in range(ROUNDS):
        for placement in (NONE, *counts):
            with apply(step.model, finish(placement), wiring=wiring):
                times.setdefault(placement, []).extend(time_steps(step.run, 1, step.device).steps_ms)
    return [
        _measured(found, times[placement][1:], times[NONE][1:], costs.step_ms) for placement, found in counts.items()
    ]


def _measured(counts: Counts, placed_ms: Sequence[float], plain_ms: Sequence[float], step_ms: float) -> Measured:
    ratios = [placed / plain for placed, plain in zip(placed_ms, plain_ms, strict=True)]
    error = statistics.stdev(ratios) / math.sqrt(len(ratios))
    return Measured(
        counts=counts, extra_ms=step_ms * (statistics.median(ratios) - 1), noise_ms=step_ms * max(error, NOISE_SHARE)
    )
