"""A study directory: `study.json`, `environment.json`, `samples.jsonl`. JSON, written whole or by line."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.records.forecast import Forecasts, read_forecasts
from bench.records.plan import Plans, read_plans
from bench.records.reading import DamagedStudyError as DamagedStudyError, read_lines, read_mapping
from bench.records.types import RECORD_KINDS, Record
from bench.records.write import (
    LineWriter,
    make_directory,
    replace_text as replace_text,
    write_json as write_json,
)
from bench.spec import SCHEMA_VERSION, SpecError, StudySpec, control_key, from_mapping, short_key, to_mapping

STUDY_FILE = "study.json"
ENVIRONMENT_FILE = "environment.json"
SAMPLES_FILE = "samples.jsonl"
LOG_FILE = "log.txt"
TELEMETRY_SUMMARY_FILE = "telemetry.json"
TRACE_FOLDER = "trace"
"""Holds what `explain` recorded and drew: logs of steps, pictures of their memory."""
RESTORE = "restore the file from a copy, or move the folder away and measure again"


@dataclass(frozen=True, kw_only=True)
class Records:
    entries: tuple[Record, ...]
    damaged_lines: tuple[int, ...] = ()
    """1-based numbers of lines that are no records, such as one torn by a kill; they are skipped, never rewritten."""
    telemetry_notes: tuple[str, ...] = ()
    """What the parent saw of the device and the machine meanwhile that a reader must know."""
    forecasts: Forecasts = field(default_factory=Forecasts)
    """What was forecast of the placements; it stands beside what was measured, and decides nothing."""
    plans: Plans = field(default_factory=Plans)
    """What was planned, and expected of it; likewise."""

    def of(self, kind: type[Any]) -> list[Any]:
        return [entry for entry in self.entries if isinstance(entry, kind)]


def study_path(results: Path, study: StudySpec) -> Path:
    return results / f"{slug(study.name)}-{short_key(study.key)}"


def slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "study"


def read_study(directory: Path) -> StudySpec:
    """Raises DamagedStudyError when `study.json` is absent, unreadable or of another schema."""
    path = directory / STUDY_FILE
    absent, outdated = "this is not a study directory", "measure the study again"
    data = read_mapping(path, SCHEMA_VERSION, absent=absent, remedy=RESTORE, outdated=outdated)
    try:
        study = from_mapping(StudySpec, data)
    except SpecError as error:
        raise DamagedStudyError(f"{path}: {error}; {RESTORE}") from None
    if study.key != control_key(study.controls):
        raise DamagedStudyError(f"{path}: its controls are not those of its key {study.key}; restore the file")
    return study


def write_study(directory: Path, study: StudySpec) -> None:
    """Raises CannotWriteError, an older `study.json` unharmed."""
    make_directory(directory)
    write_json(directory / STUDY_FILE, to_mapping(study))


def read_records(directory: Path) -> Records:
    """All records of a study; an absent file is no records. Damaged lines are named, not raised.

    Raises:
        DamagedStudyError: the file cannot be read at all.
    """
    entries, damaged = read_lines(directory / SAMPLES_FILE, parse_record)
    return Records(
        entries=entries,
        damaged_lines=damaged,
        telemetry_notes=_telemetry_notes(directory),
        forecasts=read_forecasts(directory),
        plans=read_plans(directory),
    )


def _telemetry_notes(directory: Path) -> tuple[str, ...]:
    """Telemetry is beside the records and not the truth: where its summary cannot be read, there are no notes."""
    try:
        notes = json.loads((directory / TELEMETRY_SUMMARY_FILE).read_text(encoding="utf-8"))["notes"]
        return tuple(map(str, notes))
    except (OSError, ValueError, KeyError, TypeError):
        return ()


def parse_record(line: bytes) -> Record | None:
    """The record on one line, or None where the line is none."""
    try:
        data = json.loads(line)
        return from_mapping(RECORD_KINDS[data.pop("kind")], data)
    except (ValueError, KeyError, AttributeError, TypeError, RecursionError):
        return None


def format_record(record: Record) -> str:
    kind = next(name for name, cls in RECORD_KINDS.items() if cls is type(record))
    return json.dumps({"kind": kind} | to_mapping(record), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


class RecordWriter:
    """Appends records to `samples.jsonl`, one flushed line each; starts on a fresh line after a torn one."""

    def __init__(self, directory: Path) -> None:
        """Raises CannotWriteError."""
        self.directory = directory
        self._lines = LineWriter(directory / SAMPLES_FILE)

    def append(self, record: Record) -> None:
        """Raises CannotWriteError: no part of the record is in the file."""
        self.append_all([record])

    def append_all(self, records: Iterable[Record]) -> None:
        """All of them or, with CannotWriteError, none."""
        self._lines.append("".join(format_record(record) + "\n" for record in records).encode())

    def close(self) -> None:
        self._lines.close()
