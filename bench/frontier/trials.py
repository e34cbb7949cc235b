"""Records to trials: all samples of each placement summed up."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from collections.abc import Sequence

from bench.frontier.reference import measured_reference
from bench.frontier.series import ratio_steadiness, steadiness_text, time_steadiness, unsteady_text
from bench.frontier.steadiness import UNSTEADY, Steadiness
from bench.frontier.types import Interval, Trial
from bench.records import (
    PLAIN,
    AuditRecord,
    Forecast,
    MemorySample,
    OutcomeRecord,
    Plan,
    Plans,
    Records,
    TimeSample,
    kept_samples,
)
from bench.records.plan import COUNTED
from bench.spec import PlacementEntry, StudySpec
from bench.stats import PairedRatio, estimate_paired, judge, paired_ratios

OK, UNSTABLE = "ok", "unstable"
PENDING = "pending"
"""Outcome of a placement that the study has not finished with. Deliberately outside `bench.spec.OUTCOMES`: it says
nothing about the placement."""


def summarize_trials(study: StudySpec, records: Records) -> tuple[Trial, ...]:
    """One trial for each placement of the study, in its order; ratios are relative to `measured_reference`.

    Only an `ok` trial carries numbers: a placement that failed in the middle has samples, but they are no result.
    `on_frontier` and `frontier_confidence` are left to `build_frontier`, which sees all trials at once.
    """
    reference = measured_reference(study, records)
    outcomes = {record.placement: record for record in records.of(OutcomeRecord)}
    weighed: dict[str, list[MemorySample]] = defaultdict(list)
    for memory in records.of(MemorySample):
        weighed[memory.placement].append(memory)
    timed: dict[str, list[TimeSample]] = defaultdict(list)
    for sample in kept_samples(records):
        timed[sample.placement].append(sample)
    # Samples of failed placements stay out, also out of the ratios: what is wrong with them may be their times.
    valid = [sample for placement, samples in timed.items() if placement not in outcomes for sample in samples]
    ratios = paired_ratios(valid, reference) if reference is not None else {}

    target = study.controls.protocol.target_half_width
    forecasts = records.forecasts.placements

    def summarize(entry: PlacementEntry) -> Trial:
        placement = entry.text
        forecast = forecasts.get(placement)
        if placement in outcomes:
            return _unscored(entry, outcomes[placement].outcome, outcomes[placement].reason, forecast)
        missing = _missing(weighed.get(placement, ()), timed.get(placement, ()), ratios.get(placement, ()))
        if missing:
            return _unscored(entry, PENDING, missing, forecast)
        if placement == reference:
            steadiness = time_steadiness(timed[placement], target)
        else:
            steadiness = ratio_steadiness(ratios[placement], target)
        if steadiness.word == UNSTEADY and placement != reference:
            return _unscored(entry, UNSTABLE, steadiness_text(steadiness), forecast)
        scored = _scored(study, entry, weighed[placement], timed[placement], ratios[placement], steadiness, reference)
        return _beside_forecast(scored, forecast)

    audits = {record.placement: record for record in records.of(AuditRecord)}
    trials = [_beside_audit(summarize(entry), entry, audits.get(entry.text)) for entry in study.placements]
    return _beside_plans(trials, reference, records.plans)


def _beside_plans(trials: Sequence[Trial], reference: str | None, plans: Plans) -> tuple[Trial, ...]:
    """With what was expected of those that were planned, and the replay times that were measured of them: both are
    differences of two placements."""
    expected = plans.expected
    step_ms = next((trial.step_time_ms for trial in trials if trial.placement == reference), None)
    step_ms = step_ms if reference == PLAIN else None
    return tuple(
        _beside_plan(trial, expected[trial.placement], plans, step_ms) if trial.placement in expected else trial
        for trial in trials
    )


def _beside_plan(trial: Trial, plan: Plan, plans: Plans, step_ms: float | None) -> Trial:
    expected_ms = (
        None if plans.cost_source == COUNTED else _at_speed(plan.replay_ms, plan.step_ms or plans.step_ms, step_ms)
    )
    measured_ms = replay_time(trial, step_ms)
    return dataclasses.replace(
        trial,
        replay_ms=measured_ms,
        expected_peak_bytes=plan.peak_allocated_bytes,
        expected_peak_error_share=forecast_error(
            plan.peak_allocated_bytes, trial.peak_allocated_bytes, trial.persistent_bytes
        ),
        expected_replay_ms=expected_ms,
        expected_replay_error_share=replay_error(expected_ms, measured_ms),
    )


def _at_speed(replay_ms: float | None, planned_step_ms: float | None, step_ms: float | None) -> float | None:
    """A replay time as it would be on a machine whose plain step takes `step_ms`: shared machines drift between
    planning and measuring, and a replay drifts with the step."""
    if replay_ms is None or not planned_step_ms or step_ms is None:
        return replay_ms
    return replay_ms * step_ms / planned_step_ms


def replay_time(trial: Trial, plain_ms: float | None) -> float | None:
    """By how much its step took longer than that of `none`, from the paired ratio; None where either has no time.

    Args:
        plain_ms: step time of `none`; None where ratios are to another placement.
    """
    return None if trial.time_ratio is None or plain_ms is None else (trial.time_ratio - 1) * plain_ms


def replay_error(expected_ms: float | None, measured_ms: float | None) -> float | None:
    """(expected − measured) / measured; None where nothing was measured that an error could be a share of."""
    if expected_ms is None or measured_ms is None or measured_ms <= 0:
        return None
    return (expected_ms - measured_ms) / measured_ms


def _beside_audit(trial: Trial, entry: PlacementEntry, audit: AuditRecord | None) -> Trial:
    if audit is None:
        return dataclasses.replace(trial, twin_of=entry.twin_of)
    return dataclasses.replace(
        trial,
        audit=audit.outcome,
        audit_kinds=audit.kinds,
        audit_note=audit.batch_note,
        twin_of=entry.twin_of,
    )


def _missing(memory: Sequence[MemorySample], times: Sequence[TimeSample], ratios: Sequence[PairedRatio]) -> str:
    if not memory and not times:
        return "not measured yet"
    if not memory:
        return "no memory sample yet"
    if not times:
        return "no time sample yet"
    return "" if ratios else "no time sample in a round with the reference yet"


def _unscored(entry: PlacementEntry, outcome: str, reason: str, forecast: Forecast | None) -> Trial:
    trial = Trial(placement=entry.text, id=entry.id, generators=entry.generators, outcome=outcome, reason=reason)
    return _beside_forecast(trial, forecast)


def _beside_forecast(trial: Trial, forecast: Forecast | None) -> Trial:
    if forecast is None:
        return trial
    return dataclasses.replace(
        trial,
        forecast_peak_bytes=forecast.peak_allocated_bytes,
        forecast_method=forecast.method,
        forecast_error_share=forecast_error(
            forecast.peak_allocated_bytes, trial.peak_allocated_bytes, trial.persistent_bytes
        ),
    )


def forecast_error(forecast_peak: int, measured_peak: int | None, persistent: int | None) -> float | None:
    """(forecast − measured) / (measured − persistent): the parameters, which anybody can count, flatter no forecast."""
    if measured_peak is None or persistent is None or measured_peak <= persistent:
        return None
    return (forecast_peak - measured_peak) / (measured_peak - persistent)


def _scored(
    study: StudySpec,
    entry: PlacementEntry,
    memory: Sequence[MemorySample],
    times: Sequence[TimeSample],
    ratios: Sequence[PairedRatio],
    steadiness: Steadiness,
    reference: str | None,
) -> Trial:
    # One pass stands for all its numbers, so that they add up; a note says where passes differ.
    highest = max(memory, key=lambda sample: sample.peak_allocated_bytes)
    estimate = estimate_paired(ratios)
    assert estimate is not None, "a scored placement was paired"
    is_reference = entry.text == reference
    target = study.controls.protocol.target_half_width
    verdict = None if is_reference else judge(estimate, target, unsteady_text(steadiness))
    return Trial(
        placement=entry.text,
        id=entry.id,
        generators=entry.generators,
        outcome=OK,
        rounds=len(ratios),
        executions=len({ratio.execution for ratio in ratios}),
        step_time_ms=statistics.median(time_ms for sample in times for time_ms in sample.step_times_ms),
        time_ratio=estimate.ratio,
        time_ratio_interval=Interval(low=estimate.interval[0], high=estimate.interval[1])
        if estimate.interval
        else None,
        verdict=verdict.word if verdict else None,
        verdict_reason=verdict.reason if verdict else None,
        steadiness=steadiness.word,
        spread_within=None if is_reference else estimate.spread.within,
        spread_between=None if is_reference else estimate.spread.between,
        peak_allocated_bytes=highest.peak_allocated_bytes,
        persistent_bytes=highest.persistent_bytes,
        retained_bytes=highest.retained_bytes,
        peak_requested_bytes=highest.peak_requested_bytes,
        peak_reserved_bytes=highest.peak_reserved_bytes,
        peak_phase=highest.peak_phase,
        step_flops=highest.step_flops,
        replay_flops=highest.replay_flops,
        replay_ops=highest.replay_ops,
    )
