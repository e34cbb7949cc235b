"""A few placements run on the real step, in turns with the plain one: what costs are corrected by before planning.

Costs are put together from single ops. What a whole replay takes beside them shows in three placements: every unit that
keeps nothing (cold caches), every unit that keeps its matrix products (the modes of policies), and many small regions,
each of a module without matrix products, where what a region takes by itself, `@restore` included, weighs most.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from bench.measure.clock import time_steps
from bench.placement.applying import apply
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.generators import every, keeping
from bench.placement.types import NONE, Placement, PlacementError, Region
from bench.placement.wiring import record_wiring
from bench.plan.costs import NOISE_SHARE, Measured, OpCosts
from bench.plan.counts import Counts
from bench.spec import ChainInfo
from bench.step import TrainingStep
from bench.step.interface import FORWARD
from bench.trace.forecast import Forecaster
from bench.trace.log import Op, StepLog
from bench.trace.rearrange import CannotRearrangeError

ROUNDS = 5
"""The first is left out: on a CPU placements were up to 10 % slower in it, the plain step was not."""
KEPT = "matmul.conv"
SMALL_REGIONS = 48


def calibration_runs(
    step: TrainingStep,
    forecaster: Forecaster,
    chains: Sequence[ChainInfo],
    costs: OpCosts,
    finish: Callable[[Placement], Placement],
) -> list[Measured]:
    """Runs `4 * ROUNDS` steps, and one of each placement before; nothing for a placement that the model refuses. What
    they say is doubted by as much as they differ from round to round.

    Args:
        finish: gives regions the options that they need to be valid.
    """
    wiring = record_wiring(step.model, [unit for chain in chains for unit in chain.units], step.forward)
    counts = {}
    for placement in (every(chains, 1), keeping(chains, KEPT), small_regions(forecaster.plain_log, chains)):
        try:
            found = forecaster.rearranged(placement)
            with apply(step.model, finish(placement), wiring=wiring):
                step.run()
        except (CannotRearrangeError, PlacementError, UnsupportedPlacementError):
            continue
        if found.num_replays:
            counts[placement] = found
    times: dict[Placement, list[float]] = {}
    for _ in range(ROUNDS):
        for placement in (NONE, *counts):
            with apply(step.model, finish(placement), wiring=wiring):
                times.setdefault(placement, []).extend(time_steps(step.run, 1, step.device).steps_ms)
    return [
        _measured(found, times[placement][1:], times[NONE][1:], costs.step_ms) for placement, found in counts.items()
    ]


def small_regions(log: StepLog, chains: Sequence[ChainInfo], count: int = SMALL_REGIONS) -> Placement:
    """At most `count` regions, spread evenly: innermost modules inside units whose forward runs ops, none of them with
    FLOPs and none in place. `none` where there are no such modules.

    Args:
        log: of the plain step.
    """
    units = [unit for chain in chains for unit in chain.units]
    ran: dict[str, list[Op]] = {}
    for op in log.ops:
        if op.phase == FORWARD:
            ran.setdefault(op.module, []).append(op)
    outer = {name.rpartition(".")[0] for name in ran}
    small = [
        name
        for name, ops in ran.items()
        if name not in outer
        and any(name.startswith(f"{unit}.") for unit in units)
        and not any(op.flops or op.name.endswith("_") for op in ops)
    ]
    spread = small[:: max(1, math.ceil(len(small) / count))]
    return Placement(tuple(Region(units=(unit,)) for unit in spread))


def _measured(counts: Counts, placed_ms: Sequence[float], plain_ms: Sequence[float], step_ms: float) -> Measured:
    ratios = [placed / plain for placed, plain in zip(placed_ms, plain_ms, strict=True)]
    error = statistics.stdev(ratios) / math.sqrt(len(ratios))
    return Measured(
        counts=counts, extra_ms=step_ms * (statistics.median(ratios) - 1), noise_ms=step_ms * max(error, NOISE_SHARE)
    )
