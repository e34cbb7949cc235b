"""A study directory: `study.json`, `environment.json`, `samples.jsonl`. JSON, written whole or by line."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.records.types import RECORD_KINDS, Record
from bench.spec import SCHEMA_VERSION, SpecError, StudySpec, control_key, from_mapping, short_key, to_mapping

STUDY_FILE = "study.json"
ENVIRONMENT_FILE = "environment.json"
SAMPLES_FILE = "samples.jsonl"
LOG_FILE = "log.txt"


class DamagedStudyError(ValueError):
    """A study directory that cannot be read: names the file, what was expected, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Records:
    entries: tuple[Record, ...]
    damaged_lines: tuple[int, ...] = ()
    """1-based numbers of lines that are no records, such as one torn by a kill; they are skipped, never rewritten."""

    def of(self, kind: type[Any]) -> list[Any]:
        return [entry for entry in self.entries if isinstance(entry, kind)]


def study_path(results: Path, study: StudySpec) -> Path:
    return results / f"{slug(study.name)}-{short_key(study.key)}"


def slug(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-.") or "study"


def read_study(directory: Path) -> StudySpec:
    """Raises DamagedStudyError when `study.json` is absent, unreadable or of another schema."""
    path = directory / STUDY_FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise DamagedStudyError(f"{directory}: no {STUDY_FILE}; this is not a study directory") from None
    except (ValueError, UnicodeDecodeError) as error:
        raise DamagedStudyError(f"{path}: not JSON ({error}); restore it, or measure the study again") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise DamagedStudyError(
            f"{path}: schema_version {version!r}, expected {SCHEMA_VERSION}; measure the study again"
        )
    try:
        study = from_mapping(StudySpec, data)
    except SpecError as error:
        raise DamagedStudyError(f"{path}: {error}") from None
    if study.key != control_key(study.controls):
        raise DamagedStudyError(f"{path}: its controls are not those of its key {study.key}; restore the file")
    return study


def write_study(directory: Path, study: StudySpec) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    write_json(directory / STUDY_FILE, to_mapping(study))


def write_json(path: Path, data: Any) -> None:
    """Replaces `path` as a whole: a reader, or a crash, sees the old file or the new one."""
    text = json.dumps(data, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
    replace_text(path, text)


def replace_text(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read_records(directory: Path) -> Records:
    """All records of a study; an absent file is no records. Damaged lines are named, not raised."""
    path = directory / SAMPLES_FILE
    if not path.exists():
        return Records(entries=())
    entries: list[Record] = []
    damaged: list[int] = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), start=1):
        if line.strip():
            record = parse_record(line)
            entries.append(record) if record else damaged.append(number)
    return Records(entries=tuple(entries), damaged_lines=tuple(damaged))


def parse_record(line: bytes) -> Record | None:
    """The record on one line, or None where the line is none."""
    try:
        data = json.loads(line)
        return from_mapping(RECORD_KINDS[data.pop("kind")], data)
    except (ValueError, KeyError, AttributeError, TypeError):
        return None


def format_record(record: Record) -> str:
    kind = next(name for name, cls in RECORD_KINDS.items() if cls is type(record))
    return json.dumps({"kind": kind} | to_mapping(record), allow_nan=False, separators=(",", ":"), ensure_ascii=False)


class RecordWriter:
    """Appends records to `samples.jsonl`, one flushed line each; starts on a fresh line after a torn one."""

    def __init__(self, directory: Path) -> None:
        self._file = (directory / SAMPLES_FILE).open("a+b")
        self._file.seek(0, os.SEEK_END)
        if self._file.tell():
            self._file.seek(-1, os.SEEK_END)
            if self._file.read(1) != b"\n":
                self._file.write(b"\n")
                self._file.flush()

    def append(self, record: Record) -> None:
        self.append_all([record])

    def append_all(self, records: Iterable[Record]) -> None:
        lines = "".join(format_record(record) + "\n" for record in records)
        self._file.write(lines.encode())
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        self._file.close()
