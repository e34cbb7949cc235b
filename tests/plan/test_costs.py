"""Predicted replay times, and how measurements move them."""

from __future__ import annotations

import pytest

from bench.plan.costs import LEAST_REPLAY_FACTOR, Measured, OpCosts, calibrated, roofline_costs
from bench.plan.counts import Counts, ReplayCounts
from bench.target.roofline import LAUNCH_S, roofline_time
from tests.target.test_roofline import ROUND, log as roofline_log, op

HAS_FLOPS = (True, True, False, False)
COSTS = OpCosts(
    op_ms=(100.0, 40.0, 10.0, 50.0), has_flops=HAS_FLOPS, region_ms=2.0, policy_op_ms=0.5, source="measured"
)
NOISE_MS = 1e-6


def counts(*replayed: int, num_replays: int = 1, num_policy_ops: int = 0) -> ReplayCounts:
    return ReplayCounts(replayed=replayed, num_replays=num_replays, num_policy_ops=num_policy_ops)


def measured(costs: OpCosts, *placements: Counts, noise_ms: float | None = None) -> list[Measured]:
    """As if a machine had exactly these costs."""
    return [Measured(counts=one, extra_ms=costs.replay_ms(one), noise_ms=noise_ms) for one in placements]


def test_a_replay_costs_its_ops_its_regions_and_its_policies_ops() -> None:
    assert COSTS.parts_ms(counts(1, 2, 1, num_replays=3, num_policy_ops=8)) == (80.0, 10.0, 6.0, 4.0)
    assert COSTS.replay_ms(counts(1, 2, 1, num_replays=3, num_policy_ops=8)) == 100.0
    assert COSTS.replay_ms(counts(num_replays=0)) == 0.0
    assert COSTS.step_ms == 200.0


PLACEMENTS = (
    counts(0, 1),
    counts(1, num_replays=20),
    counts(2, num_replays=1, num_policy_ops=200),
    counts(2, 3, num_replays=1),
)


def test_four_different_placements_tell_all_four_parts() -> None:
    truth = OpCosts(
        op_ms=(120.0, 48.0, 18.0, 90.0), has_flops=HAS_FLOPS, region_ms=5.0, policy_op_ms=0.1, source="measured"
    )
    found = calibrated(COSTS, measured(truth, *PLACEMENTS, noise_ms=NOISE_MS))
    assert found.replay_factors == pytest.approx((1.2, 1.8))
    assert found.op_ms == COSTS.op_ms  # the plain step is what it was
    assert (found.region_ms, found.policy_op_ms) == pytest.approx((5.0, 0.1))
    assert found.replay_ms(PLACEMENTS[2]) == pytest.approx(truth.replay_ms(PLACEMENTS[2]))


def test_what_was_measured_as_predicted_changes_nothing() -> None:
    found = calibrated(COSTS, measured(COSTS, *PLACEMENTS))
    assert found.replay_factors == pytest.approx((1.0, 1.0))
    assert (found.region_ms, found.policy_op_ms) == pytest.approx((COSTS.region_ms, COSTS.policy_op_ms))
    assert calibrated(COSTS, []).replay_ms(PLACEMENTS[0]) == pytest.approx(COSTS.replay_ms(PLACEMENTS[0]))


def test_one_placement_moves_only_what_it_has() -> None:
    slower = Measured(counts=counts(0, 1, num_replays=0), extra_ms=1.5 * 140, noise_ms=NOISE_MS)
    found = calibrated(COSTS, [slower])
    assert found.replay_factors == pytest.approx((1.5, 1.0))
    assert (found.region_ms, found.policy_op_ms) == pytest.approx((COSTS.region_ms, COSTS.policy_op_ms))


def test_noise_as_large_as_what_is_measured_hardly_moves_anything() -> None:
    twice_ms = 2 * COSTS.replay_ms(counts(2))
    trusted, doubted = (
        calibrated(COSTS, [Measured(counts=counts(2), extra_ms=twice_ms, noise_ms=noise)]).replay_ms(counts(2))
        for noise in (0.01, 100.0)
    )
    assert trusted == pytest.approx(twice_ms, rel=0.01)
    assert doubted == pytest.approx(COSTS.replay_ms(counts(2)), rel=0.02)


def test_no_part_becomes_negative() -> None:
    faster = Measured(counts=counts(num_replays=1, num_policy_ops=100), extra_ms=-100.0, noise_ms=1.0)
    found = calibrated(COSTS, [faster])
    assert min(*found.op_ms, found.region_ms, found.policy_op_ms) >= 0.0
    assert found.replay_ms(counts(0)) > 0.0


def test_no_replay_becomes_free() -> None:
    free = Measured(counts=counts(0, 1, 2), extra_ms=0.0, noise_ms=0.001)
    found = calibrated(COSTS, [free])
    assert found.replay_factors == (LEAST_REPLAY_FACTOR, LEAST_REPLAY_FACTOR)
    assert found.step_ms == COSTS.step_ms


def test_roofline_costs_add_up_to_the_rooflines_step() -> None:
    log = roofline_log(op(2_000_000, 1000), op(0, 3_000_000), op(0, 0))
    costs = roofline_costs(log, ROUND)
    assert costs.op_ms == pytest.approx((2.0, 3.0, 1000 * LAUNCH_S))
    assert costs.step_ms == pytest.approx(1000 * roofline_time(log, ROUND).total_s)
    assert costs.source == "roofline"
