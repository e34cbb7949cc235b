"""The evidence for one placement, in words: validity, time, memory, and what was expected beside what was measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.frontier import OK
from bench.frontier.types import Frontier, Trial, relative_width
from bench.placement import generators
from bench.records import PLAIN, AuditRecord
from bench.report.quantities import (
    Unit,
    error_text,
    memory_unit,
    ratio_text,
    share_text,
    time_text,
    time_unit,
)
from bench.report.shares import memory_reference, peak_share, reference_trial, replay_share, saving_share
from bench.spec import OFF, StudySpec

Row = tuple[str, str]
"""What, and what is known of it."""


@dataclass(frozen=True, kw_only=True)
class Group:
    title: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """A quantity that was worked out beforehand, beside what was measured; a text is empty where there is no value."""

    what: str
    expected: str
    measured: str
    error: str


@dataclass(frozen=True, kw_only=True)
class Evidence:
    groups: tuple[Group, ...]
    """Validity, time, memory; a group without rows is left out."""
    expected: tuple[Expectation, ...]


def evidence_of(trial: Trial, frontier: Frontier, study: StudySpec, audit: AuditRecord | None) -> Evidence:
    """What is not known of a placement has no row.

    Args:
        audit: the record of its audit, None where it has none.
    """
    groups = (
        Group(title="Validity", rows=tuple(_validity(trial, study, audit))),
        Group(title="Time", rows=tuple(_time(trial, frontier))),
        Group(title="Memory", rows=tuple(_memory(trial, frontier))),
    )
    return Evidence(groups=tuple(group for group in groups if group.rows), expected=tuple(_expected(trial)))


def _validity(trial: Trial, study: StudySpec, audit: AuditRecord | None) -> Iterator[Row]:
    yield "outcome", trial.outcome
    if trial.reason:
        yield "reason", trial.reason
    yield "yielded by", "; ".join(trial.generators)
    if trial.twin_of:
        yield "stands for", f"{trial.twin_of}, whose replay is not valid without @restore"
    if audit is None:
        yield "replay", _unaudited(trial, study)
        return
    yield "replay", f"{audit.outcome}: {_how_sure(audit)}"
    for finding in audit.findings:
        place = " ".join(filter(None, (finding.get("unit", ""), finding.get("where", ""))))
        yield "found", f"{finding['kind']}: {finding['text']}" + (f" ({place})" if place else "")
        if finding.get("cure"):
            yield "what to do", finding["cure"]
    first = audit.first_difference
    if first is not None:
        where = " ".join(str(first[key]) for key in ("module", "source") if first.get(key))
        yield "first op that differs", f"{first['op']}, number {first['position']} of {first['region']}; {where}"
        yield "its first pass", str(first["first"])
        yield "its replay", str(first["replayed"])
    for note in filter(None, (audit.batch_note, *audit.notes)):
        yield "note", note
    if audit.reused_from:
        yield "audited in", audit.reused_from


def _unaudited(trial: Trial, study: StudySpec) -> str:
    if trial.placement == PLAIN:
        return "nothing is replayed"
    why = ": the study has audit=off, or is from before there were audits"
    return "not audited" + (why if study.audit == OFF else "")


def _how_sure(audit: AuditRecord) -> str:
    trials = f"{audit.trials} {'trial' if audit.trials == 1 else 'trials'} of {audit.steps} steps and a forward"
    if audit.differing:
        return f"{audit.differing} of {trials} {'differs' if audit.differing == 1 else 'differ'}"
    if audit.outcome == "valid":
        return f"equal to the bit in {trials}"
    return f"within {audit.tolerance:.1e} in {trials}" if audit.tolerance else f"{trials} were run"


def _time(trial: Trial, frontier: Frontier) -> Iterator[Row]:
    is_reference = trial.placement == frontier.reference
    if trial.step_time_ms is not None:
        unit = time_unit(one.step_time_ms for one in frontier.trials)
        width = relative_width(trial.time_ratio, trial.time_ratio_interval)
        paired, own = (time_text(ms, unit, width) for ms in (frontier.paired_step_time_ms(trial), trial.step_time_ms))
        beside = "" if is_reference else f"{paired} {unit.name} (the reference's by the ratio); "
        yield "step time", f"{beside}{own} {unit.name} (median of its timed steps)"
    interval = trial.time_ratio_interval
    if is_reference:
        yield "time ratio", "×1: it is the reference"
    elif trial.time_ratio is not None:
        beyond = f", 95 %: {interval.low:.4g} to {interval.high:.4g}" if interval else ""
        yield "time ratio", ratio_text(trial.time_ratio, interval) + beyond
    if trial.verdict:
        yield "verdict", trial.verdict + (f", {trial.verdict_reason}" if trial.verdict_reason else "")
    if trial.rounds:
        executions = f"{trial.executions} {'execution' if trial.executions == 1 else 'executions'}"
        yield "rounds", f"{trial.rounds} paired rounds in {executions}"
    if trial.steadiness:
        yield "over the rounds", trial.steadiness
    if trial.spread_within is not None:
        between = f", {100 * trial.spread_between:.2g} % between executions" if trial.spread_between else ""
        yield "scatter of the ratio", f"{100 * trial.spread_within:.2g} % from round to round{between}"
    if trial.outcome == OK and trial.time_ratio is not None:
        is_on = trial.placement in frontier.frontier
        sure = f", in {share_text(trial.frontier_confidence, 0)} of resamples" if trial.frontier_confidence else ""
        knee = "its knee" if trial.placement == frontier.knee else "yes"
        yield "on the frontier", (knee if is_on else "no") + sure


def _memory(trial: Trial, frontier: Frontier) -> Iterator[Row]:
    sizes = (
        ("between steps", trial.persistent_bytes),
        ("kept by the forward", trial.retained_bytes),
        ("peak requested", trial.peak_requested_bytes),
        ("peak reserved", trial.peak_reserved_bytes),
    )
    if trial.peak_allocated_bytes is not None:
        reference = memory_reference(frontier)
        phase = f", in {trial.peak_phase.replace('_', ' ')}" if trial.peak_phase else ""
        yield "peak allocated", f"{_bytes(trial.peak_allocated_bytes)}{phase}"
        whose = "the reference's" if frontier.plain_forecast is None else "the forecast of none"
        share = peak_share(trial, reference)
        if share is not None:
            saved = saving_share(trial.peak_allocated_bytes, reference)
            yield "against " + whose, f"{share_text(share)} of it; {share_text(saved)} of what could move is saved"
    for name, num_bytes in sizes:
        if num_bytes is not None:
            yield name, _bytes(num_bytes)
    plain = reference_trial(frontier)
    share = replay_share(trial.replay_flops, plain.step_flops if plain else None)
    if share is not None:
        ops = f", in {trial.replay_ops:,} ops" if trial.replay_ops else ""
        yield "replayed FLOPs", f"{share_text(share)} of the reference's step{ops}"


def _expected(trial: Trial) -> Iterator[Expectation]:
    measured = _size(trial.peak_allocated_bytes)
    if trial.forecast_peak_bytes is not None:
        yield Expectation(
            what=f"peak, forecast ({trial.forecast_method})" if trial.forecast_method else "peak, forecast",
            expected=_size(trial.forecast_peak_bytes),
            measured=measured,
            error=_error(trial.forecast_error_share),
        )
    is_peer = any(generators.family_of(label) == generators.PEER_FAMILY for label in trial.generators)
    who = "of the peer's placement" if is_peer else "planned"
    if trial.expected_peak_bytes is not None:
        yield Expectation(
            what=f"peak, {who}",
            expected=_size(trial.expected_peak_bytes),
            measured=measured,
            error=_error(trial.expected_peak_error_share),
        )
    if trial.expected_replay_ms is not None:
        unit = time_unit((trial.expected_replay_ms, trial.replay_ms))
        yield Expectation(
            what=f"replay time, {who}",
            expected=_duration(trial.expected_replay_ms, unit),
            measured="" if trial.replay_ms is None else _duration(trial.replay_ms, unit),
            error=_error(trial.expected_replay_error_share),
        )


def _error(share: float | None) -> str:
    return "" if share is None else error_text(share)


def _duration(time_ms: float, unit: Unit) -> str:
    return f"{unit.of(time_ms):.3g} {unit.name}"


def _size(num_bytes: int | None) -> str:
    if num_bytes is None:
        return ""
    unit = memory_unit([num_bytes])
    return f"{unit.text(num_bytes)} {unit.name}"


def _bytes(num_bytes: int) -> str:
    return f"{_size(num_bytes)} ({num_bytes:,} bytes)"


def as_data(evidence: Evidence) -> dict[str, Sequence[object]]:
    """For the page's program."""
    return {
        "groups": [{"title": group.title, "rows": group.rows} for group in evidence.groups],
        "expected": [(one.what, one.expected, one.measured, one.error) for one in evidence.expected],
    }
