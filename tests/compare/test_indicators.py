"""Epsilon by hand and, with the hypervolume and dominance, against moocore on thousands of random fronts."""

from __future__ import annotations

import math

import moocore
import numpy as np
import pytest

from bench.compare import epsilon_multiplicative
from bench.frontier import dominated_area, nondominated
from bench.frontier.dominance import Point

NUM_FRONTS = 3000
BOUND = (2.0, 1.1)


def fronts() -> list[list[Point]]:
    """One to thirty points each, every third front on a coarse grid so that ties and duplicates are common."""
    generator = np.random.default_rng(8)
    found = []
    for index in range(NUM_FRONTS):
        points = generator.uniform(0.05, 2.5, (generator.integers(1, 31), 2))
        if index % 3 == 0:
            points = np.ceil(points * 4) / 4
        found.append([(float(time), float(peak)) for time, peak in points])
    return found


def test_hypervolumes_of_thousands_of_fronts_are_those_of_moocore() -> None:
    for points in fronts():
        inside = [point for point in points if point[0] < BOUND[0] and point[1] < BOUND[1]]
        expected = moocore.hypervolume(np.array(inside), ref=list(BOUND)) if inside else 0.0
        assert dominated_area(points, BOUND) == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_multiplicative_epsilons_of_thousands_of_pairs_are_those_of_moocore_both_ways() -> None:
    drawn = fronts()
    for first, second in zip(drawn, drawn[1:] + drawn[:1], strict=True):
        for points, reference in ((first, second), (second, first)):
            expected = moocore.epsilon_mult(np.array(points), ref=np.array(reference))
            assert epsilon_multiplicative(points, reference) == pytest.approx(float(expected), rel=1e-12)


def test_what_is_kept_of_thousands_of_fronts_is_what_moocore_keeps() -> None:
    for points in fronts():
        assert list(nondominated(points)) == moocore.is_nondominated(np.array(points), keep_weakly=True).tolist()


@pytest.mark.parametrize(
    ("points", "reference", "factor"),
    [
        # equal; better in all; worse in all; each better in one; a dominated point changes nothing; a duplicate
        ([(1, 1)], [(1, 1)], 1.0),
        ([(1, 1)], [(2, 4)], 0.5),
        ([(2, 4)], [(1, 1)], 4.0),
        ([(1, 3)], [(2, 2)], 1.5),
        ([(1, 1), (5, 5)], [(1, 1)], 1.0),
        ([(1, 2), (1, 2)], [(1, 2)], 1.0),
        # a tie in one coordinate
        ([(1, 2)], [(1, 1)], 2.0),
        # an end of the reference that only one point comes near
        ([(1, 4), (4, 1)], [(1, 4), (2, 2), (4, 1)], 2.0),
    ],
)
def test_epsilon_is_the_factor_that_a_set_lacks(points: list[Point], reference: list[Point], factor: float) -> None:
    assert epsilon_multiplicative(points, reference) == factor


def test_an_infinity_is_covered_by_anything_finite_and_at_one_by_another() -> None:
    assert epsilon_multiplicative([(1, 2)], [(1, math.inf)]) == 1.0
    assert epsilon_multiplicative([(1, math.inf)], [(1, math.inf)]) == 1.0
    assert epsilon_multiplicative([(1, math.inf)], [(1, 2)]) == math.inf


def test_an_empty_set_has_no_epsilon() -> None:
    assert epsilon_multiplicative([], [(1, 1)]) is None
    assert epsilon_multiplicative([(1, 1)], []) is None
    assert epsilon_multiplicative([], []) is None


@pytest.mark.parametrize("point", [(0.0, 1.0), (1.0, -1.0), (math.nan, 1.0)])
def test_a_coordinate_that_no_factor_can_reach_is_refused(point: Point) -> None:
    with pytest.raises(ValueError, match="above 0"):
        epsilon_multiplicative([point], [(1, 1)])
    with pytest.raises(ValueError, match="above 0"):
        epsilon_multiplicative([(1, 1)], [point])
