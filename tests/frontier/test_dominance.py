"""Pareto dominance of (time, peak), against its truth table and against brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from bench.frontier import dominates, nondominated
from bench.frontier.dominance import Point, nondominated_rows

# Few values, so that ties and duplicates are common.
COORDINATES = st.sampled_from([0.0, 1.0, 2.0, 3.0, math.inf, -math.inf]) | st.floats(allow_nan=False)
POINTS = st.lists(st.tuples(COORDINATES, COORDINATES), max_size=12)


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        #  time  peak
        ((1, 1), (2, 2), True),
        ((1, 2), (2, 2), True),
        ((1, 3), (2, 2), False),
        ((2, 1), (2, 2), True),
        ((2, 2), (2, 2), False),
        ((2, 3), (2, 2), False),
        ((3, 1), (2, 2), False),
        ((3, 2), (2, 2), False),
        ((3, 3), (2, 2), False),
        ((1, math.inf), (2, math.inf), True),
        ((math.inf, math.inf), (math.inf, math.inf), False),
    ],
)
def test_dominance_is_its_truth_table(first: Point, second: Point, expected: bool) -> None:
    assert dominates(first, second) is expected


def test_of_no_points_none_is_kept() -> None:
    assert nondominated([]) == ()


def test_two_equal_points_are_both_kept() -> None:
    assert nondominated([(1, 1), (2, 2), (1, 1)]) == (True, False, True)


def test_of_equally_fast_points_the_lower_is_kept() -> None:
    assert nondominated([(1, 2), (1, 1)]) == (False, True)


def test_an_infinite_point_is_kept_only_where_nothing_beats_it() -> None:
    assert nondominated([(math.inf, 1)]) == (True,)
    assert nondominated([(math.inf, 1), (2, 2)]) == (True, True)
    assert nondominated([(math.inf, 1), (2, 1)]) == (False, True)


def test_nan_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        nondominated([(math.nan, 1)])


@given(POINTS)
def test_nondominated_is_what_brute_force_finds(points: list[Point]) -> None:
    assert nondominated(points) == tuple(not any(dominates(other, point) for other in points) for point in points)


@given(st.integers(0, 6), st.integers(1, 4), st.randoms(use_true_random=False))
def test_each_row_is_judged_by_itself(num_points: int, num_rows: int, random: object) -> None:
    generator = np.random.default_rng(random.randrange(2**32))  # type: ignore[attr-defined]
    times = generator.integers(0, 4, (num_rows, num_points)).astype(float)
    peaks = generator.integers(0, 4, num_points).astype(float)
    rows = [list(nondominated(list(zip(row, peaks, strict=True)))) for row in times]
    assert nondominated_rows(times, peaks).tolist() == rows
