"""What of a study is not measured yet, from its records alone: so a rerun, an extension and a resumed study are one."""

from __future__ import annotations

from dataclasses import dataclass

from bench.records.directory import Records
from bench.records.reference import PLAIN, choose_reference
from bench.records.types import ExecutionStarted, MemorySample, OutcomeRecord, Record, RoundDone, Stopped, TimeSample
from bench.spec import StudySpec

TIME_CAP = "time cap"
"""Why an execution stopped, where it was cut."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """What one worker process should do."""

    execution: int
    placements: tuple[str, ...]
    """To be measured, the reference first."""
    missing: frozenset[str]
    """Of them, those that this execution is not done with; the others are there to be compared with."""
    weighed: frozenset[str]
    """Of them, those whose memory this execution has measured."""
    plain: MemorySample | None
    """The memory sample of `none`, if this execution has one."""
    rounds_done: int
    """Whole rounds that earlier processes of this execution measured of all of them."""
    next_round: int
    """Number of the next round; rounds of one execution are numbered through."""
    samples: tuple[TimeSample, ...]
    """What earlier processes of this execution timed of these placements."""
    spent_s: float
    """Wall seconds that earlier processes of this execution took on this work."""


def next_work(study: StudySpec, records: Records) -> Work | None:
    """The first execution with something left to measure, or None where the study is done."""
    failed = {outcome.placement for outcome in records.of(OutcomeRecord)}
    for execution in range(study.controls.protocol.executions):
        mine = [record for record in records.entries if record.execution == execution]
        stops = [record for record in mine if isinstance(record, Stopped) and _is_final(record, study)]
        settled = {text for stop in stops for text in stop.placements} | failed
        missing = [entry.text for entry in study.placements if entry.text not in settled]
        if missing:
            return _work(study, records, execution, mine, missing, failed)
    return None


def execution_cap_s(study: StudySpec) -> float | None:
    """Each execution's share of the study's time cap."""
    cap = study.caps.time_cap_s
    return None if cap is None else cap / study.controls.protocol.executions


def _is_final(stop: Stopped, study: StudySpec) -> bool:
    """An execution that its time cap ended goes on when it is given more time."""
    cap_s = execution_cap_s(study)
    return stop.reason != TIME_CAP or stop.cap_s is None or (cap_s is not None and cap_s <= stop.cap_s)


def _work(
    study: StudySpec,
    records: Records,
    execution: int,
    mine: list[Record],
    missing: list[str],
    failed: set[str],
) -> Work:
    alive = [entry.text for entry in study.placements if entry.text not in failed]
    reference = choose_reference(study, records.of(TimeSample), alive)
    rest = tuple(text for text in missing if text != reference)
    placements = rest if reference is None else (reference, *rest)
    processes = {
        record.process
        for record in mine
        if isinstance(record, ExecutionStarted) and set(missing) <= set(record.placements)
    }
    weighed = {record.placement: record for record in mine if isinstance(record, MemorySample)}
    return Work(
        execution=execution,
        placements=placements,
        missing=frozenset(missing),
        weighed=frozenset(weighed) & set(placements),
        plain=weighed.get(PLAIN),
        rounds_done=sum(isinstance(record, RoundDone) and record.process in processes for record in mine),
        samples=tuple(r for r in mine if isinstance(r, TimeSample) and r.placement in placements),
        next_round=1 + max((r.round for r in mine if isinstance(r, TimeSample)), default=-1),
        spent_s=_spent_s(mine, processes),
    )


def _spent_s(mine: list[Record], processes: set[str]) -> float:
    spent = 0.0
    for process in processes:
        times = [record.unix_time_s for record in mine if record.process == process]
        spent += max(times) - min(times)
    return spent
