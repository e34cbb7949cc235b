"""What a reader must know of the forecasts beside the measured peaks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bench.frontier.types import MemoryReference, Trial
from bench.frontier.words import count
from bench.records import Forecasts

TOLERATED_SHARE = 0.01
"""A forecast that misses by more of what could move than this is told."""
NUM_REASONS = 2
"""Different reasons for missing forecasts that are spelled out."""
MIB = 2**20


def forecast_notes(forecasts: Forecasts, trials: Sequence[Trial], plain_forecast: MemoryReference | None) -> list[str]:
    return [
        *([forecasts.problem] if forecasts.problem else []),
        *_plain(plain_forecast),
        *_errors(trials),
        *_missing(forecasts, trials),
        *(f"forecast: {note}" for note in forecasts.notes),
    ]


def _plain(forecast: MemoryReference | None) -> list[str]:
    if forecast is None:
        return []
    peak = f"{forecast.peak_allocated_bytes / MIB:.1f} MiB"
    return [f"the peak of `none` is a forecast ({peak}), not measured: shares of the peak and savings rest on it"]


def _errors(trials: Sequence[Trial]) -> list[str]:
    missed = {
        trial.placement: trial.forecast_error_share
        for trial in trials
        if trial.forecast_error_share is not None and abs(trial.forecast_error_share) > TOLERATED_SHARE
    }
    if not missed:
        return []
    worst = max(missed, key=lambda placement: abs(missed[placement]))
    trial = next(trial for trial in trials if trial.placement == worst)
    assert trial.forecast_peak_bytes is not None, "an error has a forecast"
    assert trial.peak_allocated_bytes is not None, "an error has a measured peak"
    return [
        f"the forecast misses the measured peak of {count(len(missed))} by more than {100 * TOLERATED_SHARE:g} % of "
        f"what could move, most that of {worst} by {100 * missed[worst]:+.1f} % "
        f"({trial.forecast_peak_bytes / MIB:.1f} MiB forecast, {trial.peak_allocated_bytes / MIB:.1f} MiB measured): "
        "what was measured holds"
    ]


def _missing(forecasts: Forecasts, trials: Sequence[Trial]) -> list[str]:
    asked = {trial.placement for trial in trials}
    by_reason: dict[str, list[str]] = defaultdict(list)
    for placement, why in forecasts.missing.items():
        if placement in asked:
            by_reason[why].append(placement)
    told = [
        f"no forecast of {placements[0] if len(placements) == 1 else count(len(placements))}: {why}"
        for why, placements in list(by_reason.items())[:NUM_REASONS]
    ]
    hidden = sum(map(len, list(by_reason.values())[NUM_REASONS:]))
    return told + ([f"no forecast of {count(hidden)} more, for other reasons (forecast.json)"] if hidden else [])
