"""Each valid placement of a study on both scales, with intervals: logarithms of time ratios, and of milliseconds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from bench.compare.types import ABSOLUTE, RELATIVE, Measured
from bench.frontier import OK, Trial
from bench.frontier.steadiness import FLAT, UNKNOWN
from bench.records import TimeSample, kept_samples
from bench.stats import MIN_PAIRS, RatioEstimate, estimate_paired, estimate_ratio, paired_ratios, sample_time_ms
from bench.stats.estimate import CONFIDENCE, VERDICT_CONFIDENCE
from bench.stats.student import t_quantile

Span = tuple[float, float]
LARGEST_CORRELATION = 0.9
"""A series that resembles itself more than this has no centre to speak of; the factor stays finite."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    log_time: float
    """Of the ratio to the study's reference, or of milliseconds."""
    interval: Span | None
    """At 95 %, on logarithms; None with fewer than MIN_PAIRS rounds, or without the rounds."""
    sure_interval: Span | None
    """At 97 %, on which verdicts rest."""
    rounds: int
    unsteady: str = ""
    """Why it is not one number, where it is not."""
    is_reference: bool = False
    """Whether the time is 1 because it is relative to itself."""


Estimates = Mapping[str, Estimate]
"""Placement → estimate, of valid placements."""


def estimates(measured: Measured, scale: str) -> dict[str, Estimate]:
    """Of all valid placements of a study; empty where nothing was measured."""
    return {RELATIVE: relative_estimates, ABSOLUTE: absolute_estimates}[scale](measured)


def relative_estimates(measured: Measured) -> dict[str, Estimate]:
    """Time over the study's own reference, paired in its rounds: the study's own ratios and intervals."""
    reference = measured.frontier.reference
    if reference is None:
        return {}
    paired = paired_ratios(_samples(measured), reference) if measured.records is not None else {}
    found: dict[str, Estimate] = {}
    for trial in valid_trials(measured):
        if trial.placement == reference:
            found[reference] = Estimate(
                log_time=0.0, interval=(0.0, 0.0), sure_interval=(0.0, 0.0), rounds=trial.rounds, is_reference=True
            )
        elif measured.records is None:
            found[trial.placement] = _published(trial)
        else:
            estimate = estimate_paired(paired.get(trial.placement, ()))
            if estimate is not None:
                found[trial.placement] = _of(estimate, _unsteady(trial))
    return found


def absolute_estimates(measured: Measured) -> dict[str, Estimate]:
    """Milliseconds: the reference's step time times the paired ratio, so that both scales show one frontier. The arms
    of the interval are those of the placement's own step times."""
    relative = relative_estimates(measured)
    reference = next((t for t in valid_trials(measured) if t.placement == measured.frontier.reference), None)
    if reference is None:
        return {}
    times: dict[str, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in _samples(measured):
        times[sample.placement][sample.execution].append(math.log(sample_time_ms(sample)))
    own = {text: series_estimate(list(times[text].values())) for text in relative if text in times}
    if reference.placement in own:
        base = own[reference.placement].log_time
    elif reference.step_time_ms is not None:
        base = math.log(reference.step_time_ms)
    else:
        return {}
    return {text: _moved(own.get(text), ratio, base) for text, ratio in relative.items()}


def series_estimate(log_times: Sequence[Sequence[float]]) -> Estimate:
    """The centre of step times that are paired with nothing, one sequence an execution.

    The interval is that of a paired ratio, with arms longer by sqrt((1 + ρ) / (1 - ρ)): neighbouring rounds share the
    mood of the machine, so n rounds are worth n (1 - ρ) / (1 + ρ) independent ones, ρ being their correlation
    (Bartlett 1935, "Some Aspects of the Time-Correlation Problem", for a series of first order).
    """
    estimate = _of(estimate_ratio(log_times))
    factor = _correlation_factor(log_times)
    return Estimate(
        log_time=estimate.log_time,
        interval=_stretched(estimate.interval, estimate.log_time, factor),
        sure_interval=_stretched(estimate.sure_interval, estimate.log_time, factor),
        rounds=estimate.rounds,
    )


def valid_trials(measured: Measured) -> list[Trial]:
    return [
        trial
        for trial in measured.frontier.trials
        if trial.outcome == OK and trial.time_ratio is not None and trial.peak_allocated_bytes is not None
    ]


def _samples(measured: Measured) -> tuple[TimeSample, ...]:
    return kept_samples(measured.records) if measured.records is not None else ()


def _of(estimate: RatioEstimate, unsteady: str = "") -> Estimate:
    return Estimate(
        log_time=math.log(estimate.ratio),
        interval=_logs(estimate.interval),
        sure_interval=_logs(estimate.verdict_interval),
        rounds=estimate.pairs,
        unsteady=unsteady,
    )


def _published(trial: Trial) -> Estimate:
    """Of a frontier without its rounds: it has the interval at 95 % alone, which is widened as Student's t would be."""
    assert trial.time_ratio is not None, "only valid trials are estimated"
    centre, stated = math.log(trial.time_ratio), trial.time_ratio_interval
    interval = (math.log(stated.low), math.log(stated.high)) if stated is not None and stated.low > 0 else None
    factor = 1.0
    if trial.rounds >= MIN_PAIRS:
        factor = t_quantile(trial.rounds - 1, VERDICT_CONFIDENCE) / t_quantile(trial.rounds - 1, CONFIDENCE)
    return Estimate(
        log_time=centre,
        interval=interval,
        sure_interval=_stretched(interval, centre, factor),
        rounds=trial.rounds,
        unsteady=_unsteady(trial),
    )


def _unsteady(trial: Trial) -> str:
    if trial.steadiness in (None, FLAT, UNKNOWN):
        return ""
    return f"the time ratio of {trial.placement} was {trial.steadiness} over its rounds"


def _moved(own: Estimate | None, ratio: Estimate, base: float) -> Estimate:
    """Milliseconds at the logarithm `base` plus that of the ratio, with the arms of its own step times."""
    log_time = base + ratio.log_time
    by = 0.0 if own is None else log_time - own.log_time

    def moved(span: Span | None) -> Span | None:
        return None if span is None else (span[0] + by, span[1] + by)

    return Estimate(
        log_time=log_time,
        interval=moved(own.interval) if own is not None else None,
        sure_interval=moved(own.sure_interval) if own is not None else None,
        rounds=ratio.rounds,
        unsteady=ratio.unsteady,
    )


def _correlation_factor(series: Sequence[Sequence[float]]) -> float:
    centred = [np.asarray(values) - np.mean(values) for values in series if len(values) > 1]
    total = sum(float((values**2).sum()) for values in centred)
    if total == 0:
        return 1.0
    lagged = sum(float((values[:-1] * values[1:]).sum()) for values in centred)
    correlation = min(max(lagged / total, 0.0), LARGEST_CORRELATION)
    return math.sqrt((1 + correlation) / (1 - correlation))


def _logs(interval: Span | None) -> Span | None:
    return None if interval is None else (math.log(interval[0]), math.log(interval[1]))


def _stretched(interval: Span | None, centre: float, factor: float) -> Span | None:
    return (
        None
        if interval is None
        else (centre - factor * (centre - interval[0]), centre + factor * (interval[1] - centre))
    )
