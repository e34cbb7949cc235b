"""The gate of a study: no placement is measured whose replay is not proved to train the same.

A verdict is looked for before it is found: in the study's own records, then in those of studies of the same model
beside it. Only for what is left does the plain step run, once for all of them.

A placement that is turned away although its state could be put back gets a twin with @restore, which is audited in
turn. Where the twin is valid it joins the study. It does so before its original's outcome is recorded: a kill at any
moment leaves either the original still to be judged, or both settled. A twin whose audit fails has an outcome of its
own, and is not tried again.
"""

from __future__ import annotations

import dataclasses
import gc
from collections.abc import Sequence

from bench.audit.twin import twin_entry, twin_to_try
from bench.audit.verdict import UNSUPPORTED
from bench.records import PLAIN, AuditRecord, OutcomeRecord, read_records, write_study
from bench.records.audit import verdicts_beside
from bench.records.types import AUDIT_STAGE
from bench.spec import AUTO, GATE, StudySpec, audit_key, to_mapping
from bench.worker.auditing import Auditing, CannotAuditError
from bench.worker.bench import Bench
from bench.worker.guard import guarded
from bench.worker.journal import Journal

OUT_OF_MEMORY = "oom"


def pass_gate(bench: Bench, study: StudySpec, placements: Sequence[str], journal: Journal) -> tuple[str, ...]:
    """Audits those of `placements` that have no verdict yet. What is not valid has an outcome afterwards.

    Returns:
        Twins that joined the study, in `study.json`: it is to be read again.
    """
    if study.audit != GATE:
        return ()
    to_audit = [text for text in placements if text != PLAIN and text not in journal.failed]
    if not to_audit:
        return ()
    gate = _Gate(bench, study, journal)
    for text in to_audit:
        gate.judge(text)
    return gate.close()


class _Gate:
    def __init__(self, bench: Bench, study: StudySpec, journal: Journal) -> None:
        self._bench = bench
        self._study = study
        self._journal = journal
        records = read_records(journal.directory)
        self._own = {record.key: record for record in records.of(AuditRecord)}
        self._beside: dict[str, tuple[str, AuditRecord]] | None = None
        self._outcomes = {record.placement: record.outcome for record in records.of(OutcomeRecord)}
        self._auditing: Auditing | None = None
        self._twins: list[str] = []

    def judge(self, text: str) -> None:
        verdict = self._verdict(text)
        if verdict is None or verdict.is_valid:
            return
        self._add_twin(text, verdict)
        outcome = UNSUPPORTED if verdict.outcome == UNSUPPORTED else "invalid"
        self._journal.outcome(text, outcome, verdict.reason, AUDIT_STAGE)

    def close(self) -> tuple[str, ...]:
        if self._auditing is not None:
            self._auditing.close()
            self._auditing = None
            gc.collect()
        return tuple(self._twins)

    def _verdict(self, text: str) -> AuditRecord | None:
        """Known or found; None where there can be none: the placement failed, or nothing can be held against it."""
        key = audit_key(self._study.controls, text)
        if key in self._own:
            return self._own[key]
        if self._beside is None:
            found = verdicts_beside(self._journal.directory, self._study.name)
            self._beside = {record.key: (name, record) for name, record in found}
        if key in self._beside:
            name, known = self._beside[key]
            fields = to_mapping(known)
            for stamp in ("execution", "process", "unix_time_s"):
                del fields[stamp]
            fields |= {"reused_from": known.reused_from or name, "findings": known.findings, "notes": known.notes}
            self._own[key] = self._journal.write(AuditRecord, **fields)
        elif self._outcomes.get(PLAIN) in (None, OUT_OF_MEMORY):
            self._audit(text, key)
        return self._own.get(key)

    def _audit(self, text: str, key: str) -> None:
        if self._auditing is None:
            plain_fits = PLAIN not in self._outcomes
            self._auditing = Auditing(self._bench, self._study.controls, plain_fits=plain_fits)
        auditing = self._auditing

        def audit() -> None:
            try:
                verdict = auditing.verdict(text)
            except CannotAuditError:
                return  # the frontier says which placements were not audited
            fields = to_mapping(verdict) | {"findings": tuple(to_mapping(f) for f in verdict.findings)}
            self._own[key] = self._journal.write(AuditRecord, key=key, **fields | {"notes": verdict.notes})

        guarded(self._bench, self._journal, AUDIT_STAGE, text, audit)

    def _add_twin(self, text: str, verdict: AuditRecord) -> None:
        twin = twin_to_try(text, verdict) if self._study.restore == AUTO else None
        known = {entry.text for entry in self._study.placements}
        if twin is None or twin in known or twin in self._outcomes:
            return
        self._journal.finds_out_about(twin)
        of_twin = self._verdict(twin)
        if of_twin is None or not of_twin.is_valid:
            return
        placements = (*self._study.placements, twin_entry(text, twin))
        self._study = dataclasses.replace(self._study, placements=placements)
        write_study(self._journal.directory, self._study)
        self._twins.append(twin)
