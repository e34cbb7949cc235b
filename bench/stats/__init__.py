"""Paired time ratios, their intervals, verdicts and when to stop: numpy alone, since a worker decides by them too."""

from bench.stats.estimate import (
    CONFIDENCE as CONFIDENCE,
    MIN_PAIRS as MIN_PAIRS,
    RatioEstimate as RatioEstimate,
    estimate_ratio as estimate_ratio,
    half_width as half_width,
)
from bench.stats.hierarchy import Spread as Spread
from bench.stats.pairs import (
    PairedRatio as PairedRatio,
    estimate_paired as estimate_paired,
    paired_ratios as paired_ratios,
    sample_time_ms as sample_time_ms,
)
from bench.stats.rounds import End as End, Rounds as Rounds
from bench.stats.stopping import StoppingRule as StoppingRule, stop_reason as stop_reason
from bench.stats.verdict import Verdict as Verdict, judge as judge
