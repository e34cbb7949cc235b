"""The sentences that a reader of a frontier must know: a closed set, and the one place that words them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from bench.frontier.audit_notes import audit_notes
from bench.frontier.forecast_notes import forecast_notes
from bench.frontier.plan_notes import plan_notes
from bench.frontier.plausibility import implausible
from bench.frontier.series import reference_drift
from bench.frontier.trials import OK, PENDING
from bench.frontier.types import MemoryReference, Trial, relative_width
from bench.frontier.words import NUM_NAMED, count, names
from bench.records import PLAIN, TIME_CAP, MemorySample, OutcomeRecord, Records, RoundDiscarded, Stopped, kept_samples
from bench.spec import StudySpec
from bench.stats import sample_time_ms
from bench.stats.stopping import STALLED
from bench.stats.verdict import UNCLEAR

PLATEAU_SHARE = 0.001
"""Peaks at most this share above the lowest of them are one plateau."""
REFERENCE_SPREAD_SHARE = 0.1
"""The reference's slowest round of a process may be this share slower than its fastest before a note says so."""

MIB = 2**20


def frontier_notes(
    study: StudySpec,
    records: Records,
    trials: Sequence[Trial],
    reference: str | None,
    plain_forecast: MemoryReference | None,
) -> tuple[str, ...]:
    return (
        *_unmeasured(trials),
        *_other_reference(study, trials, reference),
        *_variable_lengths(study),
        *_time_cap(records, trials, reference),
        *_stalled(records),
        *_drift(study, records, reference),
        *_discarded(records),
        *implausible(records),
        *_unlowered_peak(trials),
        *_plateaus(trials),
        *_differing_peaks(records, trials),
        *_doubted(trials),
        *_unsteady_reference(records, reference),
        *_other_kernels(study, records),
        *audit_notes(trials),
        *forecast_notes(records.forecasts, trials, plain_forecast),
        *plan_notes(records.plans, trials),
        *records.telemetry_notes,
        *_damaged_lines(records),
    )


def _unmeasured(trials: Sequence[Trial]) -> list[str]:
    pending = [trial.placement for trial in trials if trial.outcome == PENDING]
    if not pending:
        return []
    return [f"not finished: {len(pending)} of {len(trials)} placements are not measured yet ({names(pending)})"]


def _other_reference(study: StudySpec, trials: Sequence[Trial], reference: str | None) -> list[str]:
    if reference is None or (reference == PLAIN and study.reference in (None, PLAIN)):
        return []
    if reference == study.reference:
        return [f"all time ratios are relative to {reference}, the reference that the study asks for, not to `none`"]
    preferred = [text for text in dict.fromkeys((study.reference, PLAIN)) if text and text != reference]
    reasons = ", ".join(f"`{placement}` {_why_unscored(trials, placement)}" for placement in preferred)
    choice = "" if reference == PLAIN else ", the fastest placement that the others were measured beside"
    return [f"{reasons}: all time ratios are relative to {reference}{choice}"]


def _why_unscored(trials: Sequence[Trial], placement: str) -> str:
    trial = next((trial for trial in trials if trial.placement == placement), None)
    if trial is None:
        return "is not in this study"
    if trial.outcome == "oom":
        return f"did not fit ({trial.reason})"
    return f"has no result ({trial.outcome}: {trial.reason})"


def _variable_lengths(study: StudySpec) -> list[str]:
    if study.controls.workload.lengths != "variable":
        return []
    return [
        "micro-batches of a step differ in length: the peak is that of the longest, the step time that of all of them"
    ]


def _time_cap(records: Records, trials: Sequence[Trial], reference: str | None) -> list[str]:
    stops: list[Stopped] = records.of(Stopped)
    capped = [stop for stop in _last_stops(records) if stop.reason == TIME_CAP]
    if not capped:
        return []
    rounds = " and ".join(str(stop.rounds) for stop in capped)
    num_executions, num_capped = (len({stop.execution for stop in group}) for group in (stops, capped))
    where = "" if num_executions == 1 else f" in {num_capped} of {num_executions} executions"
    reached = f"time cap reached{where} after {rounds} {'round' if rounds == '1' else 'rounds'}"
    widths = {
        trial.placement: relative_width(trial.time_ratio, trial.time_ratio_interval)
        for trial in trials
        if trial.outcome == OK
    }
    widths.pop(reference or "", None)
    known = {placement: width for placement, width in widths.items() if width is not None}
    too_few = f"too few for an interval of {len(widths) - len(known)} of {len(widths)} placements"
    if not widths:
        told = "nothing was compared with the reference"
    elif not known:
        told = f"{too_few}, and no time here can be trusted"
    else:
        widest = max(known, key=lambda placement: known[placement])
        told = f"the widest interval is ± {100 * known[widest]:.1f} % ({widest})"
        if len(known) < len(widths):
            told += f", and {too_few}"
    return [f"{reached}: {told}; the same sweep with a larger caps.time_cap_s goes on"]


def _doubted(trials: Sequence[Trial]) -> list[str]:
    """Why a verdict is unclear where its interval would let one expect another; the first few."""
    doubted = [
        f"{trial.placement} is unclear though its 95 % interval leaves ×1 out: {trial.verdict_reason}"
        for trial in trials
        if trial.verdict == UNCLEAR
        and trial.verdict_reason
        and (interval := trial.time_ratio_interval) is not None
        and (interval.low > 1 or interval.high < 1)
    ]
    more = len(doubted) - NUM_NAMED
    if more <= 1:  # a line that says "one more" is no shorter than the one
        return doubted
    return [*doubted[:NUM_NAMED], f"{more} more are unclear likewise: verdict_reason in frontier.csv says why"]


