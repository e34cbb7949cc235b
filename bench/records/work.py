"""What of a study is not measured yet, from its records alone: so a rerun, an extension and a resumed study are one."""

from __future__ import annotations

import itertools
import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from bench.records.directory import Records
from bench.records.reference import PLAIN, choose_reference
from bench.records.types import (
    AUDIT_STAGE,
    ExecutionStarted,
    MemorySample,
    OutcomeRecord,
    Record,
    RoundDiscarded,
    RoundDone,
    Starting,
    Stopped,
    TimeSample,
)
from bench.spec import StudySpec

TIME_CAP = "time cap"
"""Why an execution stopped, where it was cut."""
FRESH = "fresh"


@dataclass(frozen=True, kw_only=True)
class Turn:
    """What a process does that measures one placement alone (`protocol.process=fresh`)."""

    placement: str
    round: int | None
    """The round that its sample belongs to; None for a process that only weighs."""
    completes_round: bool
    """Whether all others of the round have their sample."""


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
    turn: Turn | None = None
    """None where one process measures all placements."""


def next_work(study: StudySpec, records: Records) -> Work | None:
    """The first execution with something left to measure, or None where the study is done."""
    failed = {outcome.placement for outcome in records.of(OutcomeRecord)}
    for execution in range(study.controls.protocol.executions):
        mine = [record for record in records.entries if record.execution == execution]
        stops = [stop for stop in _standing_stops(mine) if _is_final(stop, study)]
        settled = {text for stop in stops for text in stop.placements} - _unpaired(study, records, execution) | failed
        missing = [entry.text for entry in study.placements if entry.text not in settled]
        if missing:
            return _work(study, records, execution, mine, missing, failed)
    return None


def execution_cap_s(study: StudySpec) -> float | None:
    """Each execution's share of the study's time cap."""
    cap = study.caps.time_cap_s
    return None if cap is None else cap / study.controls.protocol.executions


def round_order(study: StudySpec, execution: int, number: int, placements: Sequence[str]) -> list[str]:
    """The shuffled order of a round; equal input gives equal output."""
    order = list(placements)
    random.Random(f"{study.controls.protocol.shuffle_seed} {execution} {number}").shuffle(order)
    return order


def kept_samples(records: Records) -> tuple[TimeSample, ...]:
    """All time samples but those of discarded rounds."""
    discarded = {(record.execution, record.round) for record in records.of(RoundDiscarded)}
    return tuple(s for s in records.of(TimeSample) if (s.execution, s.round) not in discarded)


def kept_rounds(records: Records) -> tuple[RoundDone, ...]:
    """All complete rounds but the discarded ones."""
    discarded = {(record.execution, record.round) for record in records.of(RoundDiscarded)}
    return tuple(done for done in records.of(RoundDone) if (done.execution, done.round) not in discarded)


def _standing_stops(mine: list[Record]) -> list[Stopped]:
    """Ends of the execution but those that a discarded round came before: it has that round to redo."""
    stops: list[tuple[int, Stopped]] = []
    for index, record in enumerate(mine):
        if isinstance(record, Stopped):
            stops.append((index, record))
        elif isinstance(record, RoundDiscarded):
            begun = next((i for i, r in enumerate(mine) if isinstance(r, TimeSample) and r.round == record.round), 0)
            stops = [(i, stop) for i, stop in stops if i < begun]
    return [stop for _, stop in stops]


def _unpaired(study: StudySpec, records: Records, execution: int) -> set[str]:
    """Placements that this execution never measured beside what the study's ratios are relative to now: the reference
    may have changed since, by a failure or on request."""
    failed = {outcome.placement for outcome in records.of(OutcomeRecord)}
    alive = [entry.text for entry in study.placements if entry.text not in failed]
    samples = kept_samples(records)
    reference = choose_reference(study, samples, alive)
    rounds: dict[str, set[int]] = defaultdict(set)
    for sample in samples:
        if sample.execution == execution:
            rounds[sample.placement].add(sample.round)
    if reference is None or not rounds:
        return set()
    return {text for text in alive if rounds[text].isdisjoint(rounds[reference])}


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
    samples = [sample for sample in kept_samples(records) if sample.execution == execution]
    reference = choose_reference(study, kept_samples(records), alive)
    rest = tuple(text for text in missing if text != reference)
    placements = rest if reference is None else (reference, *rest)
    processes = {
        record.process
        for record in mine
        if isinstance(record, ExecutionStarted) and set(missing) <= set(record.placements)
    }
    weighed = {record.placement: record for record in mine if isinstance(record, MemorySample)}
    done = [done.round for done in kept_rounds(records) if done.execution == execution and done.process in processes]
    next_round = 1 + max((r.round for r in mine if isinstance(r, (TimeSample, RoundDone))), default=-1)
    turn = None
    if study.controls.protocol.process == FRESH:
        begun = [sample for sample in samples if sample.process in processes]
        turn = _turn(study, execution, placements, set(weighed), begun, next_round)
    return Work(
        execution=execution,
        placements=placements,
        missing=frozenset(missing),
        weighed=frozenset(weighed) & set(placements),
        plain=weighed.get(PLAIN),
        rounds_done=len(done),
        samples=tuple(sample for sample in samples if sample.placement in placements),
        next_round=next_round,
        spent_s=_spent_s(mine, processes),
        turn=turn,
    )


def _turn(
    study: StudySpec,
    execution: int,
    placements: tuple[str, ...],
    weighed: set[str],
    samples: list[TimeSample],
    next_round: int,
) -> Turn:
    """`none` is weighed first, since the others' memory is held against it; then round after round, whoever is next in
    its shuffled order."""
    if PLAIN in placements and PLAIN not in weighed:
        return Turn(placement=PLAIN, round=None, completes_round=False)
    timed: dict[int, set[str]] = defaultdict(set)
    for sample in samples:
        timed[sample.round].add(sample.placement)
    last = next_round - 1
    number = last if last in timed and not set(placements) <= timed[last] else next_round
    left = [text for text in round_order(study, execution, number, placements) if text not in timed[number]]
    return Turn(placement=left[0], round=number, completes_round=len(left) == 1)


def _spent_s(mine: list[Record], processes: set[str]) -> float:
    """Without audits, which take no time from the measurements."""
    spent = 0.0
    for process in processes:
        of_process = [r for r in mine if r.process == process and not isinstance(r, RoundDiscarded)]
        times = [record.unix_time_s for record in of_process]
        spent += max(times) - min(times)
        for record, following in itertools.pairwise(of_process):
            if isinstance(record, Starting) and record.stage == AUDIT_STAGE:
                spent -= following.unix_time_s - record.unix_time_s
        spent += sum(record.startup_s for record in of_process if isinstance(record, ExecutionStarted))
    return spent
