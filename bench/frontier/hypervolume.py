"""How much a frontier is worth in one number: the area that it dominates up to a fixed reference point."""

from __future__ import annotations

from collections.abc import Iterable

from bench.frontier.dominance import Point

TIME_RATIO_BOUND = 2.0
"""Twice the reference's step time: replaying all of the forward once costs about 1.33, twice about 1.67."""
PEAK_RATIO_BOUND = 1.1
"""Just above the reference's peak, so that the reference itself still counts."""


def dominated_area(points: Iterable[Point], bound: Point = (TIME_RATIO_BOUND, PEAK_RATIO_BOUND)) -> float:
    """Exact hypervolume in two dimensions, both the lower the better; a point at or beyond `bound` contributes nothing.

    The points need not be nondominated. Source: Fonseca, Paquete and López-Ibáñez 2006, "An Improved Dimension-Sweep
    Algorithm for the Hypervolume Indicator"; in two dimensions one sweep along the sorted times.
    """
    area = 0.0
    lowest_peak = bound[1]
    for time, peak in sorted(points):
        if time < bound[0] and peak < lowest_peak:
            area += (bound[0] - time) * (lowest_peak - peak)
            lowest_peak = peak
    return area
