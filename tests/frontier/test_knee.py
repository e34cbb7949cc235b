"""The knee: the point of a frontier farthest below the chord between its ends."""

from __future__ import annotations

from bench.frontier import knee_index


def test_the_knee_is_the_point_farthest_from_the_chord() -> None:
    #            chord from (1, 10) to (2, 0); distances 0, 0.1, 0.6, 0.3, 0 (times sqrt 2)
    assert knee_index([(1.0, 10.0), (1.1, 8.0), (1.2, 2.0), (1.6, 1.0), (2.0, 0.0)]) == 2


def test_units_do_not_move_the_knee() -> None:
    frontier = [(1.0, 10.0), (1.2, 2.0), (1.6, 1.0), (2.0, 0.0)]
    assert knee_index([(1000 * time, 2**20 * peak) for time, peak in frontier]) == knee_index(frontier) == 1


def test_the_order_of_the_points_does_not_matter() -> None:
    assert knee_index([(2.0, 0.0), (1.2, 2.0), (1.0, 10.0)]) == 1


def test_fewer_than_three_different_points_have_no_knee() -> None:
    assert knee_index([]) is None
    assert knee_index([(1.0, 2.0), (2.0, 1.0)]) is None
    assert knee_index([(1.0, 2.0), (2.0, 1.0), (2.0, 1.0)]) is None


def test_a_straight_frontier_and_one_that_bulges_outwards_have_no_knee() -> None:
    assert knee_index([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]) is None
    assert knee_index([(1.0, 3.0), (2.5, 2.5), (3.0, 1.0)]) is None


def test_of_two_equally_far_points_the_faster_is_the_knee() -> None:
    assert knee_index([(0.0, 4.0), (2.0, 1.0), (1.0, 2.0), (4.0, 0.0)]) == 2
