"""A time ratio and its intervals from paired rounds.

The centre is Hodges and Lehmann's, on logarithms. The interval is the signed-rank test's, which supposes nothing of the
noise but the shuffle (`signed_rank.py`). Seven rounds are the fewest with which it can tell anything at 97 %; for three
to six rounds it is Student's t, which supposes normal noise and in simulation kept its level on all of the
noises of the self-test. With two executions or more, an interval is never narrower than the hierarchical bootstrap's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.stats.hierarchy import Groups, Spread, hierarchical_spread, spread
from bench.stats.signed_rank import hodges_lehmann, signed_rank_interval, walsh_averages
from bench.stats.student import t_interval

MIN_PAIRS = 3
"""Fewer paired rounds than this give no interval."""
MIN_RANK_PAIRS = 7
"""From this many rounds on the intervals suppose nothing of the noise."""
CONFIDENCE = 0.95
"""Of the interval that is printed and that decides when a study is tight."""
VERDICT_CONFIDENCE = 0.97
"""Of the interval that a verdict rests on. It is wider, since rounds end when the interval is tight, which makes it a
little too narrow at that moment: at 95 % equal placements were called different in up to 8 % of simulated studies."""


@dataclass(frozen=True, kw_only=True)
class RatioEstimate:
    ratio: float
    pairs: int
    """Rounds it rests on."""
    interval: tuple[float, float] | None
    """At 95 %; None with fewer than MIN_PAIRS rounds."""
    verdict_interval: tuple[float, float] | None
    """At 97 %."""
    spread: Spread


def estimate_ratio(log_ratios: Sequence[Sequence[float]]) -> RatioEstimate:
    """The ratio behind natural logarithms of paired ratios, one sequence an execution; equal input gives equal output.

    Raises:
        ValueError: there are no ratios.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in log_ratios if len(group)]
    if not groups:
        raise ValueError("no paired ratios: there is no centre and no interval")
    values = np.concatenate(groups)
    averages = walsh_averages(values)
    centre = hodges_lehmann(averages) if np.ptp(values) else float(values[0])
    return RatioEstimate(
        ratio=math.exp(centre),
        pairs=len(values),
        interval=_interval(groups, averages, centre, CONFIDENCE),
        verdict_interval=_interval(groups, averages, centre, VERDICT_CONFIDENCE),
        spread=spread(groups),
    )


def half_width(estimate: RatioEstimate) -> float | None:
    """The longer arm of the interval as a share of the ratio (0.02 is ± 2 %); None without an interval."""
    if estimate.interval is None:
        return None
    low, high = estimate.interval
    return max(high - estimate.ratio, estimate.ratio - low) / estimate.ratio


def _interval(
    groups: Groups, averages: npt.NDArray[np.float64], centre: float, confidence: float
) -> tuple[float, float] | None:
    values = np.concatenate(list(groups))
    if len(values) < MIN_PAIRS:
        return None
    if np.ptp(values) == 0:
        return math.exp(centre), math.exp(centre)
    ranked = signed_rank_interval(averages, len(values), confidence) if len(values) >= MIN_RANK_PAIRS else None
    low, high = ranked if ranked is not None else t_interval(values, confidence)
    if len(groups) > 1:
        below, above = hierarchical_spread(groups, confidence)
        low, high = min(low, centre + below), max(high, centre + above)
    return math.exp(min(low, centre)), math.exp(max(high, centre))
