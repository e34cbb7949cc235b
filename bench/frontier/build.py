"""Trials to a frontier: dominance, its uncertainty, knee, hypervolume, and what a reader must know."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from pathlib import Path

from bench.frontier.confidence import frontier_confidence
from bench.frontier.dominance import Point, nondominated
from bench.frontier.hypervolume import PEAK_RATIO_BOUND, TIME_RATIO_BOUND, dominated_area
from bench.frontier.knee import knee_index
from bench.frontier.notes import frontier_notes
from bench.frontier.reference import measured_reference
from bench.frontier.series import reference_drift
from bench.frontier.trials import OK, summarize_trials
from bench.frontier.types import Frontier, Hypervolume, MemoryReference, Trial
from bench.records import PLAIN, ExecutionStarted, Records, kept_samples, study_path
from bench.spec import StudySpec, flat_controls
from bench.stats import paired_ratios

OUT_OF_MEMORY = "oom"


def build_frontier(study: StudySpec, records: Records) -> Frontier:
    """The frontier of one study; join studies of one key with `merge_records` first.

    Args:
        study: names placements and controls; its order of placements is kept.
        records: the study's records, of a finished or an unfinished one.
    """
    reference = measured_reference(study, records)
    trials = _judge(summarize_trials(study, records), records, reference)
    frontier = sorted(
        (trial for trial in trials if trial.on_frontier), key=lambda trial: _point(trial)[::-1], reverse=True
    )
    facts = study.controls.facts
    knee = knee_index([_point(trial) for trial in frontier])
    plain_forecast = _plain_forecast(trials, records, reference)
    return Frontier(
        study=study_path(Path(), study).name,
        key=study.key,
        model=study.controls.model.name,
        device=facts.device_name if facts is not None else study.controls.device.kind,
        reference=reference,
        plain_forecast=plain_forecast,
        trials=trials,
        frontier=tuple(trial.placement for trial in frontier),
        knee=frontier[knee].placement if knee is not None else None,
        hypervolume=_hypervolume(trials, reference),
        drift=reference_drift(study, records, reference),
        capacity_bytes=_capacity_bytes(study, records),
        notes=frontier_notes(study, records, trials, reference, plain_forecast),
        controls=flat_controls(study.controls),
    )


def _capacity_bytes(study: StudySpec, records: Records) -> int | None:
    """What the step may allocate at most: the study's own limit, else the memory of the device it last ran on."""
    limit = study.controls.device.memory_limit_bytes
    started: list[ExecutionStarted] = records.of(ExecutionStarted)
    capacity = started[-1].environment.get("capacity_bytes") if started else None
    return limit or (capacity if isinstance(capacity, int) else None)


def _plain_forecast(trials: Sequence[Trial], records: Records, reference: str | None) -> MemoryReference | None:
    """Savings are asked for against the plain step. Where that ran out of memory, only a forecast knows its peak."""
    forecast = records.forecasts.placements.get(PLAIN)
    ran_out = any(trial.placement == PLAIN and trial.outcome == OUT_OF_MEMORY for trial in trials)
    if reference is None or not ran_out or forecast is None:
        return None
    return MemoryReference(
        peak_allocated_bytes=forecast.peak_allocated_bytes, persistent_bytes=forecast.persistent_bytes
    )


def _judge(trials: Sequence[Trial], records: Records, reference: str | None) -> tuple[Trial, ...]:
    valid = [trial for trial in trials if trial.outcome == OK]
    kept = dict(
        zip((trial.placement for trial in valid), nondominated([_point(trial) for trial in valid]), strict=True)
    )
    confidence: dict[str, float | None] = {}
    if reference is not None:
        ratios = paired_ratios((s for s in kept_samples(records) if s.placement in kept), reference)
        confidence = frontier_confidence(
            records,
            ratios,
            centres={trial.placement: math.log(_point(trial)[0]) for trial in valid},
            peaks={trial.placement: _peak(trial) for trial in valid},
        )
    return tuple(
        dataclasses.replace(
            trial,
            on_frontier=kept.get(trial.placement, False),
            frontier_confidence=confidence.get(trial.placement),
        )
        for trial in trials
    )


def _hypervolume(trials: Sequence[Trial], reference: str | None) -> Hypervolume | None:
    if reference is None:
        return None
    reference_peak = next(_peak(trial) for trial in trials if trial.placement == reference)
    points = [(time, peak / reference_peak) for time, peak in (_point(t) for t in trials if t.on_frontier)]
    return Hypervolume(
        value=dominated_area(points), time_ratio_bound=TIME_RATIO_BOUND, peak_ratio_bound=PEAK_RATIO_BOUND
    )


def _point(trial: Trial) -> Point:
    assert trial.time_ratio is not None, "only ok trials are points"
    return trial.time_ratio, _peak(trial)


def _peak(trial: Trial) -> int:
    assert trial.peak_allocated_bytes is not None, "only ok trials have a peak"
    return trial.peak_allocated_bytes
