"""Timing, once sizes are found: shuffled rounds in one process, or a process a sample where the model differs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.capacity.rows import capacity_rows
from bench.capacity.summary import summarise, unit_of
from bench.capacity.timing import Point, Turn, failed_points, missing_turns, points_to_time
from bench.capacity.types import MODEL, SampleFailed, TimedSample, TimingEnded
from bench.spec import Controls, to_mapping
from bench.study.blame import blame, is_from_outside
from bench.study.capacity_probe import probe_size
from bench.study.capacity_process import Heard, run_asked
from bench.study.capacity_session import Session
from bench.study.supervise import WorkerError

MODULE = "bench.worker.capacity_rounds"
BY_ROUNDS, BY_TIME_CAP, BY_WORKER = "rounds", "time cap", "worker"
WELL, KILLED, FAILED = "well", "killed", "failed"
"""How a worker ended: by its own will, by somebody's who may not have meant the placement at work, or by a fault."""


def time_all(session: Session) -> None:
    """Samples until each point has as many as asked, or time is up; then proves what is fastest at a multiple there."""
    spec = session.spec
    if not spec.rounds:
        return
    began, forgiven, reason = time.monotonic(), 0, BY_TIME_CAP
    while True:
        points = points_to_time(spec, capacity_rows(spec, session.records))
        turns = missing_turns(spec, points, session.records)
        left = None if spec.time_cap_s is None else spec.time_cap_s - (time.monotonic() - began)
        if not turns or (left is not None and left <= 0 and session.records.of(TimedSample)):
            break
        before = len(session.records.of(TimedSample)) + len(session.records.of(SampleFailed))
        ended = _take(session, [p for p in points if p not in failed_points(session.records)], turns, left)
        forgiven += ended == KILLED
        after = len(session.records.of(TimedSample)) + len(session.records.of(SampleFailed))
        if after == before and (ended != KILLED or forgiven > 1):
            reason = BY_WORKER
            break
        if ended == WELL and left is not None and spec.axis.kind != MODEL:
            break  # it did all its rounds, or another one would have ended after the cap
    if points:
        done = len({sample.round for sample in session.records.of(TimedSample)})
        if not missing_turns(spec, points, session.records):
            reason = BY_ROUNDS
        ends = session.records.of(TimingEnded)
        if not ends or (ends[-1].rounds, ends[-1].reason) != (done, reason):
            session.writer.write(TimingEnded, rounds=done, reason=reason)
    prove_best(session)


def prove_best(session: Session) -> None:
    """A probe of the fastest placement at each multiple, at that very size; where it does not fit, of the next."""
    tried: set[tuple[str, int]] = set()
    while True:
        answer = summarise(session.spec, session.records)
        unproven = [
            (at.placement, at.size)
            for multiple in answer.at_multiples
            for at in multiple.rows
            if at.placement == multiple.best and not at.is_proven and (at.placement, at.size) not in tried
        ]
        if not unproven:
            return
        placement, size = unproven[0]
        tried.add((placement, size))
        session.tell(f"proving {session.spec.axis.name} {size}: {placement}")
        probe_size(session, placement, size)


def _take(session: Session, points: Sequence[Point], turns: Sequence[Turn], left_s: float | None) -> str:
    """How the worker ended; of several, whether one was killed."""
    if session.spec.axis.kind != MODEL:
        return _ask(session, points, [_round(turn, points) for turn in turns], left_s)
    ended = set()
    began = time.monotonic()
    for turn in turns:
        for position, point in enumerate(turn.points):
            if point not in failed_points(session.records):
                asked = {"round": turn.round, "order": [0], "first_position": position}
                ended.add(_ask(session, [point], [asked], None))
        if left_s is not None and time.monotonic() - began > left_s:
            break
    return KILLED if KILLED in ended else FAILED if FAILED in ended else WELL


def _round(turn: Turn, points: Sequence[Point]) -> dict[str, Any]:
    return {"round": turn.round, "order": [points.index(point) for point in turn.points]}


def _ask(session: Session, points: Sequence[Point], rounds: Sequence[Mapping[str, Any]], left_s: float | None) -> str:
    spec = session.spec
    entries = {entry.text: entry for entry in spec.placements}
    bound = spec.usable_bytes if spec.controls.device.kind == "cuda" else None  # on the CPU the sizes are proven
    controls = {point: session.timed_controls(point.size, bound) for point in points}
    request = {
        "points": [
            {"entry": to_mapping(entries[p.placement]), "size": p.size, "controls": to_mapping(controls[p])}
            for p in points
        ],
        "rounds": list(rounds),
        "unit": unit_of(spec),
        "cap_s": left_s,
        **session.model_options(),
    }
    # Of a single point even the building of its step is its own; of several, what happens before the first begins.
    at = points[0] if len(points) == 1 else None
    hearing = _Hearing(session, total=sum(len(r["order"]) for r in rounds), at=at)
    session.starting("time")
    try:
        heard = run_asked(MODULE, request, _first(controls), session.directory, spec.probe_timeout_s, hearing)
    except WorkerError as error:
        if at is None:
            raise
        hearing.fail(at, "error", str(error))
        return FAILED
    return hearing.judge(heard)


def _first(controls: Mapping[Point, Controls]) -> Controls:
    return next(iter(controls.values()))


class _Hearing:
    """Records samples as they come."""

    def __init__(self, session: Session, total: int, at: Point | None) -> None:
        self._session = session
        self._total = total
        self._done = 0
        self._at = at

    def __call__(self, about: str, value: Any) -> None:
        session, axis = self._session, self._session.spec.axis.name
        if about == "starting":
            self._at = Point(value["placement"], value["size"])
            session.tell(f"time: {axis} {self._at.size}: {self._at.placement}", done=self._done, total=self._total)
        elif about == "sample":
            self._at, self._done = None, self._done + 1
            session.writer.write(TimedSample, **{**value, "step_times_ms": tuple(value["step_times_ms"])})
        elif about == "failed":
            self._at = None
            self.fail(Point(value["placement"], value["size"]), value["outcome"], value["reason"])

    def judge(self, heard: Heard) -> str:
        """How the worker ended; a fault is recorded as that of the point at work."""
        if heard.ended_well:
            return WELL
        if is_from_outside(heard.ending):
            self._session.tell("time", "the worker that takes times was killed; another one goes on")
            return KILLED
        outcome, reason = blame(heard.ending)
        if self._at is not None:
            self.fail(self._at, outcome, reason)
        return FAILED

    def fail(self, point: Point, outcome: str, reason: str) -> None:
        fields = {"placement": point.placement, "size": point.size, "outcome": outcome, "reason": reason}
        self._session.writer.write(SampleFailed, **fields)
        self._session.tell("time", f"{point.placement} at {point.size}: {outcome}: {reason}")
