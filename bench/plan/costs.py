"""What a replay costs in time: the ops that run again, the regions' own work, and what policies add to each op.

A placement's extra step time is taken to be a sum of four parts: the plain step's time of each op that runs again,
those with FLOPs and the others apart, a fixed time for each replay, and a fixed time for each op that runs under a
policy. Ops without FLOPs are bound by memory, and a replay finds cold what the plain step has just made. What a
placement repeats is known exactly (`bench.trace.rearrange`); only the times are estimates, by measurement
(`bench.plan.cost_probe`) or from data-sheet figures (`roofline_costs`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import nnls

from bench.plan.counts import Counts
from bench.target.roofline import ROOFLINE, roofline_time
from bench.target.spec import Target
from bench.trace.log import StepLog

MEASURED, COUNTED = "measured", "counted"
NOMINAL_FLOPS_PER_S, NOMINAL_BYTES_PER_S = 1e11, 1e10
NOISE_SHARE = 0.01
"""Of the plain step's time, how far a measured extra time is at least taken to be off."""
LEAST_REPLAY_FACTOR = 0.25
"""No replay is free, whatever a noisy machine says."""
PRIOR_SPREADS = (0.15, 1.0, 4.0, 0.5)
"""How far the truth of ops with FLOPs, other ops, regions and policies is thought to lie from what was estimated, as a
share of the estimate. Ops are timed where they run: 48 placements of GPT-2 took 1.05 times what their ops had taken, in
the median; those without FLOPs took up to 1.9 times as much in replays of a U-Net. A region's own time is a toy's: with
`@restore` on ResNet-50 it was 6 times as much."""

REGION_MS_ON_A_GPU = 0.39
"""About 350 µs a region on a GPU node (pytorch/torchtitan#1323), and 30 to 50 µs for random states."""
POLICY_OP_MS = 0.02
"""Of the host, for a mode's Python."""


@dataclass(frozen=True, kw_only=True)
class OpCosts:
    """Times of one model's step on one device."""

    op_ms: tuple[float, ...]
    """Of each op of the plain step's log, in place."""
    has_flops: tuple[bool, ...]
    """Likewise: matrix products and convolutions."""
    region_ms: float
    """One replay: entering its region in both passes, random states saved and put back, the start of the replay."""
    policy_op_ms: float
    """What an op takes longer under a selective policy, whose dispatch modes are written in Python."""
    source: str
    """`measured`, `roofline` or `counted`."""
    replay_factors: tuple[float, float] = (1.0, 1.0)
    """What an op takes in a replay, over what it takes in the plain step: (with FLOPs, without)."""

    def replay_ms(self, counts: Counts) -> float:
        """By how much a placement's step is expected to take longer than the plain one."""
        return sum(self.parts_ms(counts))

    def again_ms(self, index: int) -> float:
        """The op in a replay."""
        return self.op_ms[index] * self.replay_factors[0 if self.has_flops[index] else 1]

    def parts_ms(self, counts: Counts) -> tuple[float, float, float, float]:
        """(replayed ops with FLOPs, others, regions, policies)."""
        return (
            sum(self.again_ms(index) for index in counts.replayed if self.has_flops[index]),
            sum(self.again_ms(index) for index in counts.replayed if not self.has_flops[index]),
            counts.num_replays * self.region_ms,
            counts.num_policy_ops * self.policy_op_ms,
        )

    @property
    def step_ms(self) -> float:
        """All ops of the plain step."""
        return sum(self.op_ms)


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A placement that was run."""

    counts: Counts
    extra_ms: float
    """Its step time less the plain step's. On a machine that is faster or slower than as the costs were probed:
    (paired ratio - 1) × `OpCosts.step_ms`."""
    noise_ms: float | None = None
    """How far `extra_ms` may be off; NOISE_SHARE of the plain step where it is None."""


def calibrated(costs: OpCosts, measured: Sequence[Measured]) -> OpCosts:
    """Costs that fit what was measured: each of the four parts of a replay is multiplied by a factor found by least
    squares, of at least 0, those of the ops of at least LEAST_REPLAY_FACTOR. The factors begin at 1 and move only as
    far as the measurements say, so that one placement is enough, and a part that no placement has stays as it was.
    """
    default_ms = NOISE_SHARE * costs.step_ms
    noise = np.array([default_ms if one.noise_ms is None else one.noise_ms for one in measured])
    rows = (
        np.array([costs.parts_ms(one.counts) for one in measured]).reshape(-1, len(PRIOR_SPREADS))
        / noise[:, np.newaxis]
    )
    wanted = np.array([one.extra_ms for one in measured]) / noise
    prior = np.diag(1 / np.array(PRIOR_SPREADS))
    factors, _ = nnls(np.vstack([rows, prior]), np.concatenate([wanted, prior.sum(axis=1)]))
    with_flops, others, region, policy = (float(factor) for factor in factors)
    before = costs.replay_factors
    return dataclasses.replace(
        costs,
        replay_factors=(
            before[0] * max(with_flops, LEAST_REPLAY_FACTOR),
            before[1] * max(others, LEAST_REPLAY_FACTOR),
        ),
        region_ms=costs.region_ms * region,
        policy_op_ms=costs.policy_op_ms * policy,
    )


def flop_ops(log: StepLog) -> tuple[bool, ...]:
    """Of each op of the log, whether it has FLOPs."""
    return tuple(bool(op.flops) for op in log.ops)


def counted_costs(log: StepLog) -> OpCosts:
    """Costs where nothing was measured and no device is known: FLOPs and bytes at rates whose ratio is a CPU's and,
    within a small factor, a GPU's in fp32. They rank placements; as times they mean nothing."""
    return OpCosts(
        op_ms=tuple(
            1000 * max((op.flops or 0) / NOMINAL_FLOPS_PER_S, op.moved_bytes / NOMINAL_BYTES_PER_S) for op in log.ops
        ),
        has_flops=flop_ops(log),
        region_ms=0.0,
        policy_op_ms=0.0,
        source=COUNTED,
    )


def roofline_costs(log: StepLog, target: Target) -> OpCosts:
    """Costs on a GPU that is not here, by `bench.target.roofline`: a bound, good to compare placements and no more.

    Args:
        log: of the plain step.
    """
    return OpCosts(
        op_ms=tuple(1000 * roofline_time(dataclasses.replace(log, ops=(op,)), target).total_s for op in log.ops),
        has_flops=flop_ops(log),
        region_ms=REGION_MS_ON_A_GPU,
        policy_op_ms=POLICY_OP_MS,
        source=ROOFLINE,
    )
