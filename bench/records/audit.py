"""Verdicts on placements: records of a study, and those of other studies beside it that hold here as well."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records.types import Record

AUDIT_KIND = "audit"
VALID, WITHIN_TOLERANCE = "valid", "valid-within-tolerance"
MARK = f'"kind":"{AUDIT_KIND}"'.encode()
"""By which a line is told from the many others of a file before it is read."""


@dataclass(frozen=True, kw_only=True)
class AuditRecord(Record):
    """Whether a placement's replay trains the same: `bench.audit.verdict.Verdict`, as it was recorded."""

    placement: str
    key: str
    """`bench.spec.audit_key`: under another one the verdict says nothing."""
    outcome: str
    """`valid` (to the bit), `valid-within-tolerance`, `invalid`, `flaky` or `unsupported`."""
    findings: tuple[Mapping[str, str], ...] = ()
    """The cause first; each has `kind`, `unit`, `where`, `text` and `cure`."""
    trials: int
    differing: int
    """Trials that differed."""
    tolerance: float
    """Largest relative difference that was allowed; 0 where all had to be equal to the bit."""
    steps: int
    """Optimizer steps a trial."""
    first_difference: Mapping[str, Any] | None = None
    """The first op whose replayed output differs: `op`, `module`, `source`, `region`, `position`, `what`, `first`,
    `replayed`."""
    batch_note: str = ""
    """Says so where the audit ran on another batch than the study's."""
    notes: tuple[str, ...] = ()
    reused_from: str = ""
    """The study that the verdict was found in; empty where it was found here."""

    @property
    def is_valid(self) -> bool:
        return self.outcome in (VALID, WITHIN_TOLERANCE)

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(finding["kind"] for finding in self.findings))

    @property
    def reason(self) -> str:
        """In one line, why the placement is not valid; empty where it is."""
        if self.is_valid:
            return ""
        if not self.findings:
            return "; ".join(self.notes) or "it could not be audited"
        cause = self.findings[0]
        told = f"{cause['kind']}: {cause['text']}; {cause['cure']}"
        return told if self.differing == self.trials else f"in {self.differing} of {self.trials} trials, {told}"


def verdicts_beside(directory: Path, study_name: str) -> Iterator[tuple[str, AuditRecord]]:
    """(name of the study, verdict) of every study of the same name beside `directory`; what cannot be read is left
    out, since a verdict that is not known is only found anew."""
    from bench.records.directory import SAMPLES_FILE, parse_record, slug

    for folder in sorted(directory.parent.glob(f"{slug(study_name)}-*")):
        if folder.name == directory.name:
            continue
        try:
            lines = [line for line in (folder / SAMPLES_FILE).read_bytes().split(b"\n") if MARK in line]
        except OSError:
            continue
        for record in map(parse_record, lines):
            if isinstance(record, AuditRecord):
                yield folder.name, record
