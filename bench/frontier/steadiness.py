"""Whether a series of measurements is steady: by changepoints where it is long, by two windows where it is short.

The classes, and the rule that a change in the last quarter means that a steady state was never shown, follow Barrett et
al. 2017, "Virtual Machine Warmup Blows Hot and Cold" (OOPSLA), with changepoints by PELT (Killick et al. 2012, through
`ruptures`). Short series are too few for that: their early and late windows are compared as Geweke 1992 does for Markov
chains, by ranks (Mann and Whitney 1947) since no variance can be estimated from five values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FLAT, WARMING, SLOWING, UNSTEADY, UNKNOWN = "flat", "warming", "slowing", "unsteady", "unknown"
CLASSES = (FLAT, WARMING, SLOWING, UNSTEADY, UNKNOWN)
MIN_WINDOW_VALUES = 10
"""Fewer values than this show nothing: two windows of four cannot differ at 1 %."""
MIN_CHANGEPOINT_VALUES = 20
MIN_SEGMENT = 5
PENALTY_FACTOR = 3.0
"""A changepoint must lower the sum of squares of the scores by this times the logarithm of the length."""
LEVEL = 0.01
STEADY_TAIL = 0.25
"""Share of the series at its end that must lie behind the last changepoint."""


@dataclass(frozen=True, kw_only=True)
class Steadiness:
    word: str
    """One of CLASSES."""
    change: float
    """Largest distance between two levels of the series, as a difference of logs; 0 where it has one level."""
    last_change: int | None = None
    """Index of the first value of the last level, where there are several."""
    length: int = 0
    """Values of the series."""


def classify(logs: Sequence[float], tolerance: float) -> Steadiness:
    """The class of a series of log times or log ratios in the order of time.

    Args:
        tolerance: levels that differ by less than this are one level.
    """
    values = np.asarray(logs, dtype=np.float64)
    if len(values) < MIN_WINDOW_VALUES:
        return Steadiness(word=UNKNOWN, change=0.0)
    if np.ptp(values) <= tolerance:
        return Steadiness(word=FLAT, change=0.0)
    if len(values) < MIN_CHANGEPOINT_VALUES:
        return _by_windows(values, tolerance)
    return _by_changepoints(values, tolerance)


def _by_windows(values: npt.NDArray[np.float64], tolerance: float) -> Steadiness:
    from scipy.stats import mannwhitneyu

    half = len(values) // 2
    early, late = values[:half], values[-half:]
    change = float(np.median(late) - np.median(early))
    if abs(change) <= tolerance or mannwhitneyu(early, late, method="exact").pvalue >= LEVEL:
        return Steadiness(word=FLAT, change=0.0)
    word = SLOWING if change > 0 else WARMING
    return Steadiness(word=word, change=abs(change), last_change=len(values) - half, length=len(values))


def _by_changepoints(values: npt.NDArray[np.float64], tolerance: float) -> Steadiness:
    bounds = _changepoints(values)
    levels = [float(np.median(values[start:end])) for start, end in zip([0, *bounds[:-1]], bounds, strict=True)]
    change = max(levels) - min(levels)
    if change <= tolerance:
        return Steadiness(word=FLAT, change=0.0)
    last_change = _last_change(levels, bounds, tolerance)
    if last_change == 0:  # levels wander, and none is farther from the last than the tolerance
        return Steadiness(word=FLAT, change=0.0)
    if len(values) - last_change < STEADY_TAIL * len(values):
        word = UNSTEADY
    elif levels[-1] - min(levels) > tolerance:
        word = SLOWING
    else:
        word = WARMING
    return Steadiness(word=word, change=change, last_change=last_change, length=len(values))


def _changepoints(values: npt.NDArray[np.float64]) -> list[int]:
    """Ends of the segments, the last one the length of the series."""
    import ruptures

    search = ruptures.KernelCPD(kernel="linear", min_size=MIN_SEGMENT).fit(_normal_scores(values).reshape(-1, 1))
    ends: list[int] = search.predict(pen=PENALTY_FACTOR * float(np.log(len(values))))
    return ends


def _normal_scores(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Ranks as quantiles of the normal distribution (van der Waerden), of unit variance: what another process did to a
    few samples then weighs no more than that they were the slowest."""
    from scipy.stats import norm, rankdata

    scores: npt.NDArray[np.float64] = norm.ppf(rankdata(values) / (len(values) + 1))
    return scores / scores.std()


def _last_change(levels: list[float], bounds: list[int], tolerance: float) -> int:
    """Start of the run of segments at the end that are at the level of the last one."""
    index = len(levels) - 1
    while index and abs(levels[index - 1] - levels[-1]) <= tolerance:
        index -= 1
    return bounds[index - 1] if index else 0
