"""A geometric-mean ratio and its interval from few paired rounds.

The interval is the expanded percentile bootstrap (Hesterberg 2015, "What Teachers Should Know About the Bootstrap",
The American Statistician 69(4)), and at either end never narrower than Student's t interval. The second half
is needed because a resampled mean cannot leave the range of the data, and that range covers the centre of a symmetric
distribution with probability 1 - 2^(1-n) at best: 75 % at three rounds, 87.5 % at four. Coverage of a nominal 95 % on
normal noise, simulated, bootstrap alone and as here: 76 and 95 % at n = 3, 91 and 95 % at n = 5, 95 and 96 % at
n = 10. On strongly skewed noise (exponential) both stay near 90 %.

Rounds are taken as exchangeable. Where rounds of one process resemble each other more than those of another, an
interval over two or three executions is too narrow for what a further execution would show.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from bench.stats.student import t_quantile_975

MIN_PAIRS = 3
"""Fewer paired rounds than this give no interval."""
NUM_RESAMPLES = 2000
SEED = 20150


@dataclass(frozen=True, kw_only=True)
class RatioEstimate:
    ratio: float
    """Geometric mean."""
    interval: tuple[float, float] | None
    """Low and high end around `ratio`; None with fewer than MIN_PAIRS pairs."""


def ratio_interval(log_ratios: Sequence[float], confidence: float = 0.95) -> RatioEstimate:
    """Geometric mean and interval of ratios given by their natural logarithms; equal input gives equal output.

    Raises:
        ValueError: there are no ratios, or `confidence` is not 0.95, the only one that the table of quantiles serves.
    """
    if confidence != 0.95:
        raise ValueError(f"confidence: only 0.95 is supported, got {confidence}")
    values = np.asarray(log_ratios, dtype=np.float64)
    count = len(values)
    if count == 0:
        raise ValueError("no paired ratios: there is no mean and no interval")
    if np.ptp(values) == 0:
        # Apart, because the mean of equal floats may differ from them in the last digit.
        ratio = math.exp(values[0])
        return RatioEstimate(ratio=ratio, interval=(ratio, ratio) if count >= MIN_PAIRS else None)
    mean = float(values.mean())
    if count < MIN_PAIRS:
        return RatioEstimate(ratio=math.exp(mean), interval=None)
    quantile = t_quantile_975(count - 1)
    margin = quantile * float(values.std(ddof=1)) / math.sqrt(count)
    low, high = _expanded_percentiles(values, quantile)
    return RatioEstimate(
        ratio=math.exp(mean), interval=(math.exp(min(low, mean - margin)), math.exp(max(high, mean + margin)))
    )


def half_width(estimate: RatioEstimate) -> float | None:
    """The longer arm of the interval as a share of the ratio (0.02 is ± 2 %); None without an interval."""
    if estimate.interval is None:
        return None
    low, high = estimate.interval
    return max(high - estimate.ratio, estimate.ratio - low) / estimate.ratio


def _expanded_percentiles(values: npt.NDArray[np.float64], t_quantile: float) -> tuple[float, float]:
    count = len(values)
    tail = NormalDist().cdf(-math.sqrt(count / (count - 1)) * t_quantile)
    means = np.sort(values[_resamples(count)].mean(axis=1))
    # Fewer than one resample may lie in the tail; then the outermost one is the end.
    skipped = int(tail * NUM_RESAMPLES)
    return float(means[skipped]), float(means[-1 - skipped])


@functools.lru_cache(maxsize=128)
def _resamples(count: int) -> npt.NDArray[np.intp]:
    """Indices into `count` values, one row a resample; placements share them, so drawing costs nothing."""
    return np.random.default_rng(SEED).integers(0, count, size=(NUM_RESAMPLES, count))
