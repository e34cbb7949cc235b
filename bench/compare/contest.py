"""Two placements of two studies against each other. Two studies share no rounds, so their times cannot be paired.

The interval of the ratio is MOVER's, the "method of variance estimates recovery" (Zou and Donner 2008, "Construction of
confidence limits about effect measures: a general approach", Statistics in Medicine 27; Newcombe 1998 for proportions):
with estimates a and b of independent quantities and their intervals, that of b - a reaches

    below   sqrt((b - b_low)² + (a_high - a)²)        above   sqrt((b_high - b)² + (a - a_low)²)

here on logarithms. It needs nothing but the intervals that the two studies state, keeps their asymmetry, and is exact
where both are normal.
"""

from __future__ import annotations

import math

from bench.compare.estimates import Estimate, Span
from bench.compare.types import NEITHER, ONLY_BASELINE, ONLY_CANDIDATE, Contest
from bench.frontier.types import Interval
from bench.stats import RatioEstimate, Spread, judge
from bench.stats.verdict import SAME, UNCLEAR

Entry = tuple[str, Estimate]
"""Placement and its estimate."""


def contest(baseline: Entry | None, candidate: Entry | None, target_half_width: float, unsteady: str = "") -> Contest:
    """The candidate's placement against the baseline's, by the procedure of docs/measurement.md.

    Args:
        baseline: the fastest of the baseline that fits; None where none does.
        candidate: the same of the candidate.
        target_half_width: what a difference of the two studies can be told to; see `joint_target`.
        unsteady: why times of the two studies are not to be compared at all; then nothing is decided.
    """
    if baseline is None or candidate is None:
        return _unmatched(baseline, candidate)
    (first, a), (second, b) = baseline, candidate
    interval, sure = (difference(getattr(a, f), getattr(b, f), a, b) for f in ("interval", "sure_interval"))
    ratio = math.exp(b.log_time - a.log_time)
    result = RatioEstimate(
        ratio=ratio,
        pairs=min(a.rounds, b.rounds),
        interval=interval,
        verdict_interval=sure,
        spread=Spread(within=None, between=None),
    )
    if interval is None or sure is None:
        word, reason = UNCLEAR, "one of the two has no interval: too few rounds, or only its published frontier"
    elif a.is_reference and b.is_reference:
        word, reason = SAME, "each is its study's reference"
    else:
        verdict = judge(result, target_half_width, unsteady or a.unsteady or b.unsteady)
        word, reason = verdict.word, verdict.reason
    return Contest(
        baseline=first,
        candidate=second,
        baseline_time=math.exp(a.log_time),
        candidate_time=math.exp(b.log_time),
        ratio=ratio,
        interval=_interval(interval),
        sure_interval=_interval(sure),
        verdict=word,
        reason=reason,
    )


def difference(baseline: Span | None, candidate: Span | None, a: Estimate, b: Estimate) -> Span | None:
    """The interval of the ratio exp(b - a), from those of a and b on logarithms; None where either has none."""
    if baseline is None or candidate is None:
        return None
    centre = b.log_time - a.log_time
    below = math.hypot(b.log_time - candidate[0], baseline[1] - a.log_time)
    above = math.hypot(candidate[1] - b.log_time, a.log_time - baseline[0])
    return math.exp(centre - below), math.exp(centre + above)


def joint_target(first: float, second: float) -> float:
    """The half-width of a difference of two independent ones: "same" between studies is a wider word than within
    one."""
    return math.hypot(first, second)


def _unmatched(baseline: Entry | None, candidate: Entry | None) -> Contest:
    word = NEITHER if baseline is None and candidate is None else ONLY_CANDIDATE if baseline is None else ONLY_BASELINE
    return Contest(
        baseline=baseline[0] if baseline else None,
        candidate=candidate[0] if candidate else None,
        baseline_time=math.exp(baseline[1].log_time) if baseline else None,
        candidate_time=math.exp(candidate[1].log_time) if candidate else None,
        verdict=word,
    )


def _interval(span: Span | None) -> Interval | None:
    return None if span is None else Interval(low=span[0], high=span[1])
