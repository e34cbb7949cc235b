"""A few placements run on the real step, in turns with the plain one: what costs are corrected by before planning.

Costs are put together from single ops. What a whole replay takes beside them shows in three placements: every unit that
keeps nothing (cold caches), every unit that keeps its matrix products (the modes of policies), and many small regions,
each of a module without matrix products, where what a region takes by itself, `@restore` included, weighs most.

A planner picks what looks cheapest, and so the errors of its costs with it: what it would choose by costs so corrected
is run as well (`drafts`), and they are corrected once more, where it goes.
"""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence

from bench.measure.clock import time_steps
from bench.placement.applying import apply
from bench.placement.errors import UnsupportedPlacementError
from bench.placement.generators import every, keeping
from bench.placement.types import NONE, Placement, PlacementError, Region
from bench.placement.wiring import record_wiring
from bench.plan.costs import NOISE_SHARE, Measured, OpCosts
from bench.plan.counts import Counts
from bench.plan.planner import Planner
from bench.spec import ChainInfo
from bench.step import TrainingStep
from bench.step.interface import FORWARD
from bench.trace.forecast import Forecaster
from bench.trace.log import Op, StepLog
from bench.trace.rearrange import CannotRearrangeError

ROUNDS, MOST_ROUNDS = 5, 10
"""At least and at most; more than the least where what was measured is doubted by more than NOISE_SHARE. The first is
left out: on a CPU placements were up to 10 % slower in it, the plain step was not."""
ENOUGH_S = 60.0
"""Beyond the least number, no round begins after so long."""
KEPT = "matmul.conv"
SMALL_REGIONS = 48
DRAFTS = 3


def calibration_runs(
    step: TrainingStep,
    forecaster: Forecaster,
    costs: OpCosts,
    placements: Sequence[Placement],
    finish: Callable[[Placement], Placement],
) -> list[Measured]:
    """Runs ROUNDS to MOST_ROUNDS steps of the plain model and of each placement, and one of each before; nothing for a
    placement that the model refuses. What they say is doubted by as much as they differ from round to round.

    Args:
        placements: without the options that `finish` gives.
        finish: gives regions the options that they need to be valid.
    """
    units = sorted({unit for placement in placements for region in placement.regions for unit in region.units})
    wiring = record_wiring(step.model, units, step.forward)
    counts = {}
    for placement in placements:
        try:
            found = forecaster.rearranged(placement)
            with apply(step.model, finish(placement), wiring=wiring):
                step.run()
        except (CannotRearrangeError, PlacementError, UnsupportedPlacementError):
            continue
        if found.num_replays:
            counts[placement] = found
    times: dict[Placement, list[float]] = {}
    measured: list[Measured] = []
    began = time.monotonic()
    for number in range(1, MOST_ROUNDS + 1 if counts else 1):
        for placement in (NONE, *counts):
            with apply(step.model, finish(placement), wiring=wiring):
                times.setdefault(placement, []).extend(time_steps(step.run, 1, step.device).steps_ms)
        if number >= ROUNDS:
            measured = [_measured(found, times[p][1:], times[NONE][1:], costs.step_ms) for p, found in counts.items()]
            is_sure = all((one.noise_ms or 0.0) <= NOISE_SHARE * costs.step_ms for one in measured)
            if is_sure or time.monotonic() - began > ENOUGH_S:
                break
    return measured


def telling(log: StepLog, chains: Sequence[ChainInfo]) -> tuple[Placement, ...]:
    """The three placements in which each part of a replay weighs most.

    Args:
        log: of the plain step.
    """
    return every(chains, 1), keeping(chains, KEPT), small_regions(log, chains)


def drafts(planner: Planner, count: int = DRAFTS) -> tuple[Placement, ...]:
    """The floor and plans evenly above it, without the options that finishing gave them."""
    low, high = planner.floor().forecast.peak_allocated_bytes, planner.plain.forecast.peak_allocated_bytes
    plans = (planner.floor(), *(planner.plan(low + (high - low) * step // count) for step in range(1, count)))
    return tuple(dict.fromkeys(plan.placement.unrestored() for plan in plans if plan.placement.regions))


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
