"""The Hodges–Lehmann centre of paired differences and the interval of Wilcoxon's signed-rank test around it.

Hodges and Lehmann 1963, "Estimates of Location Based on Rank Tests"; the interval is that of Tukey (Hollander, Wolfe
and Chicken 2014, "Nonparametric Statistical Methods", 3.3). Why this one: in each round the shuffle decides at random
which of two placements meets which moment of the machine. So under equal placements the *sign* of a log ratio is a fair
coin whatever the noise is (drift, bursts, two modes, heavy tails), and that is all that the test supposes. On normal
noise it needs 1/0.955 of the rounds that the t-test needs, never more than 1/0.864 of them, and on heavy tails far
fewer.
"""

from __future__ import annotations

import functools
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

NUM_EXACT = 200
"""Up to this many differences the null distribution is counted out; it is quadratic in their number."""
ROUNDING = 1e-12
"""A level that is met exactly is met, whatever the last digit of 1 - 0.95 is."""


def walsh_averages(differences: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The means of all pairs of differences, each with itself included, sorted; their median is the centre."""
    first, second = _pairs(len(differences))
    averages: npt.NDArray[np.float64] = np.sort((differences[first] + differences[second]) / 2)
    return averages


def hodges_lehmann(averages: npt.NDArray[np.float64]) -> float:
    middle = len(averages) // 2
    return float(averages[middle] if len(averages) % 2 else (averages[middle - 1] + averages[middle]) / 2)


def signed_rank_interval(
    averages: npt.NDArray[np.float64], count: int, confidence: float
) -> tuple[float, float] | None:
    """The centres that the two-sided test at 1 - `confidence` does not reject; None where so few differences cannot
    reject anything (five or fewer at 95 %).

    Args:
        averages: the sorted Walsh averages of `count` differences.
    """
    skipped = _skipped(count, confidence) if count <= NUM_EXACT else _skipped_of_many(count, confidence)
    return None if skipped is None else (float(averages[skipped]), float(averages[-1 - skipped]))


@functools.lru_cache(maxsize=64)
def _pairs(count: int) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    first, second = np.triu_indices(count)
    return first, second


@functools.lru_cache(maxsize=1024)
def _skipped(count: int, confidence: float) -> int | None:
    """How many averages at either end lie outside: the largest k with P(T ≤ k) ≤ level / 2; None where there is
    none."""
    ways = np.zeros(count * (count + 1) // 2 + 1)
    ways[0] = 1.0
    for rank in range(1, count + 1):
        ways[rank:] += ways[:-rank].copy()
    below = np.cumsum(ways) / 2.0**count
    num_rejecting = int(np.searchsorted(below, (1 - confidence) / 2 + ROUNDING, side="right"))
    return num_rejecting - 1 if num_rejecting else None


def _skipped_of_many(count: int, confidence: float) -> int:
    """The same by the normal approximation of the null distribution."""
    mean, variance = count * (count + 1) / 4, count * (count + 1) * (2 * count + 1) / 24
    return max(0, int(mean - NormalDist().inv_cdf((1 + confidence) / 2) * variance**0.5))
