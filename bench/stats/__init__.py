"""Paired time ratios and their intervals: numpy alone, since a worker on a compute node decides by them too."""

from bench.stats.interval import (
    MIN_PAIRS as MIN_PAIRS,
    RatioEstimate as RatioEstimate,
    half_width as half_width,
    ratio_interval as ratio_interval,
)
from bench.stats.pairs import (
    PairedRatio as PairedRatio,
    half_widths as half_widths,
    paired_ratios as paired_ratios,
    sample_time_ms as sample_time_ms,
)
