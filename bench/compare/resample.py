"""A study's times drawn again: what else could the study have said? Peaks are exact and stay.

Each study of a comparison draws by a seed of its own, since their rounds have nothing to do with each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from bench.compare.estimates import Estimates
from bench.compare.types import RELATIVE, Measured
from bench.frontier.resample import SEED, TIE_DECIMALS, Array, Round, draw_rounds, resampled_means
from bench.records import Records, kept_rounds, kept_samples
from bench.stats import MIN_PAIRS, paired_ratios, sample_time_ms

Values = Mapping[str, Mapping[Round, float]]
"""Placement → round → logarithm of its time."""


def resampled_log_times(measured: Measured, found: Estimates, scale: str, index: int) -> Array | None:
    """Logarithms of the times of `found`, resamples × placements in its order, laid around its centres.

    Args:
        index: of the study in its comparison; another one is another sequence of draws.

    Returns:
        None where the rounds are not there, or fewer than MIN_PAIRS: two rounds drawn again say nothing.
    """
    records, reference = measured.records, measured.frontier.reference
    if records is None or reference is None or not found:
        return None
    complete = sorted({(done.execution, done.round) for done in kept_rounds(records)})
    if len(complete) < MIN_PAIRS:
        return None
    values = _ratios(records, reference) if scale == RELATIVE else _times(records)
    table = _table(complete, [values.get(text, {}) for text in found])
    overall = np.array([_mean(values.get(text, {}).values()) for text in found])
    drawn = resampled_means(draw_rounds(complete, (SEED, index)), table, overall)
    moved = np.array([found[text].log_time for text in found]) - overall
    return np.round(drawn + moved, TIE_DECIMALS)


def _ratios(records: Records, reference: str) -> Values:
    paired = paired_ratios(kept_samples(records), reference)
    return {text: {(one.execution, one.round): one.log_ratio for one in ratios} for text, ratios in paired.items()}


def _times(records: Records) -> Values:
    times: dict[str, dict[Round, float]] = {}
    for sample in kept_samples(records):
        times.setdefault(sample.placement, {})[sample.execution, sample.round] = math.log(sample_time_ms(sample))
    return times


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values) or [0.0]))


def _table(complete: Sequence[Round], values: Sequence[Mapping[Round, float]]) -> Array:
    """Rounds × placements; NaN where a placement was not in a round."""
    return np.array([[of_placement.get(key, math.nan) for of_placement in values] for key in complete])
