"""Faster, slower, same or unclear: the decision procedure of docs/measurement.md, and nothing else decides."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bench.stats.estimate import MIN_PAIRS, RatioEstimate

FASTER, SLOWER, SAME, UNCLEAR = "faster", "slower", "same", "unclear"
VERDICTS = (FASTER, SLOWER, SAME, UNCLEAR)
SAME_MARGIN_PER_TARGET = 2.0
"""The margin of "same" over the half-width a study aims at. A study that ends at ± t tells differences of 2 t apart
from none in 97 % of cases on normal noise, and finds equal placements within ± 2 t as often: so that is what it
resolves."""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    word: str
    """One of VERDICTS."""
    reason: str


def judge(estimate: RatioEstimate | None, target_half_width: float, unsteady: str = "") -> Verdict:
    """The verdict on a placement's time against what its ratio is relative to.

    Args:
        estimate: None where nothing was paired.
        target_half_width: the study's aim, as a share; "same" means within SAME_MARGIN_PER_TARGET of it.
        unsteady: why the ratio is not one number, where it is not; then nothing is decided.
    """
    if estimate is None or estimate.interval is None or estimate.verdict_interval is None:  # 1
        pairs = estimate.pairs if estimate is not None else 0
        return Verdict(word=UNCLEAR, reason=f"{pairs} paired rounds; {MIN_PAIRS} are the fewest that give an interval")
    if unsteady:  # 2
        return Verdict(word=UNCLEAR, reason=unsteady)
    low, high = estimate.verdict_interval
    if low > 1:  # 3
        return Verdict(word=SLOWER, reason=f"by at least {_percent(low - 1, math.floor)} (97 %)")
    if high < 1:  # 4
        return Verdict(word=FASTER, reason=f"by at least {_percent(1 - high, math.floor)} (97 %)")
    low, high = estimate.interval
    margin = SAME_MARGIN_PER_TARGET * target_half_width
    furthest = max(high - 1, 1 - low)
    if furthest <= margin:  # 5
        return Verdict(word=SAME, reason=f"within ± {_percent(furthest, math.ceil)} (95 %)")
    return Verdict(word=UNCLEAR, reason=_possible(low, high))  # 6


def _possible(low: float, high: float) -> str:
    if low > 1 or high < 1:
        word = "slower" if low > 1 else "faster"
        near, far = sorted((abs(1 - low), abs(high - 1)))
        return f"{_percent(near)} to {_percent(far)} {word} at 95 %, but 97 % allows no difference too"
    return f"{_percent(1 - low)} faster to {_percent(high - 1)} slower are all possible (95 %)"


def _percent(share: float, to_whole: Callable[[float], int] = round) -> str:
    """Two digits; a bound is rounded to its safe side by `to_whole`."""
    percent = 100 * share
    digits = max(0, 1 - math.floor(math.log10(percent))) if percent > 0 else 0
    return f"{to_whole(round(percent * 10**digits, 6)) / 10**digits:g} %"
