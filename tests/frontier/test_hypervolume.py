"""The dominated area, by hand and against moocore."""

from __future__ import annotations

import moocore
import numpy as np
import pytest
from hypothesis import given, strategies as st

from bench.frontier import PEAK_RATIO_BOUND, TIME_RATIO_BOUND, dominated_area

RATIOS = st.floats(0.1, 2.5)


def test_one_point_dominates_a_rectangle() -> None:
    assert dominated_area([(1.0, 1.0)], bound=(3.0, 2.0)) == 2.0


def test_two_points_dominate_a_staircase_and_a_dominated_third_adds_nothing() -> None:
    assert dominated_area([(1.0, 1.0), (2.0, 0.5)], bound=(3.0, 2.0)) == 2.5
    assert dominated_area([(1.0, 1.0), (2.0, 0.5), (2.0, 1.5)], bound=(3.0, 2.0)) == 2.5


def test_points_at_or_beyond_the_bound_and_no_points_contribute_nothing() -> None:
    assert dominated_area([]) == 0.0
    assert dominated_area([(TIME_RATIO_BOUND, 0.5), (1.0, PEAK_RATIO_BOUND), (5.0, 5.0)]) == 0.0


@given(st.lists(st.tuples(RATIOS, RATIOS), min_size=1, max_size=15))
def test_the_area_is_what_moocore_computes(points: list[tuple[float, float]]) -> None:
    inside = [(time, peak) for time, peak in points if time < TIME_RATIO_BOUND and peak < PEAK_RATIO_BOUND]
    expected = moocore.hypervolume(np.array(inside), ref=[TIME_RATIO_BOUND, PEAK_RATIO_BOUND]) if inside else 0.0
    assert dominated_area(points) == pytest.approx(expected, abs=1e-12)
