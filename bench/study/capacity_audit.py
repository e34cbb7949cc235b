"""The gate of a capacity search: each placement is audited once, at the start size, before its sizes are searched.

A verdict that a study of the same model holds is taken over. A placement that is turned away although its state could
be put back gets its twin with @restore, as in a study.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from bench.audit.options import GATE as GATE_OPTIONS
from bench.audit.twin import twin_entry, twin_to_try
from bench.audit.verdict import UNSUPPORTED
from bench.capacity.rows import verdict_of
from bench.capacity.types import UNAUDITED, Audited
from bench.records import PLAIN, AuditRecord
from bench.records.audit import verdicts_beside
from bench.spec import AUTO, GATE, SpecError, audit_key, from_mapping, to_mapping
from bench.study.ask import ask_process
from bench.study.auditing import TIMEOUT_S, Audited as AuditAnswer
from bench.study.capacity_room import room_for
from bench.study.capacity_session import Session
from bench.study.supervise import WorkerError

Found = tuple[AuditRecord, str | None]
"""A verdict, and the study that it was taken from."""


class _NoRoomError(Exception):
    """The machine has not enough free memory for an audit to say anything."""


def audit_all(session: Session) -> None:
    """Records an Audited for every placement that has none; twins that come in join the search."""
    if session.spec.audit != GATE:
        return
    waiting = [
        entry.text
        for entry in session.spec.placements
        if entry.text != PLAIN and verdict_of(session.records, entry.text) is None
    ]
    try:
        _audit(session, waiting)
    except _NoRoomError as error:
        session.tell("auditing", f"not audited now: {error}; the same command goes on")


def _audit(session: Session, waiting: Sequence[str]) -> None:
    found = _verdicts(session, waiting) if waiting else {}
    twins = {text: twin for text in waiting if (twin := _twin_of(session, text, found[text][0])) is not None}
    of_twins = _verdicts(session, list(twins.values())) if twins else {}
    for text in waiting:
        twin = twins.get(text)
        if twin is not None and of_twins[twin][0].is_valid:
            # The twin joins before its original is settled: a kill in between leaves the original to be judged again.
            session.add_placements([twin_entry(text, twin)])
            _record(session, twin, of_twins[twin], None)
            _record(session, text, found[text], twin)
        else:
            _record(session, text, found[text], None)


def _verdicts(session: Session, texts: Sequence[str]) -> dict[str, Found]:
    controls = session.spec.controls
    keys = {text: audit_key(controls, text) for text in texts}
    beside = {record.key: (record, name) for name, record in verdicts_beside(session.directory, session.spec.name)}
    found: dict[str, Found] = {text: beside[key] for text, key in keys.items() if key in beside}
    left = [text for text in texts if text not in found]
    if left:
        session.tell(f"auditing {len(left)} placement{'' if len(left) == 1 else 's'} at {session.spec.start}")
        session.starting("audit", left[0] if len(left) == 1 else None, session.spec.start)
        found |= {text: (verdict, None) for text, verdict in zip(left, _asked(session, left), strict=True)}
    return found


def _asked(session: Session, texts: Sequence[str], attempts_left: int = 1) -> list[AuditRecord]:
    """All in one process; where that breaks, each in one of its own, so that one breaks alone. Somebody may kill a
    process without meaning its placement, so one that breaks alone is asked once more."""
    spec = session.spec
    # On the CPU bounded like a probe, so that a start size that is too large ends in a smaller batch.
    room = room_for(spec.controls, spec.usable_bytes, None)
    if room.refused:
        raise _NoRoomError(room.refused)
    bound = room.bound_bytes if spec.controls.device.kind == "cpu" else None
    request = {
        "controls": to_mapping(session.bounded(bound)),
        "placements": list(texts),
        "options": to_mapping(GATE_OPTIONS),
    }
    try:
        told = ask_process(
            "bench.worker.audit", request, spec.controls, AuditAnswer, what="the audit", timeout_s=TIMEOUT_S
        )
    except WorkerError as error:
        if len(texts) > 1:
            return [verdict for text in texts for verdict in _asked(session, [text])]
        if attempts_left:
            return _asked(session, texts, attempts_left - 1)
        return [_without(session, texts[0], UNSUPPORTED, str(error))]
    except SpecError as error:
        if room.is_cut:
            raise _NoRoomError(str(error)) from None
        return [_without(session, text, UNSUPPORTED, str(error)) for text in texts]
    if told.unaudited and room.is_cut:
        raise _NoRoomError(told.unaudited)
    judged = [_as_record(session, text, verdict) for text, verdict in zip(texts, told.verdicts, strict=False)]
    return [*judged, *(_without(session, text, UNAUDITED, told.unaudited) for text in texts[len(judged) :])]


def _as_record(session: Session, text: str, verdict: Mapping[str, Any]) -> AuditRecord:
    stamp = {"execution": 0, "process": "", "unix_time_s": time.time(), "key": audit_key(session.spec.controls, text)}
    return from_mapping(AuditRecord, {**verdict, **stamp})


def _without(session: Session, text: str, outcome: str, why: str) -> AuditRecord:
    """A verdict that no trial led to."""
    verdict = {
        "placement": text,
        "outcome": outcome,
        "trials": 0,
        "differing": 0,
        "tolerance": 0.0,
        "steps": GATE_OPTIONS.steps,
        "notes": [" ".join(why.split())],
    }
    return _as_record(session, text, verdict)


def _twin_of(session: Session, text: str, verdict: AuditRecord) -> str | None:
    twin = twin_to_try(text, verdict) if session.spec.restore == AUTO else None
    return None if twin in {entry.text for entry in session.spec.placements} else twin


def _record(session: Session, text: str, found: Found, twin: str | None) -> None:
    verdict, study = found
    session.writer.write(
        Audited,
        placement=text,
        key=verdict.key,
        outcome=verdict.outcome,
        is_valid=verdict.is_valid,
        reason=verdict.reason,
        twin=twin,
        reused_from=study,
    )
    if not verdict.is_valid:
        session.tell("auditing", f"{text}: {verdict.outcome}: {verdict.reason}")
