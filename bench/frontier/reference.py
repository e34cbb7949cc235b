"""Which placement a study's ratios are relative to."""

from __future__ import annotations

import statistics
from collections import defaultdict

from bench.records import MemorySample, OutcomeRecord, Records, TimeSample
from bench.spec import StudySpec

NONE = "none"
"""Text of the placement without regions."""


def choose_reference(study: StudySpec, records: Records) -> str | None:
    """The study's own reference if it was measured, else `none` if it was, else the fastest placement that was.

    In the last case a placement that shares rounds with more of the others goes first: a study extended later has
    placements measured beside the sentinel alone, and one of them would leave all others without a pair. None when
    nothing was measured.
    """
    failed = {record.placement for record in records.of(OutcomeRecord)}
    weighed = {sample.placement for sample in records.of(MemorySample)}
    samples: dict[str, list[TimeSample]] = defaultdict(list)
    for sample in records.of(TimeSample):
        samples[sample.placement].append(sample)
    measured = [
        entry.text
        for entry in study.placements
        if entry.text in weighed and entry.text in samples and entry.text not in failed
    ]
    for preferred in (study.reference, NONE):
        if preferred in measured:
            return preferred
    if not measured:
        return None
    rounds = {placement: {(s.process, s.round) for s in samples[placement]} for placement in measured}
    median_ms = {p: statistics.median(t for s in samples[p] for t in s.step_times_ms) for p in measured}

    def rank(placement: str) -> tuple[int, float]:
        paired = sum(not rounds[placement].isdisjoint(rounds[other]) for other in measured)
        return -paired, median_ms[placement]

    return min(measured, key=rank)
