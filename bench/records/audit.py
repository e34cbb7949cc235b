"""Verdicts of other studies that hold here as well."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from bench.records.directory import SAMPLES_FILE, parse_record, slug
from bench.records.types import AUDIT_KIND, AuditRecord

MARK = f'"kind":"{AUDIT_KIND}"'.encode()
"""By which a line is told from the many others of a file before it is read."""


def verdicts_beside(directory: Path, study_name: str) -> Iterator[tuple[str, AuditRecord]]:
    """(name of the study, verdict) of every study of the same name beside `directory`; what cannot be read is left
    out, since a verdict that is not known is only found anew."""
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
