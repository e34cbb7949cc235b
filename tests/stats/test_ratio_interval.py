"""The interval of a geometric-mean ratio from few rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bench.stats import RatioEstimate, half_width, ratio_interval
from bench.stats.student import t_quantile_975

LOG_RATIOS = st.lists(st.floats(-1, 1), min_size=3, max_size=12)


def test_ratio_is_the_geometric_mean() -> None:
    assert ratio_interval([math.log(2), math.log(8)]).ratio == pytest.approx(4)


@pytest.mark.parametrize("count", [1, 2])
def test_fewer_than_three_rounds_give_no_interval(count: int) -> None:
    estimate = ratio_interval([0.1, 0.2][:count])
    assert estimate.interval is None
    assert half_width(estimate) is None


@pytest.mark.parametrize("count", [3, 7, 40])
def test_identical_rounds_give_an_interval_without_width(count: int) -> None:
    estimate = ratio_interval([math.log(1.1)] * count)
    assert estimate.interval == (estimate.ratio, estimate.ratio)
    assert half_width(estimate) == 0


@given(LOG_RATIOS)
def test_interval_holds_its_ratio_and_is_the_same_every_time(log_ratios: list[float]) -> None:
    estimate = ratio_interval(log_ratios)
    assert estimate.interval is not None
    low, high = estimate.interval
    assert low <= estimate.ratio <= high
    assert ratio_interval(log_ratios) == estimate


@given(LOG_RATIOS, st.floats(-1, 1))
def test_a_constant_factor_moves_the_interval_and_keeps_its_half_width(log_ratios: list[float], shift: float) -> None:
    before, after = ratio_interval(log_ratios), ratio_interval([value + shift for value in log_ratios])
    assert after.ratio == pytest.approx(before.ratio * math.exp(shift))
    assert half_width(after) == pytest.approx(half_width(before), rel=1e-6, abs=1e-9)


def test_half_width_is_the_longer_arm_as_a_share_of_the_ratio() -> None:
    assert half_width(RatioEstimate(ratio=2.0, interval=(1.9, 2.2))) == pytest.approx(0.1)


@pytest.mark.parametrize(("count", "at_least"), [(3, 0.93), (5, 0.92), (10, 0.92)])
def test_interval_covers_the_true_ratio_of_normal_noise(count: int, at_least: float) -> None:
    noise = np.random.default_rng(7).normal(scale=0.02, size=(1500, count))
    covered = 0
    for log_ratios in noise:
        interval = ratio_interval(log_ratios.tolist()).interval
        assert interval is not None
        covered += interval[0] <= 1 <= interval[1]
    assert at_least <= covered / len(noise) <= 0.98


def test_a_skewed_round_stretches_the_interval_to_its_own_side() -> None:
    estimate = ratio_interval([0.0] * 19 + [0.5])
    assert estimate.interval is not None
    low, high = (math.log(end / estimate.ratio) for end in estimate.interval)
    assert high > -low


def test_no_ratios_and_another_confidence_are_refused() -> None:
    with pytest.raises(ValueError, match="no paired ratios"):
        ratio_interval([])
    with pytest.raises(ValueError, match=r"only 0\.95"):
        ratio_interval([0.1, 0.2, 0.3], confidence=0.9)


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (31, 2.040), (40, 2.021), (100, 1.984)]
)
def test_student_quantiles_are_those_of_the_tables_to_three_decimals(degrees: int, quantile: float) -> None:
    assert round(t_quantile_975(degrees), 3) == quantile
