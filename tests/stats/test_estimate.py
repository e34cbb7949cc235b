"""A ratio, its intervals and its spread from paired rounds."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bench.stats import estimate_ratio, half_width
from bench.stats.estimate import MIN_RANK_PAIRS
from bench.stats.signed_rank import hodges_lehmann, signed_rank_interval, walsh_averages
from bench.stats.student import t_quantile

LOG_RATIOS = st.lists(st.floats(-1, 1), min_size=3, max_size=30)


def test_centre_is_the_median_of_the_means_of_all_pairs() -> None:
    # Walsh averages of 0, 1, 5: 0, 0.5, 1, 2.5, 3, 5.
    assert hodges_lehmann(walsh_averages(np.array([0.0, 1.0, 5.0]))) == 1.75


@pytest.mark.parametrize(("count", "skipped"), [(6, 0), (7, 2), (8, 3), (10, 8), (20, 52)])
def test_interval_leaves_out_as_many_averages_as_the_tables_say(count: int, skipped: int) -> None:
    """Critical values of T at 5 % two-sided: Hollander, Wolfe and Chicken 2014, table A.4."""
    averages = walsh_averages(10.0 ** np.arange(count))
    assert signed_rank_interval(averages, count, 0.95) == (averages[skipped], averages[-1 - skipped])


@pytest.mark.parametrize(("count", "confidence"), [(5, 0.95), (6, 0.97)])
def test_too_few_differences_cannot_reject_anything(count: int, confidence: float) -> None:
    for number, expected in ((count, None), (count + 1, (0.0, float(count)))):
        averages = walsh_averages(np.arange(number, dtype=float))
        assert signed_rank_interval(averages, number, confidence) == expected


def test_level_is_exact_over_all_signs_whatever_the_sizes() -> None:
    """The shuffle makes signs fair coins: of the 2^9 equally likely studies at most 3 % leave 0 out."""
    sizes = np.array([0.001, 0.002, 0.004, 0.011, 0.05, 0.07, 0.3, 0.9, 1.7])
    rejected = 0
    for signs in itertools.product((-1, 1), repeat=len(sizes)):
        interval = estimate_ratio([(sizes * signs).tolist()]).verdict_interval
        assert interval is not None
        rejected += not interval[0] <= 1 <= interval[1]
    assert 0.02 < rejected / 2 ** len(sizes) <= 0.03


def test_one_wild_round_in_ten_hardly_moves_the_centre() -> None:
    estimate = estimate_ratio([[math.log(1.1)] * 9 + [math.log(9)]])
    assert estimate.ratio == pytest.approx(1.1)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_rounds_give_no_interval(count: int) -> None:
    estimate = estimate_ratio([[0.1, 0.2][:count]])
    assert estimate.interval is None
    assert half_width(estimate) is None


@pytest.mark.parametrize("count", [3, 7, 40])
def test_identical_rounds_give_an_interval_without_width(count: int) -> None:
    estimate = estimate_ratio([[math.log(1.1)] * count])
    assert estimate.interval == (estimate.ratio, estimate.ratio)
    assert half_width(estimate) == 0


@given(LOG_RATIOS)
def test_intervals_hold_their_ratio_and_are_the_same_every_time(log_ratios: list[float]) -> None:
    estimate = estimate_ratio([log_ratios])
    assert estimate.interval is not None
    assert estimate.verdict_interval is not None
    assert estimate.verdict_interval[0] <= estimate.interval[0] <= estimate.ratio
    assert estimate.ratio <= estimate.interval[1] <= estimate.verdict_interval[1]
    assert estimate_ratio([log_ratios]) == estimate


@given(LOG_RATIOS, st.floats(-1, 1))
def test_a_constant_factor_moves_the_interval_and_keeps_its_half_width(log_ratios: list[float], shift: float) -> None:
    before, after = estimate_ratio([log_ratios]), estimate_ratio([[value + shift for value in log_ratios]])
    assert after.ratio == pytest.approx(before.ratio * math.exp(shift))
    assert half_width(after) == pytest.approx(half_width(before), rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("count", [3, 6, MIN_RANK_PAIRS, 20, 250])
def test_interval_covers_the_true_ratio_of_normal_noise(count: int) -> None:
    noise = np.random.default_rng(7).normal(scale=0.02, size=(600, count))
    intervals = [estimate_ratio([log_ratios.tolist()]).interval for log_ratios in noise]
    covered = sum(interval is not None and interval[0] <= 1 <= interval[1] for interval in intervals)
    assert 0.93 <= covered / len(noise) <= 0.985


def test_no_ratios_are_refused() -> None:
    with pytest.raises(ValueError, match="no paired ratios"):
        estimate_ratio([[], []])


@pytest.mark.parametrize(("degrees", "quantile"), [(1, 12.706), (2, 4.303), (8, 2.306), (9, 2.262), (30, 2.042)])
def test_student_quantiles_are_those_of_the_tables(degrees: int, quantile: float) -> None:
    assert t_quantile(degrees, 0.95) == pytest.approx(quantile, abs=2e-3)


def test_student_serves_the_two_confidences_alone() -> None:
    with pytest.raises(ValueError, match=r"only 0\.95 and 0\.97"):
        t_quantile(3, 0.9)


def test_spread_within_and_between_executions_is_told_apart() -> None:
    generator = np.random.default_rng(3)
    shifts = generator.normal(scale=0.03, size=40)
    groups = [(shift + generator.normal(scale=0.01, size=30)).tolist() for shift in shifts]
    spread = estimate_ratio(groups).spread
    assert spread.within == pytest.approx(0.01, rel=0.05)
    assert spread.between == pytest.approx(float(np.std(shifts, ddof=1)), rel=0.05)


def test_executions_that_agree_have_no_spread_between_them() -> None:
    rounds = [0.01, -0.02, 0.03, 0.0]
    assert estimate_ratio([rounds, rounds]).spread.between == 0


def test_one_execution_says_nothing_about_the_next() -> None:
    assert estimate_ratio([[0.0, 0.1, 0.2]]).spread.between is None


def test_two_executions_that_disagree_widen_the_interval_to_both() -> None:
    noise = np.random.default_rng(5).normal(scale=0.002, size=30)
    agreeing = estimate_ratio([noise.tolist(), noise.tolist()])
    disagreeing = estimate_ratio([(noise - 0.05).tolist(), (noise + 0.05).tolist()])
    assert agreeing.interval is not None
    assert disagreeing.interval is not None
    assert half_width(agreeing) < 0.002
    assert disagreeing.interval[0] < math.exp(-0.045)
    assert disagreeing.interval[1] > math.exp(0.045)