def _last_stops(records: Records) -> list[Stopped]:
    """Ends of executions that did not go on with the same placements."""
    failed = {record.placement for record in records.of(OutcomeRecord)}
    stops: list[Stopped] = records.of(Stopped)
    return [
        stop
        for index, stop in enumerate(stops)
        if not any(
            later.execution == stop.execution and set(stop.placements) - failed <= set(later.placements)
            for later in stops[index + 1 :]
        )
    ]


def _stalled(records: Records) -> list[str]:
    stalled = [stop for stop in _last_stops(records) if stop.reason == STALLED]
    widths = [width for stop in stalled for width in stop.half_widths.values() if width is not None]
    if not widths:
        return []
    rounds = " and ".join(str(stop.rounds) for stop in stalled)
    reached = f"the widest is ± {100 * max(widths):.1f} %"
    return [f"intervals had stopped shrinking after {rounds} rounds: {reached}, and more rounds would not help"]


def _drift(study: StudySpec, records: Records, reference: str | None) -> list[str]:
    drift = reference_drift(study, records, reference)
    if not drift:
        return []
    aim = 100 * study.controls.protocol.target_half_width
    return [
        f"the study drifted: the step time of the sentinel {reference} changed its level by {100 * drift:.0f} %, more "
        f"than the ± {aim:g} % aimed at; paired ratios hold, absolute times do not"
    ]


def _discarded(records: Records) -> list[str]:
    discarded: list[RoundDiscarded] = records.of(RoundDiscarded)
    if not discarded:
        return []
    reasons = ", ".join(dict.fromkeys(record.reason for record in discarded))
    return [f"{count(len(discarded), 'round')} discarded and measured again: {reasons}"]


def _unlowered_peak(trials: Sequence[Trial]) -> list[str]:
    peaks = _peaks(trials)
    if PLAIN not in peaks or len(peaks) == 1 or min(peaks.values()) < peaks[PLAIN]:
        return []
    alone = [trial.placement for trial in trials if trial.on_frontier] == [PLAIN]
    return ["no placement lowers the peak" + (": `none` is the whole frontier" if alone else " of `none`")]


def _plateaus(trials: Sequence[Trial]) -> list[str]:
    plateaus: list[list[str]] = []
    peaks = _peaks(trials)
    for placement in sorted(peaks, key=lambda placement: peaks[placement]):
        if plateaus and peaks[placement] <= peaks[plateaus[-1][0]] * (1 + PLATEAU_SHARE):
            plateaus[-1].append(placement)
        else:
            plateaus.append([placement])
    shared = sorted((plateau for plateau in plateaus if len(plateau) > 1), key=len, reverse=True)
    notes = [
        f"{len(plateau)} placements have the same peak within 0.1 % ({peaks[plateau[0]] / MIB:.1f} MiB), "
        f"only time tells them apart: {names(plateau)}"
        for plateau in shared[:NUM_NAMED]
    ]
    hidden = len(shared) - NUM_NAMED
    return notes + ([f"{hidden} more groups of placements share a peak within 0.1 %"] if hidden > 0 else [])


def _differing_peaks(records: Records, trials: Sequence[Trial]) -> list[str]:
    valid = _peaks(trials)
    measured: dict[str, set[int]] = defaultdict(set)
    for sample in records.of(MemorySample):
        if sample.placement in valid:
            measured[sample.placement].add(sample.peak_allocated_bytes)
    differing = {placement: peaks for placement, peaks in measured.items() if len(peaks) > 1}
    if not differing:
        return []
    widest = max(differing, key=lambda placement: max(differing[placement]) - min(differing[placement]))
    low, high = min(differing[widest]), max(differing[widest])
    note = f"the peak of {names(list(differing))} differs between executions, and the highest counts"
    return [f"{note}; most for {widest}: {low:,} to {high:,} bytes"]


def _unsteady_reference(records: Records, reference: str | None) -> list[str]:
    times: dict[int, list[float]] = defaultdict(list)
    for sample in kept_samples(records):
        if sample.placement == reference:
            times[sample.execution].append(sample_time_ms(sample))
    spread = max((max(of_process) / min(of_process) - 1 for of_process in times.values()), default=0.0)
    if spread <= REFERENCE_SPREAD_SHARE:
        return []
    varied = f"the reference's step time varied by {100 * spread:.0f} % between rounds"
    return [f"the machine was not steady: {varied}; paired ratios hold, absolute times less"]


def _other_kernels(study: StudySpec, records: Records) -> list[str]:
    """Attention kernels are part of the key as a forward on fake tensors chose them; the plain step is the proof."""
    facts = study.controls.facts
    ran = {sample.attention_ops for sample in records.of(MemorySample) if sample.placement == PLAIN}
    if facts is None or not ran or ran == {facts.attention_kernels}:
        return []
    found = " and ".join(", ".join(ops) or "none" for ops in sorted(ran))
    return [f"attention ran {found}, while the control key says {', '.join(facts.attention_kernels) or 'none'}"]


def _damaged_lines(records: Records) -> list[str]:
    if not records.damaged_lines:
        return []
    lines = count(len(records.damaged_lines), "damaged record line")
    return [f"{lines} skipped in samples.jsonl: {names(records.damaged_lines)}"]


def _peaks(trials: Sequence[Trial]) -> dict[str, int]:
    """Valid placement → peak bytes."""
    return {trial.placement: trial.peak_allocated_bytes for trial in trials if trial.peak_allocated_bytes is not None}
