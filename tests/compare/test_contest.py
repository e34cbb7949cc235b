"""The interval of a ratio between two studies that share no rounds."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.compare.contest import contest, difference, joint_target
from bench.compare.estimates import Estimate, series_estimate
from bench.stats import estimate_ratio


def estimate(ratio: float, below: float, above: float) -> Estimate:
    centre = math.log(ratio)
    return Estimate(
        log_time=centre, interval=(centre - below, centre + above), sure_interval=(centre - below, centre + above),
        rounds=10,
    )  # fmt: skip


def test_arms_add_as_squares_and_keep_their_sides() -> None:
    a, b = estimate(1.0, 0.03, 0.04), estimate(1.2, 0.05, 0.12)
    low, high = difference(a.interval, b.interval, a, b) or (0.0, 0.0)
    # Below: the candidate's lower arm and the baseline's upper one.
    assert math.log(low) == pytest.approx(math.log(1.2) - math.hypot(0.05, 0.04))
    assert math.log(high) == pytest.approx(math.log(1.2) + math.hypot(0.12, 0.03))


def test_against_a_number_without_error_the_interval_is_the_candidates_own() -> None:
    exact, b = estimate(1.0, 0.0, 0.0), estimate(1.2, 0.05, 0.12)
    low, high = difference(exact.interval, b.interval, exact, b) or (0.0, 0.0)
    assert (math.log(low), math.log(high)) == pytest.approx((math.log(1.2) - 0.05, math.log(1.2) + 0.12))


def test_exchanging_the_two_inverts_the_interval() -> None:
    a, b = estimate(1.1, 0.03, 0.04), estimate(1.2, 0.05, 0.12)
    there = difference(a.interval, b.interval, a, b) or (0.0, 0.0)
    back = difference(b.interval, a.interval, b, a) or (0.0, 0.0)
    assert (1 / back[1], 1 / back[0]) == pytest.approx(there)


def test_a_side_without_an_interval_leaves_the_contest_unclear() -> None:
    b = Estimate(log_time=0.1, interval=None, sure_interval=None, rounds=2)
    found = contest(("x", estimate(1.0, 0.01, 0.01)), ("y", b), 0.02)
    assert (found.verdict, found.interval) == ("unclear", None)
    assert found.ratio == pytest.approx(math.exp(0.1))


def test_a_reason_not_to_compare_leaves_it_unclear() -> None:
    entries = ("x", estimate(1.0, 0.001, 0.001)), ("y", estimate(1.5, 0.001, 0.001))
    assert contest(*entries, 0.02).verdict == "slower"
    told = contest(*entries, 0.02, unsteady="the machine drifted")
    assert (told.verdict, told.reason) == ("unclear", "the machine drifted")


def test_same_between_studies_is_a_wider_word_than_within_one() -> None:
    assert joint_target(0.02, 0.02) == pytest.approx(0.02 * math.sqrt(2))
    a, b = estimate(1.0, 0.02, 0.02), estimate(1.0, 0.02, 0.02)
    assert contest(("x", a), ("y", b), joint_target(0.02, 0.02)).verdict == "same"


def test_intervals_of_two_simulated_studies_cover_as_often_as_they_say() -> None:
    """2,000 pairs of studies of 9 and 14 rounds, noise 3 %, drawn with seed 1: ratios of two independent placements."""
    generator = np.random.default_rng(1)
    misses = {"interval": 0, "sure_interval": 0}
    for _ in range(2000):
        a, b = (estimate_of(generator.normal(0, 0.03, size)) for size in (9, 14))
        for name in misses:
            low, high = difference(getattr(a, name), getattr(b, name), a, b) or (0.0, 0.0)
            misses[name] += not low <= 1 <= high
    assert misses["interval"] / 2000 < 0.05
    assert misses["sure_interval"] / 2000 < 0.03
    assert misses["interval"] / 2000 > 0.02  # nor so wide that they say nothing


def estimate_of(logs: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Estimate:
    found = estimate_ratio([logs.tolist()])
    assert found.interval is not None
    assert found.verdict_interval is not None
    return Estimate(
        log_time=math.log(found.ratio),
        interval=(math.log(found.interval[0]), math.log(found.interval[1])),
        sure_interval=(math.log(found.verdict_interval[0]), math.log(found.verdict_interval[1])),
        rounds=found.pairs,
    )


def test_a_series_that_resembles_itself_has_longer_arms() -> None:
    generator = np.random.default_rng(2)
    noise = generator.normal(0, 0.02, 40)
    walking = [float(noise[0])]
    for step in noise[1:]:
        walking.append(0.8 * walking[-1] + float(step))
    independent, correlated = (estimate_ratio([list(map(float, s))]) for s in (noise, walking))
    for series, plain, least in ((noise, independent, 1.0), (walking, correlated, 1.5)):
        assert plain.interval is not None
        found = series_estimate([list(map(float, series))])
        assert found.interval is not None
        wider = (found.interval[1] - found.interval[0]) / math.log(plain.interval[1] / plain.interval[0])
        assert wider >= least - 1e-9


def test_constant_times_have_an_interval_without_width() -> None:
    found = series_estimate([[4.0, 4.0, 4.0, 4.0]])
    assert found.interval == pytest.approx((4.0, 4.0))
