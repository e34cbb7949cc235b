"""Records to trials: all samples of each placement summed up."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Sequence

from bench.frontier.reference import measured_reference
from bench.frontier.types import Interval, Trial
from bench.records import MemorySample, OutcomeRecord, Records, TimeSample
from bench.spec import PlacementEntry, StudySpec
from bench.stats import PairedRatio, paired_ratios, ratio_interval

OK = "ok"
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
    for sample in records.of(TimeSample):
        timed[sample.placement].append(sample)
    # Samples of failed placements stay out, also out of the ratios: what is wrong with them may be their times.
    valid = [sample for placement, samples in timed.items() if placement not in outcomes for sample in samples]
    ratios = paired_ratios(valid, reference) if reference is not None else {}

    def summarize(entry: PlacementEntry) -> Trial:
        placement = entry.text
        if placement in outcomes:
            return _unscored(entry, outcomes[placement].outcome, outcomes[placement].reason)
        missing = _missing(weighed.get(placement, ()), timed.get(placement, ()), ratios.get(placement, ()))
        if missing:
            return _unscored(entry, PENDING, missing)
        return _scored(entry, weighed[placement], timed[placement], ratios[placement])

    return tuple(summarize(entry) for entry in study.placements)


def _missing(memory: Sequence[MemorySample], times: Sequence[TimeSample], ratios: Sequence[PairedRatio]) -> str:
    if not memory and not times:
        return "not measured yet"
    if not memory:
        return "no memory sample yet"
    if not times:
        return "no time sample yet"
    return "" if ratios else "no time sample in a round with the reference yet"


def _unscored(entry: PlacementEntry, outcome: str, reason: str) -> Trial:
    return Trial(placement=entry.text, id=entry.id, generators=entry.generators, outcome=outcome, reason=reason)


def _scored(
    entry: PlacementEntry,
    memory: Sequence[MemorySample],
    times: Sequence[TimeSample],
    ratios: Sequence[PairedRatio],
) -> Trial:
    # One pass stands for all its numbers, so that they add up; a note says where passes differ.
    highest = max(memory, key=lambda sample: sample.peak_allocated_bytes)
    estimate = ratio_interval([ratio.log_ratio for ratio in ratios])
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
