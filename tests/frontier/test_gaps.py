"""Budgets in the gaps of a measured frontier."""

from __future__ import annotations

import dataclasses

from hypothesis import given, strategies as st

from bench.frontier import GapPoint, Interval, Trial, gap_budgets, gap_points

A, B, C = (1.00, 1000), (1.10, 800), (1.40, 700)


def points(*times_and_peaks: tuple[float, int], half_width: float = 0.0) -> list[GapPoint]:
    return [GapPoint(time_ratio=time, half_width=half_width, peak_bytes=peak) for time, peak in times_and_peaks]


def test_a_gap_is_filled_halfway_between_its_ends() -> None:
    assert gap_budgets(points(A, B), resolution=0.02) == (900,)


def test_the_largest_rectangle_comes_first_whatever_the_order_of_the_points() -> None:
    # 0.3 × 100 is more than 0.1 × 200.
    assert gap_budgets(points(A, B, C), resolution=0.02) == (750, 900)
    assert gap_budgets(points(C, A, B), resolution=0.02) == (750, 900)


def test_a_difference_that_the_protocol_does_not_resolve_is_no_gap() -> None:
    assert gap_budgets(points((1.0, 1000), (1.019, 500)), resolution=0.02) == ()
    assert gap_budgets(points((1.0, 1000), (1.021, 500)), resolution=0.02) == (750,)


def test_a_difference_within_either_interval_is_no_gap() -> None:
    assert gap_budgets(points(A, B, half_width=0.11), resolution=0.02) == ()
    assert gap_budgets(points(A, B, half_width=0.09), resolution=0.02) == (900,)


def test_at_most_four_and_none_that_is_tiny_beside_the_largest() -> None:
    many = points(*((1 + 0.1 * n, 1000 - 100 * n) for n in range(8)))
    assert len(gap_budgets(many, resolution=0.02)) == 4
    assert gap_budgets(points((1.0, 2000), (1.05, 1990), (1.5, 1000)), resolution=0.02) == (1495,)


def test_one_point_or_none_leaves_no_gap() -> None:
    assert gap_budgets(points(A), resolution=0.02) == ()
    assert gap_budgets([], resolution=0.02) == ()


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=2, max_size=8))
def test_every_budget_lies_between_two_neighbours(steps: list[tuple[int, int]]) -> None:
    time, peak, front = 1.0, 10_000, []
    for slower, smaller in steps:
        time, peak = time + slower / 100, peak - 2 * smaller
        front.append((time, peak))
    peaks = [peak for _, peak in front]
    for budget in gap_budgets(points(*front), resolution=0.02):
        assert min(peaks) < budget < max(peaks)
        assert budget not in peaks


def trial(placement: str, ratio: float, peak: int, **fields: object) -> Trial:
    known = Trial(
        placement=placement,
        id=placement,
        generators=(),
        outcome="ok",
        time_ratio=ratio,
        time_ratio_interval=Interval(low=ratio - 0.02, high=ratio + 0.03),
        peak_allocated_bytes=peak,
        on_frontier=True,
    )
    return dataclasses.replace(known, **fields)  # type: ignore[arg-type]


def test_points_are_those_on_the_frontier_with_the_longer_arm_of_their_interval() -> None:
    trials = [trial("none", 1.0, 1000), trial("a", 1.1, 800), trial("b", 1.2, 900, on_frontier=False)]
    reference, a = gap_points(trials, "none")
    assert (reference.half_width, reference.peak_bytes) == (0.0, 1000)
    assert round(a.half_width, 6) == 0.03


def test_a_point_without_an_interval_bounds_no_gap_unless_it_is_the_reference() -> None:
    trials = [trial("none", 1.0, 1000, time_ratio_interval=None), trial("a", 1.1, 800, time_ratio_interval=None)]
    assert [point.peak_bytes for point in gap_points(trials, "none")] == [1000]
