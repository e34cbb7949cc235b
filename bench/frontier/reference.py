"""Which placement the ratios of a measured study are relative to."""

from __future__ import annotations

from bench.records import MemorySample, OutcomeRecord, Records, choose_reference, kept_samples
from bench.spec import StudySpec


def measured_reference(study: StudySpec, records: Records) -> str | None:
    """The reference among placements with memory and time and no failure; None when there is none."""
    failed = {record.placement for record in records.of(OutcomeRecord)}
    weighed = {sample.placement for sample in records.of(MemorySample)}
    samples = kept_samples(records)
    measured = {sample.placement for sample in samples} & weighed - failed
    candidates = [entry.text for entry in study.placements if entry.text in measured]
    return choose_reference(study, samples, candidates)
