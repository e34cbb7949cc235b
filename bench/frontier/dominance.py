"""Pareto dominance of points (time, peak), both the lower the better.

`a` dominates `b` when it is no worse in either and better in one:

    a dominates b |  peak: a < b |  a = b |  a > b
    --------------+--------------+--------+--------
    time:  a < b  |     yes      |  yes   |   no
           a = b  |     yes      |   no   |   no
           a > b  |      no      |   no   |   no

Two points equal in both do not dominate each other, so both are kept. An infinity compares as any other number.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Point = tuple[float, float]
"""(time, peak), in any units."""


def dominates(first: Point, second: Point) -> bool:
    return first[0] <= second[0] and first[1] <= second[1] and first != second


def nondominated(points: Sequence[Point]) -> tuple[bool, ...]:
    """For each point, whether no other dominates it; O(n log n).

    Raises:
        ValueError: a coordinate is NaN, which neither beats nor loses.
    """
    times = np.array([time for time, _ in points], dtype=np.float64)
    peaks = np.array([peak for _, peak in points], dtype=np.float64)
    return tuple(nondominated_rows(times[np.newaxis, :], peaks)[0].tolist())


def nondominated_rows(times: npt.NDArray[np.float64], peaks: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """`nondominated` for many draws of the times (draws × points) at equal peaks (points); returns draws × points."""
    if np.isnan(times).any() or np.isnan(peaks).any():
        raise ValueError("a point with NaN has no place in an order; leave unmeasured placements out")
    if len(peaks) == 0:
        return np.zeros(times.shape, dtype=np.bool_)
    order = np.argsort(peaks, kind="stable")
    ordered_times, ordered_peaks = times[:, order], peaks[order]
    fastest_so_far = np.minimum.accumulate(ordered_times, axis=1)
    num_lower = np.searchsorted(ordered_peaks, ordered_peaks, side="left")
    num_not_higher = np.searchsorted(ordered_peaks, ordered_peaks, side="right")
    # At a peak that is no higher, only a faster point dominates; at a lower peak, an equally fast one does as well.
    dominated = ordered_times > fastest_so_far[:, num_not_higher - 1]
    dominated |= (num_lower > 0) & (ordered_times >= fastest_so_far[:, num_lower - 1])
    kept = np.empty_like(dominated)
    kept[:, order] = ~dominated
    return kept
