"""How far one set of points covers another (Zitzler et al. 2003, "Performance Assessment of Multiobjective Optimizers:
An Analysis and Review")."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from bench.frontier import Point


def epsilon_multiplicative(points: Sequence[Point], reference: Sequence[Point]) -> float | None:
    """The least factor ε such that `points`, every coordinate divided by ε, weakly dominate all of `reference`.

        ε = max over r in reference of min over p in points of max(p.time / r.time, p.peak / r.peak)

    1 where they just cover it, below 1 where they are better everywhere. An infinite coordinate is covered by any
    finite one, and by an infinite one at factor 1. Points need not be nondominated.

    Returns:
        None where either set is empty: nothing covers, or nothing is to be covered.

    Raises:
        ValueError: a coordinate is NaN, or not above 0, where factors mean nothing.
    """
    if any(not value > 0 for point in (*points, *reference) for value in point):
        raise ValueError("multiplicative epsilon needs coordinates above 0")
    if not points or not reference:
        return None
    covering, covered = np.array(points, dtype=np.float64), np.array(reference, dtype=np.float64)
    return max(_least_factor(covering, row) for row in covered)


def _least_factor(points: np.ndarray[tuple[int, ...], np.dtype[np.float64]], target: Sequence[float]) -> float:
    columns = [_factors(points[:, axis], float(value)) for axis, value in enumerate(target)]
    return float(np.max(columns, axis=0).min())


def _factors(
    values: np.ndarray[tuple[int, ...], np.dtype[np.float64]], target: float
) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    if math.isinf(target):
        return np.where(np.isinf(values), 1.0, 0.0)
    return values / target
